"""Keeps vectors in step with the ledger, and embeds questions.

Recording does not wait for the embedding model: a thread embeds what is new once the
writer pauses, and a search first embeds what is still missing, as long as that is little.
Of all processes on a bank one embeds at a time, and what it has embedded none does again.

A bank whose vectors are of another model than the one in use gets new ones little by little
(``renew``), from processes that stay open. Until then vectors of a compatible model are searched
as if they were this model's, and others not at all.
"""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, NamedTuple

from reasonbank.bounded import Bounded
from reasonbank.embed.calibration import calibration_for
from reasonbank.embed.port import Embedder
from reasonbank.errors import EmbeddingError, ReasonBankError, StorageError
from reasonbank.flag import Flag
from reasonbank.index.port import Index, Unreachable
from reasonbank.ledger.port import Ledger, Reading, Writing
from reasonbank.ledger.vectors import PackedVector
from reasonbank.model import Memory, Source, counted
from reasonbank.store.meters import Meters
from reasonbank.store.passages import passages
from reasonbank.store.spans import span
from reasonbank.store.turns import Turn

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from reasonbank.index.port import Changes

    Vector = NDArray[np.float32]

BATCH = 64
CACHE_SIZE = 512  # Questions whose vectors are kept, and for how long.
CACHE_SECONDS = 300.0
SIP = 16  # A search may be waiting for its turn.
GULP = 32  # Where so much is new that no search waits for all of it.
FIRST = 32  # A search embeds this many that its words found, where all would be too many.
GAP = 0.01  # Between two batches; whoever waits for its turn looks more often than that.
TAIL = 64  # A search embeds this many itself; more would keep its caller waiting.
FOLLOW = 20_000
STUCK = 5  # So often an index may stay where it is, though it was told what is new.
ROUNDS = 3
PAUSE = 0.2
FAREWELL = 5.0  # Whoever closes waits no longer for a process that embeds.
PATIENCE = 5.0  # A search waits no longer for a process that embeds what it looks for.
LOOK = 0.05
LONGEST_BURST = 25  # Pauses; then what waits is seen to, though the calls go on.


def embedding_text(memory: Memory) -> str:
    parts = [memory.title, without_attribution(memory), memory.content]
    if error := memory.error_context:
        parts.insert(2, f"{error.error_type}: {error.failure_pattern}")
    return "\n".join(parts)


def without_attribution(memory: Memory) -> str:
    """When to use it. A merged memory's description ends with a line on what it was made from,
    which says nothing about what it is for."""
    if memory.source is Source.CONSOLIDATED:
        return memory.description.rpartition("\n")[0] or memory.description
    return memory.description


class Embedded(NamedTuple):
    """What a model made of a memory: of a long one, the middle of its passages, and these."""

    vector: Vector
    passages: Vector

    def packed(self, num: int, revision: int) -> PackedVector:
        vector, passages = (part.astype("float16").tobytes() for part in self)
        return PackedVector(num, revision, vector, passages)


def _middle(passages: Vector) -> Embedded:
    middle = passages.sum(axis=0)
    length = float(middle @ middle) ** 0.5
    return Embedded(middle / length if length else passages[0], passages)


def still(near: dict[str, int], reading: Reading) -> str:
    """How many memories have vectors of an earlier model, in words."""
    everything = counted(reading.memory_count())
    return f"{sum(near.values())} of {everything} still have vectors of {', '.join(near)}"


class Indexing:
    def __init__(self, ledger: Ledger, index: Index, embedder: Embedder) -> None:
        self.ledger = ledger
        self.index = index
        self.embedder = embedder
        self.meters = Meters()
        self.queries: Bounded[str, Vector] = Bounded(CACHE_SIZE, seconds=CACHE_SECONDS)
        path = ledger.beside
        self.compatible = calibration_for(embedder.name).compatible
        self._embedding = Turn(path and path.with_name(f"{path.name}.embedding"))
        self.renewing = Turn(path and path.with_name(f"{path.name}.renewing"))
        """Whose turn it is to embed what has vectors of other models; no search waits for it."""
        self._patience = PATIENCE
        self._following = threading.Lock()
        self._pushing = Turn(path and path.with_name(f"{path.name}.following"))
        self.behind = False
        """Whether more is left to follow than a search waits for."""
        self.spare: Callable[[], Index] | None = None
        """For who may not tell the index what is new, and finds that nobody did."""
        self._former: list[Index] = []
        self._seen: object = None
        self._notes: tuple[str, ...] = ()
        self.about_index: tuple[str, ...] = ()
        """What is to be known of the index, for whoever asks how the bank is."""
        self.remarks: tuple[str, ...] = ()
        """What a reply tells besides, though nothing is amiss."""
        self._many = False
        self._lost = 0
        self._asking: set[int] = set()
        self._draining = False
        self._news = Flag()
        self._closing = threading.Event()
        self._keeper: threading.Thread | None = None
        self.chores: Callable[[], None] = lambda: None

    def question(self, text: str) -> Vector:
        vector: Vector = self.questions([text])[0]
        return vector

    def questions(self, texts: Sequence[str]) -> Vector:
        """The vectors of a question and of its parts, all that are new in one batch."""
        with self._asked():
            return self._questions(texts)

    @property
    def is_asked(self) -> bool:
        """Whether a search of this process wants the embedder just now."""
        return bool(self._asking)

    @contextmanager
    def _asked(self) -> Iterator[None]:
        thread = threading.get_ident()
        self._asking.add(thread)
        try:
            yield
        finally:
            self._asking.discard(thread)

    def _questions(self, texts: Sequence[str]) -> Vector:
        import numpy as np

        known = {text: self.queries.get(text, time.monotonic()) for text in texts}
        new = [text for text, vector in known.items() if vector is None]
        self.meters.count("cache.misses" if new else "cache.hits")
        if new:
            model = self.embedder.name
            facts: dict[str, str | int] = {
                "gen_ai.request.model": model,
                "gen_ai.embeddings.dimension.count": self.embedder.dimensions,
            }
            started = time.perf_counter_ns()
            with span("embeddings", facts, of=model):
                vectors = self.embedder.embed(new)
            self.meters.took("embedding", time.perf_counter_ns() - started)
            known.update(zip(new, vectors, strict=True))
            gone = sum(
                self.queries.put(text, vector, time.monotonic())
                for text, vector in zip(new, vectors, strict=True)
            )
            if gone:
                self.meters.count("cache.evictions", gone)
        return np.array([known[text] for text in texts])

    def catch_up(self, likely: Callable[[], Sequence[int]] = tuple) -> tuple[str, ...]:
        """Bring the index up to the ledger; say what it does not cover.

        Where that is much, some of the ``likely`` rows, best first, are embedded before the rest.
        """
        with self._asked():
            self._catch_up()
            if self._many and self._embed_some(likely()):
                self.follow(searching=True)
                self._look_for_gaps()
            return self._notes

    def _catch_up(self) -> None:
        # Embedding moves the version on, and so may others: look again, but not for ever.
        for _ in range(ROUNDS):
            version = (self.ledger.version(), self._lost)
            if self._seen == version:
                break
            embedded = self._embed_new(at_most=TAIL)
            self.follow(searching=True)
            self._look_for_gaps()
            if embedded is None or self.behind:
                break
            if not embedded:
                self._seen = version

    def lost(self) -> None:
        """The index failed: the next search brings it up to the ledger again, if it can."""
        self._lost += 1

    def _look_for_gaps(self) -> None:
        reading = self.ledger.read()
        new, foreign = reading.unembedded_count(self.embedder.name)
        near = self.nearly(reading) if foreign else {}
        foreign -= sum(near.values())
        notes = []
        if new:
            notes.append(f"{counted(new)} not embedded yet: found by words only")
        if foreign:
            notes.append(
                f"{counted(foreign)} embedded by another model than {self.embedder.name}: "
                "found by words only; run `reasonbank reindex`"
            )
        if self.behind:
            notes.append("the index is being filled: what is not in it yet is found by words only")
            self.wake()
        self._many = new > TAIL
        self._notes = tuple(notes)
        self.remarks = (f"re-embedding: {still(near, reading)}",) if near else ()

    def nearly(self, reading: Reading) -> dict[str, int]:
        """By the name of each compatible model, how many memories have its vectors still."""
        found = reading.embedded_elsewhere(self.embedder.name)
        return {name: count for name, count in found.items() if name.startswith(self.compatible)}

    def follow(self, *, searching: bool = False) -> None:
        """Bring the index up to the ledger. Where that takes requests, one process does it at a
        time, and a search waits neither for all of it nor for who is at it."""
        most = self.index.at_once
        if most is None:
            with self._following:
                self._follow(FOLLOW)
            return
        if not self._following.acquire(timeout=LOOK if searching else -1):
            self.behind = True
            return
        try:
            if self.ledger.read_only:
                self._follow(most, steps=0)
                if self.behind and self.spare is not None:
                    # Not closed yet: another thread may be searching it.
                    self._former.append(self.index)
                    self.index, self.spare = self.spare(), None
                    self._follow(FOLLOW)
                return
            with self._pushing.taken(seconds=LOOK if searching else PATIENCE) as mine:
                self._follow(most, steps=(int(mine) if searching else None))
        finally:
            self._following.release()

    def _follow(self, limit: int, *, steps: int | None = None) -> None:
        self.behind = False
        before, tries = -1, 0
        while True:
            # First this, then the ledger: so nobody can be ahead of it who follows the same one.
            position = self.index.position
            reading = self.ledger.read()
            last = reading.vector_position()
            if position > last:
                self.index.reset()  # The ledger is an earlier state of itself: a backup.
                position = 0
            if position == last:
                return
            changes = self.changes(reading, position, limit)
            if not len(changes.seqs):
                return
            if steps == 0 or (self._closing.is_set() and self.index.at_once is not None):
                self.behind = True
                return
            tries = tries + 1 if position <= before else 0
            if tries == STUCK:
                raise Unreachable("the index does not keep what it is told; it is tried again")
            before = position
            self.index.follow(changes)
            steps = None if steps is None else steps - 1

    def changes(self, reading: Reading, after: int, limit: int = FOLLOW) -> Changes:
        """What happened since then to the vectors that are searched."""
        embedder = self.embedder
        return reading.vector_changes(
            embedder.name, after, limit, embedder.dimensions, self.compatible
        )

    def embedded(self, memories: Sequence[Memory]) -> list[Embedded]:
        """What the model makes of each, all in one batch."""
        texts = [embedding_text(memory) for memory in memories]
        parts = [passages(text) or (text,) for text in texts]
        vectors = self.embedder.embed([part for some in parts for part in some])
        result, at = [], 0
        for some in parts:
            found = vectors[at : at + len(some)]
            at += len(some)
            result.append(_middle(found) if len(some) > 1 else Embedded(found[0], found[:0]))
        return result

    def put(self, txn: Writing, packed: Sequence[PackedVector]) -> None:
        txn.put_vectors(self.embedder.name, packed, replacing=self.compatible)

    def _embed_new(self, at_most: int) -> int | None:
        """Embed memories that have no vector of any model; 0 if there are more than that.

        None while another process embeds and does not get to them in time.
        """
        if self.ledger.read_only:
            return 0
        deadline = time.monotonic() + self._patience
        while 0 < len(self._waiting(at_most + 1)) <= at_most:
            # Between two looks, for whoever embeds now may be embedding just these.
            with self._embedding.taken(seconds=LOOK) as mine:
                if mine:
                    self._patience = PATIENCE
                    return self._embed_few(at_most)
            if time.monotonic() >= deadline:
                # One that does not let go does not keep every search waiting.
                self._patience = 0.0
                return None
        return 0

    def _embed_few(self, at_most: int) -> int:
        waiting = self._waiting(at_most + 1)
        try:
            return self._embed(waiting) if len(waiting) <= at_most else 0
        except StorageError:
            return 0  # A full disk: what cannot be stored is found by its words.

    def _embed_some(self, nums: Sequence[int]) -> int:
        """Those of the rows that have no vector, the first of them at most."""
        if self.ledger.read_only or not nums or not self._waiting(1, among=nums):
            return 0
        with self._embedding.taken(seconds=self._patience) as mine:
            self._patience = PATIENCE if mine else 0.0
            found = dict(self._waiting(len(nums), among=nums)) if mine else {}
            try:
                return self._embed([(num, found[num]) for num in nums if num in found][:FIRST])
            except StorageError:
                return 0

    def _waiting(
        self, limit: int, *, among: Sequence[int] | None = None
    ) -> list[tuple[int, Memory]]:
        return self.ledger.read().unembedded(limit=limit, among=among)

    def _embed(self, memories: list[tuple[int, Memory]]) -> int:
        """How many of them: of long ones fewer, since others wait for their turn."""
        texts, some = 0, list[tuple[int, Memory]]()
        for num, memory in memories:
            texts += len(passages(embedding_text(memory))) or 1
            if some and texts > BATCH:
                break
            some.append((num, memory))
        if not some:
            return 0
        embedded = self.embedded([memory for _, memory in some])
        packed = [
            found.packed(num, memory.revision)
            for (num, memory), found in zip(some, embedded, strict=True)
        ]
        self.ledger.write(lambda txn: self.put(txn, packed))
        return len(some)

    def embed_all(
        self,
        *,
        any_model: bool,
        progress: Callable[[int, int], None] | None = None,
        seconds: float = math.inf,
    ) -> int:
        """Embed whatever has no vector of this model, newest first, until none is left.

        Where another process embeds and does not let go for ``seconds``, it is left to that.
        """
        new, foreign = self.ledger.read().unembedded_count(self.embedder.name)
        total = new + (foreign if any_model else 0)
        done = 0
        while True:
            embedded = self._embed_batch(seconds)
            if not embedded and any_model:
                with self.renewing.taken(seconds=seconds) as mine:
                    embedded = self.renew(BATCH) if mine else 0
            done += embedded
            if progress:
                # Others may have embedded some of them: the last step is the end all the same.
                of = max(total, done)
                progress(done if embedded else of, of)
            if not embedded:
                return done
            time.sleep(GAP)

    def _embed_batch(self, seconds: float) -> int:
        with self._embedding.taken(seconds=seconds) as mine:
            return self._embed(self._waiting(BATCH)) if mine else 0

    def renew(self, at_most: int) -> int:
        """Embed anew what has vectors of other models alone; how many. Only for whose turn it is
        (``renewing``)."""
        reading = self.ledger.read()
        return self._embed(reading.outdated(self.embedder.name, limit=at_most))

    def look(self) -> None:
        """Another process may have recorded something, and have no time to embed it."""
        if not self._draining and self._waiting(1):
            # Once: to be told again and again would look like a burst of records here.
            self._draining = True
            self.wake()

    def wake(self) -> None:
        """There is something to embed or to write down: see to it when there is time."""
        if self._keeper is None and not self._closing.is_set():
            self._keeper = threading.Thread(
                target=self._keep, name="reasonbank-keeper", daemon=True
            )
            self._keeper.start()
        if not self._news.is_set():
            self._news.set()

    def _keep(self) -> None:
        while not self._closing.is_set():
            self._news.taken()
            self._news.set()  # Until it has been quiet for a while.
            # A burst of records goes first: embedding would compete with it.
            pauses = 0
            while self._news.is_set() and pauses < LONGEST_BURST and not self._closing.is_set():
                self._news.clear()
                self._closing.wait(PAUSE)
                pauses += 1
            if self._closing.is_set():
                return
            try:
                self.chores()
                self._draining = True
                self._drain(give_way=pauses < LONGEST_BURST)
                self.follow()
                self.index.save()
            except ReasonBankError:
                continue  # The next search meets the same error, and tells.
            finally:
                self._draining = False

    def _drain(self, *, give_way: bool) -> None:
        """Embed what is new, until another call comes that it should ``give_way`` to."""
        while not self._closing.is_set() and not (give_way and self._news.is_set()):
            if not (waiting := len(self._waiting(TAIL + 1))):
                return
            # Not for long: a search of this process may be waiting as well.
            with self._embedding.taken(seconds=LOOK) as mine:
                if mine:
                    self._embed(self._waiting(GULP if waiting > TAIL else SIP))
            self._closing.wait(GAP)

    def erase(self, nums: list[int]) -> None:
        import numpy as np

        self.queries.clear()
        try:
            self.follow(searching=True)
            self.index.erase(np.array(sorted(nums), np.int64))
        except Unreachable:
            self.lost()  # The ledger says that they are gone: whoever follows next removes them.

    def close(self, *, embed: bool = True) -> None:
        self._closing.set()
        self._news.set()
        if self._keeper is not None:
            self._keeper.join()
            try:
                if embed:
                    self.embed_all(any_model=False, seconds=FAREWELL)
            except (EmbeddingError, StorageError):
                pass  # The text is safe; the next opener embeds it.
        for index in (self.index, *self._former):
            index.close()
