"""What a bank does not know: questions that found nothing sure, by what they mean.

They are no part of the log: never exported, and gone with their workspace.
"""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from typing import TYPE_CHECKING

from reasonbank.embed.calibration import calibration_for
from reasonbank.errors import EmbeddingError, NotFound
from reasonbank.ledger.events import EventType
from reasonbank.ledger.port import Filter, UnansweredQuestion, Writing
from reasonbank.model import Gap, from_micros
from reasonbank.search.answer import recall
from reasonbank.search.gather import Question
from reasonbank.store.context import Context

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


def gaps(context: Context, limit: int) -> list[Gap]:
    found: list[Gap] = []
    if not context.settings.gaps.keep:
        return found
    for group in _groups(context):
        if not _known(context, group[0].question):
            found.append(_gap(group))
        if len(found) == limit:
            break
    return found


def asked(context: Context, question: str) -> Gap | None:
    """The gap that this very question is part of."""
    same = question.strip().casefold()
    if not any(_is(entry, same) for entry in context.read().unanswered.of(context.view.workspace)):
        return None  # It is looked at with every key: what means the same takes longer.
    of_it = (group for group in _groups(context) if any(_is(entry, same) for entry in group))
    return next(map(_gap, of_it), None)


def _is(entry: UnansweredQuestion, question: str) -> bool:
    return entry.question.strip().casefold() == question


def forget(context: Context, question: str | None) -> int:
    if question is None:
        gone = [entry.question for entry in _unanswered(context)]
    else:
        groups = ([entry.question for entry in group] for group in _groups(context))
        gone = next((group for group in groups if question in group), [])
        if not gone:
            raise NotFound("no gap here has this question; `reasonbank gaps` shows those that are")

    def work(txn: Writing) -> int:
        context.note(txn, EventType.GAPS_FORGOTTEN)
        return txn.unanswered.drop(context.view.workspace, gone)

    if not gone:
        return 0
    count = context.write(work)
    context.store.ledger.scrub()
    return count


def _groups(context: Context) -> list[list[UnansweredQuestion]]:
    """Questions of this workspace that mean the same, most asked first; any two are near."""
    from reasonbank.index.clusters import grouped, pairs

    unanswered = _unanswered(context)
    if not unanswered:
        return []
    alike: list[list[int]] = []
    with contextlib.suppress(EmbeddingError):  # Then each stands alone.
        model = context.store.indexing.embedder.name
        near = pairs(_vectors(context, unanswered), calibration_for(model).merge.related)
        alike = grouped(near, most=len(unanswered))
    together = {row for rows in alike for row in rows}
    alike += [[row] for row in range(len(unanswered)) if row not in together]
    groups = [
        sorted((unanswered[row] for row in rows), key=lambda entry: (-entry.asked, -entry.last))
        for rows in alike
    ]
    return sorted(groups, key=lambda group: (-sum(m.asked for m in group), -group[0].last))


def _unanswered(context: Context) -> list[UnansweredQuestion]:
    context.store.try_to_flush()
    return context.read().unanswered.of(context.view.workspace)


def _vectors(context: Context, unanswered: Sequence[UnansweredQuestion]) -> NDArray[np.float32]:
    """Unit vectors: what searches kept, and of the rest anew."""
    import numpy as np

    embedder = context.store.indexing.embedder
    vectors = np.zeros((len(unanswered), embedder.dimensions), np.float32)
    missing = []
    for row, entry in enumerate(unanswered):
        known = entry.vector if entry.model == embedder.name else None
        if known is not None and len(known) == embedder.dimensions:
            vectors[row] = np.frombuffer(known, np.int8)
        else:
            missing.append(row)
    if missing:
        vectors[missing] = embedder.embed([unanswered[row].question for row in missing])
    lengths = np.linalg.norm(vectors, axis=1, keepdims=True)
    return np.asarray(vectors / np.where(lengths, lengths, 1), np.float32)


def _known(context: Context, question: str) -> bool:
    """Whether the bank has learned it since; unlike a search, this is counted nowhere."""
    least = context.settings.belief.prune_below
    asked = Question(text=question, limit=1, filter=Filter(), min_confidence=least, sure_only=True)
    return recall(context, asked).total_found > 0


def _gap(group: Sequence[UnansweredQuestion]) -> Gap:
    return Gap(
        question=group[0].question,
        asked=sum(entry.asked for entry in group),
        wordings=tuple(entry.question for entry in group[1:]),
        first_asked=from_micros(min(entry.first for entry in group)),
        last_asked=from_micros(max(entry.last for entry in group)),
    )
