"""What a bank does not know: questions that found nothing, by what they mean.

They are no part of the log: never exported, and gone with their workspace.
"""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from reasonbank.errors import EmbeddingError, NotFound, StorageError
from reasonbank.fields import text
from reasonbank.ledger.events import What
from reasonbank.ledger.port import Filter, Miss, Writing
from reasonbank.model import Gap, from_micros

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from reasonbank.bank import Bank

LONGEST = 500
"""Characters of a question that are kept."""


def fit_to_keep(miss: Miss, *, scrub: bool) -> Miss:
    """Without secrets, on one line, not too long; what was changed is embedded anew when shown."""
    question = miss.question
    if scrub:
        from reasonbank.safety.scrub import clean

        question = clean(question)
    question = " ".join(question.split())
    if len(question) > LONGEST:
        question = question[: LONGEST - 1] + "…"
    if question == miss.question:
        return miss
    return replace(miss, question=question, model=None, vector=None)


def gaps(bank: Bank, limit: int) -> list[Gap]:
    found: list[Gap] = []
    if not bank.settings.gaps.keep:
        return found
    for group in _groups(bank):
        if not _known(bank, group[0].question):
            found.append(_gap(group))
        if len(found) == limit:
            break
    return found


def forget(bank: Bank, question: str | None) -> int:
    if question is None:
        gone = [miss.question for miss in _misses(bank)]
    else:
        asked = text(question, "question", bank.settings.limits.query)
        groups = ([miss.question for miss in group] for group in _groups(bank))
        gone = next((group for group in groups if asked in group), [])
        if not gone:
            raise NotFound("no gap here has this question; `reasonbank gaps` shows those that are")

    def work(txn: Writing) -> int:
        bank._on_record(txn, What.UNASKED)
        return txn.misses.drop(bank.view.workspace, gone)

    if not gone:
        return 0
    count = bank._write(work)
    bank.core.ledger.scrub()
    return count


def _groups(bank: Bank) -> list[list[Miss]]:
    """Misses of this workspace that mean the same, most asked first; any two are near."""
    from reasonbank.tidy.clusters import grouped, pairs
    from reasonbank.tidy.plan import nearness_of

    misses = _misses(bank)
    if not misses:
        return []
    alike: list[list[int]] = []
    with contextlib.suppress(EmbeddingError):  # Then each stands alone.
        near = pairs(_vectors(bank, misses), nearness_of(bank.core.indexing.embedder.name).related)
        alike = grouped(near, most=len(misses))
    together = {row for rows in alike for row in rows}
    alike += [[row] for row in range(len(misses)) if row not in together]
    groups = [
        sorted((misses[row] for row in rows), key=lambda miss: (-miss.asked, -miss.last))
        for rows in alike
    ]
    return sorted(groups, key=lambda group: (-sum(m.asked for m in group), -group[0].last))


def _misses(bank: Bank) -> list[Miss]:
    with contextlib.suppress(StorageError):  # A full disk: what it holds is shown all the same.
        bank.core.flush()
    return bank.core.ledger.read().misses.of(bank.view.workspace)


def _vectors(bank: Bank, misses: Sequence[Miss]) -> NDArray[np.float32]:
    """Unit vectors: what searches kept, and of the rest anew."""
    import numpy as np

    embedder = bank.core.indexing.embedder
    vectors = np.zeros((len(misses), embedder.dimensions), np.float32)
    missing = []
    for row, miss in enumerate(misses):
        known = miss.vector if miss.model == embedder.name else None
        if known is not None and len(known) == embedder.dimensions:
            vectors[row] = np.frombuffer(known, np.int8)
        else:
            missing.append(row)
    if missing:
        vectors[missing] = embedder.embed([misses[row].question for row in missing])
    lengths = np.linalg.norm(vectors, axis=1, keepdims=True)
    return np.asarray(vectors / np.where(lengths, lengths, 1), np.float32)


def _known(bank: Bank, question: str) -> bool:
    """Whether the bank has learned it since; unlike a search, this is counted nowhere."""
    from reasonbank.search.answer import Question, recall

    least = bank.settings.belief.prune_below
    asked = Question(text=question, limit=1, filter=Filter(), min_confidence=least)
    return recall(bank, asked).total_found > 0


def _gap(group: Sequence[Miss]) -> Gap:
    return Gap(
        question=group[0].question,
        asked=sum(miss.asked for miss in group),
        wordings=tuple(miss.question for miss in group[1:]),
        first_asked=from_micros(min(miss.first for miss in group)),
        last_asked=from_micros(max(miss.last for miss in group)),
    )
