"""Two who merge workspaces without knowing of each other agree in the end."""

import pytest
from fault_tools import a_memory
from replicas import Replicas, disagreements
from tests.requirement import requirement


@pytest.fixture
def replicas():
    replicas = Replicas()
    for place in range(3):
        replicas.bank(0, place).record(a_memory(f"Ports {place}"))
    replicas.send(0, 1)
    replicas.send(0, 2)
    yield replicas
    replicas.close()


def merge(replicas, number, source, target):
    bank = replicas.bank(number, source)
    bank.merge_workspace(bank.view.workspace, replicas.bank(number, target).view.workspace)


def places(replicas):
    return {place.path: place.memories for place in replicas.banks[0].workspaces()}


@requirement("WSP-1")
@requirement("MEM-10")
def test_into_each_other(replicas):
    merge(replicas, 0, 0, 1)
    merge(replicas, 1, 1, 0)
    replicas.bank(0, 0).record(a_memory("Locks afterwards"))
    replicas.bank(1, 1).record(a_memory("Locks as well"))
    assert disagreements(replicas) == {}
    assert sorted(places(replicas).values()) == [1, 4]


@requirement("WSP-1")
def test_in_a_circle_and_into_two(replicas):
    merge(replicas, 0, 0, 1)
    merge(replicas, 1, 1, 2)
    merge(replicas, 2, 2, 0)
    merge(replicas, 1, 0, 2)
    assert disagreements(replicas) == {}
    assert list(places(replicas).values()) == [3]


@requirement("WSP-1")
def test_while_the_other_is_deleted_what_is_brought_there_stays(replicas):
    merge(replicas, 0, 0, 1)
    there = replicas.bank(1, 1)
    there.delete_workspace(there.view.workspace, confirm=True)
    assert disagreements(replicas) == {}
    assert places(replicas) == {"/alpha": 1, "/gamma": 1}
