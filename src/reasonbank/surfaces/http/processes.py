"""Several server processes on one address: the kernel shares connections out among them."""

from __future__ import annotations

import logging
import os
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Sequence

from reasonbank.errors import Refused
from reasonbank.surfaces.http.server import FAREWELL_SECONDS, bound

PAUSE_SECONDS = 1.0
"""Between the end of a member and the start of its successor."""

log = logging.getLogger(__name__)


class Members:
    """As many servers as there are to be: one that ends is replaced, until all are to end."""

    def __init__(self, arguments: Sequence[str], *, host: str, port: int, count: int) -> None:
        # Held and not listened to: the port stays ours while members come and go.
        self._place = _reserved(host, port)
        self._command = [
            sys.executable, "-m", "reasonbank.surfaces.cli", "serve", *arguments, "--json",
            "--host", host, "--port", str(self._place.getsockname()[1]), "--member",
        ]  # fmt: skip
        self._ending = threading.Event()
        self._changing = threading.Lock()
        self._members: list[subprocess.Popen[bytes]] = []
        try:
            self._members = [self._begun() for _ in range(count)]
            for member in self._members:
                self.told = _first_line(member)
        except BaseException:
            self.end()
            raise
        for number in range(count):
            threading.Thread(target=self._watch, args=(number,), daemon=True).start()

    def _begun(self) -> subprocess.Popen[bytes]:
        # What a member reads ends with this process, however that ends.
        return subprocess.Popen(  # nosec B603  # ourselves
            self._command, stdin=subprocess.PIPE, stdout=subprocess.PIPE
        )

    def _watch(self, number: int) -> None:
        while True:
            code = self._members[number].wait()
            if self._ending.is_set():
                return
            log.warning("a server process ended with code %s; another one starts", code)
            self._ending.wait(PAUSE_SECONDS)
            with self._changing:
                if self._ending.is_set():
                    return
                self._members[number] = self._begun()

    def end(self) -> None:
        """Let calls that are under way end, and wait for that."""
        with self._changing:
            self._ending.set()
        for member in self._members:
            member.terminate()
        for member in self._members:
            try:
                member.wait(FAREWELL_SECONDS + 5)
            except subprocess.TimeoutExpired:
                member.kill()
                member.wait()
        self._place.close()


def _reserved(host: str, port: int) -> socket.socket:
    # Asked for alone first: an address to be shared would also be shared with a stranger.
    alone = bound(host, port)
    port = alone.getsockname()[1]
    alone.close()
    return bound(host, port, shared=True)


def _first_line(member: subprocess.Popen[bytes]) -> bytes:
    assert member.stdout
    line = member.stdout.readline()
    if not line.startswith(b'{"address"'):
        raise Refused(f"a server process did not start: {line.decode(errors='replace').strip()}")
    return line


def end_with_parent() -> None:
    """Of a member: end as after a signal once standard input ends."""

    def wait() -> None:
        # Past `sys.stdin`, whose lock a thread that reads would hold when the interpreter ends.
        while os.read(0, 1024):
            pass
        os.kill(os.getpid(), signal.SIGTERM)

    threading.Thread(target=wait, name="parent", daemon=True).start()
