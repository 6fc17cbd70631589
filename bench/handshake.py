"""How long an agent waits for its tools, beside `import numpy` in a process of its own.

    python -m bench.handshake [--repeat 15]

Each contestant is a new process, counted from its start to its last answer or its end; they take
turns, and the median counts.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable

from tools.opening import LISTS, opened

from bench import tables

MOST = 2
"""How many times as long as numpy takes to be imported an agent may wait."""


def imported(code: str) -> float:
    begun = time.perf_counter()
    subprocess.run([sys.executable, "-c", code], check=True)
    return time.perf_counter() - begun


def lines(revision: str, call: bool) -> list[bytes]:
    """What a client says first: who it is, and what there is; and a first call."""
    method, hello, more = opened(revision)
    asked = {"name": "memory_search", "arguments": {"query": "flaky test"}}
    sent = [(method, hello), (LISTS[1], more)] + [("tools/call", asked | more)] * call
    requests = (
        {"jsonrpc": "2.0", "id": number, "method": method, "params": params}
        for number, (method, params) in enumerate(sent)
    )
    return [json.dumps(request).encode() + b"\n" for request in requests]


def answered(folder: str, revision: str, *, call: bool = False) -> float:
    """Until a server has answered all; each request is sent when the one before is answered."""
    where = os.environ | {"HOME": folder, "REASONBANK_URL": f"sqlite:///{folder}/bank.db"}
    command = [sys.executable, "-m", "reasonbank.surfaces.cli", "mcp", "--tools", "core"]
    begun = time.perf_counter()
    server = subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
        env=where, cwd=folder,
    )  # fmt: skip
    with server:
        assert server.stdin and server.stdout
        for line in lines(revision, call):
            server.stdin.write(line)
            server.stdin.flush()
            server.stdout.readline()
        waited = time.perf_counter() - begun
        server.stdin.close()
    return waited


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--repeat", type=int, default=15)
    repeat = parser.parse_args().repeat
    with tempfile.TemporaryDirectory() as folder:
        ways: dict[str, Callable[[], float]] = {
            "numpy": lambda: imported("import numpy"),
            "bare": lambda: imported("pass"),
            "entry": lambda: imported("import reasonbank.surfaces.cli"),
            "handshake": lambda: answered(folder, "2025-11-25"),
            "envelope": lambda: answered(folder, "2026-07-28"),
            "call": lambda: answered(folder, "2026-07-28", call=True),
        }
        times: dict[str, list[float]] = {name: [] for name in ways}
        for _ in range(repeat):
            for name, way in ways.items():
                times[name].append(way() * 1000)
    took = {name: statistics.median(each) for name, each in times.items()}
    table = tables.Table(
        name="handshake",
        title="From the start of `reasonbank mcp` to the list of its tools",
        notes=["A call needs the SDK, the bank and the embedding model; the tools do not."],
        machine=tables.machine(),
    )
    numpy = ("`import numpy`", took["numpy"])
    table.compare("`initialize` and `tools/list`", took["handshake"], *numpy, most=MOST)
    table.compare("`server/discover` and `tools/list`", took["envelope"], *numpy, most=MOST)
    table.compare("the first search besides", took["call"], *numpy)
    table.compare("import of the command", took["entry"], "bare Python", took["bare"])
    tables.show(table)
    tables.keep("handshake", table)


if __name__ == "__main__":
    main()
