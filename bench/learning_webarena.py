"""WebArena tasks in a row: is the earlier task of the same template found, and nothing else?

An experience is stored after each task. It helps if it stems from the same template; on a task
whose template is new nothing can help, and the right answer is none.
"""

from __future__ import annotations

import json
import random
import tempfile
from dataclasses import dataclass, field
from pathlib import Path

from bench.learning_loop import PAUSE, START, System, lesson, quick_folder
from bench.learning_vectors import Embedded
from reasonbank import Bank
from reasonbank.store.vectors import embedding_text


@dataclass(slots=True)
class Answers:
    """``familiar``: the template was there before, and was it found? ``new``: it was not, and
    did the memory keep silent?"""

    familiar: list[bool] = field(default_factory=list)
    new: list[bool] = field(default_factory=list)
    tokens: list[int] = field(default_factory=list)

    def numbers(self) -> dict[str, float]:
        both = [*self.familiar, *self.new]
        return {
            "success": sum(self.familiar) / len(self.familiar),
            "silent": sum(self.new) / len(self.new),
            "regret": float(len(both) - sum(both)),
            "tokens": sum(self.tokens) / len(self.tokens),
        }


def tasks(data: Path) -> list[tuple[str, int]]:
    file = data / "webarena_intents" / "test.raw.json"
    return [
        (task["intent"], task["intent_template_id"]) for task in json.loads(file.read_text("utf-8"))
    ]


def play(data: Path, system: System, seed: int, embedder: Embedded) -> Answers:
    order = tasks(data)
    random.Random(f"webarena {seed}").shuffle(order)
    answers = Answers()
    now = START
    template_of: dict[str, int] = {}
    seen: set[int] = set()
    with (
        tempfile.TemporaryDirectory(dir=quick_folder()) as folder,
        Bank.open(
            f"sqlite:///{folder}/bank.db", workspace=folder, settings=system.settings,
            embedder=embedder, clock=lambda: now,
        ) as bank,
    ):  # fmt: skip
        for number, (intent, template) in enumerate(order):
            session = f"task {number}"
            least = None if system.defaults else 0.0
            reply = bank.search(intent, limit=1, min_confidence=least, session=session)
            right = bool(reply) and template_of[reply[0].memory.id] == template
            answers.tokens.append(reply.tokens_used)
            if template in seen:
                answers.familiar.append(right)
            else:
                answers.new.append(not reply)
            if reply and system.reports:
                bank.outcome(reply[0].memory.id, succeeded=right, session=session)
            memory = lesson(intent, "The plan of this task", succeeded=True)
            embedder.found_by(embedding_text(memory), intent)
            template_of[bank.record(memory).id] = template
            seen.add(template)
            now += PAUSE
    return answers
