"""A backup is the bank at one moment; restored, it is that bank again, whole or not at all."""

from __future__ import annotations

import json
import shutil
import sqlite3
import stat
from contextlib import closing, contextmanager
from pathlib import Path

import pytest
from lived_in import HASHED, live_in, open_over, seen
from tests.requirement import requirement

from reasonbank import (
    Bank,
    ConfirmationNeeded,
    InvalidInput,
    NotInUse,
    Refused,
    Settings,
    StorageError,
    integrity,
)
from reasonbank.access import TokenStore
from reasonbank.ledger.copying import summaries
from reasonbank.ledger.events import EventType
from reasonbank.ledger.migrations import STEPS
from reasonbank.ledger.port import Invitation, Peer
from reasonbank.ledger.sqlite import SQLiteLedger
from reasonbank.model import Principal
from reasonbank.moves import back_up, restore, told
from reasonbank.peers import membership
from reasonbank.settings import BeliefSettings, Embed
from reasonbank.store import moving
from reasonbank.testing import a_memory
from reasonbank.testing.memory_ledger import MemoryLedger

QUIET = told(None)
DATA = Path(__file__).parents[1] / "data"


@pytest.fixture
def bank(tmp_path):
    with open_over(SQLiteLedger(tmp_path / "bank.db"), tmp_path / "here") as bank:
        bank.secret = live_in(bank, bank.within(tmp_path / "there"))
        yield bank


def url(tmp_path, name="other.db"):
    return f"sqlite:///{tmp_path / name}"


def opened(tmp_path, name="other.db", **options):
    return open_over(SQLiteLedger(tmp_path / name, **options), tmp_path / "here")


def looked_at(path: Path):
    """What a user sees of it, who leaves no trace of that."""
    ledger = SQLiteLedger(path, read_only=True)
    with open_over(ledger, path.parent / "here", clock=lambda: 1_900_000_000_000_000) as bank:
        return seen(bank)


def everything(path: Path):
    ledger = SQLiteLedger(path, read_only=True)
    with ledger.snapshot() as db:
        found = summaries(db, lambda done, total: None)
    ledger.close()
    return found


@requirement("DEP-4")
def test_a_backup_restores_the_same_bank(bank, tmp_path):
    made = bank.backup(tmp_path / "b.backup")
    before = looked_at(tmp_path / "bank.db")
    done = restore(tmp_path / "b.backup", url(tmp_path), HASHED, QUIET, force=False)
    assert done.rows == made.rows
    assert looked_at(tmp_path / "other.db") == before
    with opened(tmp_path) as back:
        assert TokenStore(back).caller(bank.secret)[1].name == "ci"
        assert back.record(a_memory(title="Goes on")).id
        assert back.store.ledger.seal == bank.store.ledger.seal


def test_it_is_one_private_file_that_can_only_be_read(bank, tmp_path):
    (tmp_path / "kept").mkdir()
    file = tmp_path / "kept" / "b.backup"
    bank.backup(file)
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert [*file.parent.iterdir()] == [file]
    before = file.read_bytes()
    assert restore(file, url(tmp_path), HASHED, QUIET, force=False)
    assert [*file.parent.iterdir()] == [file]
    assert file.read_bytes() == before
    with (
        Bank.open(f"sqlite:///{file}", workspace=tmp_path / "here", settings=HASHED) as it,
        pytest.raises(NotInUse, match="this is a backup"),
    ):
        it.record(a_memory())


def test_it_is_the_bank_of_one_moment(bank, tmp_path):

    @contextmanager
    def meanwhile(label):
        bank.record(a_memory(title=f"Written during {label}"))
        yield lambda done, total: None

    with bank.store.ledger.snapshot() as db:
        first = summaries(db, lambda done, total: None)
    made = back_up(bank.store.ledger, tmp_path / "b.backup", HASHED, meanwhile, overwrite=False)
    assert made.rows["memories"] == first["memories"].rows
    assert everything(tmp_path / "b.backup")["links"] == first["links"]
    assert len(everything_in(bank)) == made.rows["memories"] + 3


def test_where_the_new_place_was_lost_the_old_one_leads_back(bank, tmp_path):
    with closing(SQLiteLedger(tmp_path / "new.db")) as new:
        moving.migrate(bank.store.ledger, new, QUIET)
    (tmp_path / "new.db").unlink()
    with pytest.raises(NotInUse, match="was moved to"):
        bank.record(a_memory())
    before = len(bank.memories())
    bank.backup(tmp_path / "b.backup")
    bank.close()
    restore(tmp_path / "b.backup", bank.store.ledger.url, HASHED, QUIET, force=True)
    with opened(tmp_path, "bank.db") as back:
        assert len(back.memories()) == before
        back.record(a_memory(title="Goes on"))
        assert back.context.read().broken_chain() == []


def test_what_a_restored_bank_writes_is_under_a_new_id(bank, tmp_path):
    """Others may know what it wrote after the backup, under the old one and the same counters."""
    bank.backup(tmp_path / "b.backup")
    lost = bank.record(a_memory(title="Written after the backup"))
    with open(tmp_path / "log.jsonl", "w") as log:
        bank.export(log)
    restore(tmp_path / "b.backup", url(tmp_path), HASHED, QUIET, force=False)
    with opened(tmp_path) as back:
        assert back.store.ledger.bank_id != bank.store.ledger.bank_id
        new = back.record(a_memory(title="Written after the restore"))
        # Both histories fit together, in either direction.
        with open(tmp_path / "log.jsonl") as log:
            back.import_(log, trusted=True)
        assert back.get(lost.id).title == "Written after the backup"
        with open(tmp_path / "back.jsonl", "w") as log:
            back.export(log)
        assert back.context.read().broken_chain() == []
    with open(tmp_path / "back.jsonl") as log:
        bank.import_(log, trusted=True)
    assert bank.get(new.id).title == "Written after the restore"
    assert bank.context.read().broken_chain() == []


def test_a_log_that_was_changed_before_the_backup_is_still_found_out(bank, tmp_path):
    bank.backup(tmp_path / "b.backup")
    restore(tmp_path / "b.backup", url(tmp_path), HASHED, QUIET, force=False)
    with opened(tmp_path) as back:
        with back.store.ledger.alone() as db:
            db.execute("delete from events where seq = (select min(seq) + 2 from events)")
        assert back.context.read().broken_chain()


def test_a_bank_that_has_memories_is_replaced_only_if_one_says_so(bank, tmp_path):
    bank.backup(tmp_path / "b.backup")
    after = bank.record(a_memory(title="Written after the backup"))
    token = TokenStore(bank).list()[0]
    TokenStore(bank).revoke(token.id)
    with pytest.raises(ConfirmationNeeded, match="--force"):
        restore(tmp_path / "b.backup", bank.store.ledger.url, HASHED, QUIET, force=False)
    assert bank.get(after.id)
    restore(tmp_path / "b.backup", bank.store.ledger.url, HASHED, QUIET, force=True)
    with pytest.raises(NotInUse, match="open it again"):
        bank.record(a_memory())  # It would go on with a chain that is not its own.
    with opened(tmp_path, "bank.db") as back:
        assert after.id not in {memory.id for memory in back.memories()}
        back.record(a_memory(title="Goes on"))
        assert back.context.read().broken_chain() == []
        # What was taken away stays away.
        assert TokenStore(back).list()[0].revoked_at is not None


def test_what_was_taken_away_since_then_does_not_come_back_and_is_no_fault(bank, tmp_path):
    context = bank.seen_by(principal=Principal.PERSON).context
    keys = [name * 16 for name in ("bert", "carl")]

    def trusted(txn):
        for key in keys:
            txn.peers.put(Peer(key=key, name=key[:4], added_at=1, trusted=True))
            for what in (EventType.MET, EventType.TRUSTED):
                context.note(txn, what, key[: membership.ID])
        txn.peers.put_invitation(Invitation(id="one", created_at=1, expires_at=2**60))

    context.write(trusted)
    bank.backup(tmp_path / "b.backup")
    TokenStore(bank).revoke(TokenStore(bank).list()[0].id)
    membership.revoke(context, "bert", revert=False)
    membership.trust(context, "carl", trusted=False)
    taken = Invitation(id="one", created_at=1, expires_at=2**60, taken_by=keys[1])
    context.write(lambda txn: txn.peers.put_invitation(taken))
    restore(tmp_path / "b.backup", bank.store.ledger.url, HASHED, QUIET, force=True)
    with opened(tmp_path, "bank.db") as back:
        known = {p.name: (p.revoked_at is None, p.trusted) for p in back.context.read().peers.all()}
        assert known == {"bert": (False, False), "carl": (True, False)}
        assert back.context.read().peers.invitations()[0].taken_by == keys[1]
        assert integrity.verify(back.context, lambda done, total: None).faults == ()


def test_interrupted_it_leaves_what_was_there(bank, tmp_path):
    bank.backup(tmp_path / "b.backup")
    bank.record(a_memory(title="Written after the backup"))
    bank.close()
    before = everything(tmp_path / "bank.db")
    for stop in ("Restoring", "Verifying"):

        @contextmanager
        def stopped(label, stop=stop):
            yield lambda done, total: None
            if label == stop:
                raise KeyboardInterrupt

        with pytest.raises(KeyboardInterrupt):
            restore(tmp_path / "b.backup", bank.store.ledger.url, HASHED, stopped, force=True)
        assert everything(tmp_path / "bank.db") == before
    with opened(tmp_path, "bank.db") as again:
        again.record(a_memory(title="Still in use"))


def test_a_damaged_backup_replaces_nothing(bank, tmp_path):
    bank.backup(tmp_path / "b.backup")
    ledger = SQLiteLedger(tmp_path / "b.backup")
    with ledger.alone() as db:
        db.execute("update memories set lesson = replace(lesson, 'port', 'sort')")
    ledger.close()
    with pytest.raises(StorageError, match="damaged"):
        restore(tmp_path / "b.backup", url(tmp_path), HASHED, QUIET, force=True)
    with opened(tmp_path) as other:
        assert other.memories() == []
    whole = bank.backup(tmp_path / "c.backup").file
    Path(whole).write_bytes(Path(whole).read_bytes()[:-8192])
    with pytest.raises(StorageError):
        restore(Path(whole), url(tmp_path), HASHED, QUIET, force=True)


def test_only_an_earlier_backup_is_overwritten(bank, tmp_path):
    file = tmp_path / "b.backup"
    bank.backup(file)
    with pytest.raises(Refused, match="--overwrite"):
        bank.backup(file)
    bank.record(a_memory(title="One more"))
    assert bank.backup(file, overwrite=True).rows["memories"] == len(everything_in(bank))
    (tmp_path / "text").write_text("dear to somebody")
    for dear in ("text", "bank.db", "here"):
        (tmp_path / "here").mkdir(exist_ok=True)
        with pytest.raises(Refused):
            bank.backup(tmp_path / dear, overwrite=True)
    assert (tmp_path / "text").read_text() == "dear to somebody"
    with pytest.raises(InvalidInput, match="cannot write"):
        bank.backup(tmp_path / "nowhere" / "b.backup")
    assert not [*tmp_path.glob(".reasonbank-*")]


def everything_in(bank):
    return bank.store.ledger.read().db.all("select num from memories")


@pytest.mark.parametrize("content", [b"", b"no database", b"SQLite format 3\0" + b"x" * 5000])
def test_what_is_no_backup_is_refused(tmp_path, content):
    (tmp_path / "file").write_bytes(content)
    with pytest.raises((InvalidInput, StorageError)):
        restore(tmp_path / "file", url(tmp_path), HASHED, QUIET, force=False)
    with pytest.raises(InvalidInput, match="cannot read"):
        restore(tmp_path / "missing", url(tmp_path), HASHED, QUIET, force=False)


def test_a_bank_is_no_backup(bank, tmp_path):
    with pytest.raises(Refused, match="no backup"):
        restore(tmp_path / "bank.db", url(tmp_path), HASHED, QUIET, force=False)


@requirement("DEP-4")
def test_a_backup_of_postgres_restores_into_either(tmp_path, new_postgres):
    from reasonbank.ledger.postgres import PostgresLedger

    first, second = new_postgres(), new_postgres()
    with open_over(PostgresLedger(first), tmp_path / "here") as bank:
        live_in(bank, bank.within(tmp_path / "there"))
        made = bank.backup(tmp_path / "b.backup")
        # A file of PostgreSQL's is a SQLite bank like any other.
        restore(tmp_path / "b.backup", url(tmp_path), HASHED, QUIET, force=False)
        restore(tmp_path / "b.backup", second, HASHED, QUIET, force=False)
        lost = bank.record(a_memory(title="Written after the backup"))
        with pytest.raises(ConfirmationNeeded):
            restore(tmp_path / "b.backup", first, HASHED, QUIET, force=False)
        assert bank.get(lost.id)
        restore(tmp_path / "b.backup", first, HASHED, QUIET, force=True)
        with pytest.raises(NotInUse, match="open it again"):
            bank.record(a_memory())
    looked = looked_at(tmp_path / "other.db")
    assert {n: t.rows for n, t in everything(tmp_path / "other.db").items()} == made.rows
    for there in (first, second):
        ledger = PostgresLedger(there, read_only=True)
        with open_over(ledger, tmp_path / "here", clock=lambda: 1_900_000_000_000_000) as back:
            assert seen(back) == looked
        with open_over(PostgresLedger(there), tmp_path / "here") as back:
            back.record(a_memory(title="Goes on"))
            assert back.context.read().broken_chain() == []


def test_any_ledger_can_be_backed_up(tmp_path):
    with open_over(MemoryLedger(), tmp_path / "here") as bank:
        live_in(bank, bank.within(tmp_path / "there"))
        made = bank.backup(tmp_path / "b.backup")
        restore(tmp_path / "b.backup", url(tmp_path), HASHED, QUIET, force=False)
    assert {name: table.rows for name, table in everything(tmp_path / "other.db").items()} == (
        made.rows
    )


@requirement("DEP-4")
def test_a_backup_of_an_older_program_is_restored_and_stays_as_it_is(tmp_path):
    file = tmp_path / "old.backup"
    shutil.copy(DATA / "bank-0.1.0.db", file)
    with closing(sqlite3.connect(file)) as db:
        memories = db.execute("select count(*) from memories").fetchone()[0]
        assert memories
        assert db.execute("pragma user_version").fetchone()[0] < len(STEPS)
        db.execute("pragma journal_mode=delete")
        use = json.dumps({"state": "backup", "place": "sqlite:////old.db"})
        stamp = json.dumps({"at": 1, "tables": {"memories": ["num, id", memories, "0"]}})
        db.executemany("insert into meta values (?, ?)", [("use", use), ("backup", stamp)])
        db.commit()
    before = file.read_bytes()
    done = restore(file, url(tmp_path), HASHED, QUIET, force=False)
    assert done.rows["memories"] == memories
    assert file.read_bytes() == before
    assert [p.name for p in tmp_path.glob("old.backup*")] == ["old.backup"]
    with opened(tmp_path) as back:
        back.record(a_memory(title="Goes on"))
        assert back.context.read().broken_chain() == []


def test_it_can_be_restored_where_evidence_fades_faster(bank, tmp_path):
    bank.backup(tmp_path / "b.backup")
    faster = Settings(embed=Embed(model="hashed"), belief=BeliefSettings(half_life_days=30))
    restore(tmp_path / "b.backup", url(tmp_path), faster, QUIET, force=False)
    with Bank.open(url(tmp_path), workspace=tmp_path / "here", settings=faster) as back:
        assert back.search("flaky test of the port").hits
