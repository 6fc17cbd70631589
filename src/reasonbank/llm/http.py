"""Models behind HTTP: which servers there are, their keys, their clients, their errors.

An adapter talks through its vendor's SDK, which retries; `errors_of` says in our words what
the SDKs raise after that. They are made alike: one mapping serves them all.
"""

from __future__ import annotations

import json
import logging
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Generic, Literal, Protocol, TypeVar, cast

from reasonbank.errors import InvalidReply, KeyRefused, ModelError, ModelRefused, ModelUnavailable
from reasonbank.fence import each
from reasonbank.llm.port import Calling, Completion, ModelCall, ModelMeters, PerLoop, note
from reasonbank.llm.reply import asking_for, checked

if TYPE_CHECKING:
    import httpx2

log = logging.getLogger(__name__)

RETRIES = 3
PAUSE = 0.5
"""Seconds before the first retry, as the SDKs have it."""
CONNECT_SECONDS = 10.0
QUOTED = 300
NO_KEY = "no-key"
"""OpenAI's SDK insists on one; servers that need none do not look at it."""
PROBE_SECONDS = 5.0
"""Seconds that a server gets at start to say whether it accepts the key."""
SHAPELESS = (KeyError, IndexError, TypeError, AttributeError, ValueError, OverflowError)
"""What reading an answer of another shape ends in."""

# How servers speak of what they do not take.
_WORDS = {
    "schema": ("response_format", "json_schema", "text.format", "output_config.format",
               "output_format", "structured output", "grammar", "schema"),
    "temperature": ("temperature",),
    "effort": ("reasoning", "effort"),
}  # fmt: skip


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


@dataclass(frozen=True, slots=True, kw_only=True)
class Provider:
    base_url: str = ""
    key_env: str = ""
    """Empty: it needs no key, though it may be given one."""
    style: Literal["responses", "chat"] = "chat"
    output_limit: Literal["max_tokens", "max_completion_tokens"] = "max_tokens"
    probe: str = "/models"
    """What can be read with a valid key only."""
    version: str = ""
    """Of Anthropic's API, the one that its SDK speaks."""


PROVIDERS: Mapping[str, Provider] = {
    "openrouter": Provider(
        base_url="https://openrouter.ai/api/v1",
        key_env="OPENROUTER_API_KEY",
        style="responses",
        probe="/key",  # Its list of models is open to all.
    ),
    "openai": Provider(
        base_url="https://api.openai.com/v1",
        key_env="OPENAI_API_KEY",
        style="responses",
        output_limit="max_completion_tokens",
    ),
    "anthropic": Provider(
        base_url="https://api.anthropic.com",
        key_env="ANTHROPIC_API_KEY",
        probe="/v1/models",
        version="2026-10-21",
    ),
    "ollama": Provider(base_url="http://127.0.0.1:11434/v1"),
    "openai-compatible": Provider(),
}


def status_of(base_url: str, *, provider: Provider, key: Key | None) -> int | str:
    """What the server answers to a question that costs nothing, or why it does not answer."""
    import httpx2

    headers = {} if key is None else {"Authorization": f"Bearer {key.value}"}
    if provider.version:
        headers["anthropic-version"] = provider.version
    try:
        return httpx2.get(
            base_url.rstrip("/") + provider.probe,
            headers=headers,
            timeout=PROBE_SECONDS,
            follow_redirects=False,
        ).status_code
    except (httpx2.HTTPError, httpx2.InvalidURL, ValueError, OSError) as error:
        return type(error).__name__


def check_key(key: Key, base_url: str, *, provider: Provider, setting: str) -> None:
    """Raise ``KeyRefused`` if the server says so. A server that says nothing is let pass."""
    status = status_of(base_url, provider=provider, key=key)
    if isinstance(status, str):
        log.warning("%s could not be asked about its key: %s", setting, status)
    # 403 may only mean that this key may not look at this page.
    elif status == 401:
        raise KeyRefused(
            f"the server of {setting} does not accept the key in {key.variable}; set a valid one "
            "and start again",
            answered=status,
        )


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


def client(timeout: float) -> httpx2.Client:
    import httpx2

    hooks = _Hooks(lambda: None)
    return httpx2.Client(
        timeout=httpx2.Timeout(timeout, connect=min(timeout, CONNECT_SECONDS)),
        # A redirect would take the key and the prompt to a place that no setting names.
        follow_redirects=False,
        event_hooks={"request": [hooks.request], "response": [hooks.response]},
    )


def async_client(timeout: float, retried: Callable[[], None]) -> httpx2.AsyncClient:
    import httpx2

    hooks = _Hooks(retried)
    return httpx2.AsyncClient(
        timeout=httpx2.Timeout(timeout, connect=min(timeout, CONNECT_SECONDS)),
        follow_redirects=False,
        event_hooks={"request": [hooks.async_request], "response": [hooks.async_response]},
    )


@contextmanager
def errors_of(
    sdk: Any, *, who: str, key: Key | None, section: str, seconds: float, retries: int = RETRIES
) -> Iterator[None]:
    """What ``sdk`` raises, after its retries, as a ``ModelError``.

    ``sdk`` is the module, openai or anthropic; ``section`` that of the settings to change.
    """
    try:
        yield
    except sdk.APITimeoutError:
        raise ModelUnavailable(
            f"{who} did not answer within {seconds:g} seconds, nor after {retries} retries"
        ) from None
    except sdk.APIConnectionError as error:
        raise ModelUnavailable(
            f"{who} cannot be reached after {retries} retries: {_root(error)}"
        ) from None
    except sdk.APIStatusError as error:
        told = _of_status(error.response, who=who, key=key, section=section, retries=retries)
        raise told from None


def _of_status(
    response: httpx2.Response, *, who: str, key: Key | None, section: str, retries: int
) -> ModelError:
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
        return ModelUnavailable(f"{who} says {status} after {retries} retries{because}")
    hint = {
        402: f"; there is no credit left for the key in {variable}",
        404: f"; is the model's name right, and does {section}.base_url fit its style?",
    }.get(status, "")
    return ModelRefused(f"{who} says {status}{because}{hint}", answered=status, said=said)


def _root(error: BaseException) -> str:
    while error.__cause__ is not None:
        error = error.__cause__
    return re.sub(r"\s+", " ", str(error))[:QUOTED] or type(error).__name__


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


class Adapter(Calling):
    """What the adapters share: meters, checked replies, and learning what a server takes.

    Not every model takes a temperature, an effort or a schema. What a server refuses by name
    is left out from then on, with a warning; a schema is then asked for in words.
    """

    def __init__(self, *, name: str, meters: ModelMeters) -> None:
        self.name = name
        self.meters = meters
        self._refused: set[str] = set()

    async def answer(self, call: ModelCall) -> Completion:
        self.meters.calls += 1
        try:
            completion = await self._taken(call)
            return checked(completion, call)
        except ModelError:
            self.meters.failures += 1
            raise

    async def _taken(self, call: ModelCall) -> Completion:
        while True:
            options = self._options(call)
            try:
                completion = await self._ask(_worded(call, options), options)
            except ModelRefused as refusal:
                option = _named(refusal, options)
                if option is None:
                    raise
                log.warning("%s takes no %s; from now on it is left out", self.name, option)
                self._refused.add(option)
            except InvalidReply as error:
                self.meters.unreported += error.usage is None
                raise
            else:
                self.meters.count(completion.usage)
                return completion

    def _options(self, call: ModelCall) -> set[str]:
        wanted = {"temperature"}
        if call.effort:
            wanted.add("effort")
        if call.schema is not None:
            wanted.add("schema")
        return wanted - self._refused

    async def _ask(self, call: ModelCall, options: set[str]) -> Completion:
        """One call of the SDK, with those of the optional parts that ``options`` names."""
        raise NotImplementedError


def _worded(call: ModelCall, options: set[str]) -> ModelCall:
    messages = call.messages
    if call.schema is not None and "schema" not in options:
        messages = asking_for(call.schema, messages)
    # Half a character, as a cut in the wrong place leaves it, could not be sent.
    whole = (replace(m, content=each(m.content, _sendable)) for m in messages)
    return replace(call, messages=tuple(whole))


def _sendable(text: str, _: bool) -> str:
    return text.encode("utf-8", "replace").decode()


def _named(refusal: ModelRefused, options: Iterable[str]) -> str | None:
    if refusal.answered not in (400, 404, 422):
        return None
    text = refusal.said.lower()
    return next((o for o in sorted(options) if any(word in text for word in _WORDS[o])), None)


class Client(Protocol):
    async def close(self) -> None: ...


C = TypeVar("C", bound=Client)


def patient(client: type[C], pause: float) -> type[C]:
    """The SDK's client with another unit of its back-off, for which it has no argument."""

    def wait(self: Any, remaining: int, options: Any, headers: Any = None) -> float:
        known = cast(Any, client)
        usual: float = known._calculate_retry_timeout(self, remaining, options, headers)
        asked = self._parse_retry_after_header(headers)
        return usual if asked else usual * pause / PAUSE

    if pause == PAUSE:
        return client
    return type(client.__name__, (client,), {"_calculate_retry_timeout": wait})


class SDKModel(Adapter, Generic[C]):
    """A model behind an SDK that holds one client for each event loop."""

    def __init__(
        self,
        *,
        model: str,
        base_url: str,
        key: Key | None = None,
        timeout: float = 60.0,
        retries: int = RETRIES,
        pause: float = PAUSE,
        meters: ModelMeters | None = None,
    ) -> None:
        super().__init__(name=f"{model} at {base_url}", meters=meters or ModelMeters())
        self._retries = retries
        self._pause = pause
        self._model = model
        self._base_url = base_url
        self._key = key
        self._timeout = timeout
        self._clients = PerLoop(self._connect)

    def _connect(self) -> C:
        raise NotImplementedError

    def _http_client(self) -> httpx2.AsyncClient:
        return async_client(self._timeout, self._retried)

    def _retried(self) -> None:
        self.meters.retries += 1

    def _errors(self, sdk: Any) -> AbstractContextManager[None]:
        return errors_of(
            sdk, who=self.name, key=self._key, section="llm", seconds=self._timeout,
            retries=self._retries,
        )  # fmt: skip

    async def close(self) -> None:
        if (client := self._clients.pop()) is not None:
            await client.close()


def count(value: Any) -> int | None:
    """A number of tokens that a server gave, if it is one."""
    return value if isinstance(value, int) and not isinstance(value, bool) and value >= 0 else None
