"""Two workspaces become one, here and wherever their log is read; and what they share."""

import io

import pytest
from tests.requirement import requirement

from reasonbank import Forbidden, InvalidInput, NotFound, Refused, Scope, Settings
from reasonbank.access import TokenStore
from reasonbank.settings import Embed
from reasonbank.testing import a_memory, a_trace

QUESTION = "retry uploads"


@pytest.fixture
def two(open_bank):
    """A project and a folder of it that was a workspace of its own, with all that one can have."""
    project = open_bank(workspace=open_bank.project("project"))
    part = project.within(open_bank.project("part"))
    one = part.record(a_memory(title="Of the part"))
    part.record(a_memory(title="For the team", scope=Scope.TEAM))
    project.record(a_memory(title="Of the project"))
    part.search(QUESTION, session="a task")
    part.credit("a task", succeeded=True)
    part.feedback(one.id, helpful=True)
    part.store_trace(a_trace())
    part.distil(a_trace())
    part.search("zyzzyva")
    part.store.flush()
    return project, part


def titles(bank, **options):
    return {hit.memory.title for hit in bank.search(QUESTION, limit=50, **options)}


def everything(bank):
    """What is known, as far as it does not depend on when and where it is read."""
    return (
        sorted((m.id, m.title, m.workspace, m.confidence, m.usage_count) for m in bank.memories()),
        sorted(trace.id for trace in bank.traces()),
        [(place.id, place.name, place.memories) for place in bank.workspaces()],
    )


@requirement("WSP-1")
def test_all_that_one_knows_belongs_to_the_other(two, open_bank):
    project, part = two
    here, there = project.view.workspace, part.view.workspace
    (before,) = [m for m in part.memories() if m.title == "Of the part"]
    traces, gaps, jobs = part.traces(), part.gaps(), part.jobs()
    merged = project.merge_workspace(there, here)
    assert (merged.id, merged.memories) == (here, 3)
    assert [place.id for place in project.workspaces()] == [here]
    after = project.get(before.id)
    assert titles(project) == {"Of the part", "For the team", "Of the project"}
    assert (after.workspace, after.confidence) == (here, before.confidence)
    assert after.usage_count == before.usage_count
    assert project.history(before.id)[0].memory.workspace == here
    assert {t.id for t in traces} <= {t.id for t in project.traces()}
    assert [gap.question for gap in project.gaps()] == [gap.question for gap in gaps]
    assert {job.id for job in jobs} <= {job.id for job in project.jobs()}
    assert project.update(before.id, title="Changed from the project").title
    again = open_bank(workspace=open_bank.project("part"))
    assert again.view.workspace == here
    assert again.credit("a task", succeeded=True) == 2


@requirement("WSP-1")
def test_an_export_says_so_to_others_and_a_rebuild_agrees(two, open_bank):
    project, part = two
    project.name_workspace(part.view.workspace, "the part")
    project.merge_workspace("the part", project.view.workspace)
    for only_here in (False, True):
        file = io.StringIO()
        project.export(file, only_here=only_here)
        file.seek(0)
        replica = open_bank(f"replica {only_here}", workspace=open_bank.project("project"))
        replica.import_(file, trusted=True)
        assert everything(replica) == everything(project)
        assert replica.within(open_bank.project("part")).view.workspace == project.view.workspace
    told = everything(project)
    assert told[2][0][1] == "the part"
    project.rebuild()
    assert everything(project) == told


@requirement("WSP-1")
def test_who_had_opened_what_was_merged_is_told(two):
    project, part = two
    project.merge_workspace(part.view.workspace, project.view.workspace)
    with pytest.raises(Refused, match="was merged into"):
        part.record(a_memory())
    assert "was merged into" in part.search("zyzzyva").hint
    with pytest.raises(NotFound, match="was merged into"):
        project.delete_workspace(part.view.workspace, confirm=True)


@requirement("WSP-1")
def test_what_is_not_there_or_is_one_already_is_not_merged(two):
    project, _ = two
    here = project.view.workspace
    with pytest.raises(NotFound, match="nobody"):
        project.merge_workspace("nobody", here)
    with pytest.raises(NotFound, match="nobody"):
        project.merge_workspace(here, "nobody")
    with pytest.raises(InvalidInput, match="surrogate"):
        project.merge_workspace("\ud800", here)
    with pytest.raises(InvalidInput, match="same workspace"):
        project.merge_workspace(here, here)
    assert len(project.workspaces()) == 2


@requirement("WSP-4")
def test_deleting_a_workspace_deletes_what_was_merged_into_it(two, open_bank):
    project, part = two
    project.merge_workspace(part.view.workspace, project.view.workspace)
    assert project.delete_workspace(project.view.workspace, confirm=True) == 3
    assert project.workspaces() == []
    assert project.traces() == []
    file = io.StringIO()
    project.export(file)
    assert "Of the part" not in file.getvalue()
    other = open_bank("other")
    file.seek(0)
    other.import_(file, trusted=True)
    assert other.workspaces() == []


@requirement("SEC-1")
def test_a_token_for_what_was_merged_does_not_reach_further(two):
    project, part = two
    tokens = TokenStore(project)
    bound, _ = tokens.caller(tokens.create(scope="admin", workspaces=[part.view.workspace]).token)
    assert len(bound.bank(project, None).memories()) == 2
    project.merge_workspace(part.view.workspace, project.view.workspace)
    with pytest.raises(Forbidden):
        bound.bank(project, None)


@requirement("WSP-1")
def test_a_workspace_is_put_into_a_team_and_an_org_by_a_command(open_bank):
    one = open_bank(workspace=open_bank.project("one"))
    one.record(a_memory(title="Shared", scope=Scope.TEAM))
    other = one.within(open_bank.project("other"))
    assert titles(other) == {"Shared"}
    joined = other.join_workspace(team="blue", org="acme")
    assert (joined.team, joined.org, joined.path) == ("blue", "acme", other.context.path)
    other = open_bank(workspace=open_bank.project("other"))
    assert (other.view.team, other.view.org) == ("blue", "acme")
    assert titles(other) == set()
    one.join_workspace(team="blue", org="acme")
    # Whoever opened it before does not put it back.
    one.record(a_memory(title="Shared too", scope=Scope.TEAM))
    assert titles(other) == {"Shared", "Shared too"}
    assert one.join_workspace(team="red").org == "acme"


def test_a_setting_outranks_the_command_and_says_so(open_bank):
    bank = open_bank(settings=Settings(team="red", embed=Embed(model="hashed")))
    with pytest.raises(Refused, match="setting team"):
        bank.join_workspace(team="blue")
    assert bank.join_workspace(team="red").team == "red"
