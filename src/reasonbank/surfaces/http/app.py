"""The HTTP application: `/mcp`, `/api/v1`, `/openapi.json`, probes, metrics and a page.

Plain ASGI: between a request and the bank there is the door, one look-up in the table of
routes, and a worker thread that checks the body, calls the bank and writes the JSON.
"""

from __future__ import annotations

import asyncio
import contextlib
import io
import json
import logging
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from typing import IO, Any, TypeVar
from urllib.parse import unquote

import anyio.to_thread
from mcp.server.transport_security import TransportSecuritySettings
from pydantic import TypeAdapter, ValidationError
from pydantic_core import to_json

from reasonbank.access import Caller, TokenStore
from reasonbank.bank import Bank
from reasonbank.errors import (
    InvalidInput,
    NotFound,
    ReasonBankError,
    Refused,
    TooMany,
    Unauthorized,
)
from reasonbank.fields import plain
from reasonbank.health import health
from reasonbank.ledger.port import Token
from reasonbank.safety.scrub import hushed
from reasonbank.surfaces import operations, shapes
from reasonbank.surfaces.call import Call
from reasonbank.surfaces.http.assets import Assets
from reasonbank.surfaces.http.exchange import JSON_TYPE, Exchange, HttpAnswer, Raw
from reasonbank.surfaces.http.gate import (
    AllowedHosts,
    ClientDisconnected,
    Gate,
    Receive,
    RetryAfter,
    Scope,
    Send,
    pieces,
)
from reasonbank.surfaces.http.live import Live
from reasonbank.surfaces.http.openapi import document
from reasonbank.surfaces.http.session import SIGNED_OUT, taken, told
from reasonbank.surfaces.logs import unexpected
from reasonbank.surfaces.mcp.server import CALLER, make_server
from reasonbank.surfaces.operations import Operation
from reasonbank.surfaces.show.metrics import CONTENT_TYPE, render
from reasonbank.surfaces.signing_in import SESSION_SECONDS, SigningIn

T = TypeVar("T")

API = "/api/v1"
SESSION, EVENTS = f"{API}/session", f"{API}/events"
READY_SECONDS = 2.0
THREADS = 8
MOST_WAITING = 8
"""Callers who wait for their turn at long work; more are told to come again."""
CHUNK = 64 * 1024

log = logging.getLogger(__name__)


class NotAllowed(NotFound):
    status = 405

    def __init__(self, method: str, allowed: tuple[str, ...]) -> None:
        self.allowed = ", ".join(sorted(allowed))
        super().__init__(f"{method[:20]} is not possible here; what is: {self.allowed}")


class Stopping(Refused):
    status = 503


class WrongMediaType(InvalidInput):
    status = 415


class Application:
    """Serves ``bank``, which stays yours to close once ``close`` has returned."""

    def __init__(
        self,
        bank: Bank,
        *,
        tools: str,
        allowed_hosts: AllowedHosts,
        authenticate: bool,
    ) -> None:
        self._bank = bank
        self._settings = bank.settings.server
        self._tokens = TokenStore(bank)
        self._signing_in = SigningIn(bank)
        self._gate = Gate(
            self._tokens, self._signing_in, self._settings, allowed_hosts,
            authenticate=authenticate,
        )  # fmt: skip
        self._assets = Assets()
        self._live = Live(self._run, most=max(1, self._settings.connections // 4))
        self._paths = Paths()
        self._threads = ThreadPoolExecutor(THREADS, "bank")
        self._long = ThreadPoolExecutor(1, "bank-long")
        self._waited = ThreadPoolExecutor(1, "bank-waited")
        self._at_length = threading.Lock()
        self._waiting = 0
        self._noting: set[str] = set()
        self._ready: tuple[float, HttpAnswer] = (0.0, HttpAnswer(body=b""))
        self._own: dict[str, HttpAnswer | Callable[[], HttpAnswer]] = {
            # Said without a thread: a busy server is alive.
            "/livez": HttpAnswer(body=b'{"status":"alive"}'),
            "/openapi.json": HttpAnswer(body=to_json(document())),
            "/readyz": self._readiness,
            "/metrics": self._metrics,
        }
        self.stopping = False
        server = make_server(bank, tools=tools)
        # Stateless: a call says all there is to say, so that clients survive a restart.
        self._mcp = server.streamable_http_app(
            streamable_http_path="/mcp",
            stateless_http=True,
            max_request_body_size=self._settings.body_bytes,
            transport_security=_transport_security(allowed_hosts),
        )

    def stop(self) -> None:
        """End long work that can be resumed; everything else goes on."""
        self.stopping = True

    def close(self) -> None:
        """Wait for the calls that are still running."""
        self.stop()
        self._threads.shutdown()
        self._long.shutdown()
        self._waited.shutdown()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            limiter = anyio.to_thread.current_default_thread_limiter()
            limiter.total_tokens = THREADS
            await self._mcp(scope, receive, send)  # type: ignore[arg-type]
        elif scope["type"] == "http":
            await self._serve(Exchange(scope, receive, send))

    async def _serve(self, exchange: Exchange) -> None:
        try:
            self._gate.check(exchange.scope, exchange.headers)
            await self._dispatch(exchange)
        except ClientDisconnected:
            return
        except RetryAfter as retry:
            wait = str(max(1, round(retry.seconds))).encode()
            await exchange.answer(problem(retry.error, (b"retry-after", wait)))
        except ReasonBankError as error:
            await exchange.answer(problem(error))
        except Exception as error:  # noqa: BLE001
            await exchange.answer(_unexpected(exchange.scope, error))

    async def _dispatch(self, exchange: Exchange) -> None:
        path, method = exchange.path, exchange.method
        if path == SESSION:
            await self._session(exchange)
        elif path == EVENTS:
            await self._listen(exchange)
        elif path.startswith(API + "/"):
            await self._api(exchange, path[len(API) :], method)
        elif path == "/mcp":
            await self._call_mcp(exchange)
        elif path in self._own:
            _only(method, "GET")
            await self._say(exchange, path)
        elif (asset := self._assets.find(path)) is not None:
            _only(method, "GET")
            self._gate.caller(exchange.scope, exchange.headers, anybody=True)
            await exchange.answer(asset.answer(exchange.headers))
        else:
            raise NotFound(f"there is nothing at {path[:80]!r}; the API is at {API}, MCP at /mcp")

    # The JSON API

    async def _api(self, exchange: Exchange, path: str, method: str) -> None:
        methods, values = self._paths.find(path)
        if methods is None:
            # Whoever may not come in need not learn what there is.
            self._gate.caller(exchange.scope, exchange.headers, anybody=False, page=True)
            raise NotFound(f"there is nothing at {API}{path[:80]}; /openapi.json lists what is")
        _only(method, *methods)
        operation = methods[method]
        caller = self._caller(exchange, page=True)
        caller.must(operation.right)
        call = self._call(exchange, caller)
        # A place is for work: whoever is slow to send or to read takes none from others.
        if operation.run is operations.import_:
            await self._import(exchange, operation, call)
        elif operation.run is operations.export:
            await self._export(exchange, operation, call)
        else:
            body = b"" if operation.in_query else await self._body(exchange)
            query = exchange.query()

            def work() -> HttpAnswer:
                given = _given(operation, query, body)
                named = dict(zip(operation.in_path, values, strict=True))
                return _told(operation, operation.perform(call, named | given))

            async with self._gate.place():
                told = await self._run(work, alone=operation.alone, waits=operation.waits)
            await exchange.answer(told)

    def _call(self, exchange: Exchange, caller: Caller) -> Call:
        return Call(
            root=self._bank,
            surface="page" if caller.at_the_page else "http",
            caller=caller,
            workspace=exchange.workspace(),
            progress=self._progress,
        )

    def _progress(self, done: int, total: int) -> None:
        if self.stopping:
            raise Stopping(f"the server stops, {done:,} of {total:,} done; call again later")

    def _caller(self, exchange: Exchange, *, page: bool = False) -> Caller:
        caller, token = self._gate.caller(
            exchange.scope, exchange.headers, anybody=False, page=page
        )
        if token is not None and self._tokens.used(token) and token.id not in self._noting:
            self._noting.add(token.id)
            self._threads.submit(self._note, token)
        return caller

    def _note(self, token: Token) -> None:
        with contextlib.suppress(ReasonBankError):
            self._tokens.note_use(token)
        self._noting.discard(token.id)

    async def _listen(self, exchange: Exchange) -> None:
        _only(exchange.method, "GET")
        if exchange.scope["method"] == "HEAD":
            raise NotAllowed("HEAD", ("GET",))
        caller = self._caller(exchange, page=True)
        with self._live.place():
            await self._live.tell(
                exchange,
                self._call(exchange, caller),
                still=lambda: self._caller(exchange, page=True),
                stopping=lambda: self.stopping,
            )

    # Signing in

    async def _session(self, exchange: Exchange) -> None:
        """Who one is here; a code or a token becomes a cookie, and goes with it again."""
        _only(exchange.method, "GET", "POST", "DELETE")
        headers = exchange.headers
        cookies: tuple[tuple[bytes, bytes], ...] = ()
        if exchange.method == "GET":
            try:
                caller = self._caller(exchange, page=True)
            except Unauthorized:
                await exchange.answer(HttpAnswer(body=to_json(SIGNED_OUT)))
                return
        else:
            self._gate.caller(exchange.scope, headers, anybody=True)
            self._gate.must_be_own_page(exchange.scope, headers)
            if exchange.method == "DELETE":
                await self._sign_out(exchange)
                return
            shown = taken(await self._body(exchange))
            session = self._signing_in.session(self._tokens, **shown)
            caller, _ = self._gate.holder(session)
            cookies = (self._cookie(headers, session.cookie, SESSION_SECONDS),)
        call = self._call(exchange, caller)

        def work() -> HttpAnswer:
            return HttpAnswer(body=to_json(plain(told(call, self._gate.locked))), headers=cookies)

        async with self._gate.place():
            answer = await self._run(work)
        await exchange.answer(answer)

    async def _sign_out(self, exchange: Exchange) -> None:
        with contextlib.suppress(Unauthorized):
            if (session := self._gate.session(exchange.headers)) is not None:
                self._signing_in.end(session)
        gone = self._cookie(exchange.headers, "", 0)
        body = SIGNED_OUT | {"needed": self._gate.locked}
        await exchange.answer(HttpAnswer(body=to_json(body), headers=(gone,)))

    def _cookie(self, headers: Raw, value: str, seconds: int) -> tuple[bytes, bytes]:
        cookie = f"{self._signing_in.cookie}={value}; Path=/; Max-Age={seconds}; HttpOnly"
        # Whoever serves it over https says so in its own address, as the browser sees that.
        secure = "; Secure" if headers.get(b"origin", b"").startswith(b"https:") else ""
        return b"set-cookie", f"{cookie}; SameSite=Strict{secure}".encode()

    async def _body(self, exchange: Exchange) -> bytes:
        kind = exchange.headers.get(b"content-type", JSON_TYPE)
        if kind.partition(b";")[0].strip().lower() != JSON_TYPE:
            raise WrongMediaType(
                "Content-Type", f"{kind[:80].decode('latin-1')!r} is not understood; send "
                "`Content-Type: application/json`"
            )  # fmt: skip
        return await self._gate.body(exchange.headers, exchange.receive)

    async def _run(self, work: Callable[[], T], *, alone: bool = False, waits: bool = False) -> T:
        """In a worker thread; long work one at a time, apart from the rest. What ``waits`` takes
        its turn among its like, unless many do: people look at it, while a consolidation may last
        for minutes."""
        loop = asyncio.get_running_loop()
        if not alone:
            return await loop.run_in_executor(self._threads, work)
        if waits and self._waiting < MOST_WAITING:
            self._waiting += 1
            try:
                return await loop.run_in_executor(self._waited, work)
            finally:
                self._waiting -= 1
        if not self._at_length.acquire(blocking=False):
            error = TooMany("other long work is going on; try again when it is done")
            raise RetryAfter(error, 5.0)

        def at_length() -> T:
            try:
                return work()
            finally:
                self._at_length.release()

        return await loop.run_in_executor(self._long, at_length)

    async def _import(self, exchange: Exchange, operation: Operation, call: Call) -> None:
        """The body goes to a file first: a slow sender holds nothing but that."""
        call.caller.must_reach_all()
        given = _given(operation, exchange.query(), b"")
        most, seconds = self._settings.import_bytes, 10 * self._settings.patience
        with tempfile.SpooledTemporaryFile(max_size=1_000_000) as spool:
            async for piece in pieces(
                exchange.headers, exchange.receive, most=most, seconds=seconds
            ):
                spool.write(piece)
            spool.seek(0)

            def work() -> HttpAnswer:
                with _as_text(spool) as file:
                    return _told(operation, operation.perform(call, {"file": file} | given))

            async with self._gate.place():
                told = await self._run(work, alone=True)
            await exchange.answer(told)

    async def _export(self, exchange: Exchange, operation: Operation, call: Call) -> None:
        """To a file first: what goes wrong is still told, and a slow reader holds no lock."""
        query = exchange.query()
        with tempfile.SpooledTemporaryFile(max_size=1_000_000) as spool:

            def work() -> str:
                given = _given(operation, query, b"")
                with _as_text(spool) as file:
                    operation.perform(call, {"file": file} | given)
                return str(given.get("format", "jsonl"))

            async with self._gate.place():
                form = await self._run(work, alone=True)
            spool.seek(0)
            kind = b"text/markdown" if form == "markdown" else b"application/x-ndjson"
            await exchange.start(200, kind + b"; charset=utf-8", ())
            try:
                async with asyncio.timeout(60 * self._settings.patience):
                    while piece := spool.read(CHUNK):
                        await exchange.send_piece(piece, more=True)
            except TimeoutError:
                raise ClientDisconnected from None
            await exchange.send_piece(b"", more=False)

    # MCP

    async def _call_mcp(self, exchange: Exchange) -> None:
        # No streams that stay open without a call, and no sessions to delete.
        _only(exchange.method, "POST")
        caller = self._caller(exchange)
        body = await self._gate.body(exchange.headers, exchange.receive)
        waiting = True

        async def receive() -> dict[str, Any]:
            nonlocal waiting
            if waiting:
                waiting = False
                return {"type": "http.request", "body": body, "more_body": False}
            return await exchange.receive()

        scope = exchange.scope | {CALLER: caller}
        async with self._gate.place():
            await self._mcp(scope, receive, exchange.send_guarded)

    # What the server says of itself

    async def _say(self, exchange: Exchange, path: str) -> None:
        anybody = path != "/metrics"
        caller, _ = self._gate.caller(exchange.scope, exchange.headers, anybody=anybody)
        if not anybody:
            caller.must_reach_all()  # They count the whole bank.
        said = self._own[path]
        if isinstance(said, HttpAnswer):
            await exchange.answer(said)
        elif path == "/readyz" and time.monotonic() < self._ready[0]:
            await exchange.answer(self._ready[1])
        else:
            async with self._gate.place():
                told = await self._run(said)
            await exchange.answer(told)

    def _metrics(self) -> HttpAnswer:
        return HttpAnswer(body=render(self._bank).encode(), kind=CONTENT_TYPE)

    def _readiness(self) -> HttpAnswer:
        """Looked at anew every other second at most, as anybody may ask."""
        found = readiness(self._bank)
        self._ready = (time.monotonic() + READY_SECONDS, found)
        return found


def readiness(bank: Bank) -> HttpAnswer:
    """Which parts fail, and nothing else: anybody may ask."""
    checks = health(bank.context, deep=False)
    failed = [check.name for check in checks if check.status == "fail"]
    body = {"status": "unready", "failed": failed} if failed else {"status": "ready"}
    return HttpAnswer(body=to_json(body), status=503 if failed else 200)


class Paths:
    """Finds a path in the table of routes: by what is written, else segment by segment."""

    def __init__(self) -> None:
        table = operations.by_path()
        self._fixed = {path: methods for path, methods in table.items() if "{" not in path}
        self._open = [(path.split("/"), methods) for path, methods in table.items() if "{" in path]

    def find(self, path: str) -> tuple[Mapping[str, Operation] | None, list[str]]:
        if (methods := self._fixed.get(path)) is not None:
            return methods, []
        parts = path.split("/")
        for pattern, methods in self._open:
            if len(pattern) == len(parts) and all(
                ours == theirs or (ours.startswith("{") and theirs)
                for ours, theirs in zip(pattern, parts, strict=True)
            ):
                pairs = zip(pattern, parts, strict=True)
                return methods, [_unquoted(part) for ours, part in pairs if ours.startswith("{")]
        return None, []


def _unquoted(part: str) -> str:
    try:
        return unquote(part, errors="strict")
    except UnicodeDecodeError:
        raise InvalidInput("path", f"{part[:80]!r} is not UTF-8") from None


def _only(method: str, *allowed: str) -> None:
    if method not in allowed:
        raise NotAllowed(method, allowed)


@cache
def _adapter(operation: Operation) -> TypeAdapter[Any] | None:
    shape = shapes.taken(operation)
    return None if shape is None else TypeAdapter(shape)


def _given(operation: Operation, query: Mapping[str, list[str]], body: bytes) -> dict[str, Any]:
    """What the operation takes, or an error that names the field."""
    adapter = _adapter(operation)
    if query and (adapter is None or not operation.in_query):
        raise InvalidInput(min(query), f"is not a parameter of {operation.http}")
    if adapter is None:
        return {}
    try:
        if operation.in_query:
            sent = adapter.validate_python(_scalars(adapter, query))
        else:
            sent = adapter.validate_json(body or b"{}", strict=True)
    except ValidationError as error:
        raise _refused(adapter, error) from None
    return shapes.arguments(operation, sent)


def _scalars(adapter: TypeAdapter[Any], query: Mapping[str, list[str]]) -> dict[str, Any]:
    """A parameter that is no list must be given once."""
    lists = _lists(adapter)
    for name, values in query.items():
        if name not in lists and len(values) > 1:
            raise InvalidInput(name, "was given more than once")
    return {name: values if name in lists else values[0] for name, values in query.items()}


@cache
def _lists(adapter: TypeAdapter[Any]) -> frozenset[str]:
    properties = adapter.json_schema().get("properties", {})
    return frozenset(name for name, kind in properties.items() if kind.get("type") == "array")


def _refused(adapter: TypeAdapter[Any], error: ValidationError) -> InvalidInput:
    found = error.errors(include_url=False)[0]
    name = ".".join(map(str, found["loc"])) or "body"
    match found["type"]:
        case "extra_forbidden":
            known = ", ".join(adapter.json_schema().get("properties", {})) or "none"
            return InvalidInput(name, f"is not a field here; these are: {known}")
        case "json_invalid":
            return InvalidInput("body", f"is not JSON: {found['msg'].partition(': ')[2]}")
    return InvalidInput(name, shapes.problem(found))


def _told(operation: Operation, result: object) -> HttpAnswer:
    return HttpAnswer(body=to_json(plain(result)), status=operation.status)


@contextlib.contextmanager
def _as_text(spool: IO[bytes]) -> Iterator[IO[str]]:
    file = io.TextIOWrapper(spool, encoding="utf-8", newline="\n")
    try:
        yield file
    finally:
        file.detach()


def problem(error: ReasonBankError, *headers: tuple[bytes, bytes]) -> HttpAnswer:
    """The same words as the command's `--json`."""
    told = {"error": type(error).__name__, "message": str(hushed(error))}
    if isinstance(error, InvalidInput):
        told["field"] = error.field
    if error.status == 401:
        headers = (*headers, (b"www-authenticate", b'Bearer realm="reasonbank"'))
    if isinstance(error, NotAllowed):
        headers = (*headers, (b"allow", error.allowed.encode()))
    # Not pydantic's: what is refused may quote text that cannot be written as UTF-8.
    body = json.dumps(told, separators=(",", ":")).encode()
    return HttpAnswer(body=body, status=error.status, headers=headers)


def _unexpected(scope: Scope, error: Exception) -> HttpAnswer:
    told = {"error": "Unexpected", "message": unexpected(scope["method"], error)}
    return HttpAnswer(body=to_json(told), status=500)


def _transport_security(allowed_hosts: AllowedHosts) -> TransportSecuritySettings:
    """The door has checked already; this keeps the SDK from ever being without."""
    hosts = [f"[{name}]" if ":" in name else name for name in sorted(allowed_hosts.names)]
    pages = [f"{scheme}://{host}" for scheme in ("http", "https") for host in hosts]
    return TransportSecuritySettings(
        allowed_hosts=[*hosts, *(f"{host}:*" for host in hosts)],
        allowed_origins=[*pages, *(f"{page}:*" for page in pages), *sorted(allowed_hosts.origins)],
    )
