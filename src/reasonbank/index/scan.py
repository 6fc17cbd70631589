"""Finding the best rows of a matrix: exactly, or through a reduced scan that knows its limits."""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Ints = NDArray[np.int64]
    Floats = NDArray[np.float32]

CHUNK = 8192
# An exact scan of fewer rows takes a few milliseconds; nothing is to be gained below.
REDUCE_FROM = 50_000
# With the length of the rest, a row of the head fills whole cache lines.
COLUMNS = (63, 95, 127)
# A basis that holds less of the data tells too little of any query ...
ENOUGH_OF_DATA = 0.7
# ... and one that misses more of a query tells too little of this one.
UNKNOWN_OF_QUERY = 0.5
# Rows near a query agree with it in what the basis does not hold, too: by half of what they
# could, measured on sentences. Without this, or with all of it, more of them are lost.
AGREEMENT = 0.5
# How many rows are looked at to learn how far the guesses are off, and are scored at least.
PROBED = 256
RESCORED = 1000
SPREADS = 2.5
# BLAS shares the work among threads, and on a busy machine waits for the last of them: 13 ms
# instead of 0.4 at 10,000 rows. Beyond this many products the sharing is worth the risk.
THREADS_FROM = 2**25
# Two sums of the same products differ by less than this, in whatever order BLAS adds them.
ROUNDING = 4e-6


def nearest_rows(matrix: Floats, rows: Ints, query: Floats, limit: int) -> tuple[Ints, Floats]:
    """The best of these rows (sorted), in no order, and all that tie with the last."""
    if not rows.size:
        return rows, np.empty(0, np.float32)
    rows = rows[best(scores(matrix, rows, query), limit, slack=ROUNDING)]
    cosines = exact(matrix, rows, query)
    sound = np.isfinite(cosines)
    return rows[sound], cosines[sound]


def likely_rows(
    matrix: Floats, rows: Ints, query: Floats, limit: int, *, head: Floats, basis: Floats
) -> Ints:
    """The rows that may be among the best, guessed from their leading coordinates.

    How far the guesses are off is learnt from the rows that look best; where that leaves too
    many possible, as with data of no structure, the answer is all of them.
    """
    asked = coordinates(query[None], basis)[0]
    many = max(RESCORED, len(rows) // 256, 8 * limit)
    if 16 * many > len(rows) or asked[-1] ** 2 > UNKNOWN_OF_QUERY * (query @ query):
        return rows
    asked[-1] *= AGREEMENT
    guesses = scores(head, rows, asked)
    least = np.partition(guesses, len(rows) - many)[-many]
    likely = np.flatnonzero(guesses >= least)
    probe = likely[best(guesses[likely], max(PROBED, 2 * limit), slack=0)]
    cosines = scores(matrix, rows[probe], query)
    over = guesses[probe] - cosines
    needed = np.partition(cosines, -limit)[-limit] + over.mean() - SPREADS * over.std()
    if needed < least:
        likely = np.flatnonzero(guesses >= needed)
    return rows if 16 * len(likely) > len(rows) else rows[likely]


def coordinates(vectors: Floats, basis: Floats) -> Floats:
    """Each vector in the basis, and the length of what the basis does not hold of it."""
    if not len(basis):
        return np.empty((len(vectors), 0), np.float32)
    leading = vectors @ basis.T
    rest = np.vecdot(vectors, vectors) - np.vecdot(leading, leading)
    return np.column_stack([leading, np.sqrt(np.maximum(rest, 0))])


def basis_of(sample: Floats) -> Floats:
    """The directions that hold most of the sample; none when it takes too many of them."""
    held, directions = np.linalg.eigh((sample.T @ sample).astype(np.float64))
    shares = np.cumsum(held[::-1]) / held.sum()
    for columns in COLUMNS:
        if columns < len(shares) and shares[columns - 1] >= ENOUGH_OF_DATA:
            return np.ascontiguousarray(directions[:, ::-1][:, :columns].T, np.float32)
    return np.empty((0, sample.shape[1]), np.float32)


def scores(matrix: Floats, rows: Ints, query: Floats) -> Floats:
    """The dot product of each row (sorted) with the query, but for rounding."""
    start, stop = int(rows[0]), int(rows[-1]) + 1
    if len(rows) == stop - start:
        return _products(matrix[start:stop], query)
    # Reading all is faster than picking every fourth row.
    if 4 * len(rows) > stop - start:
        return _products(matrix[start:stop], query)[rows - start]
    return np.concatenate([_products(matrix[part], query) for part in _chunks(rows)])


def best(scores: Floats, limit: int, *, slack: float) -> Ints:
    """Where the ``limit`` highest scores are, and those within ``slack`` of the lowest."""
    if limit >= len(scores):
        return np.arange(len(scores))
    top = np.partition(scores, len(scores) - limit)[-limit:]
    if np.isnan(top.max()):
        return best(np.where(np.isnan(scores), -np.inf, scores), limit, slack=slack)
    return np.flatnonzero(scores >= top[0] - slack)


def exact(matrix: Floats, rows: Ints, query: Floats) -> Floats:
    """Dot products that depend on nothing but the row, so that equal rows tie."""
    parts = [(matrix[part] * query).sum(axis=1) for part in _chunks(rows)]
    return np.concatenate(parts) if parts else np.empty(0, np.float32)


def distinct(values: Ints) -> Ints:
    """Sorted, each once. Asked like this, ``np.unique`` does not load numpy.ma first."""
    return np.unique(values, return_index=True)[0]


def member(values: Ints, of: Ints) -> NDArray[np.bool_]:
    """Which values are in ``of``, which is sorted."""
    if not of.size:
        return np.zeros(len(values), np.bool_)
    return np.equal(of[np.minimum(np.searchsorted(of, values), len(of) - 1)], values)


def _products(matrix: Floats, query: Floats) -> Floats:
    if matrix.size < THREADS_FROM:
        return cast("Floats", np.vecdot(matrix, query))
    return matrix @ query


def _chunks(rows: Ints) -> list[Ints]:
    return [rows[at : at + CHUNK] for at in range(0, len(rows), CHUNK)]
