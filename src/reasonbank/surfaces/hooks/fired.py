"""When each hook was last called, and how that went: what ``client`` notes, and `doctor` reads."""

from __future__ import annotations

import os
from collections.abc import Mapping
from datetime import UTC, datetime

from reasonbank.settings import user_folder
from reasonbank.surfaces.agents import Event


def last(
    agent: str, environment: Mapping[str, str] | None = None
) -> dict[Event, tuple[datetime, str]]:
    """The word is ok (it had something to say), silent, late or failed, with a reason."""
    environment = os.environ if environment is None else environment
    folder = user_folder("XDG_STATE_HOME", ".local/state", environment) / "hooks" / agent
    found: dict[Event, tuple[datetime, str]] = {}
    for event in Event:
        file = folder / event
        try:
            at = datetime.fromtimestamp(file.stat().st_mtime, UTC)
            found[event] = (at, file.read_text("utf-8", "replace")[:200])
        except OSError:
            continue
    return found
