"""Full text in tables of our own, scored as FTS5 scores: PostgreSQL has no BM25.

``words`` has a row for each word of each memory and where in it the word is. Rows and lengths of
all are in ``counters``.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

from reasonbank.ledger.database import inline
from reasonbank.ledger.words import MANY, KeptCounts, arrays, rarest, tokens

if TYPE_CHECKING:
    from reasonbank.ledger.database import Database, Nums, Scores, Words

# A phrase does not go on from one text of a memory into the next.
COLUMN = 100_000
LONGEST = 200
"""Bytes of a word; PostgreSQL has no room for much more in an index."""
K1, B = 1.2, 0.75
Phrase = tuple[str, ...]


class PostedWords:
    def __init__(self, db: Database) -> None:
        self._db = db
        self._kept = KeptCounts()

    def create(self) -> None:
        self._db.execute(
            'create table words (term text collate "C", realm integer, num bigint,'
            " length integer not null, positions integer[] not null,"
            " primary key (term, realm, num))"
        )

    def put(self, num: int, texts: Sequence[str], realm: int) -> None:
        self.put_all([(num, texts, realm)])

    def drop(self, num: int, texts: Sequence[str], realm: int) -> None:
        self.drop_all([(num, texts, realm)])

    def put_all(self, rows: Sequence[Words]) -> None:
        told = [(num, _positions(texts), realm) for num, texts, realm in rows]
        self._db.many(
            "insert into words select term, ?, ?, ?, positions::integer[]"
            " from unnest(?::text[], ?::text[]) as given(term, positions)",
            [
                (
                    realm,
                    num,
                    _length(found),
                    [*found],
                    [f"{{{','.join(map(str, p))}}}" for p in found.values()],
                )
                for num, found, realm in told
            ],
        )
        self._count(len(told), sum(_length(found) for _, found, _ in told))

    def drop_all(self, rows: Sequence[Words]) -> None:
        told = [(num, _positions(texts), realm) for num, texts, realm in rows]
        self._db.many(
            "delete from words where term = any(?::text[]) and realm = ? and num = ?",
            [([*found], realm, num) for num, found, realm in told],
        )
        self._count(-len(told), -sum(_length(found) for _, found, _ in told))

    def _count(self, rows: int, tokens: int) -> None:
        """Once for many rows: what a transaction wrote of one row, it has to pass each time."""
        self._db.execute(
            "update counters set word_rows = word_rows + ?, word_tokens = word_tokens + ?,"
            " word_changes = word_changes + 1",
            (rows, tokens),
        )

    def clear(self) -> None:
        self._db.execute("delete from words")
        self._db.execute(
            "update counters set word_rows = 0, word_tokens = 0, word_changes = word_changes + 1"
        )

    def rows(self) -> int:
        return self._totals()[0]

    def _totals(self) -> tuple[int, int, int]:
        row = self._db.one("select word_rows, word_tokens, word_changes from counters")
        assert row is not None
        return row[0], row[1], row[2]

    def state(self) -> bytes:
        return str(self._totals()[2]).encode()

    def counts(
        self, realms: Sequence[int] | None, terms: Sequence[str], *, about: bool = False
    ) -> list[int]:
        phrases = [phrase_of(term) for term in terms]
        rows, _, changes = self._totals()
        kept = self._kept.nearly(rows) if about else self._kept.now(changes)
        found = self._counted(realms, phrases, kept)
        return [found[phrase] for phrase in phrases]

    def _counted(
        self, realms: Sequence[int] | None, phrases: Iterable[Phrase], kept: dict[Any, int]
    ) -> dict[Phrase, int]:
        """In how many rows each is."""
        within = None if realms is None else tuple(realms)
        found = {phrase: kept.get((within, phrase), 0) for phrase in phrases}
        single = [phrase[0] for phrase, count in found.items() if not count and len(phrase) == 1]
        if single:
            for term, count in self._db.all(
                f"select term, count(*) from words where term = any(?::text[]){_in(realms)}"
                " group by term",
                (single,),
            ):
                found[(term,)] = kept[within, (term,)] = count
        for phrase, count in found.items():
            if not count and len(phrase) > 1:
                sql, values = _hits(phrase, realms)
                row = self._db.one(f"select count(*) from ({sql}) found", values)
                # None is quickly told, and no longer true once somebody writes the words.
                if row is not None and row[0]:
                    found[phrase] = kept[within, phrase] = row[0]
        return found

    def best(
        self,
        realms: Sequence[int] | None,
        terms: Sequence[str],
        limit: int,
        among: Nums | None,
    ) -> tuple[Nums, Scores]:
        totals = self._totals()
        phrases = [phrase for term in terms if (phrase := phrase_of(term))]
        only, values = "", tuple[Any, ...]()
        if among is not None:
            wanted = self._db.dialect.numbers(among)
            only, values = f" where num in {wanted.sql}", wanted.values
        elif rare := self._rare(phrases, realms, limit, totals[0]):
            parts = [_hits(phrase, realms) for phrase in rare]
            union = " union all ".join(f"select num from ({sql}) rare" for sql, _ in parts)
            only = f" where num in ({union})"
            values = tuple(value for _, given in parts for value in given)
        return self._scored(phrases, realms, totals, f"{only} group by num", values, limit)

    def posting(self, realms: Sequence[int] | None, term: str) -> tuple[Nums, Scores]:
        phrases = [phrase for phrase in (phrase_of(term),) if phrase]
        return self._scored(phrases, realms, self._totals(), " group by num", (), None)

    def _scored(
        self, phrases: Sequence[Phrase], realms: Sequence[int] | None,
        totals: tuple[int, int, int], which: str, values: tuple[Any, ...], limit: int | None,
    ) -> tuple[Nums, Scores]:  # fmt: skip
        """Rows by BM25, best first; a phrase that is asked for twice counts twice."""
        rows, length, changes = totals
        counts = self._counted(None, phrases, self._kept.now(changes))
        # What others write between the two questions is counted, and not in the totals.
        rows = max(rows, *counts.values()) if counts else rows
        length = max(length, rows)
        weights: dict[Phrase, float] = {}
        for phrase in phrases:
            if counts[phrase]:
                weights[phrase] = weights.get(phrase, 0.0) + rarity(rows, counts[phrase])
        if not weights:
            return arrays(())
        hits, given = _all_hits(weights, realms)
        worth = f"{K1}::float8 * ({1 - B}::float8 + {B}::float8 * length / ?::float8)"
        found = self._db.all(
            f"select num, sum(weight * (often * {K1 + 1}::float8 / (often + {worth}))) as score"
            f" from ({hits}) hits{which} order by score desc, num"
            f"{'' if limit is None else f' limit {limit}'}",
            (length / rows, *given, *values),
        )
        return arrays(found)

    def _rare(
        self, phrases: Sequence[Phrase], realms: Sequence[int] | None, limit: int, rows: int
    ) -> Sequence[Phrase]:
        if rows < MANY:
            return ()
        counts = self._counted(realms, phrases, self._kept.nearly(rows))
        return rarest(phrases, counts, rows, limit)


def rarity(rows: int, count: int) -> float:
    """A word that most rows have says next to nothing, but never less."""
    found = math.log((rows - count + 0.5) / (count + 0.5))
    return found if found > 0 else 1e-6


def phrase_of(term: str) -> Phrase:
    return tuple(map(_word, tokens(term)))


def _word(token: str) -> str:
    if len(written := token.encode()) <= LONGEST:
        return token
    return f"\ue001{hashlib.sha256(written).hexdigest()}"  # No word begins like this.


def _positions(texts: Sequence[str]) -> dict[str, list[int]]:
    """Where each word is, by the number of its text and its place there."""
    found: dict[str, list[int]] = {}
    for column, text in enumerate(texts):
        for place, token in enumerate(tokens(text), COLUMN * column):
            found.setdefault(_word(token), []).append(place)
    return found


def _length(positions: dict[str, list[int]]) -> int:
    """FTS5 counts the word that stands for the realm as well."""
    return 1 + sum(map(len, positions.values()))


def _in(realms: Sequence[int] | None, table: str = "words") -> str:
    return "" if realms is None else f" and {table}.realm in {inline(realms)}"


def _all_hits(
    weights: dict[Phrase, float], realms: Sequence[int] | None
) -> tuple[str, tuple[Any, ...]]:
    """Every row that has one of the phrases: its length, how often, and what that weighs."""
    parts: list[str] = []
    values: list[Any] = []
    single = {phrase[0]: weight for phrase, weight in weights.items() if len(phrase) == 1}
    if single:
        parts.append(
            "select num, length, cardinality(positions)::float8 as often, weight"
            " from unnest(?::text[], ?::float8[]) as asked(asked_term, weight)"
            f" join words on term = asked_term{_in(realms)}"
        )
        values += [[*single], [*single.values()]]
    for phrase, weight in weights.items():
        if len(phrase) > 1:
            sql, given = _hits(phrase, realms)
            parts.append(f"select num, length, often, ?::float8 as weight from ({sql}) phrase")
            values += [weight, *given]
    return " union all ".join(parts), tuple(values)


def _hits(phrase: Phrase, realms: Sequence[int] | None) -> tuple[str, tuple[Any, ...]]:
    """The rows that have its words one after the other, and how often."""
    if len(phrase) == 1:
        return (
            "select num, length, cardinality(positions)::float8 as often from words"
            f" where term = ?{_in(realms)}",
            phrase,
        )
    rest = range(1, len(phrase))
    joins = "".join(
        f" join words w{n} on w{n}.realm = w0.realm and w{n}.num = w0.num and w{n}.term = ?"
        for n in rest
    )
    follow = "".join(f" and at + {n} = any(w{n}.positions)" for n in rest)
    return (
        "select w0.num, w0.length, count(*)::float8 as often from words w0"
        f"{joins} cross join unnest(w0.positions) as place(at)"
        f" where w0.term = ?{_in(realms, 'w0')}{follow} group by w0.realm, w0.num, w0.length",
        (*phrase[1:], phrase[0]),
    )
