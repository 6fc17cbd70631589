"""What whoever copies a bank relies on, of every ledger that keeps one."""

import pytest

from reasonbank import NotInUse
from reasonbank.ledger.sqlite import SQLiteLedger
from reasonbank.ledger.use import Unused, set_unused
from reasonbank.testing.ledger_story import Story


@pytest.fixture(params=["sqlite", "postgres"])
def again(request, tmp_path):
    """Opens one and the same bank, as often as one likes."""
    opened = []
    if request.param == "postgres":
        from reasonbank.ledger.postgres import PostgresLedger

        url = request.getfixturevalue("postgres_url")
        make = lambda: PostgresLedger(url)  # noqa: E731
    else:
        make = lambda: SQLiteLedger(tmp_path / "bank.db")  # noqa: E731

    def open_it():
        opened.append(make())
        return opened[-1]

    yield open_it
    for ledger in opened:
        ledger.close()


def events(db):
    return db.one("select count(*) from events")[0]


def tell(ledger, story):
    ledger.write(lambda txn: txn.append(story.joined()))


def test_a_snapshot_stays_as_it_is_while_others_write(again):
    ledger, other = again(), again()
    story = Story(ledger.bank_id)
    tell(ledger, story)
    with ledger.snapshot() as db:
        before = events(db)
        tell(other, Story(ledger.bank_id))
        assert events(db) == before
    with ledger.snapshot() as db:
        assert events(db) == before + 1


def test_what_is_done_alone_happens_all_or_not_at_all(again):
    ledger = again()

    def fail():
        with ledger.alone() as db:
            db.execute("insert into meta values ('a', '1')")
            raise KeyError

    with pytest.raises(KeyError):
        fail()
    with ledger.alone() as db:
        db.execute("insert into meta values ('b', '2')")
    with ledger.snapshot() as db:
        assert db.all("select key from meta where key in ('a', 'b')") == [("b",)]


def test_a_bank_that_is_not_in_use_says_why_to_every_writer(again):
    ledger, other = again(), again()
    version = other.version()
    with ledger.alone() as db:
        set_unused(db, Unused(state="moved", place="somewhere else"))
    assert other.version() != version
    with pytest.raises(NotInUse, match="moved to somewhere else"):
        tell(other, Story(ledger.bank_id))
    assert "somewhere else" in other.read().unused()
    assert again().read().unused()
    with ledger.alone() as db:
        set_unused(db, None)
    tell(other, Story(ledger.bank_id))


def test_who_looks_alone_and_writes_nothing_is_seen_by_the_version_or_not_at_all(again):
    """What is told apart is whether others wrote: their writes change it, always."""
    ledger, other = again(), again()
    before = ledger.version()
    with ledger.alone():
        assert ledger.version() == before
    before = ledger.version()
    tell(other, Story(ledger.bank_id))
    with ledger.alone():
        assert ledger.version() != before
