"""How far to trust what comes in, by who brings it; and who may say more of it later.

Set at the door and never by what is written. What evidence makes of it follows from the log: see
``EvidenceProjection._confirm``. docs/decisions/0024-probation.md says why.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING

from reasonbank.errors import Forbidden
from reasonbank.ledger.events import PEERS, hand
from reasonbank.ledger.port import STANDINGS, Candidates, Filter, Reading, Row
from reasonbank.model import Memory, Principal, Standing, State, labels

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from reasonbank.safety.risky import Risk
    from reasonbank.store.context import Context

MOST_AT_ONCE = 5
"""So many lessons that nothing has confirmed can an agent tell a project within ``AT_ONCE``."""
AT_ONCE = 3_600_000_000
BY_MODELS = ("cli", "mcp")
"""What models themselves write through. Programs, which may write many, use the library or HTTP;
what the bank learned from a session that it read comes from its worker, and not what it learned
from one that an agent told of itself."""
NAMESAKES = 20
"""So many rejected memories with this title are compared word for word."""
_WORD = re.compile(r"[^\W_]+")
MOST_SESSIONS = 50
"""So many parts of sessions that name what a text asks for are looked at."""


def at_the_door(context: Context, reading: Reading, memory: Memory) -> Standing:
    if context.principal is Principal.PERSON:
        return Standing.CONFIRMED
    if any(unheard_of(context, reading, memory)) or _was_rejected(context, reading, memory):
        return Standing.WAITING
    if _is_one_too_many(context, reading, memory):
        return Standing.WAITING
    made_from = (reading.row(context.view, parent) for parent in memory.parents)
    sources = (STANDINGS[row.probation] for row in made_from if row is not None)
    return Standing.least((Standing.UNTESTED, *sources))


def _is_one_too_many(context: Context, reading: Reading, memory: Memory) -> bool:
    """Whether an agent told so many before it that this one waits: who is misled in one
    conversation must not fill a project. What is confirmed meanwhile makes room."""
    if context.principal not in (Principal.AGENT, Principal.MODEL):
        return False
    if context.surface not in BY_MODELS or memory.draft:
        return False  # A draft is put into no prompt unasked.
    since = context.now() - AT_ONCE
    told = reading.untested_since(context.view, context.hand, BY_MODELS, since)
    return len(told - {memory.id}) >= MOST_AT_ONCE


def _was_rejected(context: Context, reading: Reading, memory: Memory) -> bool:
    """Whether a person has rejected these very words."""
    archived = Filter(states=(State.ARCHIVED,))
    title = _words(memory.title)
    nums, _ = reading.words(context.view, archived, (title,) if title else (), NAMESAKES, None)
    said = [*map(_words, told(memory))]
    alike = [row.id for row in reading.rows(context.view, nums.tolist())
             if [*map(_words, told(row.memory()))] == said]  # fmt: skip
    return bool(alike and reading.peers.rejected(alike))


def _words(text: str) -> str:
    return " ".join(_WORD.findall(text.lower()))


def vouched_for(context: Context, trusted: bool) -> Standing | None:
    """How what is imported stands where a person says that it can be trusted; None: as it would."""
    if not trusted:
        return None
    if context.principal is Principal.PERSON:
        return Standing.CONFIRMED
    if context.surface == "cli":
        raise Forbidden("only a person says that a file can be trusted; leave --trusted out")
    return None


def revised(context: Context, reading: Reading, old: Memory, new: Memory) -> Standing | None:
    """How a memory stands after a change; None: as before. What it was confirmed for is gone
    where somebody else than a person rewrites it, be it a tag: models read them all."""
    if context.principal is Principal.PERSON:
        return None
    return Standing.least((old.standing, at_the_door(context, reading, new)))


def is_offered(context: Context, row: Row, *, unread: bool) -> bool:
    """Whether a memory may be shown to this caller; ``unread``: unasked, to a model.

    What is not confirmed stays where it was learned. Unasked it is given only to the agents of
    whoever's it is, and never where it waits for a person. What another bank shares is found by
    who looks for it.
    """
    if not row.probation:
        return True
    if row.workspace != context.view.workspace and not is_a_peers(row):
        return False
    own = row.hand == hand(Principal.AGENT, context.who)
    return not unread or (own and row.probation == Standing.UNTESTED.level)


def is_a_peers(row: Row) -> bool:
    return str(row.hand).startswith(PEERS)


def offered(context: Context, rows: Candidates, *, unread: bool) -> NDArray[np.bool_]:
    """The same of many."""
    import numpy as np

    confirmed: NDArray[np.bool_] = rows.probation == 0
    if confirmed.all():
        return confirmed
    shown = np.array(rows.workspaces, dtype=object) == context.view.workspace
    if not unread:
        shown |= np.array([str(hand).startswith(PEERS) for hand in rows.hands], dtype=bool)
    else:
        own = hand(Principal.AGENT, context.who)
        shown &= np.array(rows.hands, dtype=object) == own
        shown &= rows.probation == Standing.UNTESTED.level
    allowed: NDArray[np.bool_] = confirmed | shown.astype(bool)
    return allowed


def unheard_of(context: Context, reading: Reading, memory: Memory) -> Iterator[Risk]:
    """What following it would make an agent do that no verified step of this project did."""
    from reasonbank.safety.risky import risks

    for risk in risks("\n".join(told(memory))):
        if not _was_done(context, reading, risk):
            yield risk


def told(memory: Memory) -> Iterator[str]:
    """All of its text, tags and labels too: a model reads them as well."""
    yield from (memory.title, memory.description, memory.content)
    if error := memory.error_context:
        yield from filter(None, (error.error_type, error.failure_pattern,
                                 error.corrective_guidance, error.error_message))  # fmt: skip
    yield ", ".join(memory.tags)
    yield from filter(None, (getattr(memory, name) for name in labels()))


def _was_done(context: Context, reading: Reading, risk: Risk) -> bool:
    """Whether a session that the bank itself read ran it, and it ended well."""
    from reasonbank.safety.ran import ran

    named = risk.host or risk.snippet
    return any(
        done.covers(risk)
        for command in reading.ran_well(context.view, named, MOST_SESSIONS)
        for done in ran(command)
    )
