"""The parameters of the simple learners, as ``learning_tune`` chose them and wrote them down.

Each learner was tuned for each stream by itself, and for honest and poisoned memories apart.
That is more than ours may know: it has one setting for all.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import cache
from pathlib import Path

FILE = Path(__file__).resolve().parent / "learning_parameters.json"
HONEST = ("clean", "noise", "drift")
POISONED = ("poison", "own")
Chosen = Mapping[str, float]
ELSEWHERE = "tools"
"""Where nothing was chosen for a stream, what was for this one."""


@cache
def every() -> dict[str, dict[str, dict[str, dict[str, float]]]]:
    """Stream, honest or poisoned, learner: its parameters."""
    found: dict[str, dict[str, dict[str, dict[str, float]]]]
    found = json.loads(FILE.read_text("utf-8"))
    return found


def parameters(learner: str, stream: str, condition: str) -> Chosen:
    group = "poisoned" if condition in POISONED else "honest"
    return every().get(stream, {}).get(group, every()[ELSEWHERE][group]).get(learner, {})


def keep(learner: str, stream: str, group: str, chosen: Chosen) -> None:
    every.cache_clear()  # Another process may have chosen for another stream.
    every().setdefault(stream, {}).setdefault(group, {})[learner] = dict(chosen)
    FILE.write_text(json.dumps(every(), indent=1) + "\n", "utf-8")
