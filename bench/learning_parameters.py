"""The parameters of the simple learners, as ``learning_tune`` chose them.

Each learner was tuned for each stream by itself, and for honest and poisoned memories apart.
That is more than ours may know: it has one setting for all.
"""

from __future__ import annotations

from collections.abc import Mapping

HONEST = ("clean", "noise", "drift")
POISONED = ("poison", "own")
Chosen = Mapping[str, float]
USUAL: Mapping[str, Chosen] = {
    "nearest lesson": {},
    "kernel-Beta": {"power": 2, "strength": 5, "prior": 1, "bold": 0},
    "LinUCB": {"ridge": 3, "alpha": 0, "slope": 1, "constant": 0},
    "append and vote": {"power": 4, "nearest": 20, "start": 1, "prior": 2, "against": 0.3},
}
"""Where nothing was chosen for a stream: what was for ``tools``."""
PARAMETERS: Mapping[tuple[str, str, str], Chosen] = {
    ("kernel-Beta", "telecom", "honest"): {"power": 64, "strength": 2, "prior": 1, "bold": 0},
    ("LinUCB", "telecom", "honest"): {"ridge": 1, "alpha": 0.3, "slope": 1, "constant": 0},
    ("append and vote", "telecom", "honest"):
        {"power": 32, "nearest": 20, "start": 1, "prior": 2, "against": 1},
}  # fmt: skip


def parameters(learner: str, stream: str, condition: str) -> Chosen:
    group = "poisoned" if condition in POISONED else "honest"
    return PARAMETERS.get((learner, stream, group), USUAL[learner])
