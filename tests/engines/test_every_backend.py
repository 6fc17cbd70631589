"""Promises that speak of every backend: what proves them in a file, told again on the others.

On real engines, through the one URL that a user would write.
"""

from __future__ import annotations

import itertools
import shutil
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from reasonbank.embed.hashed import Hashed
from reasonbank.index.local import LocalIndex
from reasonbank.learn.lessons import prepare
from reasonbank.model import EvidenceKind, Filter, Scope, State, View, new_id
from reasonbank.testing import a_memory, a_trace
from tests.conftest import Clock, Opener
from tests.engines import chroma
from tests.engines.backends import Elsewhere
from tests.engines.older import AFTER_TWELVE
from tests.faults.fault_tools import MEMORY, child
from tests.requirement import requirement
from tests.search import test_search as searching
from tests.store import test_transfer as transfer, test_workspaces as workspaces
from tests.surfaces.http_server import command
from tests.trust import test_confidence as trusting

FILE, SERVER = "sqlite", "postgres"
BACKENDS = (f"{SERVER} pgvector", f"{SERVER} local", f"{FILE} chroma")
BETWEEN = ((FILE, SERVER), (SERVER, FILE), (SERVER, SERVER))
New = Callable[..., Opener]

on_each = pytest.mark.parametrize("backend", BACKENDS)
between_ledgers = pytest.mark.parametrize(("here", "there"), BETWEEN)


@pytest.fixture(scope="module")
def chroma_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[chroma.Server]:
    chroma.needed()
    server = chroma.Server(tmp_path_factory.mktemp("chroma"))
    yield server
    server.kill()


@pytest.fixture
def memory_disk() -> Iterator[Path]:
    """For what waits for the disk with every row."""
    folder = tempfile.mkdtemp(prefix="reasonbank-", dir=MEMORY)
    yield Path(folder)
    shutil.rmtree(folder)


@pytest.fixture
def banks_on(
    request: pytest.FixtureRequest,
    tmp_path: Path,
    memory_disk: Path,
    clock: Clock,
    new_postgres: Callable[[], str],
) -> Iterator[New]:
    """Banks of a ledger, or of one and its index; all but the first may be on another."""
    openers: list[Opener] = []
    names = itertools.count()

    def place(backend: str) -> str:
        ledger, _, index = backend.partition(" ")
        url = new_postgres() if ledger == SERVER else f"sqlite:///{tmp_path}/{next(names)}.db"
        if index == "chroma":
            index += f"+{request.getfixturevalue('chroma_server').url}"
        elif index == "qdrant":
            index += f"+file://{memory_disk}/{next(names)}"
        return f"{url}?index={index}" if index else url

    def new(first: str, others: str | None = None) -> Opener:
        places = {"bank": first}
        opener = Elsewhere(tmp_path, clock, lambda name: place(places.get(name, others or first)))
        openers.append(opener)
        return opener

    yield new
    for opener in openers:
        for bank in opener.opened:
            bank.close()


@pytest.fixture
def open_bank(banks_on: New, backend: str) -> Opener:
    return banks_on(backend)


people = workspaces.people


@on_each
@requirement("WSP-2")
def test_a_search_sees_its_project_its_team_and_its_org_and_nothing_else(people):
    for who in workspaces.VISIBLE:
        workspaces.test_a_search_sees_its_project_its_team_and_its_org_and_nothing_else(people, who)
    workspaces.test_an_explanation_does_not_mention_what_may_not_be_seen(people)
    workspaces.test_an_id_that_is_taken_out_of_sight_can_not_be_recorded_over(people)
    workspaces.test_traces_are_seen_by_their_own_workspace_only(people)
    workspaces.test_knowing_the_id_of_a_memory_out_of_sight_is_of_no_use(people)
    workspaces.test_archived_memories_stay_as_private_as_active_ones(people)


@on_each
@requirement("WSP-2")
def test_teams_are_apart_however_their_names_and_orgs_are_written(open_bank):
    workspaces.assert_apart(workspaces.alike_in(open_bank))


def glued(view, scope, state=State.ACTIVE):
    """`View.realm` until schema 12."""
    key = {
        Scope.PROJECT: f"project:{view.workspace}",
        Scope.TEAM: f"team:{view.org}/{view.team}",
        Scope.ORG: f"org:{view.org}",
    }[scope]
    return key if state is State.ACTIVE else f"{state}:{key}"


TWELVE = {
    FILE: lambda db: db.handle.pragma("user_version", 12),
    SERVER: lambda db: db.execute("update meta set value = '12' where key = 'schema'"),
}


def write_as_before(folder: Path, url: str, ledger: str) -> None:
    """In a process of its own, which is the older program."""
    View.realm = glued
    open_bank = Elsewhere(folder, Clock(), lambda name: url)
    bank = workspaces.alike_in(open_bank)["a/b", "c"]
    assert workspaces.titles(bank) == {"active a-b c", "active a b-c"}  # As it was seen then.
    for bank in open_bank.opened:
        bank.store.flush()  # Nothing is written later, by tables that are not there.
    with bank.store.ledger.alone() as db:
        for later in AFTER_TWELVE:
            db.execute(later)
        TWELVE[ledger](db)
    for bank in open_bank.opened:
        bank.close(embed=False)


@pytest.mark.parametrize("ledger", [FILE, SERVER])
@requirement("WSP-2", "DEP-4")
def test_teams_that_an_older_program_took_for_one_are_apart_once_it_is_upgraded(banks_on, ledger):
    open_bank = banks_on(ledger)
    with child(write_as_before, open_bank.folder, open_bank.url(), ledger) as older:
        older.join()
        assert older.exitcode == 0
    banks = {
        each: open_bank(workspace=open_bank.project(workspaces.team_name(*each)))
        for each in workspaces.ALIKE
    }
    workspaces.assert_apart(banks)
    everything = Filter(states=tuple(State))
    upgraded = [bank.memories(everything) for bank in banks.values()]
    open_bank.opened[0].rebuild()
    assert [bank.memories(everything) for bank in banks.values()] == upgraded
    workspaces.assert_apart(banks)


class Careless(LocalIndex):
    """Whatever realms it is asked for, it answers with the rows of all."""

    def nearest(self, query, *, realms, limit, among=None):
        return super().nearest(query, realms=range(1, 100), limit=limit, among=among)


@pytest.mark.parametrize("ledger", [FILE, SERVER])
@requirement("WSP-2")
def test_an_index_that_tells_apart_no_workspaces_shows_nobody_what_is_not_theirs(banks_on, ledger):
    """So it is the ledger that says who sees what, whichever engine searches."""
    open_bank = banks_on(ledger)

    def careless(**options):
        index = Careless(None, dimensions=Hashed.dimensions, model=Hashed.name)
        return open_bank(index=index, **options)

    careless.project = open_bank.project
    people = workspaces.people_in(careless)
    stranger = people["stranger"]
    stranger.search(workspaces.QUESTION)
    vector = stranger.store.indexing.embedder.embed([workspaces.QUESTION])[0]
    assert len(stranger.store.indexing.index.nearest(vector, realms=[], limit=20)[0]) == 12
    for who in workspaces.VISIBLE:
        workspaces.test_a_search_sees_its_project_its_team_and_its_org_and_nothing_else(people, who)
    workspaces.test_an_explanation_does_not_mention_what_may_not_be_seen(people)
    hidden = next(m for m in people["mine"].memories() if m.title == "mine project")
    [lesson] = prepare(stranger.context, [replace(hidden, id=new_id())], a_trace())
    assert lesson.twin is None or lesson.twin in {m.id for m in stranger.memories()}


@between_ledgers
@requirement("MEM-10")
def test_an_export_imported_into_another_ledger_gives_the_same_bank(banks_on, clock, here, there):
    transfer.test_an_export_imported_into_an_empty_bank_gives_the_same_bank(
        banks_on(here, there), clock
    )


@between_ledgers
@requirement("MEM-10")
def test_importing_again_or_an_older_export_changes_nothing(banks_on, clock, here, there):
    transfer.test_importing_twice_changes_nothing(banks_on(here, there), clock)
    transfer.test_an_older_export_brings_back_nothing_that_was_forgotten_or_undone(
        banks_on(here, there)
    )


@between_ledgers
@requirement("MEM-10")
def test_banks_on_two_ledgers_that_import_each_other_become_equal(banks_on, clock, here, there):
    transfer.test_two_banks_that_import_each_other_become_equal(banks_on(here, there), clock)


@requirement("MEM-10")
def test_a_server_writes_parts_and_markdown_and_refuses_damaged_files_as_well(banks_on, clock):
    transfer.test_only_one_workspace_can_be_exported(banks_on(SERVER), clock)
    transfer.test_markdown_shows_every_memory_to_a_person(banks_on(SERVER), clock)
    transfer.test_plain_memories_are_imported_all_or_none_and_once(banks_on(SERVER)())
    for damage in ("cut in a line", "with a word changed"):
        transfer.test_a_damaged_file_is_refused_and_nothing_of_it_is_kept(
            banks_on(FILE, SERVER), clock, damage
        )


@requirement("CON-5")
def test_the_same_story_gives_the_same_confidence_on_every_ledger(banks_on, clock):
    told, begin = [], clock.now
    for ledger in (FILE, SERVER):
        clock.now = begin
        bank = banks_on(ledger)()
        ids = trusting.history(bank, clock)
        told.append(trusting.numbers(bank, ids))
        bank.rebuild()
        assert trusting.numbers(bank, ids) == told[-1]
    assert told[0] == told[1]


@pytest.mark.parametrize(("here", "there"), BETWEEN[:2])
@requirement("CON-5")
def test_confidence_is_the_same_on_another_ledger_in_whatever_order_the_evidence_arrives(
    banks_on, clock, here, there
):
    for order in ("odd first", "scattered"):
        trusting.test_the_order_in_which_evidence_arrives_does_not_matter(
            banks_on(here, there), clock, order
        )


@on_each
@requirement("MEM-9")
@requirement("DEP-1", left="a Qdrant server: its suite has run on its client's local mode alone")
def test_a_search_in_one_process_and_the_outcome_in_another_credit_the_same_memory(open_bank):
    bank = open_bank(workspace=open_bank.folder)
    memory = bank.record(a_memory())
    elsewhere = {"REASONBANK_URL": open_bank.url()}
    bank.search("retry uploads", session="here")
    code, told = command(open_bank.folder, "outcome", "--session", "here", "--failed", **elsewhere)
    assert (code, told["credited"]) == (0, 1), told
    code, told = command(
        open_bank.folder, "search", "retry uploads", "--session", "there", **elsewhere
    )
    assert (code, [hit["id"] for hit in told["memories"]]) == (0, [memory.id]), told
    assert bank.credit("there", succeeded=True) == 1
    outcomes = {
        (each.session, each.positive)
        for each in bank.evidence(memory.id)
        if each.kind is EvidenceKind.OUTCOME
    }
    assert outcomes == {("here", False), ("there", True)}


@pytest.mark.parametrize("backend", [f"{SERVER} pgvector", f"{FILE} chroma", f"{FILE} qdrant"])
@requirement("RET-7", left="a million rows in pgvector, Qdrant and Chroma; 2,000 are tested")
def test_a_filter_that_keeps_one_percent_returns_the_true_best(open_bank):
    crowd = searching.crowd_in(open_bank, 2_000)
    crowd[0].store.indexing.follow()
    searching.test_a_filter_that_keeps_one_percent_returns_the_true_best(crowd)


@on_each
@requirement("RET-11")
def test_vectors_of_two_models_are_never_compared(banks_on, backend):
    searching.test_vectors_of_two_models_are_never_compared(banks_on(backend))


@on_each
@requirement("RET-11")
def test_a_reindex_can_be_stopped_and_searches_go_on_meanwhile(banks_on, backend):
    searching.test_reindex_can_be_stopped_and_goes_on_where_it_was(banks_on(backend))
    searching.test_searches_go_on_during_a_reindex(banks_on(backend))
