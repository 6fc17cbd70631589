"""What a stranger's workspace learns of ours, and can do to it, by one particular way each."""

from __future__ import annotations

import json

import pytest
from tests.conftest import Opener
from tests.requirement import requirement

from reasonbank import Bank, Forgotten, InvalidInput, NotFound, Refused, Scope
from reasonbank.access import Caller
from reasonbank.errors import ReasonBankError
from reasonbank.ledger.port import Filter
from reasonbank.model import Right, State, Trace, new_id
from reasonbank.surfaces import shapes
from reasonbank.surfaces.call import Call
from reasonbank.surfaces.mcp.memory_tools import workspace
from reasonbank.surfaces.operations import OPERATIONS, Operation
from reasonbank.testing import a_memory


@pytest.fixture
def ours(open_bank: Opener) -> Bank:
    return open_bank()


@pytest.fixture
def theirs(ours: Bank, open_bank: Opener) -> Bank:
    """Another project of the same team."""
    return ours.within(open_bank.project("theirs"))


def whole(bank: Bank) -> Bank:
    return Bank(bank.context.seen_by(whole=True))


@requirement("WSP-2")
def test_what_a_shared_memory_was_made_from_elsewhere_is_not_named(
    ours: Bank, theirs: Bank
) -> None:
    hidden = ours.record(a_memory(title="Ours alone"))
    shared = ours.record(a_memory(title="For all", scope=Scope.TEAM, parents=(hidden.id,)))
    ours.update(shared.id, content="Better still.")
    assert theirs.get(shared.id).parents == ()
    assert [m.parents for m in theirs.memories()] == [()]
    assert [hit.memory.parents for hit in theirs.search("For all")] == [()]
    assert [revision.memory.parents for revision in theirs.history(shared.id)] == [(), ()]
    for known in (ours, whole(theirs)):
        assert known.get(shared.id).parents == (hidden.id,)
        assert known.genealogy(shared.id).ancestors == (hidden.id,)
    tree = theirs.genealogy(shared.id)
    assert (tree.ancestors, tree.edges) == ((), ())


@requirement("WSP-2")
def test_what_was_made_of_a_shared_memory_elsewhere_is_not_named(ours: Bank, theirs: Bank) -> None:
    shared = ours.record(a_memory(title="For all", scope=Scope.TEAM))
    hidden = theirs.record(a_memory(title="Theirs alone", parents=(shared.id,)))
    grandchild = theirs.record(
        a_memory(title="Theirs for all", scope=Scope.TEAM, parents=(hidden.id,))
    )
    tree = ours.genealogy(shared.id)
    assert tree.descendants == (grandchild.id,) and tree.edges == ()
    assert theirs.genealogy(shared.id).descendants == (hidden.id, grandchild.id)


@requirement("SEC-6")
def test_a_merge_draws_no_links_from_what_others_own(ours: Bank, theirs: Bank) -> None:
    twins = [ours.record(a_memory(title="Twin", scope=Scope.TEAM)) for _ in "ab"]
    foreign = theirs.record(a_memory(title="Theirs", content="Quite another.", scope=Scope.TEAM))
    theirs.link(foreign.id, twins[0].id, type="similar")
    ours.link(twins[1].id, foreign.id, type="analogy")
    [merged] = ours.consolidate(threshold=0.9).created
    begun = {(link.target, str(link.type)) for link in theirs.links(foreign.id)
             if link.source == foreign.id}  # fmt: skip
    assert begun == {(twins[0].id, "similar")}
    assert [(link.source, link.target) for link in ours.links(merged)] == [(merged, foreign.id)]


@requirement("SEC-6")
def test_a_trace_cannot_be_stored_under_the_id_of_one_elsewhere(ours: Bank, theirs: Bank) -> None:
    trace = ours.store_trace(Trace.from_json({"task": "Ours"}))
    for store in (theirs.store_trace, theirs.distil, theirs.distil_prepare):
        with pytest.raises(Refused):
            store(Trace.from_json({"task": "Theirs", "id": trace.id}))
    assert ours.trace(trace.id).task == "Ours"
    assert theirs.traces() == [] and theirs.jobs() == []


@requirement("SEC-6")
def test_who_forgets_takes_nothing_out_of_traces_and_gaps_of_those_who_never_saw_it(
    ours: Bank, theirs: Bank
) -> None:
    line = "Restart the blue turbine twice"
    ours.search(line)
    trace = ours.store_trace(Trace.from_json({"task": line}))
    assert [gap.question for gap in ours.gaps()] == [line]
    stolen = theirs.record(a_memory(content=f"Well:\n{line}"))
    theirs.forget(stolen.id)
    assert ours.trace(trace.id).task == line
    assert [entry.question for entry in ours.context.read().unanswered.of(ours.view.workspace)] == [
        line
    ]


def test_a_shared_memory_is_taken_out_of_the_traces_of_all_who_could_see_it(
    ours: Bank, theirs: Bank
) -> None:
    line = "Restart the blue turbine twice"
    shared = ours.record(a_memory(content=line, scope=Scope.TEAM))
    trace = theirs.store_trace(Trace.from_json({"task": f"I was told: {line}"}))
    ours.forget(shared.id)
    assert line not in theirs.trace(trace.id).task


@requirement("WSP-2")
def test_that_a_stranger_forgot_something_is_not_told(ours: Bank, theirs: Bank) -> None:
    gone = ours.record(a_memory())
    rated = ours.record(a_memory(scope=Scope.TEAM))
    theirs.feedback(rated.id, helpful=True)
    for memory in (gone, rated):
        ours.forget(memory.id)
        with pytest.raises(Forgotten):
            ours.get(memory.id)
    with pytest.raises(NotFound) as told:
        theirs.get(gone.id)
    never = new_id()
    with pytest.raises(NotFound) as other:
        theirs.get(never)
    assert str(told.value).replace(gone.id, "") == str(other.value).replace(never, "")
    with pytest.raises(Forgotten):
        theirs.get(rated.id)  # They had to do with it.


@requirement("WSP-2")
def test_an_id_that_is_taken_elsewhere_says_nothing_of_what_it_belongs_to(
    ours: Bank, theirs: Bank
) -> None:
    there, gone = ours.record(a_memory()), ours.record(a_memory())
    ours.forget(gone.id)
    told = set()
    for taken in (there, gone):
        with pytest.raises(Refused) as refused:
            theirs.record(a_memory(id=taken.id))
        told.add(str(refused.value).replace(taken.id, ""))
    assert len(told) == 1
    with pytest.raises(Refused, match="update"):
        ours.record(a_memory(id=there.id))


@requirement("WSP-2")
def test_only_an_admin_is_shown_all_workspaces_by_the_tool(ours: Bank, theirs: Bank) -> None:
    for bank in (ours, theirs):
        bank.record(a_memory())
        bank.name_workspace(bank.view.workspace, f"name of {bank.view.workspace}")
    name = f"name of {theirs.view.workspace}"
    reader = Call(root=ours, surface="mcp", caller=Caller(name="r", right=Right.READ))
    listed = workspace(reader, action="list")
    assert [place.id for place in listed.workspaces] == [ours.view.workspace]
    switched = workspace(reader, action="switch", target=name)
    assert [place.id for place in switched.workspaces] == [theirs.view.workspace]
    admin = Call(root=ours, surface="mcp", caller=Caller(name="a"))
    assert len(workspace(admin, action="list").workspaces) == 2


def test_statistics_of_a_workspace_count_what_was_observed_there(ours: Bank, theirs: Bank) -> None:
    shared = ours.record(a_memory(scope=Scope.TEAM))
    theirs.feedback(shared.id, helpful=True)
    assert ours.statistics().evidence == 0
    assert theirs.statistics().evidence == ours.statistics(everywhere=True).evidence == 1


# Not yours and not there

IDS = ("id", "source", "target", "memory", "ticket")
NEEDED = {
    "helpful": True, "succeeded": True, "kept": True, "type": "similar", "confirm": True,
    "name": "a name", "path": "/elsewhere", "answer": {"memories": []},
}  # fmt: skip
BY_ID = [op for op in OPERATIONS
         if {*IDS} & {*op.signature.parameters} and op.name not in ("record", "audit")]  # fmt: skip


def refusal(operation: Operation, call: Call, id: str) -> str:
    needed = {name: parameter for name, parameter in operation.signature.parameters.items()
              if name in IDS or name in NEEDED}  # fmt: skip
    given = {name: id if name in IDS else NEEDED[name] for name in needed}
    if operation.name in ("link", "unlink"):
        given["target"] = new_id()
    if operation.name == "merge_workspace":
        given["into"] = new_id()
    if operation.name == "distil_submit":
        given["ticket"] = f"{id}.agent-0"
    named = {name: given.pop(name) for name in operation.in_path}
    if operation.name == "update":
        given = {"title": "Mine now"}
    try:
        told = operation.perform(call, named | shapes.arguments(operation, given))
    except ReasonBankError as error:
        return f"{type(error).__name__}: {error}".replace(id, "ID")
    return json.dumps(str(told)).replace(id, "ID")


@requirement("WSP-2")
@pytest.mark.parametrize("operation", BY_ID, ids=lambda operation: operation.name)
def test_what_is_not_yours_is_refused_in_the_words_for_what_is_not_there(
    operation: Operation, ours: Bank, theirs: Bank
) -> None:
    memory, gone = ours.record(a_memory()), ours.record(a_memory())
    twins = [ours.record(a_memory(title="Twin")) for _ in "ab"]
    ours.forget(gone.id)
    ours.name_workspace(ours.view.workspace, "our-name")
    trace = ours.store_trace(Trace.from_json({"task": "Ours"}))
    job = ours.distil(Trace.from_json({"task": "Ours too"}))
    batch = ours.consolidate(threshold=0.9).batch
    theirs.record(a_memory())
    caller = Caller(name="stranger", workspaces=(theirs.view.workspace,))
    call = Call(root=ours, surface="http", caller=caller)
    never = refusal(operation, call, new_id())
    assert never.partition(":")[0] in ("NotFound", "Forbidden", "LeaseLost"), never
    for id in (memory.id, gone.id, twins[0].id, trace.id, job.id, str(batch)):
        assert refusal(operation, call, id) == never
    if operation.path.startswith("/workspaces"):
        for id in (ours.view.workspace, "our-name"):
            assert refusal(operation, call, id) == never
    assert {m.id for m in ours.memories(Filter(states=tuple(State)))} >= {memory.id}


def test_a_name_that_a_stranger_has_is_as_unknown_as_any(ours: Bank, theirs: Bank) -> None:
    ours.record(a_memory())
    ours.name_workspace(ours.view.workspace, "our-name")
    caller = Caller(name="stranger", workspaces=(theirs.view.workspace,))
    told = set()
    for name in ("our-name", "no-name"):
        with pytest.raises(InvalidInput) as refused:
            caller.bank(ours, name)
        told.add(str(refused.value).replace(name, ""))
    assert len(told) == 1
