"""A session that is handed in by a caller with a token belongs to a project that they reach."""

import pytest
from tests.requirement import requirement

from reasonbank.access import Caller
from reasonbank.errors import Forbidden
from reasonbank.model import Right
from reasonbank.surfaces.call import Call
from reasonbank.surfaces.operations import distil
from reasonbank.testing import a_trace


@pytest.fixture
def places(plain_bank, open_bank):
    """A bank, the directory of another project, and the ids of both."""
    directory = str(open_bank.project("other"))
    return plain_bank, directory, plain_bank.view.workspace, plain_bank.within(directory).view


def handed_in(bank, directory, *, workspaces=None, workspace=None):
    caller = Caller(right=Right.WRITE, workspaces=workspaces)
    call = Call(root=bank, surface="http", caller=caller, workspace=workspace)
    return distil(call, a_trace(metadata={"directory": directory})).workspace


@requirement("DIS-8")
def test_whoever_reaches_all_files_it_where_it_was_worked(places):
    bank, directory, _, other = places
    assert handed_in(bank, directory) == other.workspace


@requirement("DIS-8")
def test_a_token_bound_to_one_project_files_it_there_and_nowhere_else(places):
    bank, directory, own, other = places
    assert handed_in(bank, directory, workspaces=(own,)) == own
    assert handed_in(bank, directory, workspaces=(own, other.workspace)) == other.workspace
    with pytest.raises(Forbidden):
        handed_in(bank, directory, workspaces=(own,), workspace=directory)


@pytest.mark.parametrize("directory", [None, "", "app", "C:\\app", 7, "/" + "x" * 5000])
def test_what_names_no_place_changes_nothing(places, directory):
    bank, _, own, _ = places
    assert handed_in(bank, directory) == own


def test_a_project_that_was_asked_for_comes_first(places):
    bank, directory, own, _ = places
    assert handed_in(bank, directory, workspace=own) == own
