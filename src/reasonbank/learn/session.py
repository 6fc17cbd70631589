"""What an agent did, in one shape: whatever it was read from.

Readers of transcripts make sessions, and so does a trace; rules and outcomes read them.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any

from reasonbank.learn.echo import AN_ID, MOST_SHOWN, without_echo
from reasonbank.llm.excerpt import excerpt
from reasonbank.model import Outcome, Step, Trace
from reasonbank.safety.patterns import compile
from reasonbank.safety.scrub import clean

LONGEST_TEXT = 4_000
"""Of what one step said; the middle is cut, since commands fail at their end."""
LONGEST_POLICY = 4 * LONGEST_TEXT
"""What an agent is told to keep to is of use only as a whole."""
LARGEST_TRACE = 3_000_000
SHOWN = "memories_shown"
LEFT_OUT = "steps_left_out"


@dataclass(frozen=True, slots=True, kw_only=True)
class Turn:
    """What the user or the agent said. ``role`` is ``system`` for what the agent was told to keep
    to, ``reflection`` for what it wrote about its own mistakes, and empty for all else."""

    number: int
    by_user: bool
    text: str
    at: datetime | None = None
    role: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Command:
    """``exit_code`` is None where nobody knows how it ended.

    ``claimed``: it is only said to have ended so, by a score that somebody gave the step.
    """

    number: int
    command: str
    output: str
    exit_code: int | None
    claimed: bool = False
    at: datetime | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Edit:
    """A file that was changed; ``change`` quotes what is new. ``anew``: nothing is left of what
    the session wrote into it before."""

    number: int
    path: str
    change: str = ""
    at: datetime | None = None
    anew: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Call:
    """A tool that was called, and what it answered."""

    number: int
    tool: str
    arguments: str
    answer: str
    at: datetime | None = None


Entry = Turn | Command | Edit | Call


@dataclass(frozen=True, slots=True, kw_only=True)
class Session:
    """``entries`` are numbered from 1. ``aborted``: the user stopped it at the end. ``facts``
    are what a trace's metadata tells of the model: its name, effort and tokens, where known.

    ``given`` is the task, where it is known without any entry.
    """

    id: str
    agent: str
    entries: tuple[Entry, ...] = ()
    directory: str | None = None
    aborted: bool = False
    facts: Mapping[str, str | int] = field(default_factory=dict)
    given: str = field(default="", compare=False)
    shown: tuple[str, ...] = ()
    """The memories that were put before the agent."""
    left_out: int = 0
    """How many steps of a huge session are not among its entries."""

    @property
    def task(self) -> str:
        """What the user first asked for."""
        asked = (e.text for e in self.entries if isinstance(e, Turn) and e.by_user)
        return next(asked, self.given)

    @property
    def serves(self) -> bool:
        """Whether its user is somebody whom the agent serves, with a policy to keep to or with
        tools alone: what that one wants holds for nobody else."""
        if any(isinstance(e, Turn) and e.role == SYSTEM for e in self.entries):
            return True
        called = any(isinstance(e, Call) for e in self.entries)
        return called and not any(isinstance(e, Command | Edit) for e in self.entries)

    def commands(self) -> Iterator[Command]:
        return (entry for entry in self.entries if isinstance(entry, Command))


def numbered(entries: Iterable[Entry]) -> tuple[Entry, ...]:
    return tuple(replace(entry, number=n) for n, entry in enumerate(entries, 1))


def to_trace(session: Session, outcome: Outcome | None, **known: Any) -> Trace:
    """The session as a trace; ``of_trace`` reads it back."""
    size = sum(len(part) for step in map(_step, session.entries) for part in _texts(step))
    most = max(200, LARGEST_TRACE // (2 * len(session.entries) or 1))
    longest = most if size > LARGEST_TRACE else LARGEST_TRACE
    return Trace(
        task=bounded(session.task.strip()) or f"a session of {session.agent}",
        outcome=outcome,
        trajectory=tuple(_shortened(_step(entry), longest) for entry in session.entries),
        metadata={"session": session.id, "agent": session.agent, "aborted": session.aborted}
        | dict(session.facts)
        | ({"directory": session.directory} if session.directory else {})
        | ({SHOWN: list(session.shown)} if session.shown else {})
        | ({LEFT_OUT: session.left_out} if session.left_out else {}),
        **known,
    )


def _texts(step: Step) -> tuple[str, str]:
    return step.content or "", step.feedback or ""


def _shortened(step: Step, longest: int) -> Step:
    content, feedback = (bounded(text, longest) for text in _texts(step))
    return replace(step, content=content, feedback=feedback)


_ENDED = "exit code "


def _step(entry: Entry) -> Step:
    match entry:
        case Turn(number=number, by_user=by_user, text=text, at=at, role=role):
            action = "user" if by_user else role or "agent"
            return Step(iteration=number, action=action, content=text, at=at)
        case Command(number=number, command=command, output=output, exit_code=exit_code, at=at):
            # Whatever a command prints, its end is not the command's to tell.
            unknown = "\n" if _EXIT_CODE.match(output) else ""
            ended = unknown if exit_code is None else f"{_ENDED}{exit_code}\n"
            return Step(
                iteration=number, action="command", content=command, feedback=ended + output, at=at
            )
        case Edit(number=number, path=path, change=change, at=at):
            return Step(iteration=number, action="edit", content=path, feedback=change, at=at)
        case Call(number=number, tool=tool, arguments=arguments, answer=answer, at=at):
            called = f"{tool}({arguments})"
            return Step(iteration=number, action="tool", content=called, feedback=answer, at=at)


SYSTEM, REFLECTION = "system", "reflection"
_words = str.split
_COMMANDS = frozenset(_words(
    "command run bash shell exec execute test build verify python code program terminal"
))  # fmt: skip
_EDITS = frozenset(_words("edit write patch"))
_ROLES = {
    **dict.fromkeys(_words("system policy instructions developer"), SYSTEM),
    **dict.fromkeys(
        _words(
            "reflection reflect self-reflection self_reflection lesson retrospective postmortem"
        ),
        REFLECTION,
    ),
}
_TALK = frozenset(_words("""
    user agent assistant human think thought thinking reason reasoning plan planning message say
    answer respond reply final finish done note observe observation
""")) | frozenset(_ROLES)  # fmt: skip
_USERS = frozenset(_words("user human customer"))
_TOOLS = frozenset(_words("tool call tool_call tool-call function function_call action act"))
_EXIT_CODE = re.compile(r"exit(?:ed with)?(?: ?code| status)?:? (-?\d{1,6})\b", re.IGNORECASE)


def of_trace(trace: Trace) -> Session:
    """A trace as a session: its steps that ran something, edited something or said something.

    A step's score of 0 or 1 says how a command ended where its feedback gives no exit code.
    """
    metadata = trace.metadata
    return Session(
        id=str(metadata.get("session") or trace.id),
        agent=str(metadata.get("agent") or "trace"),
        entries=numbered(entry_of(step) for step in trace.trajectory),
        directory=metadata.get("directory"),
        aborted=metadata.get("aborted") is True,
        given=trace.task,
        shown=shown_to(trace),
        left_out=left if isinstance(left := metadata.get(LEFT_OUT), int) else 0,
    )


def shown_to(trace: Trace) -> tuple[str, ...]:
    """What was put before the agent, as far as the trace tells."""
    told = trace.metadata.get(SHOWN)
    ids = told if isinstance(told, list | tuple) else ()
    return tuple(id for id in ids if isinstance(id, str) and AN_ID.fullmatch(id))[:MOST_SHOWN]


def entry_of(step: Step) -> Entry:
    content, feedback = (bounded(text, 2 * LONGEST_TEXT) for text in _texts(step))
    action = step.action.lower()
    if action in _COMMANDS:
        found = _EXIT_CODE.match(feedback)
        if found:
            exit_code: int | None = int(found[1])
            feedback = feedback[found.end() :].removeprefix("\n")
        else:
            exit_code = {1.0: 0, 0.0: 1}.get(step.score) if step.score is not None else None
        return Command(
            number=0,
            command=content,
            output=feedback,
            exit_code=exit_code,
            claimed=found is None and exit_code is not None,
            at=step.at,
        )
    if action in _EDITS:
        return Edit(number=0, path=content, change=feedback, at=step.at)
    if action not in _TALK and feedback.strip():
        return _call(step.action, content, feedback, step.at)
    told = content if action in ("user", "agent") else "\n".join(filter(None, (content, feedback)))
    role = _ROLES.get(action, "")
    if role == SYSTEM:
        told = bounded(step.content or "", LONGEST_POLICY)
    return Turn(number=0, by_user=action in _USERS, text=told, at=step.at, role=role)


_CALLED = compile(r"(?s)\s*([A-Za-z_][\w.-]{0,80})\s*\((.*)\)\s*")


def _call(action: str, content: str, answer: str, at: datetime | None) -> Call:
    """The action names the tool, or what was called names it: `search({"query": …})`."""
    tool, arguments = action, content
    if action.lower() in _TOOLS and (called := _CALLED.fullmatch(content)):
        tool, arguments = called[1], called[2]
    return Call(number=0, tool=tool[:80], arguments=arguments, answer=answer, at=at)


def bounded(text: str, longest: int = LONGEST_TEXT) -> str:
    """``text`` with its middle cut out if it is too long."""
    return excerpt(text, longest, head=0.25)


def told(text: str, longest: int = LONGEST_TEXT) -> str:
    """What a step said, fit to be kept: without our own echo, without secrets, not too long.

    Secrets go before the cut: half a token would be recognised no more.
    """
    return bounded(clean(bounded(without_echo(text), 100 * LONGEST_TEXT)), longest)
