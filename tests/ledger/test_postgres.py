"""What only a server can get wrong: who waits for whom, who sees what when, and what it is told."""

import gc
import os
import random
import threading
import warnings

import numpy as np
import pytest
from tests.engines.postgres import PASSWORD
from tests.requirement import requirement

from reasonbank.errors import InvalidSetting, NewerBank, StorageError
from reasonbank.ledger import migrations
from reasonbank.ledger.events import EventType
from reasonbank.ledger.port import Filter
from reasonbank.ledger.postgres import PostgresLedger
from reasonbank.ledger.postgres.address import address_of
from reasonbank.ledger.postgres.dialect import numbered
from reasonbank.ledger.postgres.fulltext import PostedWords
from reasonbank.ledger.sqlite import SQLiteLedger
from reasonbank.model import Job, State
from reasonbank.testing import a_memory
from reasonbank.testing.ledger_story import BESIDE, HERE, Story, told


@pytest.fixture
def opened(postgres_url):
    """Each call is another process's ledger on the same database."""
    ledgers = []

    def opening(url=postgres_url, **options):
        ledgers.append(PostgresLedger(url, **options))
        return ledgers[-1]

    yield opening
    for ledger in ledgers:
        ledger.close()


@pytest.fixture
def ledger(opened):
    return opened()


# Full text

WORDS = (
    "upload retry retries timeout connection pool Café naïve parse_config parseConfig v2 2.0 "
    "日本語 deadlock transaction the a of when running run runs ran file files cache 50% O'Brien x "
    "host port é E ÀÉ straße database index lock " + "q" * 300
).split()


def some_texts(rng, count):
    common = ["the", "a", "of", "file", "run"]
    for _ in range(count):
        said = rng.choices(WORDS, k=rng.randint(1, 40)) + rng.choices(common, k=rng.randint(0, 12))
        rng.shuffle(said)
        cut = rng.randint(0, len(said))
        yield a_memory(
            title=" ".join(rng.choices(WORDS, k=3)),
            description=" ".join(said[:cut]) or "-",
            content=", ".join(said[cut:]) or "-",
            tags=tuple(sorted(set(rng.choices(WORDS[:9], k=2)))),
        )


def by_row(found):
    return dict(zip(found[0].tolist(), found[1].tolist(), strict=True))


@requirement("RET-2")
@pytest.mark.parametrize("many", [2_000, 100])
def test_full_text_gives_the_rows_and_the_scores_of_sqlite(ledger, tmp_path, monkeypatch, many):
    """``many``: from so many rows on, those alone are scored that have rare words."""
    for module in ("words", "sqlite.fulltext", "postgres.fulltext"):
        monkeypatch.setattr(f"reasonbank.ledger.{module}.MANY", many)
    rng, count = random.Random(many), 300
    story = Story()
    story.joined()
    story.joined(BESIDE)
    memories = [*some_texts(rng, count)]
    for number, memory in enumerate(memories):
        story.recorded(memory, BESIDE if number % 3 == 0 else HERE)
    for memory in memories[: count // 20]:
        story(EventType.ARCHIVED, memory.id, {})
    for memory in memories[count // 20 : count // 10]:
        story(EventType.FORGOTTEN, memory.id)
    other = SQLiteLedger(tmp_path / "bank.db")
    for each in (ledger, other):
        each.write(lambda txn: txn.take(story.told))
    compared = 0
    for view in (HERE, BESIDE):
        for _ in range(40):
            terms = rng.choices(WORDS, k=rng.randint(1, 6))
            terms += [" ".join(rng.choices(WORDS[:20], k=2)) for _ in range(rng.randint(0, 2))]
            # Of a term, letters and digits; the rest divides words.
            terms = ["".join(c if c.isalnum() else " " for c in term) for term in terms]
            among = None
            if rng.random() < 0.3:
                among = np.array(sorted(rng.sample(range(count), 40)), np.int64)
            states = rng.choice([(State.ACTIVE,), tuple(State)])
            wanted = (view, Filter(states=states), terms, 1_000, among)
            for reading in ("read", "cached_read"):
                mine, theirs = (getattr(each, reading)().words(*wanted) for each in (ledger, other))
                assert by_row(mine) == pytest.approx(by_row(theirs), rel=1e-12)
                assert np.allclose(mine[1], theirs[1])
                compared += len(mine[0])
            for about in (False, True):
                asked = (view, Filter(states=states), terms)
                assert ledger.read().word_counts(*asked, about=about) == other.read().word_counts(
                    *asked, about=about
                )
    assert compared > 1_000
    assert ledger.read().word_rows() == other.read().word_rows()
    other.close()


@requirement("MEM-9")
def test_what_others_write_in_the_middle_of_a_search_does_not_break_it(opened, monkeypatch):
    one, other = opened(), opened()
    story = Story(one.bank_id)
    told(one, story.joined(), story.recorded(a_memory(title="memory")))
    totals = PostedWords._totals

    def written_meanwhile(words):
        said = totals(words)
        monkeypatch.setattr(PostedWords, "_totals", totals)
        for _ in range(3):
            told(other, story.recorded(a_memory(title="memory")))
        return said

    monkeypatch.setattr(PostedWords, "_totals", written_meanwhile)
    nums, scores = one.read().words(HERE, Filter(), ["memory"], 10, None)
    assert len(nums) == 4 and (scores > 0).all()


# Who waits for whom, and who sees what


@requirement("MEM-9")
def test_events_become_visible_in_the_order_of_their_numbers(opened):
    """Whoever follows the log by number would miss for ever what is committed behind it."""
    one, other, reader = opened(), opened(), opened()
    story = Story(one.bank_id)
    told(one, story.joined())
    appended, go_on, begun = threading.Event(), threading.Event(), threading.Event()

    def slow(txn):
        txn.append(story.recorded(a_memory(title="First")))
        appended.set()
        assert go_on.wait(30)

    def quick(txn):
        begun.set()
        txn.append(story.recorded(a_memory(title="Second")))

    threads = [threading.Thread(target=one.write, args=(slow,))]
    threads[0].start()
    assert appended.wait(30)
    threads.append(threading.Thread(target=other.write, args=(quick,)))
    threads[1].start()
    waits = "select count(*) from pg_locks where locktype = 'advisory' and not granted"
    while reader.read().db.one(waits) != (1,):
        pass
    assert not begun.is_set() and len([*reader.read().events(None)]) == 1
    go_on.set()
    for thread in threads:
        thread.join()
    numbers = reader.read().db.all("select seq, counter from events order by seq")
    assert [counter for _, counter in numbers] == sorted(counter for _, counter in numbers)
    assert reader.read().broken_chain() == []


@requirement("MEM-9")
def test_what_one_process_wrote_every_other_reads_at_once_also_from_its_cache(opened):
    one, other = opened(), opened()
    story, memories = Story(), [a_memory(title=f"Zebra {n}") for n in range(6)]
    told(one, story.joined())
    for count, memory in enumerate(memories, 1):
        told(one, story.recorded(memory))
        nums, _ = other.cached_read().words(HERE, Filter(), ["zebra"], 10, None)
        assert len(nums) == count
        assert [row.id for row in other.cached_read().rows(HERE, nums[-1:].tolist())]
        assert other.version() == one.version()


@requirement("DIS-2")
def test_a_job_that_another_transaction_has_is_passed_over_not_waited_for(ledger, postgres_server):
    jobs = [Job(kind="k", subject=f"{n}", workspace="here") for n in range(3)]
    for job in jobs:
        ledger.write(lambda txn, job=job: txn.queue.enqueue(job, now=1))
    with ledger.pool.connection() as handle:
        handle.execute(b"begin")
        first = min(jobs, key=lambda job: job.id).id
        handle.execute(b"select 1 from jobs where id = $1 for update", (first,))
        claimed = ledger.write(lambda txn: txn.queue.claim("w", 2, 5, 3, ["k"]))
        handle.execute(b"rollback")
    assert first not in {job.id for job in claimed} and len(claimed) == 2
    (last,) = ledger.write(lambda txn: txn.queue.claim("w", 3, 5, 3, ["k"]))
    assert last.id == first


@requirement("DIS-2")
def test_workers_of_many_processes_take_every_job_once(opened):
    ledgers = [opened() for _ in range(4)]
    jobs = [Job(kind="k", subject=f"{n}", workspace="here") for n in range(40)]
    for job in jobs:
        ledgers[0].write(lambda txn, job=job: txn.queue.enqueue(job, now=1))
    taken = []

    def work(number, ledger):
        while held := ledger.write(lambda txn: txn.queue.claim(f"w{number}", 2, 3, 3, ["k"])):
            for job in held:
                ledger.write(lambda txn, job=job: txn.queue.finish(job))
            taken.extend(job.id for job in held)

    threads = [threading.Thread(target=work, args=each) for each in enumerate(ledgers)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(taken) == sorted(job.id for job in jobs)


# Opening


def test_several_who_open_an_empty_database_at_once_make_one_bank(postgres_url):
    opened, start = [], threading.Barrier(4)

    def opening():
        start.wait()
        opened.append(PostgresLedger(postgres_url))

    threads = [threading.Thread(target=opening) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len({ledger.bank_id for ledger in opened}) == 1 and len(opened) == 4
    for ledger in opened:
        ledger.close()


def tables(server, url):
    system = "('pg_catalog', 'information_schema')"
    sql = f"select count(*) from pg_tables where schemaname not in {system}"
    return server.execute(sql, database=url.rpartition("/")[2])[0][0]


@requirement("DEP-4")
@pytest.mark.parametrize("step", range(len(migrations.STEPS)))
def test_a_migration_that_is_interrupted_leaves_nothing_and_is_done_again(
    postgres_server, postgres_url, monkeypatch, step
):
    def interrupted(db):
        raise KeyboardInterrupt

    steps = [*migrations.STEPS[:step], interrupted, *migrations.STEPS[step + 1 :]]
    with monkeypatch.context() as patch:
        patch.setattr(migrations, "STEPS", steps)
        with pytest.raises(KeyboardInterrupt):
            PostgresLedger(postgres_url)
    assert tables(postgres_server, postgres_url) == 0
    PostgresLedger(postgres_url).close()


def test_a_bank_of_a_newer_program_is_refused_and_left_as_it_is(opened, postgres_url):
    ledger = opened()
    ledger.write(lambda txn: txn.db.execute("update meta set value = '99' where key = 'schema'"))
    before = ledger.read().db.all("select * from meta order by key")
    for read_only in (False, True):
        with pytest.raises(NewerBank, match=r"newer ReasonBank \(schema 99, .*Nothing was changed"):
            opened(read_only=read_only)
    assert ledger.read().db.all("select * from meta order by key") == before


def test_a_program_that_is_open_while_a_newer_one_upgrades_the_bank_writes_no_more(opened):
    old, newer = opened(), opened()
    newer.write(lambda txn: txn.db.execute("update meta set value = '99' where key = 'schema'"))
    before = old.version()
    with pytest.raises(NewerBank, match="Nothing was changed"):
        old.write(lambda txn: txn.db.execute("delete from meta"))
    assert old.version() == before and old.read().db.one("select 1 from meta") is not None


def test_a_schema_of_somebody_else_is_refused(postgres_server, postgres_url):
    database = postgres_url.rpartition("/")[2]
    postgres_server.execute("create schema reasonbank", database=database)
    postgres_server.execute("create table reasonbank.meta (a int)", database=database)
    with pytest.raises(StorageError, match="is a database, but not a ReasonBank; choose another"):
        PostgresLedger(postgres_url)
    assert tables(postgres_server, postgres_url) == 1
    # What else is in the database is nobody's business; another place in it will do.
    PostgresLedger(f"{postgres_url}?schema=mine").close()


def test_two_banks_in_one_database_know_nothing_of_each_other(opened, postgres_url):
    one, other = opened(), opened(f"{postgres_url}?schema=second")
    assert one.bank_id != other.bank_id
    told(one, Story().joined())
    assert one.version() == 2 and other.version() == 1
    assert other.url.endswith("?schema=second")


def test_a_bank_that_is_opened_read_only_can_be_read_and_not_written(opened, postgres_url):
    with pytest.raises(StorageError, match="not a ReasonBank"):
        opened(read_only=True)
    told(opened(), Story().joined())
    reader = opened(read_only=True)
    assert len([*reader.read().events(None)]) == 1
    with pytest.raises(StorageError, match="read-only"):
        reader.write(lambda txn: None)
    with pytest.raises(StorageError, match="takes no writes"):
        reader.read().db.execute("delete from meta")


def test_letters_are_ordered_as_in_python_whatever_the_language_of_the_database(ledger):
    """Which cannot be had here in another one: so it is asked what each column was made with."""
    found = ledger.read().db.all(
        "select table_name, column_name, collation_name from information_schema.columns"
        " where table_schema = 'reasonbank' and data_type = 'text'"
    )
    assert len(found) > 80
    assert [row for row in found if row[2] != "C"] == []
    ids = ["b", "A", "a-c", "ab", "B", "ä", "z", "_"]
    given = ledger.db.dialect.texts(ids)
    found = ledger.read().db.all(f"select value from {given.sql} t order by value", given.values)
    assert [id for (id,) in found] == sorted(ids)


# Passwords


@requirement("SEC-4")
@pytest.mark.parametrize(
    ("url", "user", "password", "host", "port", "database"),
    [
        ("postgresql://u:p@h/d", "u", "p", "h", None, "d"),
        ("postgres://u:p%40%2F%3A@h:6432/d?sslmode=require", "u", "p@/:", "h", "6432", "d"),
        ("postgresql://u:p@/?#:%zz@h:1/d", "u", "p@/?#:%zz", "h", "1", "d"),
        ("postgresql://u:p?q@h/d?a=1", "u", "p?q", "h", None, "d"),
        ("postgresql://u:é%25@[::1]:5/d", "u", "é%", "::1", "5", "d"),
        ("postgresql://postgres.ref:pw@aws-0.pooler.supabase.com:5432/postgres", "postgres.ref",
         "pw", "aws-0.pooler.supabase.com", "5432", "postgres"),
        ("postgresql:///d?host=%2Ftmp", None, None, "/tmp", None, "d"),
    ],
)  # fmt: skip
def test_a_url_is_read_also_where_its_password_was_not_escaped(
    url, user, password, host, port, database
):
    address = address_of(url)
    wanted = {"user": user, "password": password, "host": host, "port": port, "dbname": database}
    for name, value in wanted.items():
        assert address.options.get(name) == value, name
    assert password is None or len(password) < 3 or password not in repr(address)


@requirement("SEC-4")
def test_no_message_shows_the_password(postgres_server, postgres_url, opened):
    ledger = opened()
    messages = [ledger.url, repr(ledger.address), repr(ledger)]
    bad = [
        postgres_url.replace("bank_", "nobody_"),
        postgres_url.replace("127.0.0.1", "127.0.0.1:x"),
        postgres_url.replace(f":{postgres_server.port}", ":1"),
        postgres_url.replace("postgres:", "stranger:"),
        f"{postgres_url}?schema=A'b",
        f"{postgres_url}?nonsense=1",
        f"{postgres_url}?=",
        f"postgresql://postgres:{PASSWORD}/nowhere",
    ]
    for url in bad:
        with pytest.raises((StorageError, InvalidSetting)) as error:
            PostgresLedger(url)
        told = error.value
        messages += [str(told), repr(told.__cause__), repr(told.__context__)]
    for message in messages:
        assert PASSWORD not in message and "s3cret" not in message


def test_who_is_refused_is_told_why_and_who_may_try_again_is_told_that(
    postgres_server, postgres_url
):
    for url, said in (
        (postgres_url.replace("bank_", "no_"), 'refuses: database "no_.*" does not exist; correct'),
        (postgres_url.replace("s3cret", "s4cret"), "refuses: password authentication failed .*url"),
        (postgres_url.replace(f":{postgres_server.port}", ":1"), "does not answer: .*; try again"),
    ):
        with pytest.raises(StorageError, match=said):
            PostgresLedger(url)


def test_question_marks_in_quotes_are_no_marks():
    sql = "select '?''?', a from t where b = ? and c like '%?%' and d = ?"
    assert numbered(sql) == b"select '?''?', a from t where b = $1 and c like '%?%' and d = $2"


def test_texts_with_percent_and_question_marks_are_stored_as_they_are(ledger):
    said = "100 % of what? $1 %s 'quoted' \\ back \u2028"
    story, memory = Story(), a_memory(title=said, tags=("50%", "why?"))
    told(ledger, story.joined(), story.recorded(memory))
    row = ledger.read().row(HERE, memory.id)
    assert row.memory().title == said and row.memory().tags == ("50%", "why?")
    assert ledger.read().listed(HERE, Filter(tags=("why?",)), 5)


# Forks


@pytest.mark.skipif(not hasattr(os, "fork"), reason="nothing forks here")
def test_a_forked_process_is_told_and_can_open_its_own_while_the_parent_goes_on(
    ledger, postgres_url
):
    told(ledger, Story().joined())
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        pid = os.fork()
    if pid == 0:
        code = 1
        try:
            refused = 0
            for call in (ledger.read, ledger.version, lambda: ledger.write(print)):
                try:
                    call()
                except StorageError as error:
                    refused += "fork" in str(error)
            ledger.close()
            own = PostgresLedger(postgres_url)
            own.write(lambda txn: txn.db.execute("insert into awaited values ('child')"))
            own.close()
            code = 0 if refused == 3 else 2
        finally:
            os._exit(code)
    _, status = os.waitpid(pid, 0)
    assert os.waitstatus_to_exitcode(status) == 0
    assert ledger.read().db.all("select id from awaited") == [("child",)]
    ledger.write(lambda txn: txn.db.execute("delete from awaited"))
    assert ledger.read().db.all("select id from awaited") == []


def test_a_bank_that_nobody_closed_leaves_no_connection_behind(postgres_url: str) -> None:
    """psycopg would warn of each, in whatever else is running by then."""
    PostgresLedger(postgres_url).read().memory_count()
    gc.collect()


@pytest.mark.parametrize("many", [0, 1, 20, 21, 500])
def test_what_is_told_without_an_answer_is_stored_in_its_order_whatever_follows(ledger, many):
    add = "insert into awaited values (?)"

    def work(txn):
        for n in range(many):
            txn.db.execute(add, (f"told {n}",))
        txn.db.many(add, [(f"one of many {n}",) for n in range(many)])
        txn.db.execute("delete from awaited where id = ?", ("told 0",))
        return txn.db.changed("delete from awaited where id = ?", ("one of many 0",))

    assert ledger.write(work) == min(many, 1)
    [(stored,)] = ledger.read().db.all("select count(*) from awaited")
    assert stored == max(0, 2 * many - 2)


def test_what_was_told_and_is_wrong_fails_the_call_that_told_it_and_no_other(ledger):
    add = "insert into awaited values (?)"
    ledger.write(lambda txn: txn.db.execute(add, ("there",)))
    with pytest.raises(Exception, match="duplicate key"):
        ledger.write(lambda txn: txn.db.execute(add, ("there",)))
    ledger.write(lambda txn: txn.db.execute(add, ("after",)))
    assert ledger.read().db.all("select id from awaited order by 1") == [("after",), ("there",)]


@pytest.mark.parametrize("asks", [False, True])
def test_one_call_that_fails_leaves_the_others_of_its_commit_alone(ledger, asks):
    """Also where it has told the server something, or nothing at all, and asked nothing yet."""
    add = "insert into awaited values (?)"

    def wrong(txn):
        txn.db.execute(add, ("wrong",))
        if asks:
            txn.db.one("select 1")
        raise ZeroDivisionError

    works = [lambda txn, n=n: txn.db.execute(add, (f"right {n}",)) for n in range(3)]
    works[1:1] = [wrong, lambda txn: 1 / 0]
    errors = []

    def write(work):
        try:
            ledger.write(work)
        except ZeroDivisionError as error:
            errors.append(error)

    with ledger.commits.turn:
        threads = [threading.Thread(target=write, args=(work,)) for work in works]
        for thread in threads:
            thread.start()
        while len(ledger.commits.waiting) < len(works):
            os.sched_yield()
    for thread in threads:
        thread.join()
    assert len(errors) == 2
    stored = ledger.read().db.all("select id from awaited order by 1")
    assert stored == [("right 0",), ("right 1",), ("right 2",)]
