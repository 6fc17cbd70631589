"""A signal ends the server as the end of its input does: in order, and at once.

A thread that waits for input cannot be interrupted, and who is told to stop would wait with it
for a line that may never come. So the server reads from a pipe of our own; a thread that nobody
waits for fills it, and closes it when the input ends or a signal comes.
"""

from __future__ import annotations

import os
import select
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

BLOCK = 65_536


@contextmanager
def ended_by_signals() -> Iterator[None]:
    """While this lasts, SIGINT and SIGTERM are the end of standard input."""
    source, stopped, stop = os.dup(0), *os.pipe()
    inside, sink = os.pipe()
    os.dup2(inside, 0)
    os.close(inside)
    pump = threading.Thread(target=_pump, args=(source, stopped, sink), daemon=True)

    def end(_number: int, _frame: FrameType | None) -> None:
        os.write(stop, b".")

    before = {number: signal.signal(number, end) for number in (signal.SIGINT, signal.SIGTERM)}
    pump.start()
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _pump(source: int, stopped: int, sink: int) -> None:
    with os.fdopen(sink, "wb") as out:
        while True:
            ready, _, _ = select.select([source, stopped], [], [])
            data = b"" if stopped in ready else os.read(source, BLOCK)
            if not data:
                return
            try:
                out.write(data)
                out.flush()
            except BrokenPipeError:
                return  # The server has ended by itself.
