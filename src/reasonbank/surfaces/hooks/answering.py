"""From a call to an answer: what both who serve hooks and a hook by itself do."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from reasonbank.errors import ReasonBankError
from reasonbank.surfaces.agents import Event
from reasonbank.surfaces.hooks import client, formats

if TYPE_CHECKING:
    from reasonbank.settings import Settings
    from reasonbank.store.context import Context

OK, SILENT, FAILED = "ok", "silent", "failed"
EVENTS = {str(event): event for event in Event}


def meant(call: client.Call, settings: Settings) -> str:
    """The file of the bank that is meant; "" if it is in none."""
    url = call.bank or settings.url
    scheme, found, _ = url.partition("://")
    if found and scheme != "sqlite":
        return ""
    if url:
        return client.path_of(url, call)
    return f"{client.user_folder('XDG_DATA_HOME', '.local/share', call.environment)}/bank.db"


@dataclass(frozen=True, slots=True)
class Answer:
    """A word about how it went, what is to be printed, and what is left to do after that."""

    word: str
    text: str = ""
    finish: Callable[[], None] = lambda: None


def answered(call: client.Call, settings: Settings, opened: Callable[[bool], Context]) -> Answer:
    """``opened(meaning)`` is the bank; without ``meaning`` it need not know any."""
    event = EVENTS.get(call.event)
    payload = _payload(call.told)
    if not settings.hooks.enabled:
        return Answer(f"{SILENT}: hooks.enabled is false")
    if event is None or payload is None:
        return Answer(SILENT)
    from reasonbank.surfaces.hooks.respond import Hooked, respond

    try:
        told = formats.read(call.agent, event, payload)
        hooked = Hooked(told, opened, settings.hooks, call.directory)
        text = respond(hooked)
    except ReasonBankError as error:
        return Answer(why(error))
    except Exception as error:  # noqa: BLE001 - no agent is told of a mistake of ours.
        return Answer(f"{FAILED}: {type(error).__name__}")
    return Answer(OK if text else SILENT, text, hooked.finish)


def leave(call: client.Call) -> str:
    """What lets a tool of ours run with nobody to ask; "" for all others."""
    event, payload = EVENTS.get(call.event), _payload(call.told)
    if event is None or payload is None:
        return ""
    return formats.permission(formats.read(call.agent, event, payload))


def why(error: ReasonBankError) -> str:
    from reasonbank.safety.scrub import hushed

    hushed(error)
    return f"{FAILED}: {' '.join(str(error).split())}"[:160]


def _payload(told: bytes) -> Mapping[str, Any] | None:
    try:
        payload = json.loads(told)
    except (ValueError, RecursionError):
        return None
    return payload if isinstance(payload, dict) else None
