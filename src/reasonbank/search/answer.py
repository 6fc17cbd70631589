"""A question in, memories out, and a note of what was given for which task."""

from __future__ import annotations

import base64
import time
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from reasonbank.errors import EmbeddingError, ReasonBankError, StorageError
from reasonbank.fields import checked
from reasonbank.forking import computation
from reasonbank.ledger.events import EventType
from reasonbank.ledger.port import Filter, Reading, UnansweredQuestion
from reasonbank.model import JSON, Hit, Reply
from reasonbank.search import hits
from reasonbank.search.doubt import TRIED, for_a_prompt
from reasonbank.search.gather import Gathered, Question, gather, heard
from reasonbank.search.outdated import settle
from reasonbank.search.rank import Fusion
from reasonbank.search.text import terms
from reasonbank.search.trials import left_out
from reasonbank.store.context import Context
from reasonbank.store.draw import drawn, falls_to, held_out, withhold
from reasonbank.store.nearby import hint

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Reals = NDArray[np.floating[Any]]

# Searches of so few rows hardly leave the interpreter: eight threads that take turns do a third
# more than eight at once (measured). In larger banks they wait for SQLite, and can overlap.
SMALL = 20_000
# Where much was recorded just now, those of so many that match by words get their vectors first.
WORDED = 200
_ANYTHING = Filter()


@dataclass(frozen=True, slots=True, kw_only=True)
class Unasked:
    """Nobody asked: an agent is told by itself. What it was ``shown`` before is left out; what it
    is given goes to ``keep``, to be written down once it has it, and what it would have been given
    to ``withhold``; a question that finds nothing is no gap. It is given only what is surely
    relevant."""

    keep: Callable[[JSON], None]
    withhold: Callable[[Sequence[str]], None]
    shown: frozenset[str] = frozenset()


def search(
    context: Context,
    query: str,
    *,
    limit: int | None = None,
    filter: Filter | None = None,
    min_confidence: float | None = None,
    max_tokens: int | None = None,
    session: str | None = None,
    explain: bool = False,
    follow_links: bool = False,
    include_weak: bool = True,
    cost: Callable[[Hit], int] | None = None,
    unread: bool = False,
    unasked: Unasked | None = None,
) -> Reply:
    """``unread``: nobody reads the answer before a model does. It holds no weak matches, and
    nothing that a newer memory outdates which the model is told as well."""
    settings = context.settings
    question = Question(
        text=query,
        limit=settings.search.limit if limit is None else limit,
        filter=_ANYTHING if filter is None else checked(filter, settings.limits),
        min_confidence=(settings.belief.prune_below if min_confidence is None else min_confidence),
        max_tokens=max_tokens,
        explain=explain,
        follow_links=follow_links,
        sure_only=unread or not include_weak,
        cost=cost,
        unread=unread,
    )
    reply = _measured(context, question, at_once=unasked is not None)
    shown = frozenset[str]() if unasked is None else unasked.shown
    if unread:
        trying = session is not None and falls_to(session, "newcomer", TRIED)
        fit = for_a_prompt(reply.hits, shown, context.author, trying=trying)
        reply = replace(reply, hits=fit)
    if unasked is None and not reply.sure:
        reply = replace(reply, hint=hint(context))
    # What poses as an instruction is in no prompt: a model is not given it.
    given = tuple(hit for hit in reply.hits if not (unread and hit.suspicious))
    if session is not None and held_out(session, settings.proof):
        _withhold(context, session, [hit.memory.id for hit in given], unasked)
        return _nothing(reply)
    if context.store.ledger.read_only:
        return reply
    if unasked is not None:
        if given:
            unasked.keep(_use(context, replace(reply, hits=given), query, session))
        return reply
    if given:
        use = _use(context, replace(reply, hits=given), query, session)
        reply = _keep_use(context, reply, use)
    elif session is not None:
        # That it asked is all there is to say of it, and makes the task known.
        reply = _keep_use(context, reply, {"ids": [], "session": session})
    narrows = replace(question.filter, drafts=True).narrows
    # What was too long for the caller's budget was found all the same.
    found = reply.sure or (reply.total_found and not reply.hits)
    if not (found or reply.skipped or narrows):
        _keep_question(context, query)
    context.store.indexing.wake()
    return reply


def _measured(context: Context, question: Question, *, at_once: bool) -> Reply:
    meters = context.store.meters
    started = time.perf_counter_ns()
    with context.span("search_memory") as told:
        try:
            reply = recall(context, question, at_once=at_once)
        except ReasonBankError:
            meters.count("search.failed")
            raise
        if told is not None:
            told.set_attribute("gen_ai.memory.record.count", len(reply))
            told.set_attribute("reasonbank.degraded", reply.degraded)
    meters.took("search", time.perf_counter_ns() - started)
    if not reply.hits:
        meters.count("search.empty")
    elif not reply.sure:
        meters.count("search.weak")
    if reply.degraded:
        meters.count("search.degraded")
    return reply


def recall(context: Context, question: Question, *, at_once: bool = False) -> Reply:
    """``at_once``: what has no vector yet is looked for by its words, and nobody is waited for."""
    store = context.store
    indexing = store.indexing
    senses = heard(context, question)
    try:
        if at_once:
            indexing.follow(searching=True)
        else:
            senses.notes += indexing.catch_up(lambda: _worded(context, question))
        senses.vectors = indexing.questions(senses.texts)
    except EmbeddingError as error:
        senses.without_meaning(error, "embedding")
    except StorageError as error:
        senses.without_meaning(error, "the index")
    reading = store.ledger.cached_read()
    if why := reading.cached("unused", reading.unused):
        senses.notes.append(why)  # It may be long out of date.
    with store.searching if _is_small(reading) else nullcontext(), computation():
        found = gather(context, reading, question, senses)
        fusion = hits.fused(context, reading, found, senses)
        expected = found.trust.expected(fusion.similarity, found.cosine)
        failed = _without_failing(context, reading, question, found, fusion, expected)
        ranked = hits.ranked(context, question, found, fusion, expected)
        ranked, outdated = settle(context, reading, question, found, ranked)
        found_hits, tokens, cut = hits.hits_of(
            context, reading, question, found, ranked, expected, outdated, senses
        )
    embedder = indexing.embedder.name if senses.vectors is not None else "none"
    return Reply(
        hits=found_hits,
        total_found=ranked.relevant,
        tokens_used=tokens,
        embedder=embedder,
        more=not found.complete and ranked.relevant > len(found_hits),
        degraded=bool(senses.notes),
        notes=(*senses.notes, *indexing.remarks),
        skipped=senses.skipped,
        dropped=hits.dropped(context, question, found, ranked, outdated) + cut
        if question.explain
        else (),
        relevance=hits.relevance(found, fusion) if question.explain else {},
        failed=failed,
    )


def _without_failing(
    context: Context,
    reading: Reading,
    question: Question,
    found: Gathered,
    fusion: Fusion,
    expected: Reals,
) -> tuple[Hit, ...]:
    """Where nobody reads the answer first, what is proven to fail takes no part in it, not even
    as a rival of others; of these, what fits the question and never worked."""
    if not question.unread:
        return ()
    failing, hopeless = left_out(context, reading, found.rows, expected, fusion.similarity)
    if failing or hopeless:
        found.allowed = found.allowed.copy()
        found.allowed[[*failing, *hopeless]] = False
    return hits.failed(context, reading, found, fusion, failing, expected) if failing else ()


def _worded(context: Context, question: Question) -> Sequence[int]:
    """The rows that the words of a question lead to, best first."""
    try:
        found, _ = context.read().words(
            context.view, question.filter, terms(question.text), WORDED, None
        )
    except StorageError:
        return []  # It is met again when the words are searched, and told.
    nums: list[int] = found.tolist()
    return nums


def _is_small(reading: Reading) -> bool:
    try:
        return reading.word_rows() <= SMALL
    except StorageError:
        return True


def _use(context: Context, reply: Reply, query: str, session: str | None) -> JSON:
    """What is written down about an answer; what was asked only for a named task."""
    used: JSON = {"ids": [hit.memory.id for hit in reply.hits], "session": session}
    if session is None:
        return used
    used |= drawn(context)
    if weak := [hit.memory.id for hit in reply.hits if hit.weak]:
        used["weak"] = weak
    used["expected"] = {
        hit.memory.id: round(hit.expected, 4) for hit in reply.hits if hit.expected is not None
    }
    indexing = context.store.indexing
    asked = indexing.queries.peek(query)
    if asked is None and reply.embedder == indexing.embedder.name:
        asked = indexing.embedder.embed([query])[0]  # The cache is off, or full already.
    if asked is not None:
        used["model"] = indexing.embedder.name
        used["vector"] = base64.b64encode(packed(asked)).decode()
    return used


def _keep_use(context: Context, reply: Reply, use: JSON) -> Reply:
    """What a named task was given is on disk when it has it: whoever reports how the task went,
    wherever, credits these memories. Other uses are written down with the next commit, or when
    this process looks at them: a commit for each would cost more than the search (a search of
    300 memories 1.2 ms, with a commit that is not even synced 2.8 ms: what others have cached
    is stale after it)."""
    if use["session"] is not None:
        try:
            context.write(lambda txn: context.append(txn, EventType.USED, "", use))
            return reply
        except StorageError as error:
            # What is found is right all the same.
            note = f"what this task was given could not be written down yet: {error}"
            reply = replace(reply, degraded=True, notes=(*reply.notes, note))
    context.store.keep_use(context, use)
    return reply


def _keep_question(context: Context, query: str) -> None:
    """Keep a question that found nothing sure, to be written down with the next commit."""
    store = context.store
    if not store.settings.gaps.keep:
        return
    asked = store.indexing.queries.peek(query)
    now = store.clock()
    entry = UnansweredQuestion(
        workspace=context.view.workspace, question=query, first=now, last=now,
        model=None if asked is None else store.indexing.embedder.name,
        vector=None if asked is None else packed(asked),
    )  # fmt: skip
    with store.lock:
        if len(store.unanswered) < store.settings.gaps.keep:
            store.unanswered.append(entry)


def _withhold(context: Context, session: str, ids: Sequence[str], unasked: Unasked | None) -> None:
    if context.store.ledger.read_only:
        return
    if unasked is None:
        withhold(context, session, ids)
    elif ids:
        unasked.withhold(ids)


def _nothing(reply: Reply) -> Reply:
    """What a task that is held out gets of what was found."""
    note = "this task was drawn to go without memory, to measure what memory is worth"
    return replace(
        reply, hits=(), failed=(), tokens_used=0, total_found=0, more=False, held_out=True,
        dropped=(), notes=(*reply.notes, note),
    )  # fmt: skip


def packed(vector: NDArray[np.float32]) -> bytes:
    """A direction in a byte for each number: cosines stay right to about 0.005."""
    import numpy as np

    largest = float(np.abs(vector).max()) or 1.0
    return bytes(np.rint(vector * (127 / largest)).astype(np.int8).tobytes())
