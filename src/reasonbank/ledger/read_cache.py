"""What searches ask of a database, cached for as long as it stays true.

A cache holds what was read since the ledger last changed, by whomever; the threads of a
process share it. Full text outlives it: most of what is written changes no words.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Hashable, Sequence
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

import numpy as np

from reasonbank.bounded import Bounded
from reasonbank.ledger.database import Database, PostedText
from reasonbank.ledger.port import Candidates, Filter, PastOutcomes, Row, Trials
from reasonbank.ledger.queries import Reader
from reasonbank.ledger.queries.memories import COLUMNS, unpacked_evidence
from reasonbank.ledger.words import rarest
from reasonbank.model import LinkType, Scope, State, View
from reasonbank.trust.belief import Opinion, Tally

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Nums = NDArray[np.int64]
    Scores = NDArray[np.float64]

T = TypeVar("T")

# A search after words were written asks the database; from the fourth on they seem to stand still.
QUIET = 3
MOST_POSTINGS = 2_000_000  # Of 16 bytes each.
# Above, reading the postings of a common word takes longer than it saves.
MOST_ROWS = 100_000
FEW_CONTRADICTIONS = 1_000
# Where nothing is ever written, a cache would grow to the whole bank.
MOST_COLUMNS = 200_000
MOST_TEXTS = 5_000


class ReadCache:
    """``version`` is the ledger's when this was begun: nothing here is older."""

    def __init__(self, version: object, postings: Postings) -> None:
        self.version = version
        self.postings = postings
        self.columns = CachedRows()
        self.rows: dict[int, Row] = {}
        self.tallies: dict[str, dict[int, Tally]] = {}
        self.others: dict[Hashable, Any] = {}


class CachedReader(Reader):
    """A reader that looks into the cache first. One for each thread, for searches only."""

    def __init__(self, db: PostedDatabase, cache: ReadCache) -> None:
        super().__init__(db)
        self._full_text = db.full_text
        self.cache = cache

    def cached(self, key: Hashable, make: Callable[[], T]) -> T:
        kept: dict[Hashable, T] = self.cache.others
        if len(kept) > MOST_TEXTS:
            kept = self.cache.others = {}
        if key not in kept:
            kept[key] = make()
        return kept[key]

    def realms(
        self, view: View, scopes: Sequence[Scope], states: Sequence[State]
    ) -> tuple[int, ...]:
        key = ("realms", view, tuple(scopes), tuple(states))
        return self.cached(key, lambda: Reader.realms(self, view, scopes, states))

    def rows(self, view: View, nums: Sequence[int]) -> list[Row]:
        kept = self.cache.rows
        if len(kept) > MOST_TEXTS:
            kept = self.cache.rows = {}
        if missing := [num for num in nums if num not in kept]:
            kept.update((row.num, row) for row in super().rows(view, missing))
        within = self.realms(view, tuple(Scope), tuple(State))
        return [row for num in nums if (row := kept.get(num)) and row.realm in within]

    def tallies(self, nums: Sequence[int], viewer: str) -> dict[int, Tally]:
        if sum(map(len, self.cache.tallies.values())) > MOST_TEXTS:
            self.cache.tallies = {}
        kept = self.cache.tallies.setdefault(viewer, {})
        if missing := [num for num in nums if num not in kept]:
            kept.update(super().tallies(missing, viewer))
        return {num: kept[num] for num in nums}

    def trials(self, nums: Sequence[int], viewer: str, since: int) -> dict[int, Trials]:
        kept: dict[int, Trials] = self.cached(("trials", viewer, since), dict)
        found = {num: kept[num] for num in nums if num in kept}
        if missing := [num for num in nums if num not in found]:
            found |= super().trials(missing, viewer, since)
            kept |= found
        return found

    def opinions(self, viewer: str) -> dict[int, Opinion]:
        return self.cached(("opinions", viewer), lambda: Reader.opinions(self, viewer))

    def shared_evidence(self) -> dict[int, Opinion]:
        return self.cached("shared_evidence", lambda: Reader.shared_evidence(self))

    def uses(self, workspace: str) -> int:
        return self.cached(("uses", workspace), lambda: Reader.uses(self, workspace))

    def track_record(self, workspace: str) -> tuple[int, ...]:
        return self.cached(
            ("track_record", workspace), lambda: Reader.track_record(self, workspace)
        )

    def authors(self, view: View) -> dict[tuple[str, str], tuple[int, int]]:
        return self.cached(("authors", view), lambda: Reader.authors(self, view))

    def contradictions(self, ids: Sequence[str]) -> list[tuple[str, str]]:
        pairs = self.cached("contradictions", self._contradictions)
        if pairs is None:
            return super().contradictions(ids)
        return sorted({pair for id in ids for pair in pairs.get(id, ())})

    def _contradictions(self) -> dict[str, set[tuple[str, str]]] | None:
        """All of them, by either end; None if they are many."""
        found = self.db.all(
            "select source, target from links where type = ? limit ?",
            (LinkType.CONTRADICTS, FEW_CONTRADICTIONS + 1),
        )
        if len(found) > FEW_CONTRADICTIONS:
            return None
        pairs: dict[str, set[tuple[str, str]]] = {}
        for source, target in found:
            pairs.setdefault(source, set()).add((source, target))
            pairs.setdefault(target, set()).add((source, target))
        return pairs

    def past_outcomes(
        self, nums: Nums, viewer: str, model: str, dimensions: int, compatible: Sequence[str] = ()
    ) -> PastOutcomes:
        if self.cached("questions", lambda: self.db.one("select 1 from questions")):
            return super().past_outcomes(nums, viewer, model, dimensions, compatible)
        return self.cached(
            ("no outcomes", dimensions),
            lambda: Reader.past_outcomes(self, nums[:0], viewer, model, dimensions),
        )

    def candidates(self, view: View, filter: Filter, nums: Nums) -> Candidates:
        if filter.narrows or not len(nums):
            return super().candidates(view, filter, nums)
        columns = self.cache.columns
        if len(columns) > MOST_COLUMNS:
            columns = self.cache.columns = CachedRows()
        with columns.lock:
            if len(missing := columns.missing(nums)):
                wanted = self.db.dialect.numbers(missing)
                rows = f"{wanted.sql} wanted join memories on num = wanted.value"
                columns.add(self.db.all(f"select realm, {COLUMNS} from {rows}", wanted.values))
            return columns.taken(
                nums,
                visible=self.realms(view, tuple(Scope), tuple(State)),
                allowed=self.realms(view, filter.scopes, filter.states),
            )

    def words(
        self, view: View, filter: Filter, terms: Sequence[str], limit: int, among: Nums | None
    ) -> tuple[Nums, Scores]:
        realms = self.realms(view, filter.scopes, filter.states)
        nothing = not terms or not realms or (among is not None and not len(among))
        if nothing or self.word_rows() > MOST_ROWS:
            return super().words(view, filter, terms, limit, among)
        within = self._apart(realms)
        state = self.cached("full text", self._full_text.state)
        found = self.cache.postings.of(state, within, terms, self._full_text.posting)
        if found is None:
            return super().words(view, filter, terms, limit, among)
        if among is None:
            counts = {term: len(nums) for term, (nums, _) in found.items()}
            if rare := rarest(terms, counts, self.word_rows(), limit):
                among = np.concatenate([found[term][0] for term in rare])
        return summed(list(found.values()), among, limit)

    def word_rows(self) -> int:
        return self.cached("word_rows", self._full_text.rows)

    def _apart(self, realms: tuple[int, ...]) -> tuple[int, ...] | None:
        return self.cached(("apart", realms), lambda: Reader._apart(self, realms))


class PostedDatabase(Database, Protocol):
    @property
    def full_text(self) -> PostedText: ...


class Shelf:
    """The cache that the searches of a ledger share, and the reader that each thread has."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._cache: ReadCache | None = None
        self._local = threading.local()

    def reader(self, version: object, db: PostedDatabase) -> CachedReader:
        """``version`` is the ledger's, asked just now; ``db`` is this thread's."""
        with self._lock:
            if self._cache is None or self._cache.version != version:
                postings = Postings() if self._cache is None else self._cache.postings
                self._cache = ReadCache(version, postings)
            cache = self._cache
        reader: CachedReader | None = getattr(self._local, "reader", None)
        if reader is None or reader.db is not db:
            reader = self._local.reader = CachedReader(db, cache)
        reader.cache = cache
        return reader


class CachedRows:
    """What ranking needs to know of the rows that came up, as columns with room to grow."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self._place = np.empty(0, np.int32)
        self._count = 0
        self._texts = np.empty((7, 0), object)  # id, scope, source, workspace, author, error, hand
        self._whole = np.empty((3, 0), np.int64)  # realm, created_at, probation
        self._initial = np.empty(0, np.float64)
        self._evidence = unpacked_evidence(())
        self._derived: dict[Hashable, Scores] = {}

    def __len__(self) -> int:
        return self._count

    def missing(self, nums: Nums) -> Nums:
        if (highest := int(nums.max())) >= len(self._place):
            grown = np.full(2 * highest + 1, -1, np.int32)
            grown[: len(self._place)] = self._place
            self._place = grown
        return np.ascontiguousarray(nums[self._place[nums] < 0])

    def add(self, rows: Sequence[tuple[Any, ...]]) -> None:
        if not rows:
            return
        start, self._count = self._count, self._count + len(rows)
        if self._count > len(self._initial):
            self._grow(2 * self._count)
        new = slice(start, self._count)
        (
            realms, nums, ids, scopes, sources, created_at, workspaces, initial, evidence,
            kinds, patterns, authors, probation, hands,
        ) = zip(*rows, strict=True)  # fmt: skip
        errors = np.empty(len(rows), object)
        errors[:] = [
            None if kind is None else pair
            for kind, *pair in zip(kinds, kinds, patterns, strict=True)
        ]
        self._texts[:, new] = [ids, scopes, sources, workspaces, authors, errors, hands]
        self._whole[:, new] = realms, created_at, probation
        self._initial[new] = initial
        self._evidence[new] = unpacked_evidence(evidence)
        self._place[np.array(nums)] = np.arange(start, self._count)

    def _grow(self, size: int) -> None:
        def grown(values: NDArray[Any], axis: int) -> NDArray[Any]:
            more = list(values.shape)
            more[axis] = size - more[axis]
            return np.concatenate([values, np.empty(more, values.dtype)], axis)

        self._texts, self._whole = grown(self._texts, 1), grown(self._whole, 1)
        self._initial, self._evidence = grown(self._initial, 0), grown(self._evidence, 0)

    def taken(
        self, nums: Nums, *, visible: tuple[int, ...], allowed: tuple[int, ...]
    ) -> Candidates:
        places = self._place[nums]
        realms = self._whole[0, places]
        seen = (places >= 0) & member(realms, visible)
        if not seen.all():
            nums, places, realms = nums[seen], places[seen], realms[seen]
        ids, scopes, sources, workspaces, authors, errors, hands = self._texts[:, places]
        created_at = self._whole[1, places]
        return Candidates(
            nums=nums,
            ids=ids,
            scopes=scopes,
            sources=sources,
            created_at=created_at,
            workspaces=workspaces,
            authors=authors,
            initial=self._initial[places],
            evidence=self._evidence[places],
            errors=errors,
            probation=self._whole[2, places],
            hands=hands,
            allowed=member(realms, allowed),
            cache=self,
        )

    def derived(
        self, rows: Candidates, key: Hashable, make: Callable[[Candidates], Scores]
    ) -> Scores:
        places = self._place[rows.nums]
        with self.lock:
            kept = self._derived.get(key)
            found = None
            if kept is not None and len(kept) == len(self._initial):
                found = kept[places]
        if found is not None and not np.isnan(found).any():
            return found
        found = make(rows)
        with self.lock:
            kept = self._derived.get(key)
            if kept is None or len(kept) < len(self._initial):
                grown = np.full((len(self._initial), *found.shape[1:]), np.nan)
                if kept is not None:
                    grown[: len(kept)] = kept
                kept = self._derived[key] = grown
            kept[places] = found
        return found


Posting = tuple["Nums", "Scores"]
"""The rows that a term is in, and what BM25 gives each of them for it."""
Realms = tuple[int, ...] | None


class Postings:
    """Postings of terms, for as long as the full text holds the same words. BM25 adds them up."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._words = b""
        self._searches = 0
        self._kept = Bounded[tuple[Realms, str], Posting](
            MOST_POSTINGS, weigh=lambda posting: 1 + len(posting[0])
        )

    def of(
        self,
        words: bytes,
        within: Realms,
        terms: Sequence[str],
        read: Callable[[Realms, str], Posting],
    ) -> dict[str, Posting] | None:
        """Of each term, in the rows of these realms; None if it is better to ask the database."""
        found: dict[str, Posting] = {}
        with self._lock:
            if words != self._words:
                self._words = words
                self._searches = 0
                self._kept.clear()
            self._searches += 1
            for term in terms:
                if kept := self._kept.get((within, term)):
                    found[term] = kept
            if len(found) < len(terms) and self._searches <= QUIET:
                return None
        for term in terms:
            if term not in found:
                found[term] = read(within, term)
                self._keep(words, (within, term), found[term])
        return found

    def _keep(self, words: bytes, key: tuple[Realms, str], posting: Posting) -> None:
        with self._lock:
            if words == self._words:
                self._kept.put(key, posting)


def summed(postings: Sequence[Posting], among: Nums | None, limit: int) -> Posting:
    """The best rows of all postings together, or of those that are also in ``among``."""
    nums = np.concatenate([nums for nums, _ in postings])
    weights = np.concatenate([scores for _, scores in postings])
    totals = np.bincount(nums, weights).astype(np.float64, copy=False)
    if among is not None:
        wanted = np.zeros(len(totals), np.bool_)
        wanted[among[among < len(totals)]] = True
        totals *= wanted
    rows = np.flatnonzero(totals)
    scores = totals[rows]
    if len(rows) > limit:
        good = scores >= np.partition(scores, len(rows) - limit)[len(rows) - limit]
        rows, scores = rows[good], scores[good]
    order = np.lexsort((rows, -scores))[:limit]
    return rows[order], scores[order]


def member(values: NDArray[np.int64], of: tuple[int, ...]) -> NDArray[np.bool_]:
    """Which values are among these few."""
    found = np.zeros(len(values), np.bool_)
    for each in of:
        found |= values == each
    return found
