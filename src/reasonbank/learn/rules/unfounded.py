"""What is said to be looked up or verified, where nothing in a session looked anything up."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from reasonbank.learn.rules.lesson import Finding, noted, short
from reasonbank.learn.rules.printed import never_sent
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
_MEANS = compile(r"(?i)\b(?:[a-z]+_[a-z_]+|agents?|tools?|team member|web search|browser)\b")
_VARIABLE = compile(r"[A-Za-z_]\w*\z")
_CLAIMING = compile(
    r"(?i)\b(?:(?:i|we) (?:have )?(?:verified|confirmed|checked|looked up|found|consulted)|"
    r"verified data|(?:on|upon) (?:checking|verification|review)|"
    r"(?:research|search|source|record)s? (?:\w+ ){0,4}(?:confirms?|shows?|revealed))\b"
)


_DONE = compile(
    r"(?i)\b(?:i|we)(?:'ve|’ve| have)? (?:now |just |already |successfully ){0,2}(?:retrieved|"
    r"accessed|checked|searched|looked up|downloaded|visited|consulted|queried|browsed|gathered)\b"
)
_ELSEWHERE = compile(
    r"(?i:\b(?:website|web ?page|page|site|article|paper|database|dataset|archive|online|listing|"
    r"search results|catalog\w*|[a-z]+\.(?:com|org|net|gov|edu)|google\w*|wikipedia|imdb|github|"
    r"youtube)\b)|\b(?:from|on|in|checked|searched|visited) (?:the )?[A-Z]\w+"
)
# What a session shows that did look something up, though no tool is recorded.
_SEEN = compile(r"(?im)screenshot of \[|^address: \S|^exitcode: |^search result|^observation\b")


def unfounded(session: Session, entries: Sequence[Entry]) -> Iterator[Finding]:
    acts = [entry for entry in entries if isinstance(entry, Command | Call)]
    if sent := list(never_sent(session, entries)):
        yield from sent
    elif acts:
        yield from _unplanned(session, entries, acts)
    else:
        yield from _made_believe(session, entries)


def _made_believe(session: Session, entries: Sequence[Entry]) -> Iterator[Finding]:
    """Somebody says to have looked something up in a session where nobody did anything but talk."""
    turns = [entry for entry in entries if isinstance(entry, Turn)]
    alone = sum(turn.by_user for turn in turns) <= 1 and len(turns) == len(entries)
    if not alone or any(_SEEN.search(turn.text) for turn in turns):
        return
    for turn in turns:
        if turn.by_user:
            continue
        for claim in sentences(turn.text):
            if _DONE.search(claim[:300]) and _ELSEWHERE.search(claim[:300]):
                yield _only_said(session, turn, claim)
                return


def _only_said(session: Session, turn: Turn, claim: str) -> Finding:
    quoted = short(" ".join(claim.split()), 200)
    told = " ".join(turn.text.split()).partition(" ".join(claim.split())[:80])
    came = short((told[1] + told[2]).strip(), 400)
    guidance = "Take nothing of it over; look it up with a tool, and quote what the tool showed."
    return noted(
        session, "unfounded", turn.number, turn.number, weight=0.55,
        title=f"Said to be looked up, and nothing was: {short(gist(session), 120)}",
        description=f"When the task is like this: {gist(session)}",
        content=f"Task: {gist(session, 400)}\n\nNo tool was called and no program was run, but "
        f"the agent wrote: “{came}”\n\nNothing in the session shows it. {guidance}",
        outcome=Outcome.FAILURE,
        error=ErrorContext(
            error_type="Unfounded",
            failure_pattern=short(f"said without looking it up: {quoted}", 500),
            corrective_guidance=guidance,
        ),
        tags=("unfounded",),
    )  # fmt: skip


def _unplanned(
    session: Session, entries: Sequence[Entry], acts: Sequence[Command | Call]
) -> Iterator[Finding]:
    answer = next((a for act in acts if (a := handed_in(act))), "")
    if not answer or not all(map(_only_answers, acts)):
        return
    before = acts[0].number
    said = [e for e in entries if isinstance(e, Turn) and not e.by_user and e.number < before]
    planned = next(((e, m) for e in said if (m := list(_PLANNED.finditer(e.text)))), None)
    if planned:
        turn, found = planned
        steps = [match["step"] for match in found[:2]]
        claims = (s for e in said if e.number > turn.number for s in sentences(e.text[:4_000]))
        claim = next((s for s in claims if _CLAIMING.search(s)), "")
        # A plan that names no means may be one for thinking.
        if claim or _MEANS.search(steps[0]) or _ELSEWHERE.search(steps[0]):
            yield _skipped(session, (turn.number, before), steps, answer, claim)


def handed_in(act: Command | Call) -> str:
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
    session: Session, span: tuple[int, int], steps: list[str], answer: str, claim: str
) -> Finding:
    planned = "\n".join(f"- {short(' '.join(step.split()), 240)}" for step in steps)
    wrote = f" Yet it wrote: “{short(' '.join(claim.split()), 200)}”" if claim else ""
    guidance = (
        "Call a tool for each of these steps before anything is handed in: what a source says is "
        "not answered from memory. Do not take this answer over."
    )
    begun = "Called verified, and never looked up" if claim else "Never looked up, though planned"
    return noted(
        session, "unfounded", *span, weight=0.5,
        title=f"{begun}: {short(gist(session), 120)}",
        description=f"When the task is like this: {gist(session)}",
        content=f"Task: {gist(session, 400)}\n\nThe plan was:\n{planned}\n\nNo tool was called for "
        f"it. The first thing that was done was to hand in “{answer}”; nothing in the session "
        f"supports that.{wrote}\n\n{guidance}",
        outcome=Outcome.FAILURE,
        error=ErrorContext(
            error_type="Unfounded",
            failure_pattern="an answer without the look-up that was planned",
            corrective_guidance=short(f"{guidance} The plan was:\n{planned}", 1_500),
        ),
        tags=("unfounded",),
    )  # fmt: skip
