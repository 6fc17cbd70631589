"""An imported file is as trustworthy as whoever imports it."""

import io
import json

import pytest
from tests.conftest import DAY
from tests.faults.fault_tools import exported, sealed
from tests.requirement import requirement
from tests.surfaces.http_server import LESSON, command

from reasonbank import Bank, NotFound, Scope, State
from reasonbank.ledger.events import Event
from reasonbank.model import EvidenceKind, Source
from reasonbank.testing import a_memory, a_trace

UPLOAD = ("record", "--title", LESSON["title"], "--description", LESSON["description"],
          "--content", LESSON["content"], "--outcome", "success")  # fmt: skip


@pytest.fixture
def theirs(open_bank):
    """A bank of somebody else, in which much has happened."""
    bank = Bank(open_bank("theirs").context.seen_by(author="eve"))
    praised = bank.record(a_memory(title="Praised", scope=Scope.TEAM))
    for session in range(60):
        bank.outcome(praised.id, succeeded=True, session=str(session))
    stale = bank.record(a_memory(title="Stale"))
    bank.archive(stale.id, reason="secretly")
    gone = bank.record(a_memory(title="Gone"))
    bank.forget(gone.id)
    bank.link(praised.id, stale.id, type="similar")
    bank.store_trace(a_trace(task="what eve did"))
    return bank, praised, stale, gone


@requirement("SEC-7")
def test_of_another_banks_log_only_what_its_memories_say_is_taken(theirs, plain_bank):
    bank, praised, stale, gone = theirs
    told = plain_bank.import_(io.StringIO(exported(bank)))
    assert (told.memories, told.new, told.events) == (2, 2, None) and told.left_out > 60
    mine = plain_bank.get(praised.id)
    assert (mine.source, mine.author) == (Source.IMPORTED, plain_bank.context.author)
    assert mine.workspace == plain_bank.view.workspace and mine.confidence == 0.5
    assert plain_bank.evidence(praised.id) == [] and plain_bank.traces() == []
    assert plain_bank.get(stale.id).state is State.ARCHIVED
    assert [link.target for link in plain_bank.links(praised.id)] == [stale.id]
    with pytest.raises(NotFound):
        plain_bank.get(gone.id)
    entry = next(c for c in plain_bank.audit() if c.subject == praised.id)
    assert (entry.principal, entry.origin) == ("import", plain_bank.store.ledger.bank_id)
    assert plain_bank.import_(io.StringIO(exported(bank))).new == 0


@requirement("SEC-7")
def test_such_an_import_is_one_batch_and_is_taken_back_as_one(theirs, plain_bank):
    plain_bank.import_(io.StringIO(exported(theirs[0])))
    (batch,) = plain_bank.batches()
    assert (batch.kind, len(batch.created)) == ("import", 2)
    plain_bank.undo_batch(batch.batch)
    assert plain_bank.memories() == []


@requirement("SEC-7")
def test_the_own_export_restores_everything_without_a_word(plain_bank, open_bank):
    """An older copy of the bank, from a backup of its file, takes what was exported since."""
    import shutil

    old = plain_bank.record(a_memory(title="Old"))
    plain_bank.store.ledger.scrub()
    plain_bank.close()
    shutil.copy(open_bank.folder / "bank.db", open_bank.folder / "backup.db")
    bank = open_bank()
    new = bank.record(a_memory(title="New"))
    bank.seen_by(author="anna").feedback(new.id, helpful=True, session="s")
    bank.forget(old.id)
    file = exported(bank)
    backup = open_bank("backup")
    told = backup.import_(io.StringIO(file))
    assert told.events and told.left_out is None
    assert backup.get(new.id) == bank.get(new.id)
    assert [e.rater for e in backup.evidence(new.id)] == ["anna"]
    assert [m.id for m in backup.memories()] == [new.id]


@requirement("SEC-7")
def test_who_says_so_takes_everything(theirs, plain_bank):
    bank, praised, *_ = theirs
    told = plain_bank.import_(io.StringIO(exported(bank)), trusted=True)
    assert told.events and told.left_out is None
    copy = plain_bank.seen_by(workspace=bank.view.workspace)
    assert copy.get(praised.id) == bank.get(praised.id)
    assert len([e for e in copy.evidence(praised.id) if e.kind is EvidenceKind.OUTCOME]) == 60


def forged(bank: Bank, *events: Event) -> str:
    head = {"format": "reasonbank-log", "version": 2, "bank": "somebody"}
    return sealed([head, *(event.to_json() for event in events)])


@requirement("SEC-7")
@pytest.mark.parametrize("what", ["workspace.deleted", "memory.forgotten", "memory.revised",
                                  "memory.archived", "trace.purged", "link.removed"])  # fmt: skip
def test_a_forged_file_changes_nothing_that_is_here(plain_bank, what):
    memory = plain_bank.record(a_memory())
    other = plain_bank.record(a_memory(title="Other"))
    plain_bank.link(memory.id, other.id, type="similar")
    trace = plain_bank.store_trace(a_trace())
    place = plain_bank.view.workspace
    subject, payload = {
        "workspace.deleted": (place, {"ids": [memory.id]}),
        "memory.forgotten": (memory.id, {}),
        "memory.revised": (memory.id, {"changes": {"title": "Mine now"}}),
        "memory.archived": (memory.id, {"reason": "so"}),
        "trace.purged": (place, {"ids": [trace.id]}),
        "link.removed": (memory.id, {"target": other.id, "type": "similar"}),
    }[what]
    event = next(iter(plain_bank.context.read().events(None))).to_json()
    for name in ("prev", "digest", "salt", "batch"):
        event.pop(name, None)
    event |= {"event": what, "id": "01a1e19c-5751-71aa-a26c-02a615246847", "subject": subject,
              "workspace": place, "payload": payload, "counter": 1 << 60,
              "author": plain_bank.context.author}  # fmt: skip
    before = (plain_bank.memories(), plain_bank.links(memory.id), plain_bank.traces())
    plain_bank.import_(io.StringIO(forged(plain_bank, Event.from_json(event))))
    assert (plain_bank.memories(), plain_bank.links(memory.id), plain_bank.traces()) == before


@requirement("SEC-7")
def test_a_signature_cannot_be_moved_to_another_file(plain_bank):
    """The footer of an own export, under a forged body."""
    memory = plain_bank.record(a_memory())
    lines = exported(plain_bank).splitlines()
    signature = json.loads(lines[-1])["signature"]
    event = json.loads(lines[1]) | {
        "event": "memory.forgotten", "subject": memory.id, "payload": {},
        "id": "01a1e19c-5751-71aa-a26c-02a615246847",
    }  # fmt: skip
    for name in ("prev", "digest", "salt"):
        event.pop(name)
    file = forged(plain_bank, Event.from_json(event)).splitlines()
    file[-1] = json.dumps(json.loads(file[-1]) | {"signature": signature})
    plain_bank.import_(io.StringIO("\n".join(file) + "\n"))
    assert plain_bank.get(memory.id).title == memory.title


@requirement("SEC-7")
def test_at_the_command_an_import_says_what_it_left_out(tmp_path):
    here, there = tmp_path / "here", tmp_path / "there"
    _, memory = command(there, *UPLOAD)
    command(there, "feedback", memory["id"], "--helpful")
    command(there, "export", there / "log.jsonl")
    code, told = command(here, "import", there / "log.jsonl")
    assert code == 0 and told["new"] == 1 and told["left_out"] >= 2
    _, shown = command(here, "show", memory["id"])
    assert shown["source"] == "imported" and shown["evidence"] == []
    code, told = command(tmp_path / "third", "import", "--trusted", there / "log.jsonl")
    assert code == 0 and "left_out" not in told


def test_a_file_dated_ahead_gives_nothing_either(theirs, plain_bank, clock):
    bank = theirs[0]
    clock.now += 400 * DAY
    late = bank.record(a_memory(title="Late"))
    clock.now -= 400 * DAY
    plain_bank.import_(io.StringIO(exported(bank)))
    assert plain_bank.get(late.id).created_at.timestamp() * 1e6 == clock.now
