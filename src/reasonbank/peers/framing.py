"""Frames on a stream: four bytes of length before each, and never more under way than the reader
has room for. Pure.

QUIC libraries give credit for what they have handed out, not for what was read, so a reader that is
slow would fill its memory. Here the reader gives the credit: a sender begins with ``WINDOW`` bytes,
and gets back what was read. One that sends more than it was given breaks the rules.
"""

from __future__ import annotations

from collections import deque

from reasonbank.errors import ReasonBankError
from reasonbank.peers.wire import LONGEST_FRAME, BadFrame

WINDOW = 256 * 1024
PER_FRAME = 128
"""Bytes that a frame costs besides its own: many tiny ones fill a memory as well."""
HEADER = 4


class Violation(ReasonBankError):
    """The other side does not keep to the rules of the transport: the connection is over."""


class Incoming:
    """From bytes, in pieces of any size, to frames."""

    def __init__(self) -> None:
        self._frames: deque[tuple[bytes, int]] = deque()
        self._header = bytearray()
        self._length: int | None = None
        self._part = bytearray()
        self._released = 0  # Of the part.
        self._owed = 0
        self.held = 0
        """Bytes that wait to be read."""

    def feed(self, data: bytes) -> None:
        rest = memoryview(data)
        while rest:
            if self._length is None:
                missing = HEADER - len(self._header)
                self._header += rest[:missing]
                rest = rest[missing:]
                if len(self._header) == HEADER:
                    self._begin()
                continue
            missing = self._length - len(self._part)
            piece, rest = rest[:missing], rest[missing:]
            self._hold(len(piece))
            self._part += piece
            if len(piece) == missing:
                self._frames.append((bytes(self._part), self._released))
                self._part = bytearray()
                self._released, self._length = 0, None

    def _begin(self) -> None:
        length = int.from_bytes(self._header, "big")
        self._header.clear()
        if not 0 < length <= LONGEST_FRAME:
            raise Violation(f"a frame of {length:,} bytes was announced")
        self._hold(PER_FRAME)
        self._length = length

    def _hold(self, amount: int) -> None:
        self.held += amount
        if self.held > WINDOW:
            raise Violation("more was sent than there was room for")

    def _release(self, amount: int) -> None:
        self.held -= amount
        self._owed += amount

    @property
    def next(self) -> bytes | None:
        return self._frames[0][0] if self._frames else None

    @property
    def midway(self) -> bool:
        """Whether an end that comes now would cut a frame off."""
        return bool(self._header) or self._length is not None

    def take(self) -> bytes:
        frame, released = self._frames.popleft()
        self._release(PER_FRAME + len(frame) - released)
        return frame

    def wanted(self) -> None:
        """Somebody waits for the next frame: the part of it that is here needs no room. Without
        this a frame longer than the window would never arrive."""
        if not self._frames and len(self._part) > self._released:
            self._release(len(self._part) - self._released)
            self._released = len(self._part)

    def credit(self) -> int:
        """What the sender is to be told now: nothing, until it is worth a message."""
        if self._owed < WINDOW // 2:
            return 0
        owed, self._owed = self._owed, 0
        return owed


class Outgoing:
    """How much may be sent now."""

    def __init__(self) -> None:
        self._allowance = WINDOW

    def credited(self, amount: int) -> None:
        self._allowance += amount
        if self._allowance > WINDOW:
            raise Violation("credit was given for what was never sent")

    def header(self, length: int) -> bytes | None:
        """None where there is no room for a frame now."""
        if not 0 < length <= LONGEST_FRAME:
            raise BadFrame(f"a frame of {length:,} bytes cannot be sent")
        if self._allowance <= PER_FRAME:
            return None
        self._allowance -= PER_FRAME
        return length.to_bytes(HEADER, "big")

    def room(self, length: int) -> int:
        """How many of these bytes can be sent now; they count as sent."""
        fits = min(length, self._allowance)
        self._allowance -= fits
        return fits
