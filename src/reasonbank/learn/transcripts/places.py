"""Where each agent keeps its transcripts, on this machine and for this user."""

from __future__ import annotations

import os
import stat
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from reasonbank.errors import InvalidInput, NotFound
from reasonbank.learn.transcripts import opencode
from reasonbank.store.queue import Transcript

Environment = Mapping[str, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class History:
    """A session that an agent wrote down; ``size`` in bytes."""

    transcript: Transcript
    size: int
    changed: datetime


def histories(
    agents: Collection[str], environment: Environment, *, since: datetime | None = None
) -> list[History]:
    """Of these agents, or of all, the oldest first."""
    found = (
        history
        for agent, look in _PLACES.items()
        if not agents or agent in agents
        for history in look(agent, environment)
        if since is None or history.changed >= since
    )
    return sorted(found, key=lambda history: (history.changed, str(history.transcript)))


def _folder(environment: Environment, variable: str, name: str) -> Path:
    """The agent's own, unless its variable names another."""
    home = Path(environment.get("HOME") or Path.home())
    return Path(environment.get(variable) or home / name)


def _claude(agent: str, environment: Environment) -> Iterator[History]:
    folder = _folder(environment, "CLAUDE_CONFIG_DIR", ".claude") / "projects"
    # What subagents did stands in folders further down; older versions put it beside.
    return _files(agent, folder, "*/*.jsonl", leaves_out="agent-")


def _codex(agent: str, environment: Environment) -> Iterator[History]:
    folder = _folder(environment, "CODEX_HOME", ".codex")
    for place in ("sessions/*/*/*", "sessions", "archived_sessions"):
        for ending in (".jsonl", ".jsonl.zst"):
            yield from _files(agent, folder, f"{place}/rollout-*{ending}")


def _gemini(agent: str, environment: Environment) -> Iterator[History]:
    folder = _folder(environment, "GEMINI_CLI_HOME", "") / ".gemini" / "tmp"
    for ending in (".jsonl", ".json"):
        yield from _files(agent, folder, f"*/chats/session-*{ending}")


def _qwen(agent: str, environment: Environment) -> Iterator[History]:
    folder = _folder(environment, "QWEN_HOME", ".qwen")
    folder = Path(environment.get("QWEN_RUNTIME_DIR") or folder)
    for pattern in ("projects/*/chats/*.jsonl", "tmp/*/chats/*.jsonl"):
        yield from _files(agent, folder, pattern)


def _copilot(agent: str, environment: Environment) -> Iterator[History]:
    folder = _folder(environment, "COPILOT_HOME", ".copilot") / "session-state"
    for pattern in ("*/events.jsonl", "*.jsonl"):
        yield from _files(agent, folder, pattern)


def _opencode(agent: str, environment: Environment) -> Iterator[History]:
    path = str(opencode.database(environment))
    try:
        sessions = opencode.listed(path)
    except (NotFound, InvalidInput):
        return
    for session in sessions:
        yield History(
            transcript=Transcript(agent=agent, session=session.id, path=path),
            size=session.size,
            changed=datetime.fromtimestamp(session.changed / 1000, UTC),
        )


def _files(agent: str, folder: Path, pattern: str, *, leaves_out: str = "") -> Iterator[History]:
    for path in folder.glob(pattern):
        try:
            status = os.lstat(path)
        except OSError:
            continue
        if not stat.S_ISREG(status.st_mode) or (leaves_out and path.name.startswith(leaves_out)):
            continue
        yield History(
            transcript=Transcript(agent=agent, session="", path=str(path.absolute())),
            size=status.st_size,
            changed=datetime.fromtimestamp(status.st_mtime, UTC),
        )


_PLACES: Mapping[str, Callable[[str, Environment], Iterator[History]]] = {
    "claude-code": _claude,
    "codex": _codex,
    "gemini-cli": _gemini,
    "qwen-code": _qwen,
    "copilot-cli": _copilot,
    "opencode": _opencode,
}
AGENTS = tuple(_PLACES)
