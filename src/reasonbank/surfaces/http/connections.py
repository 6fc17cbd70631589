"""The connections of a server: so many at a time, none for nothing, and heads read strictly.

Whoever is slow to send or to read costs others nothing: there are time limits for the head and
for each stretch of an answer, and when all room is taken, the one that has kept the server
waiting the longest makes room for the next.
"""

from __future__ import annotations

import asyncio
import re
from collections import Counter
from collections.abc import Callable
from enum import IntEnum
from typing import Any

import h11
from uvicorn.protocols.http.h11_impl import H11Protocol

from reasonbank.errors import InvalidInput, ReasonBankError
from reasonbank.surfaces.http.app import problem
from reasonbank.surfaces.http.gate import HEAD_BYTES, LEAST_RATE, Busy

HEAD_SECONDS = 5.0
"""The most that a head may take, whatever the patience for all of a request."""
YOUNG_SECONDS = 1.0
"""Before that, a connection is not taken for slow if another one can be."""


class Stage(IntEnum):
    """What a connection waits for; in the order in which they have to make room."""

    LEAVING = 0
    """All was said, and the client does not take it."""
    IDLE = 1
    """The head of a request, or the rest of it."""
    BODY = 2
    READER = 3
    """The client, who does not read."""
    SERVER = 4
    """Us."""


class Room:
    """All connections of a process; ``clock`` is that of its event loop.

    Whoever finds everybody being served waits in line, as that takes a moment only; the line is as
    long as the room is large, and when it is full, the first in it is turned away.
    """

    def __init__(self, most: int, clock: Callable[[], float]) -> None:
        self._most = most
        self._clock = clock
        self._inside: set[Patient] = set()
        self._line: dict[Patient, None] = {}

    def enter(self, guest: Patient) -> None:
        if len(self._inside) < self._most or self._make_room():
            self._inside.add(guest)
            guest.come_in()
            return
        self._line[guest] = None
        guest.wait_in_line()
        if len(self._line) > self._most:
            first = next(iter(self._line))
            del self._line[first]
            first.turn_away()

    def leave(self, guest: Patient) -> None:
        self._inside.discard(guest)
        self._line.pop(guest, None)
        self.admit()

    def admit(self) -> None:
        """Let in who waits, as far as there is room, or somebody who had a chance can go."""
        while self._line and (len(self._inside) < self._most or self._make_room(unheard=False)):
            guest = next(iter(self._line))
            del self._line[guest]
            self._inside.add(guest)
            guest.come_in()

    def _make_room(self, *, unheard: bool = True) -> bool:
        """By showing out one; ``unheard``: even one that has only just come in."""
        now = self._clock()
        crowd = Counter(guest.address for guest in self._inside)

        def new(guest: Patient) -> bool:
            return not guest.served and now - guest.since < YOUNG_SECONDS

        def patience(guest: Patient) -> tuple[bool, bool, int, int, float]:
            young = now - guest.since < YOUNG_SECONDS
            return new(guest), young, guest.stage, -crowd[guest.address], guest.since

        waiting = (guest for guest in self._inside if guest.stage is not Stage.SERVER)
        slow = [guest for guest in waiting if unheard or not new(guest)]
        if not slow:
            return False
        victim = min(slow, key=patience)
        self._inside.discard(victim)
        victim.transport.abort()
        return True


class Strict(h11.Connection):
    """Takes no request whose length can be understood in two ways."""

    def next_event(self) -> Any:
        if self.their_state is h11.IDLE:
            check_framing(self.trailing_data[0])
        return super().next_event()


_END = re.compile(rb"\r?\n\r?\n")
_LENGTH = re.compile(rb"[0-9]{1,19}").fullmatch


def check_framing(received: bytes) -> None:
    """Of a whole head; ``h11.RemoteProtocolError`` for one that two readers could read apart."""
    end = _END.search(received)
    if end is None:
        return
    start, *lines = (line.rstrip(b"\r") for line in received[: end.start()].split(b"\n"))
    lengths, encodings = [], []
    for line in lines:
        name, _, value = line.partition(b":")
        if name[:1] in (b" ", b"\t") or b"\r" in line:
            raise h11.RemoteProtocolError("a header that goes on in the next line")
        match name.strip().lower():
            case b"content-length":
                lengths.append(value.strip(b" \t"))
            case b"transfer-encoding":
                encodings.append(value.strip(b" \t").lower())
    if len(lengths) + len(encodings) > 1 or not all(map(_LENGTH, lengths)):
        raise h11.RemoteProtocolError("more than one length, or one that is no number")
    if encodings and (encodings != [b"chunked"] or not start.endswith(b"HTTP/1.1")):
        raise h11.RemoteProtocolError("a transfer encoding other than chunked")


class Patient(H11Protocol):
    """Waits so long for the head of a request, for a body that nobody wants, and for readers."""

    seconds: float
    stopping: Callable[[], bool]
    room: Room
    since: float = 0.0
    stage: Stage = Stage.IDLE
    address: str = ""
    served: bool = False
    """Whether it got an answer already."""
    _deadline: asyncio.TimerHandle | None = None
    _reader: asyncio.TimerHandle | None = None
    _unread: int = 0

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self.conn = Strict(h11.SERVER, HEAD_BYTES)

    def connection_made(self, transport: Any) -> None:
        super().connection_made(transport)
        self.address = str((self.client or ("",))[0])
        self._now_at(Stage.IDLE)
        if self.stopping():
            # Accepted, but not yet known when the others were told to end.
            transport.close()
        else:
            self.room.enter(self)

    def wait_in_line(self) -> None:
        self._deadline = self.loop.call_later(self.seconds, self.turn_away)
        self.flow.pause_reading()

    def come_in(self) -> None:
        self.since = self.loop.time()
        self._stop_waiting()
        self._wait(min(self.seconds, HEAD_SECONDS))
        self.flow.resume_reading()

    def turn_away(self) -> None:
        self._refuse(Busy("all connections are in use; try again in a moment"))

    def connection_lost(self, exc: Exception | None) -> None:
        self.room.leave(self)
        self._stop_waiting()
        self._stop_watching()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        self._look()

    def on_response_complete(self) -> None:
        self._stop_waiting()
        self.served = True
        super().on_response_complete()
        self._look()
        if self.transport.is_closing():
            self._end()

    def timeout_keep_alive_handler(self) -> None:
        super().timeout_keep_alive_handler()
        self._end()

    def pause_writing(self) -> None:
        super().pause_writing()
        self._unread = self.transport.get_write_buffer_size()
        self._reader = self.loop.call_later(self.seconds, self._check_reader)
        self._look()

    def resume_writing(self) -> None:
        self._stop_watching()
        super().resume_writing()
        self._look()

    def _look(self) -> None:
        """What is waited for now, and for how long it may be."""
        theirs, ours = self.conn.their_state, self.conn.our_state
        if self.transport.is_closing():
            self._now_at(Stage.LEAVING)
        elif self.flow.write_paused:
            self._now_at(Stage.READER)
        elif theirs is h11.IDLE:
            self._now_at(Stage.IDLE)
        elif theirs is h11.SEND_BODY:
            self._now_at(Stage.BODY)
        else:
            self._now_at(Stage.SERVER)
        if theirs is h11.IDLE and self.conn.trailing_data[0]:
            self._wait(min(self.seconds, HEAD_SECONDS))
        elif theirs is h11.SEND_BODY and ours is h11.DONE:
            self._wait(self.seconds)  # A body that nobody wants any more.
        elif theirs is not h11.IDLE:
            self._stop_waiting()

    def _now_at(self, stage: Stage) -> None:
        if stage is not self.stage or not self.since:
            served, self.stage, self.since = self.stage, stage, self.loop.time()
            if served is Stage.SERVER:
                self.room.admit()

    def _wait(self, seconds: float) -> None:
        # Not put off by more data: bytes that trickle in do not buy time.
        if self._deadline is None:
            self._deadline = self.loop.call_later(seconds, self.transport.abort)

    def _stop_waiting(self) -> None:
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None

    def _check_reader(self) -> None:
        """Whether enough was read since the last look."""
        unread = self.transport.get_write_buffer_size()
        if self._unread - unread < LEAST_RATE * self.seconds:
            self.transport.abort()
            return
        self._unread = unread
        self._reader = self.loop.call_later(self.seconds, self._check_reader)

    def _stop_watching(self) -> None:
        if self._reader is not None:
            self._reader.cancel()
            self._reader = None

    def _end(self) -> None:
        """Closed already; but what a client does not read keeps a connection open for good."""
        self._stop_waiting()
        self._wait(self.seconds)

    def send_400_response(self, msg: str) -> None:
        self._refuse(
            InvalidInput(
                "request",
                "is not HTTP/1.1, says its length twice or in no clear way, or has a head of more "
                f"than {HEAD_BYTES:,} bytes; send fewer or shorter headers",
            )
        )

    def _refuse(self, error: ReasonBankError) -> None:
        if self.conn.our_state not in (h11.IDLE, h11.SEND_RESPONSE):
            self.transport.abort()  # In the middle of an answer.
            return
        body = problem(error).body
        headers = [
            (b"content-type", b"application/json"),
            (b"content-length", str(len(body)).encode()),
            (b"connection", b"close"),
        ]
        for event in (
            h11.Response(status_code=error.status, headers=headers),
            h11.Data(data=body),
            h11.EndOfMessage(),
        ):
            if (written := self.conn.send(event)) is not None:
                self.transport.write(written)
        self.transport.close()
        self._end()


def patient(seconds: float, most: int, stopping: Callable[[], bool]) -> type[asyncio.Protocol]:
    """uvicorn makes its protocols itself, so what they need is said by their class."""
    room = Room(most, lambda: asyncio.get_running_loop().time())
    given = {"seconds": seconds, "room": room, "stopping": staticmethod(stopping)}
    return type("Patient", (Patient,), given)
