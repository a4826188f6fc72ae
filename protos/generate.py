"""Writes src/autogen_eventlog/distributed/protos/ from the .proto files: `python protos/generate.py`. A test compares.

It needs `grpcio-tools` of the version in pyproject.toml (the extra `dev`). That is the oldest one whose code runs on what
autogen-ext 0.7 pins, grpcio 1.70 and protobuf 5.29: generated code refuses any runtime older than itself.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).parents[1]
PROTO = "autogen_eventlog/state/v1/state.proto"
PACKAGE = ROOT / "src" / "autogen_eventlog" / "distributed" / "protos"
IMPORT = "from autogen_eventlog.state.v1 import state_pb2 as"
"""How protoc imports a module that it expects at the place of its .proto file. Ours lie beside each other."""


def generated() -> dict[str, str]:
    """The generated modules by file name."""
    with tempfile.TemporaryDirectory() as directory:
        out = [f"--{kind}_out={directory}" for kind in ("python", "pyi", "grpc_python")]
        subprocess.run([sys.executable, "-m", "grpc_tools.protoc", f"-I{ROOT / 'protos'}", *out, PROTO], check=True)
        made = sorted((Path(directory) / PROTO).parent.glob("state_pb2*"))
        return {path.name: path.read_text("utf-8").replace(IMPORT, "from . import state_pb2 as") for path in made}


def write() -> None:
    """Write them into the package."""
    for name, text in generated().items():
        (PACKAGE / name).write_text(text, "utf-8")


if __name__ == "__main__":
    write()
