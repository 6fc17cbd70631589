"""Standard input and output, from a process's first moment to its last.

The first messages are answered at once; what else comes waits, in order, for the server, which
is loaded meanwhile. A signal ends all of it as the end of input does: in order, and at once.

A thread that waits for input cannot be interrupted, and who is told to stop would wait with it
for a line that may never come. So the server reads from a pipe of our own; a thread that nobody
waits for fills it, and closes it when the input ends or a signal comes.
"""

from __future__ import annotations

import os
import select
import signal
import threading

from reasonbank.surfaces.mcp.opening import LONGEST, Opening, refusal

TYPE_CHECKING = False
if TYPE_CHECKING:
    from types import FrameType, TracebackType

BLOCK = 65_536
WAITING = 1_048_576
"""How many bytes may wait for the server; then the client waits."""
WHOLE = 4_096
"""What a pipe that has room at all takes without blocking."""
PATIENCE = 0.1
"""Seconds that a client gets for its next message, while nothing is loaded yet."""


class Wire:
    """Who reads standard input and who writes to standard output: first we, then the server."""

    def __init__(self, tools: str) -> None:
        self.opening = Opening(tools)
        self.served = False
        self._source = os.dup(0)
        inside, self._sink = os.pipe()
        os.dup2(inside, 0)
        os.close(inside)
        os.set_blocking(self._sink, False)
        self._stopped, self._stop = os.pipe()
        os.set_blocking(self._stop, False)
        self._cut = b""  # A line whose end has not come yet.
        self._waiting = bytearray()
        self._open = True
        self._writing = threading.Lock()
        # Seen by the thread even while the main one is in foreign code, where no handler can run.
        signal.set_wakeup_fd(self._stop, warn_on_full_buffer=False)
        ends = (signal.SIGINT, signal.SIGTERM)
        self._before = {number: signal.signal(number, _noted) for number in ends}

    def begin(self) -> None:
        """Answers what a client asks first, then goes on beside whatever is loaded."""
        while self._open and not self.opening.listed and not self.opening.waits:
            if not self._step(PATIENCE):
                break
        threading.Thread(target=self._pump, daemon=True).start()

    def __enter__(self) -> Wire:
        """From here on, the server reads and answers."""
        with self._writing:
            self.served = True
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        signal.set_wakeup_fd(-1)
        for number, handler in self._before.items():
            signal.signal(number, handler)

    def refuse(self, reason: str) -> None:
        """In place of a server: says to every request why there is none, until input ends."""
        with self, open(0, "rb", closefd=False) as lines:
            for line in lines:
                if line == self.opening.replay:
                    continue
                self._write(self.opening.known(line) or refusal(line, reason) or b"")

    def _pump(self) -> None:
        while self._open or self._waiting:
            self._step(None)
        os.close(self._sink)

    def _step(self, seconds: float | None) -> bool:
        """Waits for something to happen, and does what it asks for. False: nothing happened."""
        reads = [self._stopped]
        if self._open and len(self._waiting) < WAITING:
            reads.append(self._source)
        writes = [self._sink] if self._waiting and seconds is None else []
        ready, free, _ = select.select(reads, writes, [], seconds)
        if self._stopped in ready:
            self._stop_now()
        if free:
            self._pass_on()
        if self._source in ready:
            data = os.read(self._source, BLOCK)
            self._take(data)
            if not data:
                self._open = False
                self._input_ended()
        return bool(ready or free)

    def _take(self, data: bytes) -> None:
        """``data`` is empty at the end of input."""
        with self._writing:
            if not self.served and not self.opening.waits:
                *lines, self._cut = (self._cut + data).split(b"\n")
                for line in lines:
                    self._hear(line + b"\n")
                if data and len(self._cut) <= LONGEST:
                    return
                self.opening.waits = self.opening.waits or bool(self._cut)
                data = b""
            self._waiting += self._cut + data
            self._cut = b""

    def _hear(self, line: bytes) -> None:
        opened = self.opening.answered
        said = self.opening.answer(line)
        if said is None:
            self._waiting += line
            return
        if not opened:
            self._waiting += self.opening.replay
        self._write(said)

    def _write(self, said: bytes) -> None:
        try:
            while said:
                stopped, _, _ = select.select([self._stopped], [1], [])
                if stopped:
                    return self._stop_now()
                said = said[os.write(1, said[:WHOLE]) :]
        except OSError:
            self._open = False  # The client has gone.

    def _pass_on(self) -> None:
        try:
            del self._waiting[: os.write(self._sink, self._waiting[:BLOCK])]
        except BlockingIOError:
            return
        except BrokenPipeError:  # The server has ended by itself.
            self._open = False
            self._waiting.clear()

    def _input_ended(self) -> None:
        if self.opening.answered and not self.opening.waits and not self.served:
            os._exit(0)  # All that was asked for has been answered.

    def _stop_now(self) -> None:
        if not self.served:
            # What is being loaded or opened may take long, and has nothing to lose.
            os._exit(0)
        self._open = False
        self._waiting.clear()
        os.read(self._stopped, BLOCK)


def _noted(_number: int, _frame: FrameType | None) -> None:
    """Nothing: that there was a signal is read from the pipe."""


_wire: Wire | None = None


def begin(tools: str) -> Wire:
    """The wire of this process; asked for again, it is the one that has begun."""
    global _wire  # noqa: PLW0603
    if _wire is None:
        _wire = Wire(tools)
        _wire.begin()
    return _wire
