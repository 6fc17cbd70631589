"""A real Chroma for tests: ``chroma run`` of the package ``chromadb``, on a free port.

server = chroma.Server(folder)
server.kill(); server.start()       # at the same place, with what it had
"""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import sys
import time
from importlib.util import find_spec
from pathlib import Path

import httpx2
import pytest

SECONDS = 60.0


def needed() -> None:
    """Without Chroma a test is skipped, but never in CI."""
    if find_spec("chromadb") is None:
        why = "no Chroma: chromadb is not installed; `make install` does that"
        (pytest.fail if os.environ.get("CI") == "true" else pytest.skip)(why)


class Server:
    def __init__(self, folder: Path) -> None:
        self.folder = folder
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.port = int(free.getsockname()[1])
        self.url = f"http://127.0.0.1:{self.port}"
        self._process: subprocess.Popen[bytes] | None = None
        self.start()

    def start(self) -> None:
        program = shutil.which("chroma", path=f"{Path(sys.executable).parent}:{os.environ['PATH']}")
        assert program is not None
        self._process = subprocess.Popen(
            [program, "run", "--path", str(self.folder), "--host", "127.0.0.1",
             "--port", str(self.port)],
            stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
            env={**os.environ, "ANONYMIZED_TELEMETRY": "False"},
        )  # fmt: skip
        deadline = time.monotonic() + SECONDS
        while not self._answers():
            if time.monotonic() > deadline or self._process.poll() is not None:
                raise RuntimeError("Chroma does not start")
            time.sleep(0.02)

    def kill(self) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process = None

    def lose_everything(self) -> None:
        """Its disk is gone, and it begins anew at the same place."""
        self.kill()
        shutil.rmtree(self.folder)
        self.start()

    def _answers(self) -> bool:
        try:
            return httpx2.get(f"{self.url}/api/v2/heartbeat", timeout=5).is_success
        except httpx2.HTTPError:
            return False
