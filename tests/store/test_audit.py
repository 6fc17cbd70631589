"""Who changed what, when, and through which surface."""

import hashlib
import io
import json

import anyio
import pytest
from click.testing import CliRunner
from tests.agent.player import Player
from tests.requirement import requirement
from tests.tidy.test_promote import prove

from reasonbank import Bank, Change, InvalidInput, Scope
from reasonbank.fields import plain
from reasonbank.ledger.events import EventType
from reasonbank.surfaces.cli import main
from reasonbank.testing import a_memory, a_trace

# What only reads, or makes derived things anew.
NO_CHANGE = {
    "audit", "author", "backup", "batches", "close", "contradicting", "embed_new", "evidence",
    "export",
    "gaps", "genealogy", "get", "health", "history", "inject", "jobs", "links", "memories",
    "open", "rebuild", "recommend", "reindex",
    "report", "review", "search", "seen_by", "settings", "statistics", "store", "trace", "traces",
    "verify", "view", "within", "workspaces",
}  # fmt: skip


THROUGH_THE_WORKER = {"work"}  # Its changes come from another surface; see tests/jobs.


def kinds(bank, **wanted):
    return [change.what for change in bank.audit(**wanted)]


def changing(bank, open_bank, clock):
    """Every operation that changes a bank, each ready to be called."""
    one, two = bank.record(a_memory()).id, bank.record(a_memory()).id
    for _ in range(30):
        bank.feedback(two, helpful=False)
    place = bank.view.workspace
    other = open_bank("other")
    other.record(a_memory())
    file = io.StringIO()
    other.export(file)
    file.seek(0)
    session = "a task"
    twins = bank.within(open_bank.project("twins"))
    for _ in range(2):
        twins.record(a_memory())
    merged = twins.consolidate()
    more = bank.within(open_bank.project("more twins"))
    for _ in range(2):
        more.record(a_memory())
    prove(more, more.record(a_memory()))
    bank.within(open_bank.project("elsewhere")).record(a_memory())
    tickets = {}
    queued, failed = bank.distil(a_trace()), bank.distil(a_trace())
    (taken,) = bank.context.write(
        lambda txn: [txn.queue.claim_one(failed.id, "w", clock(), clock() + 60_000_000)]
    )
    bank.context.write(lambda txn: txn.queue.fail(taken, "no luck", None))
    bank.search("retry uploads", session=session)
    bank.seen_by(author="mallory").record(a_memory())
    return {
        "record": lambda: bank.record(a_memory()),
        "update": lambda: bank.update(one, title="Another"),
        "undo": lambda: bank.undo(one),
        "feedback": lambda: bank.feedback(one, helpful=True),
        "outcome": lambda: bank.outcome(one, succeeded=True),
        "stability": lambda: bank.stability(one, kept=True),
        "credit": lambda: bank.credit(session, succeeded=True),
        "link": lambda: bank.link(one, two, type="similar"),
        "unlink": lambda: bank.unlink(one, two, type="similar"),
        "store_trace": lambda: bank.store_trace(a_trace()),
        "distil": lambda: bank.distil(a_trace()),
        "retry_job": lambda: bank.retry_job(failed.id),
        "drop_job": lambda: bank.drop_job(queued.id),
        "distil_prepare": lambda: tickets.update(plain(bank.distil_prepare(a_trace()))),
        "distil_submit": lambda: bank.distil_submit(tickets["ticket"], {"memories": []}),
        "capture": lambda: bank.capture("How do we deploy to staging?", "1. Because: x\n" * 20),
        "purge_traces": lambda: bank.purge_traces(older_than_days=0),
        "maintain": bank.maintain,
        "forget_gaps": lambda: bank.search("zyzzyva") or bank.forget_gaps(),
        "promote": more.promote,
        "consolidate": more.consolidate,
        "solve": lambda: anyio.run(lambda: bank.solve("Sum a list", model=Player(), mode="off")),
        "undo_batch": lambda: twins.undo_batch(merged.batch),
        "revert": lambda: bank.revert(author="mallory"),
        "accept": lambda: bank.accept((two,)),
        "reject": lambda: bank.reject((bank.record(a_memory()).id,)),
        "archive": lambda: bank.archive(one),
        "restore": lambda: bank.restore(one),
        "name_workspace": lambda: bank.name_workspace(place, "mine"),
        "move_workspace": lambda: bank.move_workspace(place, open_bank.project("moved")),
        "join_workspace": lambda: bank.join_workspace(team="blue"),
        "merge_workspace": lambda: bank.merge_workspace(twins.view.workspace, place),
        "import_": lambda: bank.import_(file, trusted=True),
        "reset_statistics": bank.reset_statistics,
        "forget": lambda: bank.forget(one),
        "delete_workspace": lambda: bank.delete_workspace(place, confirm=True),
    }


@requirement("SEC-5")
def test_every_change_is_on_record_with_who_when_and_how(open_bank, clock):
    bank = open_bank().seen_by(author="mika", surface="mcp")
    calls = changing(bank, open_bank, clock)
    public = {name for name in vars(Bank) if not name.startswith("_")}
    assert public - NO_CHANGE - THROUGH_THE_WORKER == set(calls)
    for name, call in calls.items():
        before = bank.audit(everywhere=True)[0].seq
        clock.advance(days=0.01)
        call()
        entries = [c for c in bank.audit(everywhere=True, limit=20) if c.seq > before]
        assert entries, name
        assert {"mika"} == {e.author for e in entries if e.origin == bank.store.ledger.bank_id}
        assert {"mcp"} == {e.surface for e in entries if e.origin == bank.store.ledger.bank_id}
        assert all(isinstance(entry, Change) for entry in entries)


@requirement("SEC-5")
def test_what_is_forgotten_keeps_its_entries_but_no_text(open_bank):
    bank = open_bank().seen_by(author="mika", surface="cli")
    memory = bank.record(a_memory(title="Unspeakable"))
    bank.update(memory.id, content="Unspeakable as well")
    bank.seen_by(author="alex", surface="http").forget(memory.id)
    entries = bank.audit(memory=memory.id)
    assert [(e.what, e.author, e.surface) for e in entries] == [
        ("memory.forgotten", "alex", "http"),
        ("memory.revised", "mika", "cli"),
        ("memory.recorded", "mika", "cli"),
    ]
    assert "Unspeakable" not in repr(entries)


@requirement("SEC-5")
def test_pages_go_back_to_the_beginning_without_gap_or_repetition(open_bank):
    bank = open_bank()
    for number in range(12):
        bank.record(a_memory(title=f"Lesson {number}"))
    every = bank.audit(limit=1000)
    paged, before = [], None
    while page := bank.audit(limit=5, before=before):
        paged += page
        before = page[-1].seq
    assert paged == every
    assert [c.seq for c in every] == sorted((c.seq for c in every), reverse=True)


@requirement("SEC-5")
def test_a_workspace_sees_its_own_changes_and_what_others_did_to_its_memories(open_bank):
    here, there = open_bank(), open_bank(workspace=open_bank.project("there"))
    shared = here.record(a_memory(scope=Scope.TEAM))
    private = there.record(a_memory())
    there.feedback(shared.id, helpful=True)
    admin = Bank(there.context.seen_by(whole=True))
    admin.archive(shared.id)
    assert [c.what for c in here.audit() if c.subject == shared.id] == [
        "memory.archived", "memory.recorded",
    ]  # fmt: skip
    assert "evidence.observed" in {c.what for c in there.audit()}
    assert private.id not in {c.subject for c in here.audit()}
    assert private.id in {c.subject for c in here.audit(everywhere=True)}


def test_entries_can_be_picked_by_author_and_surface(open_bank):
    bank = open_bank()
    bank.seen_by(author="mika", surface="mcp").record(a_memory())
    bank.seen_by(author="alex", surface="http").record(a_memory())
    assert kinds(bank, author="alex") == ["memory.recorded"]
    assert {c.author for c in bank.audit(surface="mcp")} == {"mika"}
    with pytest.raises(InvalidInput, match="limit"):
        bank.audit(limit=0)


def test_uses_are_nobodys_change_but_can_be_asked_for(open_bank):
    bank = open_bank()
    memory = bank.record(a_memory())
    bank.search("retry uploads")
    assert "memory.used" not in kinds(bank)
    assert kinds(bank, uses=True, memory=memory.id) == ["memory.used", "memory.recorded"]


def test_an_import_says_who_brought_it_and_keeps_who_wrote_it(open_bank):
    file = io.StringIO()
    other = open_bank("other").seen_by(author="alex")
    memory = other.record(a_memory())
    other.export(file)
    bank = open_bank().seen_by(author="mika")
    for _ in range(2):
        file.seek(0)
        bank.import_(file, trusted=True)
    assert [c.author for c in bank.audit(everywhere=True, memory=memory.id)] == ["alex"]
    brought = [c for c in bank.audit() if c.what == EventType.IMPORTED]
    assert [c.author for c in brought] == ["mika"]
    again = io.StringIO()
    bank.export(again)
    assert again.getvalue().count("\n") == file.getvalue().count("\n")


def test_nobody_can_smuggle_in_an_entry_of_this_bank(open_bank):
    file = io.StringIO()
    other = open_bank("other")
    other.record(a_memory())
    other.export(file)
    lines = file.getvalue().replace("memory.recorded", "bank.imported").splitlines(keepends=True)
    end = json.loads(lines.pop())
    end["sha256"] = hashlib.sha256("".join(lines).encode()).hexdigest()
    with pytest.raises(InvalidInput, match=r"bank\.imported is never exported"):
        open_bank().import_(io.StringIO("".join(lines) + json.dumps(end)), trusted=True)


@requirement("SEC-5")
def test_the_command_shows_it_and_writes_it_to_a_file(open_bank, tmp_path):
    with open_bank() as bank:
        memory = bank.record(a_memory())
        entries = bank.audit()
    options = ["--bank", open_bank.url(), "--workspace", str(open_bank.project()), "audit"]
    shown = CliRunner().invoke(main, options, env={"COLUMNS": "140"}).stdout
    assert memory.id in shown and "memory.recorded" in shown and "library" in shown
    told = json.loads(CliRunner().invoke(main, [*options, "--json"]).stdout)
    assert [entry["seq"] for entry in told] == [entry.seq for entry in entries]
    file = tmp_path / "audit.jsonl"
    done = CliRunner().invoke(main, [*options, "--export", str(file), "--json"])
    assert json.loads(done.stdout) == {"file": str(file), "count": len(entries)}
    assert [json.loads(line) for line in file.read_text().splitlines()] == told
