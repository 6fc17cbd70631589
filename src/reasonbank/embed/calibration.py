"""What the cosines of each embedding model mean: one row a model."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Nearness:
    """When two memories belong together (docs/decisions/0011-merge-threshold.md)."""

    same: float
    """From here on two memories say the same."""
    sure: float
    """From here on they are merged unattended where no model reads them first."""
    related: float
    """From here on they are about the same thing."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EmbeddingCalibration:
    """How search reads cosines (docs/decisions/0003-hybrid-ranking.md), and merging."""

    model: str
    threshold: float
    """Relevance under which a candidate is not worth returning."""
    merge: Nearness = Nearness(same=0.9, sure=0.9, related=0.8)
    """Where nobody measured the scale, only what is nearly identical is merged."""
    unrelated: float = 0.0
    """The cosine at which two texts have nothing to do with each other."""
    lexical: float = 6.0
    """How much a full-text match is worth beside the cosine."""
    near: float = 0.8
    """From here on two memories are paraphrases, what both share with the question aside."""
    same: float = 0.995
    """From here on they are copies."""
    compatible: tuple[str, ...] = ()
    """How the names of models begin whose vectors may be compared with this one's."""


CALIBRATIONS = {
    "reasonbank-minilm-1": EmbeddingCalibration(
        model="reasonbank-minilm-1",
        threshold=0.28,
        merge=Nearness(same=0.8, sure=0.9, related=0.65),
        # Trained from it, with its documents held in place: measured -0.5 to -1.0 point.
        compatible=("all-MiniLM-L6-v2",),
    ),
    "all-MiniLM-L6-v2": EmbeddingCalibration(
        model="all-MiniLM-L6-v2",
        threshold=0.28,
        near=0.55,
        merge=Nearness(same=0.8, sure=0.9, related=0.65),
    ),
    # Its cosines count shared words once more, so they say little beside BM25.
    "hashed-384": EmbeddingCalibration(
        model="hashed-384",
        threshold=0.1,
        lexical=12.0,
        merge=Nearness(same=0.95, sure=0.95, related=0.8),
    ),
}

# Of a model nobody measured we know no scale: rank, and hardly ever refuse.
UNKNOWN_MODEL = EmbeddingCalibration(model="", threshold=0.1)


def calibration_for(model: str) -> EmbeddingCalibration:
    """The constants of ``model``; a build of it may carry a suffix (``…-v2-int8``)."""
    for name, calibration in CALIBRATIONS.items():
        if model.startswith(name):
            return calibration
    return UNKNOWN_MODEL
