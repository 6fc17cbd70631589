from __future__ import annotations

import threading
from contextlib import suppress


class Flag:
    """A ``threading.Event`` for one thread that waits, whoever sets it.

    Control-C in the middle of ``Event.set`` can leave the event locked, and all threads that
    come to it with it. Here each change is one step, before or after which Control-C comes.
    """

    def __init__(self) -> None:
        self._down = threading.Lock()
        self._down.acquire()

    def set(self) -> None:
        with suppress(RuntimeError):  # It is set.
            self._down.release()

    def clear(self) -> None:
        self._down.acquire(blocking=False)

    def is_set(self) -> bool:
        return not self._down.locked()

    def taken(self, timeout: float = -1) -> bool:
        """Wait until it is set, and clear it; False if that took too long."""
        return self._down.acquire(timeout=timeout)
