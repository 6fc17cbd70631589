"""Who calls decides how far a call reaches; what a call says can only narrow it."""

import pytest

from reasonbank.access import LOCAL, Caller
from reasonbank.errors import Forbidden, InvalidInput
from reasonbank.model import Right
from reasonbank.store.workspaces import digest_of
from reasonbank.testing.builders import a_memory


@pytest.fixture
def places(open_bank):
    """A bank in its own workspace, and two others with a memory each."""
    bank = open_bank()
    for name in ("shop", "blog"):
        there = bank.within(open_bank.project(name))
        there.record(a_memory(title=name))
        bank.name_workspace(there.view.workspace, name)
    return bank


def id_of(open_bank, name):
    return digest_of(str(open_bank.project(name)))


def test_whoever_runs_here_reaches_every_workspace_by_path_id_or_name(places, open_bank):
    shop = id_of(open_bank, "shop")
    for workspace in (str(open_bank.project("shop")), shop, "shop"):
        assert LOCAL.bank(places, workspace).view.workspace == shop
    assert LOCAL.bank(places, None).view == places.view


def test_a_bound_caller_is_at_home_in_its_only_workspace(places, open_bank):
    shop = id_of(open_bank, "shop")
    caller = Caller(name="ci", workspaces=(shop,))
    bank = caller.bank(places, None)
    assert [m.title for m in bank.memories()] == ["shop"]
    assert bank.record(a_memory()).author == "ci"


def test_a_bound_caller_reaches_nothing_else_however_it_asks(places, open_bank):
    caller = Caller(workspaces=(id_of(open_bank, "shop"),))
    for workspace in (str(open_bank.project("blog")), id_of(open_bank, "blog"),
                      str(open_bank.project("shop")) + "/../blog", "/", "0" * 16):  # fmt: skip
        with pytest.raises(Forbidden):
            caller.bank(places, workspace)


def test_a_name_elsewhere_is_as_unknown_as_one_that_does_not_exist(places, open_bank):
    caller = Caller(workspaces=(id_of(open_bank, "shop"),))
    said = []
    for name in ("blog", "nowhere"):
        with pytest.raises(InvalidInput) as error:
            caller.bank(places, name)
        said.append(str(error.value).replace(name, "?"))
    assert said[0] == said[1]


def test_a_caller_with_several_workspaces_has_to_say_which(places, open_bank):
    caller = Caller(workspaces=(id_of(open_bank, "shop"), id_of(open_bank, "blog")))
    with pytest.raises(InvalidInput, match="name one"):
        caller.bank(places, None)
    assert [m.title for m in caller.bank(places, "blog").memories()] == ["blog"]


def test_a_caller_bound_to_nothing_reaches_nothing(places):
    with pytest.raises(Forbidden):
        Caller(workspaces=()).bank(places, None)


@pytest.mark.parametrize("workspace", ["shop/src", "no such name", "..", "C:\\shop"])
def test_what_names_no_workspace_is_refused_with_what_to_do(places, workspace):
    with pytest.raises(InvalidInput, match="full path"):
        LOCAL.bank(places, workspace)


def test_rights_include_those_below():
    Caller(right=Right.ADMIN).must(Right.WRITE)
    Caller(right=Right.WRITE).must(Right.READ)
    with pytest.raises(Forbidden, match="scope write; yours has read"):
        Caller(right=Right.READ).must(Right.WRITE)
    Caller().must_reach_all()
    with pytest.raises(Forbidden, match="whole bank"):
        Caller(workspaces=("a" * 16,)).must_reach_all()
