"""Was the code kept that a memory led to? Git knows, a week later.

A session that made a commit names it in its trace (``store.commits``). When the commit is 7 days
old, the project's repository is asked how it stood then, and what it says is evidence for the
memories that the session used, was given for it and learned: once for each memory and commit.
That it was reverted is known at once, and is said of the session, too; a commit that is put
back within its 7 days was kept.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, replace

from reasonbank.learn import credits
from reasonbank.learn.git import CannotTell, Repository, repository
from reasonbank.ledger.events import EventType, evidence_key
from reasonbank.ledger.port import Reading, Writing
from reasonbank.ledger.sessions import TAKEN_BACK, is_learned, learned_steps
from reasonbank.model import JSON, EvidenceKind, Outcome, Principal, Trace
from reasonbank.store import evidence
from reasonbank.store.commits import commits_of
from reasonbank.store.context import Context

DAYS = 7
WINDOW_DAYS = 90
"""A session that is older is not looked at again: what is known of it was seen in time."""
DAY = 86_400
AUTHOR = "git"
REVERTED = " reverted it"


@dataclass(frozen=True, slots=True, kw_only=True)
class Stability:
    """What git says of a commit: kept or not. ``kept`` is None where it cannot be told, or not
    yet; ``reason`` says why. ``memories`` are those that it is evidence for and that do not
    have it yet."""

    commit: str
    kept: bool | None
    reason: str
    memories: tuple[str, ...]
    trace: str

    @property
    def reverted(self) -> bool:
        """By a commit that says so, not bit by bit."""
        return self.kept is False and self.reason.endswith(REVERTED)


@dataclass(frozen=True, slots=True, kw_only=True)
class Looked:
    """``note`` says why nothing could be looked at; ``observed`` how many observations were
    written down: none, if it was only looked."""

    commits: tuple[Stability, ...]
    note: str | None = None
    observed: int = 0


def look(context: Context) -> Looked:
    """What there is to observe in this workspace; changes nothing."""
    reading = context.read()
    since = context.now() - WINDOW_DAYS * DAY * 1_000_000
    made = [trace for trace in reading.committed(context.view, since) if commits_of(trace)]
    if not made:
        return Looked(commits=(), note="no session of this project made a commit of late")
    place = next((p for p in reading.workspaces() if p.id == context.view.workspace), None)
    try:
        project = repository(place.path if place else context.path)
    except CannotTell as error:
        return Looked(commits=(), note=f"{error}; nothing can be observed")
    now = context.now() // 1_000_000
    return Looked(
        commits=tuple(
            found
            for trace in made
            for id in commits_of(trace)
            if (found := _found(context, project, trace, id, now)) is not None
        )
    )


def observe(context: Context) -> Looked:
    """Look, and write down what is known now; a second time changes nothing."""
    found = look(context)
    bank = replace(context.seen_by(author=AUTHOR), acts_as=Principal.BANK)

    def work(txn: Writing) -> int:
        count = 0
        for each in found.commits:
            trace = txn.trace(context.view, each.trace)
            # That it was kept says something of what it went by, not of what was learned from it.
            learned = trace.memories_learned if trace else ()
            read_in = credits.is_read_in(txn, each.trace)
            observer = credits.observer(context, txn, each.trace, AUTHOR)
            for id in each.memories if each.kept is not None else ():
                if txn.row(context.view, id) is None:
                    continue
                if _said(context, txn, id, each.commit) is each.kept:
                    continue
                evidence.observe_in(
                    observer, txn, id, EvidenceKind.STABILITY, bool(each.kept),
                    _session(each.commit), each.reason, witnessed=read_in and id not in learned,
                )  # fmt: skip
                count += 1
            if each.reverted:
                _take_back(bank, txn, each)
        return count

    told = any(each.kept is not None for each in found.commits)
    return replace(found, observed=context.write(work) if told else 0)


def _session(commit: str) -> str:
    return f"commit {commit}"


def _said(context: Context, reading: Reading, id: str, commit: str) -> bool | None:
    kind = EvidenceKind.STABILITY
    key = evidence_key(context.view.workspace, id, kind, AUTHOR, _session(commit))
    known = reading.observed(key)
    return None if known is None else known[0]


def _take_back(context: Context, txn: Writing, found: Stability) -> None:
    """How the session went, unless its caller said so."""
    trace = txn.trace(context.view, found.trace)
    if trace is None or not _looked_well(trace):
        return
    payload: JSON = {"ids": [], "steps": learned_steps(trace), "outcome": str(Outcome.FAILURE),
                     "by": TAKEN_BACK, "reason": found.reason}  # fmt: skip
    context.append(txn, EventType.LEARNED, trace.id, payload)


def _looked_well(trace: Trace) -> bool:
    """Whether a revert is news. Of a session that is still to be learned from, how it looked is
    said first."""
    by = (trace.metadata.get("judged") or {}).get("by")
    told = trace.outcome is not None and by is None
    return is_learned(trace) and not told and by != TAKEN_BACK


def _found(
    context: Context, project: Repository, trace: Trace, id: str, now: int
) -> Stability | None:
    """None where all of it is known already."""
    reading = context.read()
    commit, kept, reason = None, None, "there is no such commit in this repository"
    memories = list(_memories(context, trace, id))
    said: dict[str, bool | None] = dict.fromkeys(memories)
    try:
        commit = project.commit(id)
        if commit is not None:
            said = {memory: _said(context, reading, memory, commit) for memory in memories}
            if said and all(said.values()):
                return None
            kept, reason = judged(project, commit, now)
    except CannotTell as error:
        reason = str(error)
    new = tuple(m for m in memories if said[m] is not kept or said[m] is None)
    found = Stability(commit=commit or id, kept=kept, reason=reason, memories=new, trace=trace.id)
    return found if new or (found.reverted and _looked_well(trace)) else None


def _memories(context: Context, trace: Trace, commit: str) -> Iterator[str]:
    """What the session used, was given for this commit and learned, and what the task did that
    it is a part of."""
    reading = context.read()
    parent = reading.trace(context.view, trace.parent) if trace.parent else None
    named = [id for t in (trace, parent) if t for id in (*t.memories_used, *t.memories_learned)]
    named += credits.led_to(context, trace, commit)
    for id in dict.fromkeys(named):
        if reading.row(context.view, id) is not None:
            yield id


def judged(project: Repository, commit: str, now: int) -> tuple[bool | None, str]:
    """Whether the commit was kept for 7 days, by how its branch stood then."""
    due = project.made_at(commit) + DAYS * DAY
    if now < due:
        head = project.commit_of_head()
        if project.includes(head, commit) and (by := _reverted_by(project, commit, head)):
            return False, by
        return None, f"it is not {DAYS} days old yet"
    tip = project.tip_before(due)
    if not (tip and project.includes(tip, commit)):
        tip = project.commit_of_head()
        if not project.includes(tip, commit) and project.is_on_a_branch(commit):
            return None, "it is on another branch"
    if by := _reverted_by(project, commit, tip):
        return False, by
    here, all = _left(project, commit, tip)
    if not all:
        return True, "it changed no lines, and nothing reverted it"
    share = f"{here} of its {all} lines are left"
    return (True, share) if 2 * here >= all else (False, share)


def _reverted_by(project: Repository, commit: str, tip: str) -> str | None:
    reverts = [id for id in project.naming(commit, tip) if not project.naming(id, tip)]
    return f"{reverts[0][:12]}{REVERTED}" if reverts else None


def _left(project: Repository, commit: str, tip: str) -> tuple[int, int]:
    """How many of the lines that a commit wrote are there at the tip, and of how many. Of a
    commit that only took lines away, how many stayed away."""
    written, gone = _changed(project.patch(commit))
    wanted, stays = (written, True) if any(written.values()) else (gone, False)
    moved = project.renamed(commit, tip)
    here = all = 0
    for path, lines in wanted.items():
        now = Counter(line.strip() for line in project.lines(tip, moved.get(path, path)))
        found = sum((lines & now).values())
        total = sum(lines.values())
        here += found if stays else total - found
        all += total
    return here, all


def _changed(patch: str) -> tuple[dict[str, Counter[str]], dict[str, Counter[str]]]:
    """The lines that a patch adds and removes, by file; blank ones say nothing."""
    written: dict[str, Counter[str]] = {}
    gone: dict[str, Counter[str]] = {}
    path, inside = "", False
    for line in patch.split("\n"):
        if line.startswith("diff --git "):
            inside = False
        elif not inside and line.startswith(("--- a/", "+++ b/")):
            path = line[6:].rstrip("\t")
        elif line.startswith("@@ "):
            inside = True
        elif inside and line[:1] in ("+", "-") and (said := line[1:].strip()):
            side = written if line[0] == "+" else gone
            side.setdefault(path, Counter())[said] += 1
    return written, gone
