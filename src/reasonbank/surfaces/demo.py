"""The learning loop in a few seconds, on a bank that is thrown away afterwards.

Nothing is scripted but the tasks: what is learned from the sessions in ``demo_sessions``, what is
found, and how far it is trusted, comes from the bank while it runs.
"""

from __future__ import annotations

import json
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass, replace
from importlib import resources
from pathlib import Path

from reasonbank.bank import Bank
from reasonbank.model import ErrorContext, Memory, Outcome, Reply
from reasonbank.settings import LLM, Learn, load

SESSIONS = {"monday": "claude-code", "tuesday": "codex"}
TASK = "make integration fails, it says connection refused"

LESSONS = (
    Memory(
        title="Install from the lockfile in CI",
        description="When a build breaks although nobody changed the code",
        content="Use the locked install (npm ci, pip install -r with hashes), never the loose one.",
        outcome=Outcome.SUCCESS,
        tags=("ci",),
    ),
    Memory(
        title="Clear the whole cache and build again",
        description="When a build breaks although nobody changed the code",
        content="Delete every cache and rerun the pipeline until it passes.",
        outcome=Outcome.SUCCESS,
        tags=("ci",),
    ),
    Memory(
        title="Do not retry a charge blindly",
        description="When a payment request times out",
        content="The first request had gone through: the customer was charged twice.",
        outcome=Outcome.FAILURE,
        error_context=ErrorContext(
            error_type="DuplicateCharge",
            failure_pattern="POST /charge retried after a timeout",
            corrective_guidance="Send an idempotency key with every charge.",
        ),
    ),
)
QUESTION = "the nightly build fails and there was no commit"
# In this world the lockfile fixes such builds, and clearing the cache seldom does.
REPORTS = ((True, False), (True, False), (True, True), (True, False), (True, False))


@dataclass(frozen=True, slots=True, kw_only=True)
class Scene:
    """One step of the demo: what was done, and what the bank answered, if it was asked."""

    what: str
    reply: Reply | None = None
    confidence: tuple[tuple[str, float | None, float | None], ...] = ()
    """Title, before and after."""
    learned: tuple[str, ...] = ()
    """Titles."""


def scenes() -> Iterator[Scene]:
    # Whatever model the user has: a demo asks nobody.
    settings = replace(load(), llm=LLM(), learn=Learn(reasoner="rules"))
    with (
        tempfile.TemporaryDirectory(prefix="reasonbank-demo-") as folder,
        Bank.open(
            f"sqlite:///{Path(folder) / 'bank.db'}",
            workspace=folder,
            settings=settings,
            surface="demo",
        ) as bank,
    ):
        yield Scene(
            what="On Monday Claude Code ran the integration tests here, on Tuesday Codex rounded "
            "prices. ReasonBank reads what they wrote down, and learns without a model.",
            learned=_learned(bank, Path(folder)),
        )
        yield Scene(
            what=f"On Wednesday another agent is told: “{TASK}”. Before it begins, it is told "
            "what Monday taught.",
            reply=bank.search(TASK, limit=1),
        )
        stored = [bank.record(lesson) for lesson in LESSONS]
        yield Scene(what="An agent records two ways to fix a build, and a mistake it made.")
        yield Scene(
            what=f"Later it meets a task: “{QUESTION}”. It asks first.",
            reply=bank.search(QUESTION, limit=2),
        )
        lockfile, cache = stored[0], stored[1]
        for number, verdicts in enumerate(REPORTS):
            bank.search(QUESTION, session=f"build {number}")
            for memory, succeeded in zip((lockfile, cache), verdicts, strict=True):
                bank.outcome(memory.id, succeeded=succeeded, session=f"build {number}")
        yield Scene(
            what="Five such tasks later it has asked each time, and reported how things went.",
            confidence=tuple(
                (memory.title, memory.confidence, bank.get(memory.id).confidence)
                for memory in (lockfile, cache)
            ),
        )
        yield Scene(what="It asks the same again.", reply=bank.search(QUESTION, limit=2))
        yield Scene(
            what="“The payment service timed out, send the charge again” brings up the mistake.",
            reply=bank.search("the payment service timed out, send the charge again"),
        )
        yield Scene(
            what="“How do I bake sourdough bread” is nothing this bank knows about.",
            reply=bank.search("how do I bake sourdough bread"),
        )


def _learned(bank: Bank, folder: Path) -> tuple[str, ...]:
    """The titles of what two sessions in a project teach."""
    from reasonbank.jobs.service import work_now
    from reasonbank.store.queue import hand_over

    for name, agent in SESSIONS.items():
        told = resources.files("reasonbank.surfaces").joinpath(f"demo_sessions/{name}.jsonl")
        transcript = folder / f"{name}.jsonl"
        # As it would stand in JSON, which a path with backslashes does not do by itself.
        here = json.dumps(str(folder))[1:-1]
        transcript.write_text(told.read_text("utf-8").replace("{project}", here), "utf-8")
        hand_over(bank.context, agent=agent, session="", path=str(transcript))
    done = work_now(bank.context, None, workspace=None, turns=False)
    return tuple(bank.get(id).title for id in done.learned)
