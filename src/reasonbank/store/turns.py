"""One at a time, over all threads and processes that have a bank open.

A lock of the operating system, which takes it from a process that ends, however it ends. It
costs no write to the ledger, and keeps nobody from writing there.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

try:
    import fcntl
except ImportError:  # Windows: work is done twice there, and is only slower.
    fcntl = None  # type: ignore[assignment]

STILL_SECONDS = 60.0
"""Whoever keeps a turn for longer, as a process that was suspended, is not waited for."""
LONGEST_PAUSE = 0.005


class Turn:
    """``path`` is an empty file that all processes lock; without one there is one process."""

    def __init__(self, path: Path | None) -> None:
        self._path = path
        self._thread = threading.Lock()

    @contextmanager
    def taken(self, *, seconds: float) -> Iterator[bool]:
        """Whether it is this thread's turn; so long it waits for other processes."""
        with self._thread:
            file = self._opened()
            try:
                yield file is None or _locked(file, time.monotonic() + seconds)
            finally:
                if file is not None:
                    os.close(file)

    def is_taken(self) -> bool:
        """Whether it is some process's turn just now."""
        if self._path is None or fcntl is None:
            return self._thread.locked()
        try:
            file = os.open(self._path, os.O_RDWR)
        except OSError:
            return False
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
        except OSError:
            return False
        finally:
            os.close(file)
        return False

    def _opened(self) -> int | None:
        if self._path is None or fcntl is None:
            return None
        try:
            return os.open(self._path, os.O_RDWR | os.O_CREAT, 0o600)
        except OSError:
            return None  # A full disk: what is done twice is only slower.


def _locked(file: int, deadline: float) -> bool:
    pause = 0.001
    while True:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if time.time() - os.fstat(file).st_mtime > STILL_SECONDS:
                return True
            if time.monotonic() >= deadline:
                return False
            time.sleep(pause)
            pause = min(2 * pause, LONGEST_PAUSE)
        except OSError:
            return True  # A file system without locks.
        else:
            os.utime(file)
            return True
