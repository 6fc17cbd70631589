"""Who sees what, and what happens to a workspace that is named, moved or deleted."""

import hashlib
import os
import sqlite3
import threading

import pytest
from tests.requirement import requirement

from reasonbank import (
    ConfirmationNeeded,
    Filter,
    InvalidInput,
    NotFound,
    Refused,
    Scope,
    Settings,
    State,
)
from reasonbank.settings import Embed
from reasonbank.store.workspaces import path_of
from reasonbank.testing import a_memory, a_trace

QUESTION = "retry uploads"


def settings(team="default", org="local"):
    return Settings(team=team, org=org, embed=Embed(model="hashed"))


def titles(bank, **options):
    return {hit.memory.title for hit in bank.search(QUESTION, limit=50, **options)}


@requirement("WSP-1")
def test_a_workspace_is_16_digits_of_the_sha256_of_its_absolute_path(open_bank, monkeypatch):
    project = open_bank.project("here")
    digest = hashlib.sha256(str(project).encode()).hexdigest()[:16]
    monkeypatch.chdir(project)
    monkeypatch.setenv("HOME", str(open_bank.folder))
    ways = [project, str(project), f"{project}/", ".", "../here", "../here/sub/..", "~/here"]
    assert {open_bank(workspace=way).view.workspace for way in ways} == {digest}
    assert path_of(None) == os.getcwd()


@requirement("WSP-1")
def test_a_workspace_can_be_named_and_then_be_called_by_its_name(open_bank):
    bank = open_bank()
    bank.record(a_memory())
    here = bank.view.workspace
    assert bank.name_workspace(here, "uploads").name == "uploads"
    assert bank.name_workspace("uploads", "the uploads").id == here
    assert [(w.id, w.name, w.memories) for w in bank.workspaces()] == [(here, "the uploads", 1)]
    with pytest.raises(NotFound, match="uploads"):
        bank.name_workspace("uploads", "x")
    other = bank.within(open_bank.project("other"))
    other.record(a_memory())
    with pytest.raises(InvalidInput, match="name"):
        other.name_workspace(other.view.workspace, "the uploads")


@requirement("WSP-1")
def test_a_moved_workspace_is_found_at_its_new_path_and_not_at_the_old(open_bank):
    old, new = open_bank.project("old"), open_bank.project("new")
    bank = open_bank(workspace=old)
    memory = bank.record(a_memory())
    moved = bank.move_workspace(bank.view.workspace, new)
    assert (moved.id, moved.path) == (bank.view.workspace, str(new))
    assert open_bank(workspace=new).get(memory.id) == memory
    assert bank.get(memory.id) == memory
    successor = open_bank(workspace=old)
    assert successor.memories() == []
    successor.record(a_memory(title="Of the successor"))
    assert titles(open_bank(workspace=old)) == {"Of the successor"}
    assert titles(open_bank(workspace=new)) == {memory.title}


@requirement("WSP-1")
def test_a_workspace_can_move_there_and_back_but_not_onto_another(open_bank):
    old, new = open_bank.project("old"), open_bank.project("new")
    bank = open_bank(workspace=old)
    memory = bank.record(a_memory())
    bank.move_workspace(bank.view.workspace, new)
    bank.move_workspace(bank.view.workspace, old)
    assert open_bank(workspace=old).get(memory.id)
    assert open_bank(workspace=new).memories() == []
    open_bank(workspace=new).record(a_memory())
    with pytest.raises(Refused, match="workspace of its own"):
        bank.move_workspace(bank.view.workspace, new)


@pytest.fixture
def people(open_bank):
    return people_in(open_bank)


def people_in(open_bank):
    """Four projects: two in one team, one in a sister team, one in another org."""
    places = {
        "mine": settings("red", "acme"),
        "teammate": settings("red", "acme"),
        "sister": settings("blue", "acme"),
        "stranger": settings("red", "umbrella"),
    }
    banks = {
        name: open_bank(workspace=open_bank.project(name), settings=chosen)
        for name, chosen in places.items()
    }
    for name, bank in banks.items():
        for scope in Scope:
            bank.record(a_memory(title=f"{name} {scope}", scope=scope))
    return banks


VISIBLE = {
    "mine": {"mine project", "mine team", "mine org", "teammate team", "teammate org",
             "sister org"},
    "teammate": {"teammate project", "teammate team", "teammate org", "mine team", "mine org",
                 "sister org"},
    "sister": {"sister project", "sister team", "sister org", "mine org", "teammate org"},
    "stranger": {"stranger project", "stranger team", "stranger org"},
}  # fmt: skip


@requirement("WSP-2")
@pytest.mark.parametrize("who", VISIBLE)
def test_a_search_sees_its_project_its_team_and_its_org_and_nothing_else(people, who):
    bank = people[who]
    assert titles(bank) == VISIBLE[who]
    assert {m.title for m in bank.memories()} == VISIBLE[who]
    for scope in Scope:
        wanted = {title for title in VISIBLE[who] if title.endswith(scope)}
        assert titles(bank, filter=Filter(scopes=(scope,))) == wanted
    assert {m.title for m in bank.memories(Filter(states=tuple(State)))} == VISIBLE[who]
    assert bank.statistics().memories == len(VISIBLE[who])


ALIKE = (
    ("a/b", "c"),
    ("a", "b/c"),
    ("a%2Fb", "c"),
    ("a%252Fb", "c"),
    ("a", "b%2Fc"),
    ("a/b/c", "c"),
)
"""Orgs and their teams that a careless hand would write alike."""


def alike_in(open_bank):
    """A project in each team, with a memory that the team shares and one that it archived."""
    for org, team in ALIKE:
        project = open_bank.project(team_name(org, team))
        open_bank(workspace=project).join_workspace(org=org, team=team)
        bank = open_bank(workspace=project)
        for title in ("active", "archived"):
            memory = bank.record(
                a_memory(title=f"{title} {team_name(org, team)}", scope=Scope.TEAM)
            )
        bank.archive(memory.id)
    return {each: open_bank(workspace=open_bank.project(team_name(*each))) for each in ALIKE}


def team_name(org, team):
    return f"{org} {team}".replace("/", "-")


def assert_apart(banks):
    for who, bank in banks.items():
        own = team_name(*who)
        assert titles(bank) == {f"active {own}"}
        assert titles(bank, filter=Filter(states=(State.ARCHIVED,))) == {f"archived {own}"}
        assert {m.title for m in bank.memories()} == {f"active {own}"}


@requirement("WSP-2")
def test_teams_are_apart_however_their_names_and_orgs_are_written(open_bank):
    assert_apart(alike_in(open_bank))


@requirement("WSP-2")
def test_an_explanation_does_not_mention_what_may_not_be_seen(people):
    reply = people["stranger"].search(QUESTION, explain=True, limit=1)
    own = {m.id for m in people["stranger"].memories()}
    assert {id for id, _ in reply.dropped} | {hit.memory.id for hit in reply} == own
    assert reply.total_found == 3


@requirement("WSP-2")
def test_knowing_the_id_of_a_memory_out_of_sight_is_of_no_use(people):
    hidden = next(m for m in people["mine"].memories() if m.title == "mine project")
    for who in ("teammate", "sister", "stranger"):
        bank = people[who]
        own = bank.record(a_memory()).id
        attempts = [
            lambda b: b.get(hidden.id),
            lambda b: b.history(hidden.id),
            lambda b: b.evidence(hidden.id),
            lambda b: b.links(hidden.id),
            lambda b: b.genealogy(hidden.id),
            lambda b: b.update(hidden.id, title="mine now"),
            lambda b: b.archive(hidden.id),
            lambda b: b.undo(hidden.id),
            lambda b: b.feedback(hidden.id, helpful=False),
            lambda b: b.outcome(hidden.id, succeeded=False),
            lambda b: b.stability(hidden.id, kept=False),
            lambda b: b.forget(hidden.id),
            lambda b, own=own: b.link(hidden.id, own, type="similar"),
            lambda b, own=own: b.link(own, hidden.id, type="similar"),
            lambda b: b.record(a_memory(parents=(hidden.id,))),
        ]
        for attempt in attempts:
            with pytest.raises(NotFound):
                attempt(bank)
    assert people["mine"].get(hidden.id) == hidden


@requirement("WSP-2")
def test_archived_memories_stay_as_private_as_active_ones(people):
    hidden = next(m for m in people["mine"].memories() if m.title == "mine project")
    people["mine"].archive(hidden.id)
    archived = Filter(states=(State.ARCHIVED,))
    assert titles(people["mine"], filter=archived) == {"mine project"}
    assert titles(people["teammate"], filter=archived) == set()
    with pytest.raises(NotFound):
        people["teammate"].get(hidden.id)


@requirement("WSP-2")
def test_an_id_that_is_taken_out_of_sight_can_not_be_recorded_over(people):
    hidden = next(m for m in people["mine"].memories() if m.title == "mine project")
    with pytest.raises(Refused):
        people["stranger"].record(a_memory(id=hidden.id, title="mine now"))
    assert people["mine"].get(hidden.id) == hidden
    assert people["stranger"].statistics().memories == 3


@requirement("WSP-2")
def test_traces_are_seen_by_their_own_workspace_only(people):
    trace = people["mine"].store_trace(a_trace())
    assert people["teammate"].traces() == []
    with pytest.raises(NotFound):
        people["teammate"].trace(trace.id)


@requirement("WSP-3")
def test_switching_needs_no_restart(open_bank):
    bank = open_bank()
    bank.record(a_memory(title="first"))
    other = bank.within(open_bank.project("other"))
    assert titles(other) == set()
    other.record(a_memory(title="second"))
    assert titles(other) == {"second"}
    assert titles(bank) == {"first"}
    assert titles(other.within(open_bank.project())) == {"first"}


@requirement("WSP-3")
def test_concurrent_clients_in_different_workspaces_do_not_affect_each_other(open_bank):
    bank = open_bank()
    views = [bank.within(open_bank.project(f"p{i}")) for i in range(4)]
    wrong = []

    def work(i, view):
        for j in range(5):
            view.record(a_memory(title=f"{i}.{j}"))
            if titles(view) != {f"{i}.{k}" for k in range(j + 1)}:
                wrong.append((i, j, titles(view)))

    threads = [threading.Thread(target=work, args=pair) for pair in enumerate(views)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []
    assert [view.statistics().uses for view in views] == [15] * 4


@requirement("WSP-4")
def test_deleting_a_workspace_asks_for_confirmation_and_says_what_it_would_remove(open_bank):
    bank = open_bank()
    memory = bank.record(a_memory())
    with pytest.raises(ConfirmationNeeded, match="1 memory for good") as asked:
        bank.delete_workspace(bank.view.workspace)
    assert str(open_bank.project()) in str(asked.value)
    assert bank.get(memory.id) == memory


@requirement("WSP-4")
def test_deleting_a_workspace_removes_all_that_belongs_to_it_and_nothing_else(open_bank):
    secret = b"zyzzyvas-in-the-attic"
    bank = open_bank()
    doomed = bank.within(open_bank.project("zyzzyvas-in-the-attic"))
    kept = bank.record(a_memory(title="kept"))
    bank.feedback(kept.id, helpful=True)
    shared = doomed.record(a_memory(title=f"shared {secret.decode()}", scope=Scope.TEAM))
    for i in range(120):  # Enough that closing the bank writes an index file.
        doomed.record(a_memory(title=f"{secret.decode()} {i}"))
    doomed.feedback(shared.id, helpful=True, comment=secret.decode())
    doomed.store_trace(a_trace(task=secret.decode(), memories_used=(shared.id,)))
    bank.link(kept.id, shared.id, type="similar")
    doomed.embed_new()
    doomed.search(secret.decode(), session="s")
    doomed.name_workspace(doomed.view.workspace, secret.decode())
    doomed.close()
    assert (open_bank.folder / "bank.db.hashed-384.index").exists()

    bank = open_bank()
    gone = bank.within(open_bank.project("zyzzyvas-in-the-attic"))
    before = bank.get(kept.id)
    assert bank.delete_workspace(gone.view.workspace, confirm=True) == 121
    assert [w.id for w in bank.workspaces()] == [bank.view.workspace]
    assert gone.memories() == gone.traces() == []
    assert titles(gone) == set()
    assert [m.id for m in bank.memories()] == [kept.id]
    assert bank.links(kept.id) == []
    numbers = bank.statistics(everywhere=True)
    assert (numbers.memories, numbers.traces, numbers.links) == (1, 0, 0)
    assert bank.get(kept.id) == before
    rest = [f for f in open_bank.folder.iterdir() if f.is_file() and secret in f.read_bytes()]
    assert rest == []
    bank.close()
    with sqlite3.connect(open_bank.folder / "bank.db") as db:
        assert db.execute("select count(*) from evidence").fetchone() == (1,)
        assert db.execute("select count(*) from vectors where vector is not null").fetchone() == (
            1,
        )


@requirement("WSP-4")
def test_a_deleted_workspace_is_empty_and_usable_and_stays_deleted(open_bank):
    bank = open_bank()
    old = bank.record(a_memory(title="old"))
    bank.delete_workspace(bank.view.workspace, confirm=True)
    bank.record(a_memory(title="new"))
    bank.rebuild()
    assert {m.title for m in bank.memories()} == {"new"}
    with pytest.raises(Refused):
        bank.get(old.id)


@requirement("WSP-4")
def test_a_deletion_leaves_log_and_tables_in_step(open_bank):
    """What a deleted project said about a teammate's memory: both forget it, or neither."""
    bank = open_bank()
    shared = bank.record(a_memory(scope=Scope.TEAM))
    doomed = bank.within(open_bank.project("doomed"))
    doomed.record(a_memory())
    bank.outcome(shared.id, succeeded=True)
    before = bank.get(shared.id)
    for _ in range(3):
        doomed.feedback(shared.id, helpful=False)
    assert doomed.search(QUESTION).hits
    bank.delete_workspace(doomed.view.workspace, confirm=True)
    assert bank.get(shared.id) == before
    assert [e.positive for e in bank.evidence(shared.id)] == [True]
    bank.rebuild()
    assert bank.get(shared.id) == before


def test_deleting_an_unknown_workspace_is_not_found(plain_bank):
    with pytest.raises(NotFound, match="nowhere"):
        plain_bank.delete_workspace("nowhere", confirm=True)


def test_a_project_that_changes_its_team_takes_its_memories_along(open_bank):
    first = open_bank(settings=settings("red"))
    memory = first.record(a_memory(scope=Scope.TEAM))
    first.close()
    again = open_bank(settings=settings("blue"))
    again.record(a_memory(title="another"))
    red = open_bank(settings=settings("red"), workspace=open_bank.project("red"))
    blue = open_bank(settings=settings("blue"), workspace=open_bank.project("blue"))
    assert titles(red) == set()
    assert titles(blue) == {memory.title}
