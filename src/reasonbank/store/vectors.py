"""Keeps vectors in step with the ledger, and embeds questions.

Recording does not wait for the embedding model: a thread embeds what is new once the
writer pauses, and a search first embeds what is still missing, as long as that is little.
Of all processes on a bank one embeds at a time, and what it has embedded none does again.
"""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from reasonbank.bounded import Bounded
from reasonbank.embed.port import Embedder
from reasonbank.errors import EmbeddingError, ReasonBankError, StorageError
from reasonbank.flag import Flag
from reasonbank.index.port import Index
from reasonbank.ledger.port import Ledger
from reasonbank.model import Memory, Source, counted
from reasonbank.store.meters import Meters
from reasonbank.store.spans import span
from reasonbank.store.turns import Turn

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Vector = NDArray[np.float32]

BATCH = 64
CACHE_SIZE = 512  # Questions whose vectors are kept, and for how long.
CACHE_SECONDS = 300.0
SIP = 16  # A search may be waiting for its turn.
TAIL = 64  # A search embeds this many itself; more would keep its caller waiting.
FOLLOW = 20_000
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


def as_stored(vector: Vector) -> bytes:
    return vector.astype("float16").tobytes()


class Indexing:
    def __init__(self, ledger: Ledger, index: Index, embedder: Embedder) -> None:
        self.ledger = ledger
        self.index = index
        self.embedder = embedder
        self.meters = Meters()
        self.queries: Bounded[str, Vector] = Bounded(CACHE_SIZE, seconds=CACHE_SECONDS)
        path = ledger.path
        self._embedding = Turn(path and path.with_name(f"{path.name}.embedding"))
        self._patience = PATIENCE
        self._following = threading.Lock()
        self._seen: object = None
        self._notes: tuple[str, ...] = ()
        self._lost = 0
        self._news = Flag()
        self._closing = threading.Event()
        self._keeper: threading.Thread | None = None
        self.chores: Callable[[], None] = lambda: None

    def question(self, text: str) -> Vector:
        vector: Vector = self.questions([text])[0]
        return vector

    def questions(self, texts: Sequence[str]) -> Vector:
        """The vectors of a question and of its parts, all that are new in one batch."""
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

    def catch_up(self) -> tuple[str, ...]:
        """Bring the index up to the ledger; say what it does not cover."""
        # Embedding moves the version on, and so may others: look again, but not for ever.
        for _ in range(ROUNDS):
            version = (self.ledger.version(), self._lost)
            if self._seen == version:
                break
            embedded = self._embed_new(at_most=TAIL)
            self.follow()
            self._notes = self._gaps()
            if embedded is None:
                break
            if not embedded:
                self._seen = version
        return self._notes

    def lost(self) -> None:
        """The index failed: the next search brings it up to the ledger again, if it can."""
        self._lost += 1

    def _gaps(self) -> tuple[str, ...]:
        new, foreign = self.ledger.read().unembedded_count(self.embedder.name)
        notes = []
        if new:
            notes.append(f"{counted(new)} not embedded yet: found by words only")
        if foreign:
            notes.append(
                f"{counted(foreign)} embedded by another model than {self.embedder.name}: "
                "found by words only; run `reasonbank reindex`"
            )
        return tuple(notes)

    def follow(self) -> None:
        with self._following:
            reading = self.ledger.read()
            while self.index.position < reading.vector_position():
                changes = reading.vector_changes(
                    self.embedder.name, self.index.position, FOLLOW, self.embedder.dimensions
                )
                if not len(changes.seqs):
                    break
                self.index.follow(changes)

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

    def _waiting(self, limit: int, *, any_model: bool = False) -> list[tuple[int, Memory]]:
        return self.ledger.read().unembedded(self.embedder.name, any_model=any_model, limit=limit)

    def _embed(self, memories: list[tuple[int, Memory]]) -> int:
        if not memories:
            return 0
        vectors = self.embedder.embed([embedding_text(memory) for _, memory in memories])
        packed = [
            (num, memory.revision, as_stored(vector))
            for (num, memory), vector in zip(memories, vectors, strict=True)
        ]
        self.ledger.write(lambda txn: txn.put_vectors(self.embedder.name, packed))
        return len(memories)

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
            with self._embedding.taken(seconds=seconds) as mine:
                waiting = self._waiting(BATCH, any_model=any_model) if mine else []
                self._embed(waiting)
            done += len(waiting)
            if progress:
                progress(done, max(total, done))
            if not waiting:
                return done

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
            for _ in range(LONGEST_BURST):
                if not self._news.is_set() or self._closing.is_set():
                    break
                self._news.clear()
                self._closing.wait(PAUSE)
            if self._closing.is_set():
                return
            try:
                self.chores()
                self._drain()
                self.follow()
                self.index.save()
            except ReasonBankError:
                continue  # The next search meets the same error, and tells.

    def _drain(self) -> None:
        while not self._closing.is_set() and not self._news.is_set():
            if not self._waiting(1):
                return
            # Not for long: a search of this process may be waiting as well.
            with self._embedding.taken(seconds=LOOK) as mine:
                if mine:
                    self._embed(self._waiting(SIP))

    def erase(self, nums: list[int]) -> None:
        import numpy as np

        self.queries.clear()
        self.follow()
        self.index.erase(np.array(sorted(nums), np.int64))

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
        self.index.close()
