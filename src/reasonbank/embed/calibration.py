"""What the cosines of each embedding model mean: one row a model."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Nearness:
    """When two memories belong together (docs/decisions/0011-merge-threshold.md)."""

    same: float
    """From here on two memories say the same."""
    sure: float
    """From here on they are merged unattended where no model reads them first, and a lesson that
    is distilled is known already."""
    related: float
    """From here on they are about the same thing."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EmbeddingCalibration:
    """How search reads cosines (docs/decisions/0003-hybrid-ranking.md), and merging."""

    model: str
    threshold: float
    """Nearness from which on a candidate is worth mentioning."""
    sure: float | None = None
    """Relevance from which on it is surely an answer; what is only near is a weak one. None:
    there is no telling, and nothing is weak."""
    merge: Nearness = Nearness(same=0.9, sure=0.9, related=0.8)
    """Where nobody measured the scale, only what is nearly identical is merged."""
    unrelated: float | None = 0.0
    """The cosine at which two texts have nothing to do with each other; None: nobody knows."""
    crowd: float = 0.75
    """How far an answer has to stand out of what else is near."""
    middle: float = 0.34
    """What stands out by that much is as likely an answer as none."""
    lexical: float = 5.0
    """How much a full-text match is worth beside the cosine."""
    peak: float = 6.0
    """How much less, where one cosine stands out of the others."""
    most: float = 0.45
    """What the best match by words is worth at most."""
    near: float = 0.8
    """From here on two memories are paraphrases, what both share with the question aside."""
    same: float = 0.995
    """From here on they are copies."""
    compatible: tuple[str, ...] = ()
    """How the names of models begin whose vectors may be compared with this one's."""


CALIBRATIONS = {
    "reasonbank-minilm-1": EmbeddingCalibration(
        model="reasonbank-minilm-1",
        threshold=0.12,
        sure=0.6,
        near=0.55,
        merge=Nearness(same=0.83, sure=0.91, related=0.65),
        # Trained from it, documents held in place: -1.3 to +1.0 points of nDCG on tuning parts.
        compatible=("all-MiniLM-L6-v2",),
    ),
    "all-MiniLM-L6-v2": EmbeddingCalibration(
        model="all-MiniLM-L6-v2",
        threshold=0.18,
        sure=0.6,
        near=0.55,
        merge=Nearness(same=0.8, sure=0.9, related=0.65),
    ),
    # Its cosines count shared words once more, so they say little beside BM25.
    "hashed-384": EmbeddingCalibration(
        model="hashed-384",
        threshold=0.1,
        crowd=0.0,
        lexical=12.0,
        peak=2.0,
        most=3.0,
        merge=Nearness(same=0.95, sure=0.95, related=0.8),
    ),
}

UNKNOWN_MODEL = EmbeddingCalibration(model="", threshold=0.12, sure=0.6, unrelated=None)
"""Of a model nobody measured the scale is told from what each question finds."""
ONLY_WORDS = EmbeddingCalibration(model="words", threshold=0.1, crowd=0.0, most=3.0)
"""Where there is no meaning to go by, hardly ever refuse."""


def calibration_for(model: str) -> EmbeddingCalibration:
    """The constants of ``model``; a build of it may carry a suffix (``…-v2-int8``)."""
    if model == ONLY_WORDS.model:
        return ONLY_WORDS
    for name, calibration in CALIBRATIONS.items():
        if model.startswith(name):
            return calibration
    return UNKNOWN_MODEL
