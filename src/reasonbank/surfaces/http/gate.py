"""The door of the HTTP server: who may come in, with how much, and how fast.

Everything is decided before a bank is touched: the name that was called (Host), the page
that calls (Origin), the token, the rate, and how large and how slow a body may be.
"""

from __future__ import annotations

import asyncio
import ipaddress
import re
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from typing import Any
from urllib.parse import urlsplit

from reasonbank.access import Caller, TokenStore
from reasonbank.bounded import Bounded
from reasonbank.errors import (
    Forbidden,
    InvalidInput,
    InvalidSetting,
    ReasonBankError,
    Refused,
    TooLarge,
    TooMany,
    Unauthorized,
)
from reasonbank.ledger.port import Token
from reasonbank.settings import Server
from reasonbank.surfaces.signing_in import Session, SigningIn

Scope = dict[str, Any]
Receive = Callable[[], Awaitable[dict[str, Any]]]
Send = Callable[[dict[str, Any]], Awaitable[None]]

LOOPBACK = ("127.0.0.1", "localhost", "::1")
HEADERS = 100
HEAD_BYTES = 32 * 1024
OPEN = Caller(local=True)
"""Whoever calls a server that was told to need no token."""
GRACE_SECONDS = 5.0
LEAST_RATE = 1024
"""Bytes a second, sent or read; whoever is slower after the grace is not waited for."""
OWN_PAGE = b"x-reasonbank-page"
"""The header by which a page of ours says that it calls: no form and no image can send it."""
CALLERS = 10_000
"""Callers whose rate is remembered; whoever was quiet longest is forgotten first."""


class Misdirected(Refused):
    status = 421


class HeadTooLarge(TooLarge):
    status = 431


class TooSlow(Refused):
    status = 408


class Busy(TooMany):
    status = 503


class ClientDisconnected(Exception):
    """The client is gone; nobody is left to tell."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AllowedHosts:
    """Where the server stands: the names it answers to, and the pages that may call it."""

    names: frozenset[str]
    origins: frozenset[str]
    shown: str
    """The name that others should call it by."""

    @classmethod
    def of(cls, host: str, settings: Server) -> AllowedHosts:
        host, further = host.lower(), _listed(settings.hosts)
        # Listening everywhere is no name that anybody could call.
        own = [] if host in ("0.0.0.0", "::") else [host]  # nosec B104  # compared, not bound
        shown = [*own, *further, LOOPBACK[0]][0]
        origins = frozenset(origin.rstrip("/") for origin in _listed(settings.origins))
        for origin in origins:
            parts = urlsplit(origin)
            if parts.scheme not in ("http", "https") or not parts.netloc or parts.path:
                raise InvalidSetting(
                    "server.origins",
                    f"{origin!r} is not an origin; write it as https://example.org",
                )
        return cls(
            names=frozenset((*LOOPBACK, *own, *further)),
            origins=origins,
            shown=f"[{shown}]" if ":" in shown else shown,
        )

    def own_page(self, headers: Mapping[bytes, bytes]) -> bool:
        """Whether a page of this very server calls."""
        page = headers.get(b"origin", b"").decode("latin-1").lower()
        host = headers.get(b"host", b"").decode("latin-1").lower()
        return OWN_PAGE in headers and page.partition("://")[2] == host

    def check(self, headers: Mapping[bytes, bytes]) -> None:
        host = headers.get(b"host", b"").decode("latin-1").lower()
        if _name(host) not in self.names:
            raise Misdirected(
                f"this server does not answer to the name {host[:80]!r}; call it by an address "
                f"that it knows, or add the name to the setting server.hosts"
            )
        origin = headers.get(b"origin")
        if origin is None:
            return
        page = origin.decode("latin-1").lower()
        if page not in self.origins and page.partition("://")[2] != host:
            raise Forbidden(
                f"a page of {page[:80]!r} called this server, which only takes calls from its "
                "own pages; add the origin to the setting server.origins if you trust it"
            )


def _listed(setting: str) -> list[str]:
    return [part.strip().lower() for part in setting.split(",") if part.strip()]


_HOST = re.compile(
    r"(?:\[([0-9a-f:.]{1,64})\]|([a-z0-9._-]{1,255}))(?::([0-9]{1,5}))?", re.ASCII
).fullmatch


def _name(host: str) -> str | None:
    """The name in a Host header, without its port and brackets; None if it is malformed."""
    found = _HOST(host)
    if found is None or int(found[3] or 0) > 65_535:
        return None
    return found[1] or found[2]


def is_loopback(host: str) -> bool:
    try:
        return host == "localhost" or ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


class Rates:
    """A bucket for each caller: it fills at ``rate`` a second, and each request takes one."""

    def __init__(self, rate: float, clock: Callable[[], float] = time.monotonic) -> None:
        self._rate = rate
        self._size = max(rate, 1.0)
        self._clock = clock
        self._buckets = Bounded[str, tuple[float, float]](CALLERS)

    def take(self, caller: str) -> None:
        now = self._clock()
        left, then = self._buckets.get(caller) or (self._size, now)
        left = min(self._size, left + (now - then) * self._rate)
        if left < 1:
            wait = (1 - left) / self._rate
            error = TooMany(
                f"more than {self._rate:g} requests a second from one caller; wait {wait:.1f} s, "
                "or raise the setting server.rate"
            )
            raise RetryAfter(error, wait)
        self._buckets.put(caller, (left - 1, now))


class RetryAfter(Exception):
    """An error that passes: try again after so many seconds."""

    def __init__(self, error: ReasonBankError, seconds: float) -> None:
        super().__init__(str(error))
        self.error = error
        self.seconds = seconds


class Gate:
    def __init__(
        self,
        tokens: TokenStore,
        signing_in: SigningIn,
        settings: Server,
        allowed_hosts: AllowedHosts,
        *,
        authenticate: bool,
    ) -> None:
        self._tokens = tokens
        self._signing_in = signing_in
        self._settings = settings
        self._allowed_hosts = allowed_hosts
        self.locked = authenticate
        """Whether a token is needed; nobody is let in for being on the same machine."""
        self._rates = Rates(settings.rate)
        self._inside = 0
        self._held = 0

    def check(self, scope: Scope, headers: Mapping[bytes, bytes]) -> None:
        # The parser's own limit is only felt by a head that comes in several pieces.
        told = scope["headers"]
        if len(told) > HEADERS or sum(len(n) + len(v) for n, v in told) > HEAD_BYTES:
            raise HeadTooLarge(
                "headers",
                f"are more than {HEADERS}, or than {HEAD_BYTES:,} bytes; send fewer or shorter",
            )
        self._allowed_hosts.check(headers)

    def caller(
        self, scope: Scope, headers: Mapping[bytes, bytes], *, anybody: bool, page: bool = False
    ) -> tuple[Caller, Token | None]:
        """Who calls. ``anybody``: an address that needs no token. ``page``: one that a page may
        call whose user has signed in."""
        address = f"from {(scope.get('client') or ['?'])[0]}"
        shown = headers.get(b"authorization")
        if anybody:
            self._rates.take(address)
            return OPEN, None
        # A point read of the ledger, quicker than a trip to another thread; and a token
        # that was revoked a moment ago opens nothing.
        try:
            if shown is not None:
                kind, _, secret = shown.decode("latin-1").partition(" ")
                if kind.lower() != "bearer":
                    raise Unauthorized("send the token as `Authorization: Bearer rbk_…`")
                caller, token = self._tokens.caller(secret.strip())
                self._rates.take(token.id)
                return caller, token
            if page and self.locked and (session := self.session(headers)) is not None:
                self.must_be_own_page(scope, headers)
                caller, token = self.holder(session)
                self._rates.take(token.id)
                return caller, token
            if self.locked:
                raise Unauthorized(
                    "this needs a token: send `Authorization: Bearer rbk_…`; `reasonbank serve` "
                    "says where its owner's is, and `reasonbank token create` makes more"
                )
        except Unauthorized:
            self._rates.take(address)
            raise
        self._rates.take(address)
        return OPEN, None

    def session(self, headers: Mapping[bytes, bytes]) -> Session | None:
        """That of the browser that calls; None if it shows none."""
        for part in headers.get(b"cookie", b"").decode("latin-1").split(";"):
            name, _, value = part.strip().partition("=")
            if name == self._signing_in.cookie:
                return self._signing_in.shown(value)
        return None

    def holder(self, session: Session) -> tuple[Caller, Token]:
        caller, token = self._tokens.caller_of(session.token)
        return replace(caller, at_the_page=session.person), token

    def must_be_own_page(self, scope: Scope, headers: Mapping[bytes, bytes]) -> None:
        """A browser sends its cookie with whatever page makes it call: only our own may change
        anything."""
        if scope["method"] in ("GET", "HEAD") or self._allowed_hosts.own_page(headers):
            return
        raise Forbidden(
            "a browser that is signed in changes things from this server's own page only; "
            "programs send `Authorization: Bearer rbk_…`"
        )

    @asynccontextmanager
    async def place(self) -> AsyncIterator[None]:
        """Room for one request; when there is none, the caller hears so at once."""
        if self._inside >= self._settings.concurrency:
            raise RetryAfter(
                Busy(
                    f"{self._inside} requests are being worked on, and that is the most; try "
                    "again in a moment, or raise the setting server.concurrency"
                ),
                1.0,
            )
        self._inside += 1
        try:
            yield
        finally:
            self._inside -= 1

    async def body(self, headers: Mapping[bytes, bytes], receive: Receive) -> bytes:
        """All of it; those that arrive at the same time share the memory there is for them."""
        settings, held = self._settings, 0
        parts = []
        try:
            async for part in pieces(
                headers, receive, most=settings.body_bytes, seconds=settings.patience
            ):
                held += len(part)
                self._held += len(part)
                if self._held > settings.concurrency * settings.body_bytes:
                    raise RetryAfter(Busy("too much arrives at once; try again in a moment"), 1.0)
                parts.append(part)
        finally:
            self._held -= held
        return parts[0] if len(parts) == 1 else b"".join(parts)


async def pieces(
    headers: Mapping[bytes, bytes], receive: Receive, *, most: int, seconds: float
) -> AsyncIterator[bytes]:
    """A body as it arrives; an error as soon as it is too large or too slow."""
    announced = headers.get(b"content-length", b"0")
    if not announced.isdigit() or int(announced) > most:
        raise _too_large(most)
    size = 0
    started = asyncio.get_running_loop().time()
    while True:
        patience = min(seconds, GRACE_SECONDS + size / LEAST_RATE)
        try:
            async with asyncio.timeout_at(started + patience):
                message = await receive()
        except TimeoutError:
            raise TooSlow(
                f"the request did not arrive within {patience:g} s; send it faster (at least "
                f"{LEAST_RATE:,} bytes a second), or raise the setting server.patience"
            ) from None
        if message["type"] == "http.disconnect":
            raise ClientDisconnected
        piece = message.get("body", b"")
        size += len(piece)
        if size > most:
            raise _too_large(most)
        if piece:
            yield piece
        if not message.get("more_body"):
            return


def _too_large(most: int) -> InvalidInput:
    return TooLarge(
        "body",
        f"is larger than the {most:,} bytes that are allowed; send less at a time, or raise the "
        "setting server.body_bytes (for an import, server.import_bytes)",
    )
