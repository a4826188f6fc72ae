"""AutoGen's tracing, silent while nobody records spans.

AutoGen makes about eight spans a message, also without an OpenTelemetry SDK, where every one of them is thrown away. They
cost more than recording the message. With a provider, given or global, tracing is AutoGen's own.
"""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from typing import Any

from opentelemetry.trace import (
    INVALID_SPAN,
    NoOpTracerProvider,
    ProxyTracerProvider,
    Span,
    TracerProvider,
    get_tracer_provider,
)

_NOTHING = nullcontext(INVALID_SPAN)


class QuietTracing:
    """Stands in for AutoGen's `TraceHelper`."""

    def __init__(self, helper: Any, given: TracerProvider | None) -> None:
        self._helper = helper
        self._given = given
        self.off = False
        """Whether spans would be thrown away."""
        self.look()

    def look(self) -> None:
        """See whether anybody records spans. A global provider may be set after the runtime was made, not while it runs."""
        provider = self._given or get_tracer_provider()
        self.off = isinstance(provider, (ProxyTracerProvider, NoOpTracerProvider))

    def trace_block(self, *args: Any, **keywords: Any) -> AbstractContextManager[Span]:
        return _NOTHING if self.off else self._helper.trace_block(*args, **keywords)
