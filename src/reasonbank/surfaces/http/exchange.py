"""One HTTP request and its answer, as the application sees them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import parse_qsl

from reasonbank.errors import InvalidInput
from reasonbank.surfaces.http.gate import Receive, Scope, Send

Raw = Mapping[bytes, bytes]

JSON_TYPE = b"application/json"
GUARD = [
    (b"x-content-type-options", b"nosniff"),
    (b"x-frame-options", b"DENY"),
    (b"referrer-policy", b"no-referrer"),
    (b"cross-origin-resource-policy", b"same-origin"),
    (b"cache-control", b"no-store"),
]
SEALED = [*GUARD, (b"content-security-policy", b"default-src 'none'; frame-ancestors 'none'")]


@dataclass(frozen=True, slots=True, kw_only=True)
class HttpAnswer:
    body: bytes
    status: int = 200
    kind: bytes = JSON_TYPE
    headers: tuple[tuple[bytes, bytes], ...] = ()


class Exchange:
    """One request and its answer."""

    __slots__ = ("_send", "_started", "headers", "method", "path", "receive", "scope")

    def __init__(self, scope: Scope, receive: Receive, send: Send) -> None:
        self.scope = scope
        self.headers: Raw = dict(scope["headers"])
        self.path: str = scope["raw_path"].decode("ascii")
        self.method: str = "GET" if scope["method"] == "HEAD" else scope["method"]
        self.receive = receive
        self._send = send
        self._started = False

    def query(self) -> dict[str, list[str]]:
        found: dict[str, list[str]] = {}
        try:
            pairs = parse_qsl(
                self.scope["query_string"].decode("ascii"),
                keep_blank_values=True,
                strict_parsing=bool(self.scope["query_string"]),
                errors="strict",
                max_num_fields=200,
            )
        except ValueError:
            raise InvalidInput("query", "cannot be read; write it as name=value&…") from None
        for name, value in pairs:
            found.setdefault(name, []).append(value)
        found.pop("workspace", None)
        return found

    def workspace(self) -> str | None:
        """From the header or the query; two that differ are refused."""
        given = set()
        if b"workspace=" in self.scope["query_string"]:
            for name, value in parse_qsl(self.scope["query_string"].decode("ascii", "replace")):
                if name == "workspace":
                    given.add(value)
        if (header := self.headers.get(b"x-reasonbank-workspace")) is not None:
            try:
                given.add(header.decode())
            except UnicodeDecodeError:
                raise InvalidInput("X-ReasonBank-Workspace", "is not UTF-8") from None
        if len(given) > 1:
            raise InvalidInput("workspace", "was given twice, and differently; give it once")
        return given.pop() if given else None

    async def start(
        self, status: int, kind: bytes, headers: tuple[tuple[bytes, bytes], ...]
    ) -> None:
        self._started = True
        names = {name for name, _ in headers}
        guard = [header for header in SEALED if header[0] not in names]
        await self._send(
            {
                "type": "http.response.start",
                "status": status,
                "headers": [(b"content-type", kind), *headers, *guard],
            }
        )

    async def send_piece(self, body: bytes, *, more: bool) -> None:
        await self._send({"type": "http.response.body", "body": body, "more_body": more})

    async def answer(self, answer: HttpAnswer) -> None:
        if self._started:
            return  # Cut off: all that is left is to end the connection.
        # A line of its own, for those who read it in a terminal.
        body = answer.body + b"\n" if answer.kind is JSON_TYPE else answer.body
        # What has not changed is not sent, and so has no length.
        length = [(b"content-length", str(len(body)).encode())] if answer.status != 304 else []
        await self.start(answer.status, answer.kind, (*length, *answer.headers))
        await self.send_piece(body, more=False)

    async def send_guarded(self, message: Any) -> None:
        if message["type"] == "http.response.start":
            self._started = True
            known = {name.lower() for name, _ in message.get("headers", ())}
            extra = [(name, value) for name, value in SEALED if name not in known]
            message = message | {"headers": [*message.get("headers", ()), *extra]}
        await self._send(message)
