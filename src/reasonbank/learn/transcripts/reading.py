"""A reader: takes what one agent wrote, line by line, and tells the session."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable, Iterator
from datetime import datetime
from typing import Any, ClassVar

from reasonbank.learn.echo import Shown, is_own
from reasonbank.learn.session import Command, Edit, Session, Turn, told
from reasonbank.learn.transcripts.lines import facts, objects
from reasonbank.learn.transcripts.steps import Steps
from reasonbank.model import JSON

PENDING = 1_000
"""So many calls may wait for their result; an agent has a handful."""
KNOWN = 200_000
"""So many names of steps are remembered, by which one that is told again is known."""


class Reader:
    """``take`` never fails: what is foreign, or of a newer format, is passed over."""

    agent: ClassVar[str]

    def __init__(self) -> None:
        self.id = ""
        self.directory: str | None = None
        self.aborted = False
        self.model = self.effort = ""
        self.tokens = 0
        self.steps = Steps()
        self.part = False
        """Whether it is a part of another session: what a subagent did."""
        self._calls: OrderedDict[str, Any] = OrderedDict()
        self._known: OrderedDict[int, None] = OrderedDict()

    def take(self, line: JSON) -> None:
        raise NotImplementedError

    def session(self, id: str, shown: tuple[str, ...]) -> Session:
        return Session(
            id=self.id or id or "unknown",
            agent=self.agent,
            entries=() if self.part else self.steps.entries(),
            directory=self.directory,
            aborted=self.aborted,
            facts=facts(self.model, self.tokens, self.effort),
            shown=shown,
            left_out=self.steps.left_out,
        )

    # For those who take

    def is_new(self, key: str) -> bool:
        """Whether nothing of this name was told before; a resumed session repeats itself."""
        name = hash(key)
        if not key or name in self._known:
            return not key
        self._known[name] = None
        if len(self._known) > KNOWN:
            self._known.popitem(last=False)
        return True

    def wait_for(self, id: str, call: Any) -> None:
        self._calls[id] = call
        if len(self._calls) > PENDING:
            self._calls.popitem(last=False)

    def call(self, id: str) -> Any:
        """What was called by this id and has no result yet."""
        return self._calls.pop(id, None) if id else None

    def say(self, text: str, *, by_user: bool, at: datetime | None) -> None:
        if said := told(text).strip():
            self.steps.add(Turn(number=0, by_user=by_user, text=said, at=at))

    def ran(self, command: str, output: str, exit_code: int | None, at: datetime | None) -> None:
        if command and not is_own(command=command):
            self.steps.add(
                Command(number=0, command=told(command), output=told(output),
                        exit_code=exit_code, at=at)
            )  # fmt: skip

    def edited(self, path: str, change: str, at: datetime | None) -> None:
        if path:
            self.steps.add(Edit(number=0, path=told(path), change=told(change), at=at))


def session_of(reader: Reader, lines: Iterable[str], id: str = "") -> Session:
    """``id`` names the session where the transcript does not."""
    shown = Shown()
    for line in objects(shown.watching(lines)):
        reader.take(line)
    return reader.session(id, shown.ids)


def changed(parts: Iterable[JSON], *names: str) -> str:
    """What is new in an edit, wherever its tool puts that."""

    def said() -> Iterator[str]:
        for part in parts:
            for name in names:
                if isinstance(value := part.get(name), str) and value:
                    yield value

    return "\n".join(said())
