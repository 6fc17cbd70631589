"""Of memories that say the same, the best first and the others later. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from reasonbank.search.rank import Fusion

    Floats = NDArray[np.floating[Any]]


def diverse(
    by_score: NDArray[np.intp],
    score: Floats,
    vectors: NDArray[np.float32] | None,
    fusion: Fusion,
    limit: int,
    diversity: float,
) -> tuple[NDArray[np.intp], Floats, NDArray[np.intp]]:
    """Greedy MMR over the best; who was penalised, how much, and because of whom.

    Redundancy starts only at cosine ``near`` and is complete at ``same``: memories
    that merely share a subject are not each other's rivals.
    """
    import numpy as np

    penalty = np.zeros(len(score))
    rival = np.full(len(score), -1, np.intp)
    if vectors is None or diversity >= 1.0 or len(by_score) < 2 or limit < 1:
        return by_score[: max(limit, 0)], penalty, rival
    reach = max(3 * limit, 30)
    while True:
        pool = by_score[:reach]
        chosen, least = _greedy(pool, score, vectors, fusion, limit, diversity, penalty, rival)
        # A crowd of copies can fill the whole pool: then look further down.
        if least > 0 or reach >= len(by_score):
            return pool[chosen], penalty, rival
        reach *= 4


def _greedy(
    pool: NDArray[np.intp],
    score: Floats,
    vectors: NDArray[np.float32],
    fusion: Fusion,
    limit: int,
    diversity: float,
    penalty: Floats,
    rival: NDArray[np.intp],
) -> tuple[list[int], float]:
    import numpy as np

    near, same = fusion.calibration.near, fusion.calibration.same
    own = vectors[pool]
    cosines = own @ own.T
    cosines.flat[:: len(pool) + 1] = 0.0
    if cosines.max() <= near:
        return list(range(min(limit, len(pool)))), 1.0
    redundancy = ((cosines - near) / (same - near)).clip(0.0, 1.0).astype(np.float64)
    gain = diversity * score[pool]
    cost = (1.0 - diversity) * float(score[pool[0]])
    worst = np.zeros(len(pool))
    by = np.full(len(pool), -1, np.intp)
    chosen: list[int] = []
    value = gain.copy()
    least = 1.0
    for _ in range(min(limit, len(pool))):
        best = int(np.argmax(value))
        least = min(least, float(1.0 - worst[best]))
        chosen.append(best)
        closer = redundancy[best] > worst
        worst[closer] = redundancy[best][closer]
        by[closer] = best
        value = gain - cost * worst
        value[chosen] = -np.inf
    penalty[pool] = cost * worst
    rival[pool] = np.where(by >= 0, pool[by], -1)
    return chosen, least
