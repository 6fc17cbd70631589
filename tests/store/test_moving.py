"""A bank can be taken to another place, and back: all of it, once, and only one is in use."""

from __future__ import annotations

import itertools
import tracemalloc
from contextlib import contextmanager
from copy import copy

import pytest
from lived_in import live_in, open_over, seen
from tests.requirement import requirement

from reasonbank import NotInUse, Refused, Step, Trace, moves
from reasonbank.access import TokenStore
from reasonbank.errors import StorageError
from reasonbank.ledger import copying
from reasonbank.ledger.copying import summaries
from reasonbank.ledger.port import Invitation, LogEntry, Peer, TaskOffer
from reasonbank.ledger.sqlite import SQLiteLedger
from reasonbank.store import moving
from reasonbank.store.moving import migrate
from reasonbank.testing import a_memory
from reasonbank.testing.memory_ledger import MemoryLedger

QUIET = moves.told(None)
KINDS = ("file", "memory", "postgres")


@pytest.fixture
def new_databases(request):
    """Of PostgreSQL, for those tests that want one."""
    kinds = getattr(getattr(request.node, "callspec", None), "params", {}).values()
    return request.getfixturevalue("new_postgres") if "postgres" in kinds else None


@pytest.fixture
def new_ledger(tmp_path, new_databases):
    names = itertools.count()

    def make(kind="file"):
        if kind == "memory":
            return kept(MemoryLedger())
        if kind == "postgres":
            return postgres_ledger(new_databases())
        return kept(SQLiteLedger(tmp_path / f"{next(names)}.db"))

    yield make
    while OPENED:
        OPENED.pop().close()


OPENED = []


def kept(ledger):
    OPENED.append(ledger)
    return ledger


def postgres_ledger(url, **options):
    from reasonbank.ledger.postgres import PostgresLedger

    ledger = kept(PostgresLedger(url, **options))
    ledger.opened_by = url
    return ledger


def used(ledger, folder):
    """Two workspaces of a bank, which was used in all ways; and the secret of a token."""
    bank = open_over(ledger, folder / "here")
    told = bank, live_in(bank, bank.within(folder / "there"))
    ledger.write(meet_others)
    return told


def meet_others(txn):
    """A bank that knows another, has heard it, and does something for it."""
    txn.peers.put(Peer(key="ab" * 32, name="bert", granted=b"token", added_at=1))
    txn.peers.put_invitation(Invitation(id="i", created_at=1, expires_at=2))
    log = txn.peers.begin("ab" * 32, "epoch", "team:local/default", via="ab" * 32)
    entry = LogEntry(0, "event", "memory", b"link", b"signature", b"header", b"salt", b"{}")
    txn.peers.extend(log, [entry])
    txn.peers.share_project("shop", "w")
    txn.peers.put_offer(
        TaskOffer(id="o", ours=True, state="open", task="t", most=1, expires_at=2, workspace="w")
    )


def everything(ledger):
    with ledger.snapshot() as db:
        return summaries(db, lambda done, total: None)


def looked_at(ledger, folder):
    """What a user sees, who leaves no trace of it."""
    if isinstance(ledger, MemoryLedger):
        ledger = copy(ledger)
        ledger.read_only = True
    else:
        ledger = reopened(ledger, read_only=True)
    bank = open_over(ledger, folder / "here", clock=lambda: 1_900_000_000_000_000)
    return seen(bank)


def reopened(ledger, **options):
    """As another process would open it: what is in a file is read anew."""
    if isinstance(ledger, MemoryLedger):
        return ledger
    if isinstance(ledger, SQLiteLedger):
        return kept(SQLiteLedger(ledger.path, **options))
    return postgres_ledger(ledger.opened_by, **options)


@requirement("DEP-4")
@pytest.mark.parametrize(("here", "there"), [*itertools.product(KINDS, KINDS)])
def test_a_moved_bank_is_the_same_and_goes_on_under_its_id(new_ledger, tmp_path, here, there):
    source, target = new_ledger(here), new_ledger(there)
    _, secret = used(source, tmp_path)
    before = looked_at(source, tmp_path)
    done = migrate(source, target, QUIET)
    told = everything(source)
    assert all(told[name].rows for name in told if name not in UNUSED)
    assert everything(target) == told
    assert done.rows == {name: table.rows for name, table in told.items()}
    assert done.bank == source.bank_id
    assert looked_at(target, tmp_path) == before
    if there == "memory":
        return  # It read its id when it was made.
    moved = open_over(reopened(target), tmp_path / "here")
    assert moved.store.ledger.bank_id == source.bank_id
    assert TokenStore(moved).caller(secret)[1].name == "ci"
    moved.credit("task-0", succeeded=True)
    new = moved.record(a_memory(title="Written in the new place"))
    assert moved.search("written in the new place")[0].memory.id == new.id
    assert moved.context.read().broken_chain() == []
    moved.close()


BOTH_WAYS = pytest.mark.parametrize(
    ("here", "there"), [("file", "file"), ("file", "postgres"), ("postgres", "file")]
)
UNUSED = {"tally", "purged", "merged", "opinions", "paths", "awaited", "weights"}
"""Tables in which that story leaves nothing."""


@BOTH_WAYS
def test_where_it_was_it_can_only_be_read(new_ledger, tmp_path, here, there):
    source, target = new_ledger(here), new_ledger(there)
    bank, _ = used(source, tmp_path)
    migrate(source, target, QUIET)
    with pytest.raises(NotInUse, match=f"was moved to {target.url}"):
        bank.record(a_memory())
    reply = bank.search("flaky test")
    assert reply.hits
    assert any("was moved to" in note for note in reply.notes)
    assert any(c.name == "store" and c.status == "fail" for c in bank.health().checks)
    bank.close()


@BOTH_WAYS
def test_to_move_it_twice_changes_nothing(new_ledger, tmp_path, here, there):
    source, target = new_ledger(here), new_ledger(there)
    used(source, tmp_path)[0].close(embed=False)
    source = reopened(source)
    migrate(source, target, QUIET)
    there = everything(target)
    assert migrate(source, target, QUIET).already
    assert everything(target) == there
    with pytest.raises(NotInUse, match="was moved to"):
        migrate(source, new_ledger(), QUIET)


@BOTH_WAYS
def test_it_can_come_back_with_what_was_written_since(new_ledger, tmp_path, here, there):
    source, target = new_ledger(here), new_ledger(there)
    used(source, tmp_path)[0].close()
    source = reopened(source)
    migrate(source, target, QUIET)
    moved = open_over(reopened(target), tmp_path / "here")
    moved.record(a_memory(title="Written far away"))
    # Names that are unique change places.
    here, there = moved.view.workspace, moved.within(tmp_path / "there").view.workspace
    moved.name_workspace(there, "neither")
    moved.name_workspace(here, "the other")
    moved.close()
    before = looked_at(target, tmp_path)
    migrate(reopened(target), source, QUIET)
    assert looked_at(source, tmp_path) == before
    back = open_over(reopened(source), tmp_path / "here")
    back.record(a_memory(title="Written at home"))
    assert back.context.read().broken_chain() == []
    back.close()


@BOTH_WAYS
def test_a_copy_goes_on_under_an_id_of_its_own(new_ledger, tmp_path, here, there):
    source, target = new_ledger(here), new_ledger(there)
    bank, _ = used(source, tmp_path)
    done = migrate(source, target, QUIET, copy=True)
    bank.record(a_memory(title="Written in the original"))
    target = reopened(target)
    assert target.bank_id == done.bank != source.bank_id
    assert target.seal != source.seal
    copy = open_over(target, tmp_path / "here")
    copy.record(a_memory(title="Written in the copy"))
    assert copy.context.read().broken_chain() == bank.context.read().broken_chain() == []
    copy.close()
    bank.close()


@BOTH_WAYS
def test_what_is_written_on_the_way_arrives(new_ledger, tmp_path, here, there):
    source, target = new_ledger(here), new_ledger(there)
    bank, _ = used(source, tmp_path)
    written = []

    @contextmanager
    def written_meanwhile(label):
        if label == "Copying" and len(written) < 2:
            written.append(bank.record(a_memory(title=f"Number {len(written)}")).id)
            bank.forget(bank.search("upload times out")[0].memory.id)
        yield lambda done, total: None

    migrate(source, target, written_meanwhile)
    assert len(written) == 2
    assert everything(target) == everything(source)
    moved = open_over(reopened(target), tmp_path / "here")
    assert all(moved.get(id) for id in written)
    moved.close()
    bank.close()


@BOTH_WAYS
def test_a_bank_that_is_never_left_alone_moves_all_the_same(new_ledger, tmp_path, here, there):
    """In the end its writers wait, and are then told where it is."""
    source, target = new_ledger(here), new_ledger(there)
    bank, _ = used(source, tmp_path)
    rounds = []

    @contextmanager
    def restless(label):
        if label == "Copying" and len(rounds) < moving.CHASES:
            rounds.append(bank.record(a_memory(title=f"Number {len(rounds)}")).id)
        yield lambda done, total: None

    migrate(source, target, restless)
    assert len(rounds) == moving.CHASES
    assert everything(target) == everything(source)
    with pytest.raises(NotInUse):
        bank.record(a_memory())
    bank.close()


def test_what_was_forgotten_on_the_way_is_in_no_file_of_the_new_place(new_ledger, tmp_path):
    source, target = new_ledger(), new_ledger()
    bank, _ = used(source, tmp_path)
    secret = bank.record(a_memory(title="A", content="xylophonequartz")).id
    rounds = itertools.count()

    @contextmanager
    def forgetful(label):
        if label == "Checking" and next(rounds) == 0:
            bank.forget(secret)
        yield lambda done, total: None

    migrate(source, target, forgetful)
    files = target.path.parent.glob(f"{target.path.name}*")
    assert not any(b"xylophonequartz" in file.read_bytes() for file in files)
    bank.close()


def test_a_place_that_is_taken_is_left_alone(new_ledger, tmp_path):
    source, target = new_ledger(), new_ledger()
    bank, _ = used(source, tmp_path)
    other = open_over(target, tmp_path / "here")
    kept = other.record(a_memory())
    with pytest.raises(Refused, match="in use"):
        migrate(source, target, QUIET)
    assert other.get(kept.id)
    bank.record(a_memory(title="And so is the bank"))
    with pytest.raises(Refused, match="bank itself"):
        migrate(source, reopened(source), QUIET)
    other.close()
    bank.close()


@BOTH_WAYS
def test_nobody_writes_into_a_place_that_is_being_filled(new_ledger, tmp_path, here, there):
    source, target = new_ledger(here), new_ledger(there)
    bank, _ = used(source, tmp_path)

    @contextmanager
    def stopped(label):
        if label == "Verifying":
            raise KeyboardInterrupt
        yield lambda done, total: None

    with pytest.raises(KeyboardInterrupt):
        migrate(source, target, stopped)
    half = open_over(target, tmp_path / "here")
    with pytest.raises(NotInUse, match="on its way here"):
        half.record(a_memory())
    with pytest.raises(Refused, match="taken"):
        migrate(new_ledger(), reopened(target), QUIET)
    with pytest.raises(NotInUse):
        migrate(reopened(target), new_ledger(), QUIET)
    bank.record(a_memory(title="The source is still in use"))
    migrate(source, reopened(target), QUIET)
    assert everything(reopened(target)) == everything(source)
    half.close()
    bank.close()


@BOTH_WAYS
def test_who_had_it_open_while_it_arrived_must_open_it_again(new_ledger, tmp_path, here, there):
    source, target = new_ledger(here), new_ledger(there)
    used(source, tmp_path)[0].close()
    early = open_over(target, tmp_path / "here")
    migrate(reopened(source), reopened(target), QUIET)
    with pytest.raises(NotInUse, match="open it again"):
        early.record(a_memory())
    early.close()


def test_a_copy_that_differs_is_not_used(new_ledger, tmp_path):
    source, target = new_ledger(), new_ledger()
    bank, _ = used(source, tmp_path)

    @contextmanager
    def damaging(label):
        if label == "Verifying":
            with target.alone() as db:
                db.execute("update memories set usage_count = usage_count + 1")
        yield lambda done, total: None

    with pytest.raises(StorageError, match="memories"):
        migrate(source, target, damaging)
    bank.record(a_memory(title="The source is still in use"))
    migrate(source, target, QUIET)
    assert everything(target) == everything(source)
    bank.close()


def test_a_longer_log_needs_no_more_memory(new_ledger, tmp_path, monkeypatch):
    """Counted is what Python holds at most; the traces are longer than anything else."""
    monkeypatch.setattr(copying, "LONG_PAGE", 50_000)

    def peak(traces):
        source, target = new_ledger(), new_ledger()
        with open_over(source, tmp_path / "here") as bank:
            for n in range(traces):
                long = Step(iteration=1, action="think", content=f"{n:05} " * 1_000)
                bank.store_trace(Trace(task=f"Task {n}", trajectory=(long,)))
        with reopened(source).snapshot() as db:
            tracemalloc.start()
            try:
                copying.copy(db, target.alone, lambda done, total: None)
                copying.summaries(db, lambda done, total: None)
                return tracemalloc.get_traced_memory()[1]
            finally:
                tracemalloc.stop()

    few = peak(60)
    assert peak(240) < 1.5 * few
