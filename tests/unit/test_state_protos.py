"""The checked-in protocol code: as generated, and with the bytes of AutoGen's old messages."""

from __future__ import annotations

import importlib.util
import subprocess
import sys
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PACKAGE = ROOT / "src" / "autogen_eventlog" / "distributed" / "protos"
GENERATOR = "1.70.0"


def test_the_generated_files_are_as_generated() -> None:
    try:
        installed = version("grpcio-tools")
    except PackageNotFoundError:
        pytest.skip("grpcio-tools is not installed")
    assert installed == GENERATOR, "pyproject.toml pins it: another one writes other files"
    spec = importlib.util.spec_from_file_location("generate_protos", ROOT / "protos" / "generate.py")
    assert spec is not None and spec.loader is not None
    generate = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(generate)
    made = generate.generated()
    assert set(made) == {"state_pb2.py", "state_pb2.pyi", "state_pb2_grpc.py"}
    assert {name: (PACKAGE / name).read_text("utf-8") for name in made} == made, "run python protos/generate.py"


def test_the_pin_is_where_the_extra_is() -> None:
    assert f'"grpcio-tools=={GENERATOR}"' in (ROOT / "pyproject.toml").read_text("utf-8")


def test_old_and_new_messages_live_in_one_process() -> None:
    """`agents.SaveStateResponse` is another message now; ours has a package of its own."""
    from autogen_ext.runtimes.grpc.protos import agent_worker_pb2

    from autogen_eventlog.distributed.protos import state_pb2

    assert agent_worker_pb2.SaveStateResponse.DESCRIPTOR.full_name == "agents.SaveStateResponse"
    assert state_pb2.SaveStateResponse.DESCRIPTOR.full_name == "autogen_eventlog.state.v1.SaveStateResponse"
    theirs = agent_worker_pb2.AgentId(type="a", key="b").SerializeToString()
    assert state_pb2.AgentId(type="a", key="b").SerializeToString() == theirs


def test_a_state_has_the_bytes_that_it_had_in_the_old_package() -> None:
    """Field numbers and types of 14846a3e8, written out by hand."""
    from autogen_eventlog.distributed.protos import state_pb2

    agent = state_pb2.AgentId(type="a", key="b")
    head = b"\x0a\x06\x0a\x01a\x12\x01b" + b"\x12\x01e"
    assert state_pb2.AgentState(agent_id=agent, etag="e", binary_data=b"x").SerializeToString() == head + b"\x1a\x01x"
    assert state_pb2.AgentState(agent_id=agent, etag="e", text_data="x").SerializeToString() == head + b"\x22\x01x"
    message = state_pb2.AgentState(agent_id=agent, etag="e")
    message.proto_data.type_url = "t"
    assert message.SerializeToString() == head + b"\x2a\x03\x0a\x01t"


def test_the_package_loads_no_grpc_by_itself() -> None:
    program = "import autogen_eventlog, autogen_eventlog.distributed, sys; assert 'grpc' not in sys.modules"
    environment = {"PYTHONPATH": str(ROOT / "src")}
    subprocess.run([sys.executable, "-c", program], check=True, env=environment)


@pytest.mark.parametrize("name", ["state_pb2.py", "state_pb2_grpc.py"])
def test_a_generated_module_finds_its_neighbours(name: str) -> None:
    assert "from autogen_eventlog" not in (PACKAGE / name).read_text("utf-8")
