"""The bus over QUIC. Whatever is private to the library is used in this file and in no other.

A bank that listens shows a certificate of its own key, and the caller compares the key; nobody
else is asked. A caller has no certificate: it says Hello. Each lane is a stream whose first byte
names it; a one-way stream beside them tells senders what was read (see ``framing``).
"""

from __future__ import annotations

import asyncio
import errno
import hashlib
import hmac
import ipaddress
import logging
import os
import socket
import ssl
import time
from collections import deque
from collections.abc import Awaitable, Callable, Iterator
from datetime import UTC, datetime
from functools import partial
from typing import Any

import msgspec
from qh3._hazmat import pull_quic_header
from qh3.asyncio._transport import create_optimized_datagram_transport
from qh3.quic import events
from qh3.quic.configuration import QuicConfiguration
from qh3.quic.connection import QuicConnection, QuicConnectionError
from qh3.quic.packet import (
    QuicPacketType,
    encode_quic_retry,
    encode_quic_version_negotiation,
)
from qh3.tls import CipherSuite, SessionTicket, SignatureAlgorithm

from reasonbank.peers import wire
from reasonbank.peers.certificate import PUBLIC_KEY, certificate
from reasonbank.peers.framing import WINDOW, Incoming, Outgoing, Violation
from reasonbank.peers.identity import Identity
from reasonbank.peers.transport import (
    OTHER_VERSION,
    AddressTaken,
    ConnectionEnded,
    Limits,
    Tickets,
    host_and_port,
)
from reasonbank.peers.wire import Lane

PROTOCOL = f"reasonbank/{wire.VERSION}"
ID_LENGTH = 20
"""Bytes of a connection id: the longest, for a Hello is bound to the first one."""
HALF_OPEN = 64
"""Callers that are not established; with more of them, each must show that it can be answered."""
FLUSH = 5.0
"""Seconds that a connection that is closed waits for what was sent to arrive."""
LONGEST_REASON = 200
RESET = 38
"""Bytes of the answer to who goes on with a connection that is not known here any more. No shorter
datagram is answered, and none of a connection is as short: two who forgot never answer each other.
"""
_LANES = tuple(Lane)
_ONE_WAY = 2
_RECORD = 12
"""Bytes of a credit: eight of the stream's number, four of the amount."""

# What the library raises over bytes that no honest bank sends. Its TLS is written in Python.
_HOSTILE = (
    QuicConnectionError,
    ArithmeticError,
    AssertionError,
    AttributeError,
    LookupError,
    RuntimeError,
    TypeError,
    ValueError,
)

# It warns of every connection that the other side closes.
logging.getLogger("quic").setLevel(logging.ERROR)

OnConnection = Callable[["Link"], Awaitable[None]]
Address = tuple[Any, ...]


class MemoryTickets:
    """Forgets the oldest."""

    def __init__(self, most: int = 10_000) -> None:
        self._most = most
        self._kept: dict[bytes, bytes] = {}

    def keep(self, name: bytes, ticket: bytes) -> None:
        self._kept.pop(name, None)
        self._kept[name] = ticket
        if len(self._kept) > self._most:
            del self._kept[next(iter(self._kept))]

    def take(self, name: bytes) -> bytes | None:
        return self._kept.pop(name, None)


class _Ticket(msgspec.Struct, frozen=True, array_like=True):
    """A session ticket as it is kept; both sides know the same."""

    age_add: int
    cipher: int
    after: float
    before: float
    secret: bytes
    ticket: bytes
    early: int | None
    extensions: list[tuple[int, bytes]]


def _ticket_to_bytes(ticket: SessionTicket) -> bytes:
    return msgspec.msgpack.encode(
        _Ticket(
            ticket.age_add,
            int(ticket.cipher_suite),
            ticket.not_valid_after.replace(tzinfo=UTC).timestamp(),
            ticket.not_valid_before.replace(tzinfo=UTC).timestamp(),
            bytes(ticket.resumption_secret),
            bytes(ticket.ticket),
            ticket.max_early_data_size,
            [(int(kind), bytes(data)) for kind, data in ticket.other_extensions],
        )
    )


def _ticket_of(kept: bytes | None) -> SessionTicket | None:
    if kept is None:
        return None
    try:
        ticket = msgspec.msgpack.decode(kept, type=_Ticket)
        return SessionTicket(
            age_add=ticket.age_add,
            cipher_suite=CipherSuite(ticket.cipher),
            not_valid_after=datetime.fromtimestamp(ticket.after, UTC).replace(tzinfo=None),
            not_valid_before=datetime.fromtimestamp(ticket.before, UTC).replace(tzinfo=None),
            resumption_secret=ticket.secret,
            server_name=None,  # type: ignore[arg-type]  # None is asked for, for all.
            ticket=ticket.ticket,
            max_early_data_size=ticket.early,
            other_extensions=ticket.extensions,
        )
    except (msgspec.DecodeError, ValueError):
        return None  # From another release, or damaged: it costs one round trip.


class Lent:
    """A stream of QUIC; ``transport.Stream`` says what it does."""

    def __init__(self, link: Link, number: int, lane: Lane) -> None:
        self.lane = lane
        self.number = number
        self._link = link
        self._incoming = Incoming()
        self._outgoing = Outgoing()
        self._sending = asyncio.Lock()
        self._stirred = asyncio.Event()
        self._over = False  # No more comes from the other side.
        self._unwanted = False  # The other side wants no more of this.
        self._broken = ""
        self._closed = False
        self._named = False

    async def send(self, frame: bytes) -> None:
        link = self._link
        if link.called and not link.established and not _safe_to_replay(frame):
            await link.until_established()
        async with self._sending:
            while (header := self._writable().header(len(frame))) is None:
                await self._stir()
            if not self._named:
                header = bytes([_LANES.index(self.lane)]) + header
                self._named = True
            rest = memoryview(frame)
            while rest:
                if room := self._writable().room(len(rest)) if link.unsent(self) < WINDOW else 0:
                    link.write(self.number, header + rest[:room] if header else rest[:room])
                    rest, header = rest[room:], b""
                else:
                    await self._stir()

    def _writable(self) -> Outgoing:
        self._link.check()
        if self._closed or self._unwanted:
            raise ConnectionEnded("this stream takes no more")
        return self._outgoing

    async def receive(self) -> bytes | None:
        incoming, link = self._incoming, self._link
        while (frame := incoming.next) is None:
            if self._broken:
                raise ConnectionEnded(self._broken)
            if self._over or self._closed:
                return None
            link.check()
            incoming.wanted()
            link.credit(self.number, incoming.credit())
            await self._stir()
        if not link.established and not _safe_to_replay(frame):
            await link.until_established()
        incoming.take()
        link.credit(self.number, incoming.credit())
        return frame

    async def close(self) -> None:
        if not self._closed:
            self._closed = True
            self._link.finish(self)
            self.stir()

    async def _stir(self) -> None:
        """Until anything has changed for this stream."""
        self._link.stuck.add(self)
        self._stirred.clear()
        try:
            await self._stirred.wait()
        finally:
            self._link.stuck.discard(self)

    # What the link tells it.

    def stir(self) -> None:
        self._stirred.set()

    def arrived(self, data: bytes, over: bool) -> None:
        self._incoming.feed(data)
        if over:
            self._over = True
            if self._incoming.midway:
                self._broken = "the stream ended in the middle of a frame"
        self.stir()

    def reset(self) -> None:
        self._over = True
        self._broken = "the other side broke this stream off"
        self.stir()

    def unwanted(self) -> None:
        self._unwanted = True
        self.stir()

    def credited(self, amount: int) -> None:
        self._outgoing.credited(amount)
        self.stir()

    @property
    def held(self) -> int:
        return self._incoming.held

    @property
    def done(self) -> bool:
        return self._over and self._closed


def _safe_to_replay(frame: bytes) -> bool:
    try:
        return isinstance(wire.decode(frame), wire.SAFE_TO_REPLAY)
    except wire.BadFrame:
        return False


class Link:
    """A connection of QUIC; ``transport.Connection`` says what it does."""

    def __init__(
        self,
        quic: QuicConnection,
        send: Callable[[list[bytes], Address], None],
        *,
        key: bytes,
        called: bool,
        limits: Limits,
        awake: Callable[[], float],
        tickets: Tickets | None = None,
    ) -> None:
        """``key``: of the bank that listens. ``called``: whether this is the caller's side."""
        self.called = called
        self.greeted = False
        self.stuck: set[Lent] = set()
        self._quic = quic
        self._send = send
        self._key = key
        self._limits = limits
        self._awake = awake
        self._tickets = tickets
        self._ticket: SessionTicket | None = None
        self._loop = asyncio.get_running_loop()
        self._streams: dict[int, Lent] = {}
        self._new: deque[Lent] = deque()
        self._credits = bytearray()
        self._credit_stream: int | None = None
        self._known_caller: bytes | None = None
        self._early = False
        self._is_gone = False
        self._progress = asyncio.Event()
        self._established = asyncio.Event()
        self._ended: asyncio.Future[str] = self._loop.create_future()
        self._timer: asyncio.TimerHandle | None = None
        self._timer_at: float | None = None
        self._due: asyncio.Handle | None = None
        self.on_gone: Callable[[], None] = lambda: None
        self.on_heard: Callable[[], None] = lambda: None
        self.on_known: Callable[[], None] = lambda: None
        self.on_id: Callable[[bytes, bool], None] = lambda name, issued: None
        self._overdue = self._loop.call_later(
            limits.handshake,
            self.fail,
            f"nobody answered within {limits.handshake:g} s: nothing listens there, or UDP to it"
            " is blocked",
        )
        self._pulse = self._loop.call_later(limits.idle / 3, self._keep_alive, *self._clocks())

    # transport.Connection

    @property
    def peer_key(self) -> bytes | None:
        return self._key if self.called else self._known_caller

    @property
    def binding(self) -> bytes:
        return hashlib.sha256(
            b"reasonbank connection\0" + self._key + self._quic.original_destination_connection_id
        ).digest()

    @property
    def established(self) -> bool:
        return self._established.is_set()

    @property
    def early(self) -> bool:
        return self._early

    @property
    def address(self) -> str:
        return "" if (core := self._quic._core) is None else _written(*core.active_path[2][:2])

    @property
    def ended(self) -> str | None:
        return self._ended.result() if self._ended.done() else None

    def authenticated(self, key: bytes) -> None:
        self._known_caller = key
        self._overdue.cancel()
        self.on_known()

    async def until_established(self) -> None:
        while not self.established:
            self.check()
            await self._next_progress()

    async def until_ended(self) -> str:
        return await asyncio.shield(self._ended)

    async def stream(self, lane: Lane) -> Lent:
        while self.established and self._all_streams_taken():
            self.check()
            await self._next_progress()
        self.check()
        stream = Lent(self, self._quic._open_stream(), lane)
        self._streams[stream.number] = stream
        return stream

    async def accept(self) -> Lent | None:
        while not self._new:
            if self.ended is not None:
                return None
            await self._next_progress()
        return self._new.popleft()

    async def close(self, reason: str = "") -> None:
        """Waits a moment for what was sent to arrive."""
        try:
            async with asyncio.timeout(FLUSH):
                while self.ended is None and self._under_way():
                    await self._next_progress()
        except TimeoutError:
            pass
        self.fail(reason or "closed")

    async def __aenter__(self) -> Link:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    # What its streams ask for.

    def check(self) -> None:
        if (reason := self.ended) is not None:
            raise ConnectionEnded(reason)

    def write(self, number: int, data: bytes | memoryview) -> None:
        try:
            self._quic.send_stream_data(number, data)
        except ValueError as error:
            # The other side wanted no more of it before it was known here.
            raise ConnectionEnded(f"this stream takes no more: {error}") from None
        self._transmit_soon()

    def unsent(self, stream: Lent) -> int:
        return self._quic.get_send_buffer_size(stream.number)

    def credit(self, number: int, amount: int) -> None:
        if not amount or self.ended is not None:
            return
        if self._credit_stream is None:
            self._credit_stream = self._quic._open_stream(is_unidirectional=True)
        self.write(
            self._credit_stream, number.to_bytes(8, "big") + amount.to_bytes(_RECORD - 8, "big")
        )

    def finish(self, stream: Lent) -> None:
        if self.ended is None:
            if self._quic._stream_can_send(stream.number):
                self._quic.send_stream_data(stream.number, b"", end_stream=True)
            if not stream.done:
                self._quic.stop_stream(stream.number, 0)
            self._transmit_soon()
        self._forget(stream)

    # What the socket and the clock bring.

    def keep(self, ticket: SessionTicket) -> None:
        """For the next connection, once it is known that it was the right bank that gave it."""
        self._ticket = ticket
        if self.established and self._tickets is not None:
            self._tickets.keep(self._key, _ticket_to_bytes(ticket))

    def begin(self, address: Address) -> None:
        self._quic.connect(address, self._loop.time())
        self._transmit_soon()

    def received(self, datagrams: list[bytes], address: Address) -> None:
        try:
            self._quic.receive_many_datagrams(datagrams, address, self._loop.time())
        except _HOSTILE as error:
            self.fail(f"what came cannot be understood: {error}")
        self._turn()

    def _turn(self) -> None:
        while (event := self._quic.next_event()) is not None:
            try:
                self._happened(event)
            except Violation as violation:
                self.fail(str(violation))
        if (closed := self._quic._close_event) is not None:
            if not self._begun():
                self.drop()
            self._end(_why(closed) or f"closed by the other side ({closed.error_code})")
        self._transmit()
        for stream in list(self.stuck):
            stream.stir()
        self._progress.set()
        self._progress.clear()

    def _begun(self) -> bool:
        """A caller's first datagram may be lost and a later one, which begins nothing, arrive: the
        library refuses it. To say so would end what the caller is about to send again."""
        tls = self._quic._tls
        return self.called or (tls is not None and any(tls._input_offsets.values()))

    def _happened(self, event: events.QuicEvent) -> None:
        if isinstance(event, events.StreamDataReceived):
            self._data(event.stream_id, event.data, event.end_stream)
        elif isinstance(event, events.StreamReset):
            if (stream := self._streams.get(event.stream_id)) is not None:
                stream.reset()
                self._forget(stream)
        elif isinstance(event, events.StopSendingReceived):
            if (stream := self._streams.get(event.stream_id)) is not None:
                stream.unwanted()
        elif isinstance(event, events.HandshakeCompleted):
            self._complete(event)
        elif isinstance(event, events.ConnectionIdIssued):
            self.on_id(event.connection_id, True)
        elif isinstance(event, events.ConnectionIdRetired):
            self.on_id(event.connection_id, False)
        elif isinstance(event, events.ConnectionTerminated):
            self._end(_why(event) or "the other side does not know this connection any more")
            self.drop()

    def _complete(self, event: events.HandshakeCompleted) -> None:
        # A session that goes on is the one that was begun with the key.
        if self.called and not event.session_resumed:
            shown = self._quic.get_peercert()
            if shown is None or shown.public_key() != PUBLIC_KEY + self._key:
                self.fail("another bank answers there: it does not have the key that was asked for")
                return
        self._early = event.early_data_accepted
        self._overdue.cancel()
        if self.peer_key is None:
            self._overdue = self._loop.call_later(
                self._limits.hello, self.fail, "nobody said who is calling"
            )
        self._established.set()
        if self._ticket is not None:
            self.keep(self._ticket)
        self.on_heard()

    def _data(self, number: int, data: bytes, over: bool) -> None:
        if self.ended is not None:
            return
        if number & _ONE_WAY:
            self._credited(data)
            return
        stream = self._streams.get(number)
        if stream is None:
            if not data:
                return
            if data[0] >= len(_LANES):
                raise Violation(f"no lane has the number {data[0]}")
            stream = Lent(self, number, _LANES[data[0]])
            stream._named = True
            self._streams[number] = stream
            self._new.append(stream)
            data = data[1:]
            self._early = self._early or not self.established
            self.on_heard()
        stream.arrived(data, over)
        if stream.done:
            self._forget(stream)
        if self.peer_key is None and self.waiting > self._limits.before_hello:
            raise Violation("too much was sent before Hello")

    def _credited(self, data: bytes) -> None:
        self._credits += data
        while len(self._credits) >= _RECORD:
            number = int.from_bytes(self._credits[:8], "big")
            amount = int.from_bytes(self._credits[8:_RECORD], "big")
            del self._credits[:_RECORD]
            if (stream := self._streams.get(number)) is not None:
                stream.credited(amount)

    @property
    def waiting(self) -> int:
        """Bytes that nobody has read yet."""
        return sum(stream.held for stream in self._streams.values())

    def _forget(self, stream: Lent) -> None:
        if stream.done:
            self._streams.pop(stream.number, None)

    def _all_streams_taken(self) -> bool:
        core = self._quic._core
        return core is not None and core.stream_limits[2] >= core.stream_limits[0]

    def _under_way(self) -> bool:
        core = self._quic._core
        if core is None:
            return False
        # What was lost is neither unsent nor in flight until its turn comes to be sent again.
        timer = core.get_timer()
        paced = timer is not None and timer[0] == "pacing"
        return paced or bool(self._quic.get_send_buffer_size() or core.bytes_in_flight)

    async def _next_progress(self) -> None:
        await self._progress.wait()

    def _transmit_soon(self) -> None:
        if self._due is None:
            self._due = self._loop.call_soon(self._transmit)

    def _transmit(self) -> None:
        if self._due is not None:
            self._due.cancel()
            self._due = None
        if self._is_gone:
            return
        batch: list[bytes] = []
        target: Address = ()
        for datagram, address in self._outbound():
            if batch and address != target:
                self._send(batch, target)
                batch = []
            batch.append(datagram)
            target = address
        if batch:
            self._send(batch, target)
        self._wind()

    def _outbound(self) -> Iterator[tuple[bytes, Address]]:
        """As ``QuicConnection.datagrams_to_send``, but what was ready before an error is sent.

        While a handshake with early data loses datagrams, the library wants to send with keys that
        it does not have yet. It knows how to go on when they come.
        """
        core, now = self._quic._core, self._loop.time()
        try:
            while core is not None and (datagram := core.poll_transmit(now)) is not None:
                yield datagram[0], datagram[1]
        except RuntimeError as error:
            if self.established:
                self._end(f"nothing can be sent any more: {error}")

    def _wind(self) -> None:
        at = self._quic.get_timer()
        if at != self._timer_at or self._timer is None:
            if self._timer is not None:
                self._timer.cancel()
            self._timer = None if at is None else self._loop.call_at(at, self._rang)
            self._timer_at = at

    def _rang(self) -> None:
        at = self._timer_at or 0.0
        self._timer = self._timer_at = None
        try:
            self._quic.handle_timer(max(at, self._loop.time()))
        except _HOSTILE as error:
            self.fail(f"what came cannot be understood: {error}")
        self._turn()

    def _clocks(self) -> tuple[float, float]:
        return self._loop.time(), self._awake()

    def _keep_alive(self, ran: float, lived: float) -> None:
        """A machine that slept does not know it by the clock of its timers: the other side has
        long given up, and to wait for an answer would cost another ``idle``."""
        now, alive = self._clocks()
        if (alive - lived) - (now - ran) > self._limits.idle:
            self.fail("this machine slept")
            return
        if self.called and self.established:
            self._quic.send_ping(0)
            self._transmit_soon()
        self._pulse = self._loop.call_later(self._limits.idle / 3, self._keep_alive, now, alive)

    # How it ends.

    def fail(self, reason: str) -> None:
        """End it from this side, and say why."""
        if self.ended is None:
            self._quic.close(error_code=0, reason_phrase=reason[:LONGEST_REASON])
            self._transmit()
            self._end(reason)

    def _end(self, reason: str) -> None:
        if self._ended.done():
            return
        self._ended.set_result(reason)
        self._overdue.cancel()
        self._pulse.cancel()
        for stream in self._streams.values():
            stream.stir()
        self._streams.clear()
        self._progress.set()
        self._progress.clear()
        # A listener still answers for a moment to a caller that has not heard of the end; the
        # socket of a caller has no other use.
        if self.called:
            self.drop()

    def drop(self) -> None:
        """Nothing more is sent, or heard."""
        if self._is_gone:
            return
        for handle in (self._timer, self._due, self._overdue, self._pulse):
            if handle is not None:
                handle.cancel()
        self._timer = self._due = None
        self._is_gone = True
        self.on_gone()
        self._come_apart()

    def _come_apart(self) -> None:
        """What the library holds is in circles, and large: it would stay until Python looks for
        such, which it does the more rarely the more it has loaded."""
        self.on_gone = self.on_heard = self.on_known = lambda: None
        self.on_id = lambda name, issued: None
        self._send = lambda datagrams, address: None
        quic, bridge = self._quic, self._quic._tls
        quic._core = quic._tls = None
        quic._session_ticket_fetcher = quic._session_ticket_handler = None
        if bridge is not None:
            bridge._version_change_handler = bridge._session_ticket_handler = None
            bridge.tls.__dict__.clear()


class _Socket(asyncio.DatagramProtocol):
    """A UDP socket; datagrams come in batches where the system can."""

    def __init__(self) -> None:
        self._transport: Any = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = transport

    def send(self, datagrams: list[bytes], address: Address) -> None:
        if not self._transport.is_closing():
            if (many := getattr(self._transport, "sendto_many", None)) is not None:
                many(datagrams, address)
            else:
                for datagram in datagrams:
                    self._transport.sendto(datagram, address)

    def datagram_received(self, data: bytes, address: Address) -> None:
        self.datagrams_received([data], address)

    def datagrams_received(self, datagrams: list[bytes], address: Address) -> None:
        raise NotImplementedError

    def error_received(self, _: Exception) -> None:
        """A network that is away for a moment: QUIC sends again, or gives up in time."""

    async def open(self, family: int, local: Address) -> None:
        opened = socket.socket(family, socket.SOCK_DGRAM)
        try:
            opened.bind(local)
        except OSError:
            opened.close()
            raise
        loop = asyncio.get_running_loop()
        await create_optimized_datagram_transport(loop, lambda: self, sock=opened)

    @property
    def name(self) -> Address:
        return tuple(self._transport.get_extra_info("sockname"))

    def shut(self) -> None:
        self._transport.close()


class _Caller(_Socket):
    link: Link

    def datagrams_received(self, datagrams: list[bytes], address: Address) -> None:
        self.link.received(datagrams, address)

    def keep(self, ticket: SessionTicket) -> None:
        self.link.keep(ticket)


class _Called(QuicConnection):
    """The side of a connection that was called. It names beforehand the word that ends it, which
    the same bank still knows when it was started anew: a caller goes on for a while with what is
    gone, and would find that out only when nothing comes for long."""

    word: bytes

    def _create_tls(self, remote_source_cid: bytes | None) -> Any:
        bridge = super()._create_tls(remote_source_cid)
        bridge.stateless_reset_token = self.word
        [(kind, _)] = bridge.tls.handshake_extensions
        bridge.tls.handshake_extensions = [(kind, bridge.serialize_transport_parameters())]
        return bridge


class Door(_Socket):
    """A listener of QUIC: one socket, from which each connection gets what is meant for it."""

    def __init__(
        self,
        on_connection: OnConnection,
        configuration: QuicConfiguration,
        given: Tickets,
        identity: Identity,
        limits: Limits,
        awake: Callable[[], float],
    ) -> None:
        super().__init__()
        self._on_connection = on_connection
        self._configuration = configuration
        self._given = given
        self._key = identity.key
        self._limits = limits
        self._awake = awake
        self._secret = os.urandom(32)
        self._lasting = hmac.digest(identity.seed, b"reasonbank reset", "sha256")
        self._by_id: dict[bytes, Link] = {}
        self._ids: dict[Link, set[bytes]] = {}
        self._half_open: set[Link] = set()
        self._strangers: dict[Link, None] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self._left = asyncio.Event()

    @property
    def address(self) -> str:
        host, port = self.name[:2]
        loopback = {"0.0.0.0": "127.0.0.1", "::": "::1"}  # nosec B104  # compared, not bound
        return _written(loopback.get(host, host), port)

    @property
    def connections(self) -> int:
        return len(self._ids)

    async def until_quiet(self) -> None:
        """Until it holds no connection any more."""
        while self._ids:
            await self._left.wait()

    async def close(self) -> None:
        for link in list(self._ids):
            link.fail("the bank stops")
            link.drop()
        tasks = list(self._tasks)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        self.shut()

    def datagrams_received(self, datagrams: list[bytes], address: Address) -> None:
        batch: list[bytes] = []
        target: Link | None = None
        for datagram in datagrams:
            link = self._link_of(datagram, address)
            if link is not target and target is not None:
                target.received(batch, address)
                batch = []
            target = link
            if link is not None:
                batch.append(datagram)
        if target is not None:
            target.received(batch, address)

    def _link_of(self, datagram: bytes, address: Address) -> Link | None:
        if not datagram[:1] or not datagram[0] & 0x80:
            name = datagram[1 : 1 + ID_LENGTH]
            if (link := self._by_id.get(name)) is None and len(datagram) > RESET:
                self._end_unknown(name, address)
            return link
        try:
            header = pull_quic_header(datagram, 0, ID_LENGTH)
        except ValueError:
            return None
        version, kind, _, destination, source, token = header[:6]
        if (link := self._by_id.get(destination)) is not None:
            return link
        if version not in self._configuration.supported_versions:
            # Never in answer to a short one, which would make of this a way to flood others.
            if version and len(datagram) >= 1200:
                self.send(
                    [
                        encode_quic_version_negotiation(
                            source_cid=destination,
                            destination_cid=source,
                            supported_versions=self._configuration.supported_versions,
                        )
                    ],
                    address,
                )
            return None
        if (
            kind != QuicPacketType.INITIAL
            or len(datagram) < 1200
            or len(self._ids) >= self._limits.connections
        ):
            return None
        if not token and len(self._half_open) < HALF_OPEN:
            return self._admit(destination, destination, None)
        if not token:
            name = os.urandom(ID_LENGTH)
            self.send(
                [
                    encode_quic_retry(
                        version=version,
                        source_cid=name,
                        destination_cid=source,
                        original_destination_cid=destination,
                        retry_token=self._proof(address, name, destination) + destination,
                    )
                ],
                address,
            )
            return None
        proof, original = token[:32], token[32:]
        if not hmac.compare_digest(proof, self._proof(address, destination, original)):
            return None
        return self._admit(destination, original, destination)

    def _word(self, name: bytes) -> bytes:
        """What ends the connection of this name."""
        return hmac.digest(self._lasting, name, "sha256")[:16]

    def _end_unknown(self, name: bytes, address: Address) -> None:
        noise = bytearray(os.urandom(RESET - 16))
        noise[0] = 0x40 | noise[0] & 0x3F  # As any other datagram of a connection.
        self.send([bytes(noise) + self._word(name)], address)

    def _proof(self, address: Address, name: bytes, original: bytes) -> bytes:
        """That this address was answered: made again from what comes back, and kept nowhere."""
        said = repr(address).encode() + b"\0" + name + original
        return hmac.digest(self._secret, said, "sha256")

    def _admit(self, name: bytes, original: bytes, retry: bytes | None) -> Link:
        if len(self._strangers) >= self._limits.strangers:
            # Whoever means it is known by now. Else a thousand who stay would keep all others out.
            oldest = next(iter(self._strangers))
            oldest.fail("others are waiting")
            oldest.drop()
        quic = _Called(
            configuration=self._configuration,
            original_destination_connection_id=original,
            retry_source_connection_id=retry,
            session_ticket_fetcher=lambda label: _ticket_of(self._given.take(label)),
            session_ticket_handler=lambda ticket: self._given.keep(
                bytes(ticket.ticket), _ticket_to_bytes(ticket)
            ),
        )
        quic.word = self._word(quic.host_cid)
        link = Link(
            quic,
            self.send,
            key=self._key,
            called=False,
            limits=self._limits,
            awake=self._awake,
        )
        self._ids[link] = set()
        self._half_open.add(link)
        self._strangers[link] = None
        self._named(link, name, True)
        self._named(link, quic.host_cid, True)
        link.on_id = partial(self._named, link)
        link.on_gone = partial(self._gone, link)
        link.on_known = partial(self._strangers.pop, link, None)
        link.on_heard = partial(self._heard, link)
        return link

    def _named(self, link: Link, name: bytes, issued: bool) -> None:
        if issued:
            self._by_id[name] = link
            self._ids[link].add(name)
        else:
            self._by_id.pop(name, None)
            self._ids[link].discard(name)

    def _gone(self, link: Link) -> None:
        for name in self._ids.pop(link, ()):
            self._by_id.pop(name, None)
        self._half_open.discard(link)
        self._strangers.pop(link, None)
        self._left.set()
        self._left.clear()

    def _heard(self, link: Link) -> None:
        if link.established:
            self._half_open.discard(link)
        if not link.greeted:
            link.greeted = True
            task = asyncio.create_task(self._serve(link))
            self._tasks.add(task)
            task.add_done_callback(self._served)

    async def _serve(self, link: Link) -> None:
        try:
            await self._on_connection(link)
        except* ConnectionEnded:
            pass  # That it ended is all there is to say.
        finally:
            await link.close()

    def _served(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            asyncio.get_running_loop().call_exception_handler(
                {"message": "a connection of a peer failed", "exception": error, "task": task}
            )


class Quic:
    """Calls and listens; ``transport.Transport`` says how."""

    def __init__(
        self,
        identity: Identity,
        *,
        tickets: Tickets | None = None,
        given: Tickets | None = None,
        limits: Limits | None = None,
        awake: Callable[[], float] | None = None,
    ) -> None:
        """``tickets``: those that this bank got from others, by their key. ``given``: those that
        it gave out. ``awake``: seconds of a clock that goes on while the machine sleeps."""
        self._identity = identity
        self._tickets = tickets if tickets is not None else MemoryTickets()
        self._given = given if given is not None else MemoryTickets()
        self._limits = limits or Limits()
        self._awake = awake or _since_boot

    async def connect(self, address: str, key: bytes) -> Link:
        family, remote = await _resolved(address)
        configuration = self._configuration(is_client=True)
        configuration.verify_mode = ssl.CERT_NONE  # The key is compared, see Link._complete.
        configuration.signature_algorithms = [SignatureAlgorithm.ED25519]
        configuration.session_ticket = _ticket_of(self._tickets.take(key))
        caller = _Caller()
        quic = QuicConnection(configuration=configuration, session_ticket_handler=caller.keep)
        try:
            anywhere = "::" if family == socket.AF_INET6 else "0.0.0.0"  # nosec B104  # a caller's
            await caller.open(family, (anywhere, 0))
        except OSError as error:
            raise ConnectionEnded(f"cannot call {address}: {error}") from None
        link = caller.link = Link(
            quic,
            caller.send,
            key=key,
            called=True,
            limits=self._limits,
            awake=self._awake,
            tickets=self._tickets,
        )
        link.on_gone = caller.shut
        link.begin(remote)
        if configuration.session_ticket is None:
            try:
                await link.until_established()
            except BaseException:
                link.fail("given up")
                raise
        return link

    async def listen(self, address: str, on_connection: OnConnection) -> Door:
        configuration = self._configuration(is_client=False)
        configuration.load_cert_chain(*certificate(self._identity))
        door = Door(
            on_connection, configuration, self._given, self._identity, self._limits, self._awake
        )
        family, local = await _resolved(address)
        try:
            await door.open(family, local)
        except OSError as error:
            ended = AddressTaken if error.errno == errno.EADDRINUSE else ConnectionEnded
            raise ended(f"cannot listen at {address}: {error}") from None
        return door

    def _configuration(self, *, is_client: bool) -> QuicConfiguration:
        return QuicConfiguration(
            is_client=is_client,
            alpn_protocols=[PROTOCOL],
            connection_id_length=ID_LENGTH,
            idle_timeout=self._limits.idle,
            # What comes out of order is held by the library: no more than this of a connection.
            max_data=8 * WINDOW,
            initial_rtt=0.1,
            max_stream_data=2 * WINDOW,
        )


def _why(event: events.ConnectionTerminated) -> str:
    if "ALPN" in event.reason_phrase:
        return OTHER_VERSION
    if event.reason_phrase == "Idle timeout":
        return "nothing was heard of the other side any more"
    return event.reason_phrase


def _since_boot() -> float:
    """Linux can tell for sure; elsewhere the wall clock: one that is set costs a new connection."""
    clock = getattr(time, "CLOCK_BOOTTIME", None)
    return time.time() if clock is None else time.clock_gettime(clock)


async def _resolved(address: str) -> tuple[int, Address]:
    host, port = host_and_port(address)
    loop = asyncio.get_running_loop()
    try:
        found = await loop.getaddrinfo(host, port, type=socket.SOCK_DGRAM)
    except (OSError, UnicodeError) as error:  # Of names that cannot be any: the other one.
        raise ConnectionEnded(f"cannot find {host}: {error}") from None
    # By names that mean both, most banks listen to the older.
    family, *_, resolved = min(found, key=lambda entry: entry[0] != socket.AF_INET)
    return family, resolved


def _written(host: Any, port: Any) -> str:
    plain = ipaddress.ip_address(host.partition("%")[0])
    return f"[{host}]:{port}" if plain.version == 6 else f"{host}:{port}"
