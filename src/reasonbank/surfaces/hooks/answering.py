"""From a call to an answer: what both who serve hooks and a hook by itself do."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
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


def answered(
    call: client.Call, settings: Settings, opened: Callable[[bool], Context]
) -> tuple[str, str]:
    """A word about how it went, and what is to be printed.

    ``opened(meaning)`` is the bank; without ``meaning`` it need not know any.
    """
    event = EVENTS.get(call.event)
    payload = _payload(call.told)
    if event is None or payload is None or not settings.hooks.enabled:
        return SILENT if settings.hooks.enabled else f"{SILENT}: hooks.enabled is false", ""
    told = formats.read(call.agent, event, payload)
    from reasonbank.surfaces.hooks.respond import Hooked, respond

    try:
        text = respond(Hooked(told, opened, settings.hooks, call.directory))
    except ReasonBankError as error:
        return f"{FAILED}: {' '.join(str(error).split())}"[:160], ""
    except Exception as error:  # noqa: BLE001 - no agent is told of a mistake of ours.
        return f"{FAILED}: {type(error).__name__}", ""
    return (OK if text else SILENT), text


def _payload(told: bytes) -> Mapping[str, Any] | None:
    try:
        payload = json.loads(told)
    except (ValueError, RecursionError):
        return None
    return payload if isinstance(payload, dict) else None
