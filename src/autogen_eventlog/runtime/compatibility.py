"""Which autogen-core this package is written for, and every place where AutoGen's internals are touched.

The runtimes are wrapped through AutoGen's public protocols. Where those can't serve, the internal name stands in the list
below, and a version outside the tested range is refused at import rather than found out at the first message.
"""

from __future__ import annotations

import re

import autogen_core

from autogen_eventlog.errors import UnsupportedAutoGen

OLDEST = (0, 7, 5)
BELOW = (0, 8, 0)

INTERNALS = (
    "SingleThreadedAgentRuntime._process_next (stepped by hand, it returns when the handler has begun)",
    "SingleThreadedAgentRuntime._message_queue.join, _run_context (idle means that nothing is being recorded either)",
    "SingleThreadedAgentRuntime._message_queue.task_done (a dropped message is never counted as done)",
    "SingleThreadedAgentRuntime._message_queue, _background_tasks; Queue, the envelopes (stop throws away what waits)",
    "SingleThreadedAgentRuntime._try_serialize (raises TypeError to the sender for what JSON cannot hold)",
    "SingleThreadedAgentRuntime._create_otel_attributes (serialises each message twice, with tracing off or on)",
    "SingleThreadedAgentRuntime._subscription_manager (for how many a publication is, so that the log knows who lacks it)",
    "SingleThreadedAgentRuntime._tracer_helper (makes eight spans a message where nobody records spans)",
    "GrpcWorkerAgentRuntime._agent_factories, _agent_instance_types, _serialization_registry, _subscription_manager, _running,",
    "  _trace_helper, _extra_grpc_config, _host_address (the worker does all of its own work; these are its tables)",
    "SubscriptionManager, SerializationRegistry, get_telemetry_grpc_metadata, subscription_to_proto, protos (its wire)",
    "AgentInstantiationContext.populate_context (an instance is built with the recording runtime)",
    "MessageHandlerContext.populate_context (a handler that is replayed finds its agent's id)",
)


def check_autogen(version: str = autogen_core.__version__) -> None:
    """Refuse a version of autogen-core that this package was not tested with.

    Raises:
        UnsupportedAutoGen: It is outside the range.
    """
    numbers = tuple(int(number) for number in re.findall(r"\d+", version)[:3])
    if not OLDEST <= numbers < BELOW:
        raise UnsupportedAutoGen(version, f">={_text(OLDEST)},<{_text(BELOW)}")


def _text(numbers: tuple[int, ...]) -> str:
    return ".".join(map(str, numbers))
