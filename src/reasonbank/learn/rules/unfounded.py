"""An answer that is said to be verified, where the look-up that was planned was never made."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from reasonbank.learn.rules.lesson import Finding, noted, short
from reasonbank.learn.rules.task import gist, sentences
from reasonbank.learn.session import Call, Command, Entry, Session, Turn
from reasonbank.model import ErrorContext, Outcome
from reasonbank.safety.patterns import compile

_words = str.split

_ANSWERING = frozenset(_words("final_answer finish submit submit_answer answer respond"))
_HANDED_IN = compile(r"(?s)\b(?:final_answer|finish|submit|submit_answer)\((.{1,400})\)")
_NAMED = compile(r"^\s*\w+\s*=\s*|^[\"']|[\"']\z")
_CALLED = compile(r"([A-Za-z_][\w.]{1,60})\(")
_PLAIN = _ANSWERING | frozenset(_words("print len round int str float sum min max abs sorted set"))
_PLANNED = compile(
    r"(?im)^\s{0,6}\d{1,2}[.)]\s+(?P<step>[^\n]{0,120}\b(?:search\w*|retrieve|look up|locate|visit|"
    r"consult|inspect|download|access|obtain)\b[^\n]{20,600})$"
)
_VARIABLE = compile(r"[A-Za-z_]\w*\z")
_CLAIMING = compile(
    r"(?i)\b(?:(?:i|we) (?:have )?(?:verified|confirmed|checked|looked up|found)|verified data|"
    r"(?:research|search|source|record)s? (?:\w+ ){0,4}(?:confirms?|shows?|revealed))\b"
)


def unfounded(session: Session, entries: Sequence[Entry]) -> Iterator[Finding]:
    acts = [entry for entry in entries if isinstance(entry, Command | Call)]
    answer = next((a for act in acts if (a := _handed_in(act))), "")
    if not answer or not all(map(_only_answers, acts)):
        return
    said = [
        e for e in entries if isinstance(e, Turn) and not e.by_user and e.number < acts[0].number
    ]
    planned = next(((e, m) for e in said if (m := _PLANNED.search(e.text))), None)
    if planned:
        turn, found = planned
        claims = (s for e in said if e.number > turn.number for s in sentences(e.text[:4_000]))
        claim = next((s for s in claims if _CLAIMING.search(s)), "")
        if claim:
            yield _skipped(session, (turn.number, acts[0].number), found["step"], answer, claim)


def _handed_in(act: Command | Call) -> str:
    if isinstance(act, Call):
        return short(act.arguments, 80) if act.tool in _ANSWERING else ""
    found = _HANDED_IN.search(act.command)
    if not found:
        return ""
    given = _NAMED.sub("", " ".join(found[1].split()))
    if _VARIABLE.match(given):
        given = act.output.strip().rpartition("\n")[2] or given
    return short(given.strip("\"'"), 80)


def _only_answers(act: Command | Call) -> bool:
    if isinstance(act, Call):
        return act.tool in _ANSWERING
    lines = [line for line in act.command.splitlines() if not line.lstrip().startswith("#")]
    code = "\n".join(lines)
    return "import" not in code and set(_CALLED.findall(code)) <= _PLAIN


def _skipped(
    session: Session, steps: tuple[int, int], step: str, answer: str, claim: str
) -> Finding:
    planned = short(" ".join(step.split()), 300)
    wrote = f"Yet it wrote: “{short(' '.join(claim.split()), 200)}”"
    guidance = "Begin with that step; do not take the answer over."
    return noted(
        session, "unfounded", *steps, weight=0.5,
        title=f"Called verified, and never looked up: {short(gist(session), 120)}",
        description=f"When the task is like this: {gist(session)}",
        content=f"Task: {gist(session, 400)}\n\nThe plan was: {planned}\n\nNo tool was called for "
        f"it. The first thing that was done was to hand in “{answer}”; nothing in the session "
        f"supports that. {wrote}\n\n{guidance}",
        outcome=Outcome.FAILURE,
        error=ErrorContext(
            error_type="Unfounded",
            failure_pattern="an answer without the look-up that was planned",
            corrective_guidance=f"{guidance} The plan was: {planned}",
        ),
        tags=("unfounded",),
    )  # fmt: skip
