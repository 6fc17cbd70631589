"""How far each agent of this user is connected. Looks only."""

from __future__ import annotations

import re
import shutil
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from reasonbank.errors import InvalidInput
from reasonbank.surfaces.agents import Event
from reasonbank.surfaces.install import files
from reasonbank.surfaces.install.fitting_in import hook_commands, is_ours_whole, present, server
from reasonbank.surfaces.install.jsonc import Malformed
from reasonbank.surfaces.install.plan import found
from reasonbank.surfaces.install.wiring import NAME, Target, Wish, agent_named, targets

_EVENT = re.compile(r" hook ([a-z-]{1,40}) --agent ")


@dataclass(slots=True, kw_only=True)
class State:
    """``program`` starts the server, None if there is none; ``there``: it can be started."""

    agent: str
    program: str | None = None
    there: bool = True
    allowed: bool = True
    events: set[str] = field(default_factory=set)
    problem: str = ""
    """A config that cannot be read."""

    @property
    def missing(self) -> list[Event]:
        wanted = dict.fromkeys(agent_named(self.agent).events.values())
        return [event for event in wanted if event not in self.events]


def look(environment: Mapping[str, str]) -> Iterator[State]:
    for agent in found(environment):
        state = State(agent=agent)
        try:
            for target in targets(agent, Wish(), environment):
                _seen(state, target, environment)
        except (InvalidInput, Malformed, UnicodeDecodeError) as error:
            state.problem = str(error)
        yield state


def _seen(state: State, target: Target, environment: Mapping[str, str]) -> None:
    data = files.read(target.file)
    text = "" if data is None else data.decode()
    if target.form == "whole":
        if target.file.suffix == ".json":
            state.events.update(_events(text))
        elif is_ours_whole(text):
            state.events.update(agent_named(state.agent).events.values())
        return
    try:
        words, entry = server(text, target)
        lacking = [] if not text else present(text, target)[1]
    except Malformed as error:
        raise InvalidInput("file", f"{target.file}: {error}") from None
    if entry is not None:
        state.program = words[0] if words else "a server over HTTP"
        path = environment.get("PATH")
        state.there = not words or shutil.which(words[0], path=path) is not None
        wanted = next(each.value for each in target.entries if each.path[-1] == NAME)
        state.allowed &= not wanted.get("trust") or entry.get("trust") is True
    if target.form == "json":
        state.events.update(_events(text))
    if any(each.listed and each.path[0] == "permissions" for each in target.entries):
        state.allowed &= bool(text) and not any(each.path[0] == "permissions" for each in lacking)


def _events(text: str) -> Iterator[str]:
    for command in hook_commands(text):
        if event := _EVENT.search(command):
            yield event[1]
