"""A bank that was used in every way there is, for tests that take it somewhere else."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

from reasonbank import Bank, Memory, Outcome, Scope, Settings, Trace
from reasonbank.access import TokenStore
from reasonbank.ledger.port import Ledger
from reasonbank.model import JSON, LinkType, Right
from reasonbank.settings import Embed
from reasonbank.testing import a_memory

HASHED = Settings(embed=Embed(model="hashed"))
QUESTIONS = ("flaky test of the port", "upload times out", "migrate the schema", "naming things")


def open_over(ledger: Ledger, workspace: str | Path, **options: Any) -> Bank:
    return Bank.open(ledger=ledger, workspace=workspace, settings=HASHED, **options)


def live_in(bank: Bank, other: Bank) -> str:
    """Use a bank from two workspaces; return the secret of a token that opens it."""
    port = bank.record(a_memory(title="Wait for the port of a flaky test", tags=("flaky", "tests")))
    upload = bank.record(a_memory(title="Retry the upload that times out", content="Three times."))
    schema = bank.record(a_memory(title="Migrate the schema in steps", domain="sql"))
    old = bank.record(a_memory(title="Name things once", content="A name is said in one place."))
    gone = bank.record(a_memory(title="A password was in here", content="Never say this again"))
    shared = other.record(a_memory(title="Order the migration steps", scope=Scope.TEAM))
    bank.update(schema.id, content="Add, backfill, then drop. " * 50)  # Long: it has passages.
    bank.link(port.id, upload.id, type=LinkType.SIMILAR, strength=0.7)
    for n, question in enumerate(QUESTIONS):
        bank.search(question, session=f"task-{n}")
        bank.credit(f"task-{n}", succeeded=n % 2 == 0)
    other.search("migration steps", session="elsewhere")
    other.credit("elsewhere", succeeded=True)
    bank.feedback(shared.id, helpful=False, comment="not here")
    bank.feedback(port.id, helpful=True)
    bank.search("quantum chromodynamics of cheese")
    bank.store_trace(
        Trace(task="Make the upload robust", outcome=Outcome.SUCCESS, memories_used=(upload.id,))
    )
    bank.distil(Trace(task="Something to learn from", outcome=Outcome.FAILURE))
    bank.archive(old.id)
    bank.seen_by(author="mallory").update(port.id, content="Give up.")
    bank.revert(author="mallory")
    bank.forget(gone.id)
    bank.record(replace(a_memory(title="A child"), parents=(port.id, upload.id)))
    other.name_workspace(other.view.workspace, "the other")
    made = TokenStore(bank).create(scope=Right.ADMIN, name="ci")
    bank.embed_new()
    bank.store.flush()
    return made.token


def seen(bank: Bank) -> JSON:
    """What a user sees of it: ids, confidence and order of hits, history, evidence, traces."""
    hits = {
        question: [
            (hit.memory.id, hit.memory.confidence, hit.expected) for hit in bank.search(question)
        ]
        for question in QUESTIONS
    }
    listed: list[Memory] = bank.memories()
    return {
        "hits": hits,
        "listed": [(m.id, m.title, m.confidence, m.state, m.revision) for m in listed],
        "history": {m.id: len(bank.history(m.id)) for m in listed},
        "evidence": {m.id: bank.evidence(m.id) for m in listed},
        "traces": bank.traces(),
        "gaps": [gap.question for gap in bank.gaps()],
        "jobs": bank.jobs(),
    }
