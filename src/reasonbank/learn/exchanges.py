"""Questions and answers within sessions: kept as they come in, without being asked.

Without a model an exchange is kept as a draft; with one, as the knowledge in it. Where a lesson
was learned from the same exchange, that is all that is kept of it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from reasonbank.fence import fenced, piece, prompt
from reasonbank.learn.distil import LESSON, MAX_TOKENS
from reasonbank.learn.passive import keep_in, worth_keeping
from reasonbank.learn.rules.changes import only_reads
from reasonbank.learn.rules.programs import is_program
from reasonbank.learn.rules.shell import invocation
from reasonbank.learn.session import Command, Turn, entry_of, of_trace
from reasonbank.ledger.events import EventType
from reasonbank.ledger.port import Writing
from reasonbank.ledger.sessions import learned_steps
from reasonbank.llm.excerpt import excerpt
from reasonbank.llm.port import Model, system, user
from reasonbank.llm.prompts import words
from reasonbank.llm.reply import closed
from reasonbank.model import DRAFT, JSON, Memory, Principal, State, Step, Trace
from reasonbank.safety.patterns import compile
from reasonbank.store import memories
from reasonbank.store.context import Context

MOST = 50
"""Exchanges that are kept of one session, or of one part of it."""
MOST_BY_MODEL = 8
LONGEST = 4_000

SCHEMA = closed(
    {
        "memories": {
            "type": "array",
            "items": closed({"exchange": {"type": "integer", "minimum": 1}, **LESSON}),
            "maxItems": MOST_BY_MODEL,
        }
    }
)


@dataclass(slots=True)
class Exchange:
    """``answers`` are what the agent said, with the numbers of the steps."""

    question: str
    first: int
    last: int
    answers: list[tuple[int, str]] = field(default_factory=list)
    worked: bool = False
    """Whether the agent did something for the answer besides reading: then that is work, and
    what it teaches is for lessons."""

    def overlaps(self, spans: Sequence[tuple[int, int]]) -> bool:
        return any(first <= self.last and self.first <= last for first, last in spans)


def exchanges(trace: Trace) -> Iterator[Exchange]:
    """Only what user and agent said to each other: what tools printed is no answer."""
    now: Exchange | None = None
    for number, step in enumerate(trace.trajectory, 1):
        match step.action.lower():
            case "user":
                said = step.content or ""
                if now is not None and not now.answers and now.last == number - 1:
                    now.question, now.last = f"{now.question}\n{said}", number
                    continue
                if now is not None:
                    yield now
                now = Exchange(question=said, first=number, last=number)
            case "agent" | "assistant" if now is not None:
                now.answers.append((number, step.content or ""))
                now.last = number
            case _ if now is not None:
                now.last = number
                now.worked = now.worked or _is_work(step)
    if now is not None:
        yield now


def _is_work(step: Step) -> bool:
    match entry_of(step):
        case Command(command=command) as entry:
            return is_program(command) or not only_reads(invocation(entry))
        case Turn():
            return False
    return True


_ASKING = compile(
    r"(?i)\?\s*\z|\?\s|^\W*(?:why|what|where|when|which|who|how|explain|describe|does|do|is|are|can|"
    r"could|should|tell me)\b"
)
_ASKING_BACK = compile(
    r"(?i)\b(?:please (?:confirm|provide|let me know|specify|share)|let me know|would you like|"
    r"could you (?:please )?(?:provide|confirm|specify)|i'll need|i will need)\b"
)
_ACTING = compile(r"(?i)^\W*(?:i (?:have )?(?:just )?[a-z]+ed\b|here is a screenshot)")
_LONGEST_CODE = 15
"""More lines of code than that are a program, and no answer."""
_MOST_TURNS = 4
"""Who needs more turns than that for an answer works, and does not just answer."""


def _answers(exchange: Exchange, answer: str) -> bool:
    """Whether somebody who asks the same would be served by it."""
    code = "".join(answer.split("```")[1::2])
    return (
        bool(_ASKING.search(exchange.question[:4_000]))
        and not exchange.worked
        and len(exchange.answers) <= _MOST_TURNS
        and not _ASKING_BACK.search(answer)
        and not _ACTING.match(answer)
        and len(code.splitlines()) <= _LONGEST_CODE
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Kept:
    """What is kept of a session's exchanges; ``replaced`` are drafts that a lesson outdates."""

    memories: tuple[Memory, ...] = ()
    replaced: tuple[str, ...] = ()


def prepare(context: Context, trace: Trace, lessons: Sequence[Memory]) -> Kept:
    """Drafts of the exchanges that are new, but for those that ``lessons`` were learned from."""
    before = [row.memory() for id in trace.memories_learned
              if (row := context.read().row(context.view, id)) is not None]  # fmt: skip
    new = [memory.source_span for memory in lessons if memory.source_span]
    told = [m.source_span for m in before if m.source_span and not m.draft]
    drafts: list[Memory] = []
    replaced: list[str] = []
    # What is said to somebody who is served is about that one's affairs.
    served = of_trace(trace).serves
    for exchange in exchanges(trace):
        stale = [m.id for m in before if m.draft and m.source_span
                 and exchange.overlaps([m.source_span])]  # fmt: skip
        if exchange.overlaps(new):
            replaced += stale
        elif not stale and not served and not exchange.overlaps(told):
            drafts += _draft(context, trace, exchange)
    unique = {memory.id: memory for memory in drafts}
    return Kept(memories=tuple(unique.values())[:MOST], replaced=tuple(replaced))


def _draft(context: Context, trace: Trace, exchange: Exchange) -> Iterator[Memory]:
    """Of several things that the agent said to one question, the last that is worth keeping."""
    for number, answer in reversed(exchange.answers):
        if number <= learned_steps(trace):
            return
        if not _answers(exchange, answer):
            continue
        found = worth_keeping(
            exchange.question, answer, context.settings.passive,
            workspace=context.view.workspace, session=trace.id,
        )  # fmt: skip
        if isinstance(found, Memory):
            yield context.fit(replace(found, source_span=(exchange.first, number)))
            return


async def extract(model: Model, drafts: Sequence[Memory]) -> Any:
    """The model's answer, valid by the schema; ``knowledge`` makes memories of it."""
    told = [
        fenced(
            "record",
            [piece("step", excerpt(draft.description, LONGEST)),
             piece("feedback", excerpt(draft.content, LONGEST))],
            number=number,
        )
        for number, draft in enumerate(drafts, 1)
    ]  # fmt: skip
    reply = await model.complete(
        [system(words("learn", "exchange")), user(prompt(*told))],
        schema=SCHEMA, temperature=0.0, max_tokens=MAX_TOKENS,
    )  # fmt: skip
    return reply.value


def knowledge(context: Context, answer: Any, drafts: Sequence[Memory]) -> list[Memory]:
    """What the model found in each exchange, in the place of its draft."""
    found: dict[str, Memory] = {}
    for told in answer["memories"]:
        if 1 <= told["exchange"] <= len(drafts):
            draft = drafts[told["exchange"] - 1]
            found.setdefault(draft.id, context.fit(replace(draft, **_fields(told, draft))))
    return list(found.values())


def _fields(told: JSON, draft: Memory) -> JSON:
    tags = [tag for tag in (*draft.tags, *told["tags"]) if tag != DRAFT]
    return {name: told[name] for name in ("title", "description", "content")} | {
        "tags": tuple(dict.fromkeys(tags))
    }


def think_over(context: Context, txn: Writing, draft: Memory, found: Sequence[Memory]) -> None:
    """The knowledge takes the place of its draft; a draft without any goes into the archive."""
    row = txn.row(context.view, draft.id)
    if row is None or row.state != State.ACTIVE or not row.memory().draft:
        return  # Somebody has seen to it meanwhile.
    # It stays whose it was, whoever thinks it over.
    whose = str(row.hand or context.hand).partition(":")[2]
    context = replace(context, acts_as=Principal.MODEL, identity=whose)
    for memory in found:
        changes = {n: getattr(memory, n) for n in ("title", "description", "content", "tags")}
        memories.update_in(context, txn, draft.id, changes)
    if not found:
        reason = {"reason": "a model found nothing in it that is worth keeping"}
        context.append(txn, EventType.ARCHIVED, draft.id, reason)


def store(context: Context, txn: Writing, kept: Kept) -> tuple[str, ...]:
    """In the transaction of the session's lessons; the ids of the memories that are new."""
    for id in kept.replaced:
        row = txn.row(context.view, id)
        if row is not None and row.state == State.ACTIVE:
            reason = {"reason": "a lesson was learned from the same exchange"}
            context.append(txn, EventType.ARCHIVED, id, reason)
    return tuple(m.id for m in kept.memories if keep_in(context, txn, m).new)
