"""What every client of a remote model shares: its key, its HTTP client, its errors."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from contextvars import ContextVar, Token
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from reasonbank.errors import KeyRefused, ModelError, ModelRefused, ModelUnavailable

if TYPE_CHECKING:
    import httpx2

RETRIES = 3
CONNECT_SECONDS = 10.0
QUOTED = 300


@dataclass(frozen=True, slots=True, kw_only=True)
class Key:
    """A secret and the environment variable that holds it; only the latter is ever shown."""

    variable: str
    value: str = field(repr=False)

    def hidden_in(self, text: str) -> str:
        return text.replace(self.value, f"<{self.variable}>") if self.value else text


def key_in(environment: Mapping[str, str], variable: str, *, setting: str) -> Key | None:
    """The key in a variable; ``None`` where none is named. ``setting`` is what needs it."""
    if not variable:
        return None
    if not (value := environment.get(variable, "").strip()):
        raise KeyRefused(
            f"{setting} needs a key, and the environment variable {variable} is empty or not set; "
            f"export {variable}=… and start again"
        )
    # Libraries quote a header that they cannot send.
    if not re.fullmatch(r"[!-~]+", value):
        raise KeyRefused(
            f"{setting} needs a key, and what is in {variable} has spaces or letters that no key "
            "has; copy it again"
        )
    return Key(variable=variable, value=value)


class Trail:
    """What was seen last in this context, for the error of whoever runs out of time."""

    def __init__(self) -> None:
        self.last = ""
        self._token: Token[Trail | None] | None = None

    def __enter__(self) -> Trail:
        self._token = _trail.set(self)
        return self

    def __exit__(self, *_: object) -> None:
        if self._token is not None:
            _trail.reset(self._token)


_trail: ContextVar[Trail | None] = ContextVar("trail", default=None)


def note(event: str) -> None:
    if (trail := _trail.get()) is not None:
        trail.last = event


class _Hooks:
    """Looks at what goes over the wire.

    Counts retries. A good status with a body that is no JSON, or with an error of the server
    inside, is raised as a network fault, so that the SDK's own retries meet it too.
    """

    def __init__(self, retried: Callable[[], None]) -> None:
        self._retried = retried

    def request(self, request: httpx2.Request) -> None:
        if request.headers.get("x-stainless-retry-count", "0") != "0":
            self._retried()

    def response(self, response: httpx2.Response) -> None:
        note(f"status {response.status_code}")
        if not response.is_success:
            return
        from httpx2 import RemoteProtocolError

        response.read()
        try:
            body = json.loads(response.content)
        except (ValueError, RecursionError):
            kind = response.headers.get("content-type", "no content type")[:60]
            note("an answer that is not JSON")
            raise RemoteProtocolError(f"the answer is not JSON but {kind}") from None
        error = body.get("error") if isinstance(body, dict) else None
        code = error.get("code") if isinstance(error, dict) else None
        if isinstance(code, int) and (code == 429 or code >= 500):
            note(f"error {code} in a good answer")
            raise RemoteProtocolError(f"the answer carries error {code}")

    async def async_request(self, request: httpx2.Request) -> None:
        self.request(request)

    async def async_response(self, response: httpx2.Response) -> None:
        if response.is_success:
            await response.aread()
        self.response(response)


def async_client(timeout: float, retried: Callable[[], None]) -> httpx2.AsyncClient:
    import httpx2

    hooks = _Hooks(retried)
    return httpx2.AsyncClient(
        timeout=httpx2.Timeout(timeout, connect=min(timeout, CONNECT_SECONDS)),
        # A redirect would take the key and the prompt to a place that no setting names.
        follow_redirects=False,
        event_hooks={"request": [hooks.async_request], "response": [hooks.async_response]},
    )


def client(timeout: float, retried: Callable[[], None]) -> httpx2.Client:
    import httpx2

    hooks = _Hooks(retried)
    return httpx2.Client(
        timeout=httpx2.Timeout(timeout, connect=min(timeout, CONNECT_SECONDS)),
        follow_redirects=False,
        event_hooks={"request": [hooks.request], "response": [hooks.response]},
    )


def of_status(response: httpx2.Response, *, who: str, key: Key | None, section: str) -> ModelError:
    """The error for an answer with a bad status, after the SDK's retries."""
    status = response.status_code
    said = _said(response, key)
    because = f": {said}" if said else ""
    variable = key.variable if key else f"the variable that {section}.key_env names"
    if status in (401, 403):
        # What the server says here may quote the key, whole or masked.
        reason = "is not accepted" if status == 401 else "may not do this"
        message = f"{who} says {status}: the key in {variable} {reason}"
        if key is None:
            message = f"{who} says {status}: it wants a key; put it into {variable}"
        return KeyRefused(message, answered=status)
    if 300 <= status < 400:
        target = key.hidden_in(_host(response)) if key else _host(response)
        return ModelRefused(
            f"{who} redirects to {target}, which is not followed; if you trust it, set "
            f"{section}.base_url to it",
            answered=status,
        )
    if status == 429 or status >= 500 or status in (408, 409):
        return ModelUnavailable(f"{who} says {status} after {RETRIES} retries{because}")
    hint = {
        402: f"; there is no credit left for the key in {variable}",
        404: f"; is the model's name right, and does {section}.base_url fit its style?",
    }.get(status, "")
    return ModelRefused(f"{who} says {status}{because}{hint}", answered=status, said=said)


def of_connection(error: Exception, *, who: str, timed_out: bool, seconds: float) -> ModelError:
    if timed_out:
        return ModelUnavailable(
            f"{who} did not answer within {seconds:g} seconds, nor after {RETRIES} retries"
        )
    cause: BaseException = error
    while cause.__cause__ is not None:
        cause = cause.__cause__
    said = re.sub(r"\s+", " ", str(cause))[:QUOTED] or type(cause).__name__
    return ModelUnavailable(f"{who} cannot be reached after {RETRIES} retries: {said}")


def _said(response: httpx2.Response, key: Key | None) -> str:
    try:
        body: Any = response.json()
    except ValueError:
        return ""
    error = body.get("error", body) if isinstance(body, dict) else body
    message = error.get("message") if isinstance(error, dict) else error
    if not isinstance(message, str) or not message.strip():
        return ""
    message = re.sub(r"\s+", " ", message)
    return (key.hidden_in(message) if key else message)[:QUOTED]


def _host(response: httpx2.Response) -> str:
    from urllib.parse import urlsplit

    parts = urlsplit(response.headers.get("location", ""))
    return f"{parts.scheme}://{parts.netloc}" if parts.netloc else "another path of its own"
