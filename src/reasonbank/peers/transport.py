"""How frames get from one bank to another: what a transport must do. ``quic`` does it.

Whoever is called proves its key while the connection is made; whoever calls, by a Hello (see
``hello``) that is signed over ``Connection.binding``.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Protocol

from reasonbank.errors import InvalidInput, ReasonBankError
from reasonbank.peers.wire import Lane

OTHER_VERSION = "it speaks another version of the bus; update the older ReasonBank of the two"


class ConnectionEnded(ReasonBankError):
    """The other side has gone, was ended, or cannot be reached; a new connection may work."""


class AddressTaken(ConnectionEnded):
    """Somebody listens there already."""


def host_and_port(address: str) -> tuple[str, int]:
    """Of ``host:port`` or ``[host]:port``."""
    named, _, port = address.rpartition(":")
    host = named.removeprefix("[").removesuffix("]")
    if ":" in host and named == host:
        raise InvalidInput("address", f"{address!r} is not [host]:port; put the host in brackets")
    if not host or not (port.isascii() and port.isdecimal()) or int(port) > 65_535:
        raise InvalidInput("address", f"{address!r} is not host:port")
    return host, int(port)


@dataclass(frozen=True, kw_only=True)
class Limits:
    """What one connection may take of this bank; whoever asks for more is cut off."""

    before_hello: int = 1 << 20
    """Bytes that wait of a caller who has not said yet who it is."""
    idle: float = 15.0
    """Seconds without a sign of life until a connection is over; asked for at a third of them."""
    handshake: float = 10.0
    """Seconds until a connection that does not get established is given up."""
    hello: float = 10.0
    """Seconds until a caller that is connected must have said who it is."""
    strangers: int = 128
    """Of the connections, those whose caller is not known yet; the oldest makes room."""
    connections: int = 1000
    """That a listener holds at the same time."""


class Tickets(Protocol):
    """Where session tickets are kept, so that the next connection can begin with data.

    Requirements: a ticket is taken at most once (``take`` removes it; for a listener this is what
    stops a recorded opening from being heard again); old ones may be dropped at any time; what is
    kept is secret.
    """

    def keep(self, name: bytes, ticket: bytes) -> None:
        """In the place of one that was kept by this name."""

    def take(self, name: bytes) -> bytes | None: ...


class Stream(Protocol):
    """Frames in both directions, in order, on one lane.

    Requirements: a frame over the limit, in either direction, ends the connection before it is
    held in memory; a reader that is slow makes the sender wait and nobody else; until the
    connection is established, only frames of ``wire.SAFE_TO_REPLAY`` are sent or given out (others
    wait until it is).
    """

    @property
    def lane(self) -> Lane: ...

    async def send(self, frame: bytes) -> None:
        """Returns when the frame is on its way; waits while the other side is slow.

        Raises ``ConnectionEnded``, also when the other side wants no more of this stream.
        """

    async def receive(self) -> bytes | None:
        """The next frame; None when the other side has ended the stream.

        Raises ``ConnectionEnded``.
        """

    async def close(self) -> None:
        """No more is sent; what was sent still arrives. What comes is not read any more."""


class Connection(Protocol):
    """Streams between two banks. ``async with`` closes it."""

    @property
    def peer_key(self) -> bytes | None:
        """Of the one who was called: the key that it must have. Of a caller: None, until its
        Hello was verified and ``authenticated`` was called."""

    @property
    def binding(self) -> bytes:
        """32 bytes that a Hello is signed over: made of the listener's key and of what only this
        connection has, so that it is worth nothing anywhere else."""

    @property
    def established(self) -> bool:
        """Whether both sides are known to be there now: nothing is a recording."""

    @property
    def early(self) -> bool:
        """Whether data was accepted before the connection was established (0-RTT)."""

    @property
    def address(self) -> str:
        """Of the other side, as it is now: it may change."""

    @property
    def ended(self) -> str | None:
        """Why, if it has."""

    def authenticated(self, key: bytes) -> None:
        """Called by a listener that has verified a Hello."""

    async def until_established(self) -> None:
        """Raises ``ConnectionEnded``."""

    async def until_ended(self) -> str:
        """The reason."""

    async def stream(self, lane: Lane) -> Stream:
        """Opens one; waits where the other side allows no more of them now."""

    async def accept(self) -> Stream | None:
        """The next stream that the other side opened; None when the connection has ended."""

    async def close(self, reason: str = "") -> None: ...

    async def __aenter__(self) -> Connection: ...

    async def __aexit__(self, *_: object) -> None: ...


class Listener(Protocol):
    @property
    def address(self) -> str:
        """As others on this machine can call it: with the port that was really taken."""

    async def close(self) -> None:
        """Ends all its connections as well."""


class Transport(Protocol):
    async def connect(self, address: str, key: bytes) -> Connection:
        """Call the bank that has this key: ``host:port`` or ``[host]:port``.

        With a ticket it returns at once, and what is sent before ``established`` is early data;
        without one, when the connection is established. Raises ``ConnectionEnded`` where nobody
        answers or somebody else does.
        """

    async def listen(
        self, address: str, on_connection: Callable[[Connection], Awaitable[None]]
    ) -> Listener:
        """``on_connection`` is called for each caller, as soon as it says something; when it
        returns or raises, the connection is closed. Port 0 takes any that is free."""
