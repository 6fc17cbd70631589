"""How a lesson of a rule is written down."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

from reasonbank.fields import LIMITS
from reasonbank.learn.outcome import passed
from reasonbank.learn.rules.failure import Failure, complaint_of, failure_of
from reasonbank.learn.rules.shell import invocation, kind_of_check, parts
from reasonbank.learn.rules.task import gist
from reasonbank.learn.session import Command, Session
from reasonbank.model import ErrorContext, Memory, Outcome, Source, derived_id
from reasonbank.safety.patterns import compile
from reasonbank.search import subjects


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """A memory, and the steps of the session that it was drawn from."""

    memory: Memory
    rule: str
    first: int
    last: int
    weight: float


class Run:
    """A command together with what it means."""

    def __init__(self, command: Command) -> None:
        self.command = command
        self.what = invocation(command)
        self.number = command.number

    @cached_property
    def passed(self) -> bool | None:
        """As far as its end is known, or what it printed tells behind a pager."""
        known = passed(self.command)
        if known and self.command.claimed:
            return None  # Somebody says so: that verifies nothing.
        if known is None and self.what.masked and self.command.exit_code is not None:
            return self.command.exit_code == 0 and failure_of(self.command.output) is None
        return known

    @cached_property
    def failure(self) -> Failure | None:
        return complaint_of(self.command.output)

    def repeats(self, other: Run) -> bool:
        return bool(self.what.words) and self.what.words == other.what.words

    @cached_property
    def line(self) -> str:
        """The command as it goes into a lesson: without the looking around before it."""
        told = [p for p in parts(self.command.command) if not p.what.looks_around]
        line = " && ".join(part.line for part in told if not part.feeds)
        line = line or " ".join((*self.what.around, *self.what.words))
        return short(at_home(line), 160)

    @property
    def verifies(self) -> str | None:
        return kind_of_check(self.what)


def lesson(
    session: Session, rule: str, failed: Run, last: int, failure: Failure, *,
    weight: float, title: str, guidance: str, content: str, outcome: Outcome = Outcome.SUCCESS,
) -> Finding:  # fmt: skip
    domain = subjects.of_program(failed.what.program)
    error = ErrorContext(
        error_type=failure.type,
        failure_pattern=short(failure.pattern, 500),
        corrective_guidance=short(guidance, 1_500),
        error_message=at_home(failure.message) or None,
        stack_trace=failure.stack and short(HOME.sub("~", failure.stack), LIMITS.stack_trace),
        task_domain=domain,
    )
    tags = dict.fromkeys(tag for tag in (failed.what.program[:64], failure.type[:64]) if tag)
    memory = Memory(
        id=finding_id(session, rule, last),
        title=short(title, LIMITS.title),
        description=short(
            f"When `{short(failed.line, 120)}` fails with {failure.pattern}", LIMITS.description
        ),
        content=f"{content}\n\nSeen in the task: {task}" if (task := gist(session)) else content,
        outcome=outcome,
        error_context=error,
        domain=domain,
        source=Source.DISTILLED,
        source_session=session.id[: LIMITS.label],
        tags=tuple(tags),
    )
    return Finding(memory=memory, rule=rule, first=failed.number, last=last, weight=weight)


def noted(
    session: Session, rule: str, first: int, last: int, *, weight: float, title: str,
    description: str, content: str, outcome: Outcome, error: ErrorContext | None = None,
    tags: tuple[str, ...] = (), domain: str | None = None,
) -> Finding:  # fmt: skip
    """A lesson that no command taught."""
    memory = Memory(
        id=finding_id(session, rule, last),
        title=short(at_home(title), LIMITS.title),
        description=short(at_home(description), LIMITS.description),
        content=HOME.sub("~", content),
        outcome=outcome,
        error_context=error,
        domain=domain,
        source=Source.DISTILLED,
        source_session=session.id[: LIMITS.label],
        tags=tuple(dict.fromkeys(tag[: LIMITS.tag] for tag in tags if tag.strip())),
    )
    return Finding(memory=memory, rule=rule, first=first, last=last, weight=weight)


def named(failure: Failure, longest: int = 70) -> str:
    """The failure as a title names it."""
    message = at_home(failure.message)
    if not message or message.startswith(failure.type):
        return short(message or failure.type, longest)
    return short(message if failure.vague else f"{failure.type}: {message}", longest)


def error_line(failure: Failure) -> str:
    message = at_home(failure.message)
    if not message:
        return failure.type
    return message if failure.vague and not failure.only_a_test else f"{failure.type}: {message}"


def finding_id(session: Session, rule: str, position: int) -> str:
    return derived_id(f"{session.agent}/{session.id}/{rule}/{position}")


HOME = compile(r"(?:/home|/Users)/[^/\s\"']+")


def at_home(text: str) -> str:
    return HOME.sub("~", " ".join(text.split()))


def short(text: str, longest: int) -> str:
    return text if len(text) <= longest else text[: longest - 1] + "…"


def name_of(path: str) -> str:
    """The last two parts of a path say enough, and nothing about the machine."""
    return "/".join(path.replace("\\", "/").split("/")[-2:])
