"""Questions and answers that are worth keeping although nobody asked for it."""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import islice

from reasonbank.fields import LIMITS
from reasonbank.learn.echo import without_echo
from reasonbank.learn.session import told
from reasonbank.ledger.port import Writing
from reasonbank.model import DRAFT, Job, Memory, Outcome, Principal, Source, derived_id
from reasonbank.safety.patterns import Pattern, compile
from reasonbank.search import subjects
from reasonbank.settings import Passive
from reasonbank.store import memories
from reasonbank.store.context import Context, reasoner_of

EXTRACT = "extract"
"""The job that makes knowledge of a draft."""

_CODE = compile(r"(?m)^[ \t]*(?:```|~~~)\S*[ \t]*\n\s*\S")
_STEP = compile(r"(?im)^[ \t]{0,100}(?:\d{1,2}[.)]|[-*•]|step \d{1,9})\s{1,100}\S")
_SENTENCE = compile(r"[^\s.!?][^.!?]{15,}[.!?](?:\s|$)")
_BECAUSE = compile(
    r"(?i)\b(?:because|since|due to|so that|therefore|thus|hence|means that|in order to|the reason|"
    r"that is why|which is why|works by|caused by|instead of|otherwise|rather than|depends on|"
    r"whereas|unlike|as long as|happens when|is needed|is used to|allows?|ensures?|prevents?)\b"
)
_MARKS = r"[^\pL\pN_]*"
_DECLINING = compile(
    rf"(?i)^{_MARKS}(?:"
    r"i'?m sorry|sorry\b|i (?:can(?:not|'t)|am unable|don'?t (?:know|have|understand))|"
    r"unfortunately,? i|as an ai\b|could you (?:please )?(?:clarify|provide|share)|"
    r"what would you like)"
)
_REPORTING = compile(
    rf"(?i)^{_MARKS}(?:"
    r"done|all set|fixed|updated|i'?ve (?:just )?(?:added|updated|fixed|created|changed|"
    r"made|pushed|committed|run|removed|renamed)|"
    r"i have (?:added|updated|fixed|created|changed|made)|"
    r"the (?:tests|build|changes) (?:pass|passed|are in))\b"
)
_SAYING_NOTHING = compile(
    rf"(?i)^{_MARKS}(?:(?:"
    r"yes|no|ok(?:ay)?|sure|thanks?|thank you|continue|go on|go ahead|proceed|next|"
    rf"please|great|good|nice|hi|hello|hey|do it|try again|again|more|why|what|how){_MARKS})+$"
)


def worth_keeping(
    question: str, answer: str, settings: Passive, *, workspace: str, session: str | None = None
) -> Memory | str:
    """A memory of the exchange, or the reason why there is none.

    The same exchange in the same workspace gives the same id.
    """
    question, answer = without_echo(question).strip(), without_echo(answer).strip()
    if not settings.enabled:
        return "passive learning is switched off (the setting passive.enabled)"
    if len(question) < 8 or _SAYING_NOTHING.match(question):
        return "the question says too little to be found again"
    if len(answer) < settings.min_length:
        return f"the answer has {len(answer)} characters; {settings.min_length} are needed"
    if _DECLINING.match(answer):
        return "the answer declines or asks back"
    shapes = _shapes(answer)
    wanted = {"code": settings.code, "steps": settings.steps, "explanation": settings.explanations}
    found = [shape for shape in shapes if wanted[shape]]
    if _REPORTING.match(answer) and found != [] and "code" not in found:
        return "the answer only reports what was done"
    if not found:
        return "the answer has no code, no steps and no explanation that settings ask for"
    title = " ".join(question.split())
    return Memory(
        # As a transcript would tell it: handed in on its own, it is the same exchange.
        id=exchange_id(workspace, told(question), told(answer)),
        title=_short(title, LIMITS.title),
        description=_short(f"Asked: {question}", LIMITS.description),
        content=_short(answer, LIMITS.content),
        outcome=Outcome.MIXED,
        source=Source.PASSIVE,
        source_session=session,
        tags=(DRAFT, *found),
        domain=subjects.of_text(f"{question}\n{answer}"),
        task_type="question",
    )


def exchange_id(workspace: str, question: str, answer: str) -> str:
    said = (" ".join(text.split()) for text in (workspace, question, answer))
    return derived_id("exchange", *said)


def _shapes(answer: str) -> list[str]:
    shapes = []
    if _CODE.search(answer):
        shapes.append("code")
    if _are_two(_STEP, answer):
        shapes.append("steps")
    prose = "".join(answer.split("```")[::2])
    if _are_two(_SENTENCE, prose) and _BECAUSE.search(prose):
        shapes.append("explanation")
    return shapes


def _are_two(pattern: Pattern, text: str) -> bool:
    return len(list(islice(pattern.finditer(text), 2))) == 2


def _short(text: str, longest: int) -> str:
    return text if len(text) <= longest else text[: longest - 1] + "…"


@dataclass(frozen=True, slots=True, kw_only=True)
class Captured:
    """``id`` is the memory of the exchange; without one, ``reason`` says why not."""

    kept: bool
    id: str | None
    reason: str


def capture(
    context: Context, question: str, answer: str, *, session: str | None = None
) -> Captured:
    """The same exchange twice gives one memory, and a forgotten one does not come back."""
    found = worth_keeping(
        question,
        answer,
        context.settings.passive,
        workspace=context.view.workspace,
        session=session,
    )
    if isinstance(found, str):
        return Captured(kept=False, id=None, reason=found)
    memory = context.fit(found)

    result, new = context.write(lambda txn: _capture_in(context, txn, memory))
    context.store.indexing.wake()
    if new:
        context.store.work_waits()
    return result


def _capture_in(context: Context, txn: Writing, memory: Memory) -> tuple[Captured, bool]:
    found = keep_in(context, txn, memory)
    if found.new and reasoner_of(context) == "model":
        place = context.view.workspace
        job = Job(kind=EXTRACT, subject=memory.id, workspace=place,
                  id=derived_id(EXTRACT, place, memory.id))  # fmt: skip
        txn.queue.enqueue(job, context.now())
    return found.told, found.new


@dataclass(frozen=True, slots=True, kw_only=True)
class Keeping:
    told: Captured
    new: bool


def keep_in(context: Context, txn: Writing, memory: Memory) -> Keeping:
    """Record it once."""
    told = Captured(kept=True, id=memory.id, reason="kept")
    if txn.forgotten(memory.id):
        reason = "this exchange was forgotten for good"
        return Keeping(told=Captured(kept=False, id=None, reason=reason), new=False)
    if txn.taken(memory.id):
        return Keeping(told=replace(told, reason="this exchange is kept already"), new=False)
    # Nobody chose these words to be kept, whoever hands them in.
    memories.record_in(replace(context, acts_as=Principal.MODEL), txn, memory)
    return Keeping(told=told, new=True)
