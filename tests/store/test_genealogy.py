"""Where a memory came from, what came of it, and the links between memories."""

import pytest
from tests.requirement import requirement

from reasonbank import Filter, InvalidInput, Link, LinkType, NotFound, Outcome, Scope
from reasonbank.fields import plain
from reasonbank.ledger.events import Event, EventType, lesson
from reasonbank.model import Genealogy, new_id
from reasonbank.testing import a_memory


def recorded(bank, title, *parents, **fields):
    memory = a_memory(title=title, parents=tuple(p.id for p in parents), **fields)
    return bank.record(memory)


@requirement("GEN-1")
def test_a_memory_keeps_its_parents_and_is_one_stage_further_than_the_highest(plain_bank):
    root = recorded(plain_bank, "root")
    child = recorded(plain_bank, "child", root)
    grandchild = recorded(plain_bank, "grandchild", root, child)
    assert [m.stage for m in (root, child, grandchild)] == [0, 1, 2]
    assert plain_bank.get(grandchild.id).parents == (root.id, child.id)
    assert plain_bank.get(grandchild.id).stage == 2


@requirement("GEN-1")
def test_stages_and_parents_survive_a_rebuild_and_the_death_of_a_parent(plain_bank):
    root = recorded(plain_bank, "root")
    child = recorded(plain_bank, "child", root)
    grandchild = recorded(plain_bank, "grandchild", child)
    plain_bank.forget(child.id)
    plain_bank.rebuild()
    assert plain_bank.get(grandchild.id).stage == 2
    assert plain_bank.get(grandchild.id).parents == (child.id,)


@requirement("GEN-1")
def test_a_parent_that_is_not_here_is_refused(plain_bank):
    with pytest.raises(NotFound, match="parents"):
        plain_bank.record(a_memory(parents=(new_id(),)))
    assert plain_bank.memories() == []


@requirement("GEN-2")
def test_genealogy_has_all_ancestors_and_all_descendants(plain_bank):
    """A diamond below a root, and a stranger who is not kin."""
    root = recorded(plain_bank, "root")
    left, right = recorded(plain_bank, "left", root), recorded(plain_bank, "right", root)
    bottom = recorded(plain_bank, "bottom", left, right)
    leaf = recorded(plain_bank, "leaf", bottom)
    recorded(plain_bank, "stranger")
    tree = plain_bank.genealogy(bottom.id)
    assert tree.stage == 2
    assert set(tree.ancestors) == {left.id, right.id, root.id}
    assert tree.ancestors[-1] == root.id
    assert tree.descendants == (leaf.id,)
    assert set(tree.edges) == {
        (root.id, left.id), (root.id, right.id), (left.id, bottom.id), (right.id, bottom.id),
        (bottom.id, leaf.id),
    }  # fmt: skip
    assert plain_bank.genealogy(root.id).descendants[-1] == leaf.id
    assert set(plain(tree)["memories"].values()) == {"root", "left", "right", "bottom", "leaf"}


@requirement("GEN-2")
def test_genealogy_ends_even_where_kin_go_in_a_circle(plain_bank):
    """No caller can make a circle, but a peer or a forged file could."""
    ids = [new_id() for _ in range(3)]

    def event(at, type, subject, payload):
        return Event(
            id=new_id(), type=type, subject=subject, workspace=plain_bank.view.workspace, at=at,
            origin="elsewhere", author="peer", surface="import", payload=payload,
        )  # fmt: skip

    circle = [
        event(at, EventType.RECORDED, id, {"lesson": lesson(a_memory(parents=(ids[at - 2],)))})
        for at, id in enumerate(ids, 1)
    ]
    joined = event(
        1, EventType.JOINED, plain_bank.view.workspace, {"team": "default", "org": "local"}
    )
    plain_bank.context.write(lambda txn: txn.take([joined, *circle]))
    for id in ids:
        tree = plain_bank.genealogy(id)
        assert set(tree.ancestors) == set(tree.descendants) == set(ids) - {id}


@requirement("GEN-2")
def test_a_long_line_of_descent_is_walked_to_its_end(plain_bank):
    line = [recorded(plain_bank, "0")]
    for i in range(1, 60):
        line.append(recorded(plain_bank, str(i), line[-1]))
    assert plain_bank.genealogy(line[-1].id).ancestors == tuple(m.id for m in line[-2::-1])
    assert len(plain_bank.genealogy(line[0].id).descendants) == 59


def test_kin_in_another_project_is_not_named(open_bank):
    bank = open_bank()
    shared = recorded(bank, "shared", scope=Scope.TEAM)
    hidden = recorded(bank, "hidden", shared)
    other = bank.within(open_bank.project("other"))
    tree = other.genealogy(shared.id)
    assert (tree.descendants, tree.edges) == ((), ())
    assert tree.memories == {shared.id: "shared"}
    assert bank.genealogy(shared.id).descendants == (hidden.id,)


@requirement("GEN-3")
@pytest.mark.parametrize("type", LinkType)
def test_a_link_has_a_type_and_a_strength_and_is_seen_from_both_ends(plain_bank, type):
    one, two = recorded(plain_bank, "one"), recorded(plain_bank, "two")
    plain_bank.link(one.id, two.id, type=str(type), strength=0.25)
    expected = [Link(source=one.id, target=two.id, type=type, strength=0.25)]
    assert plain_bank.links(one.id) == plain_bank.links(two.id) == expected


@requirement("GEN-3")
def test_linking_again_changes_the_strength_and_unlinking_removes_it(plain_bank):
    one, two = recorded(plain_bank, "one"), recorded(plain_bank, "two")
    plain_bank.link(one.id, two.id, type="similar", strength=0.25)
    plain_bank.link(one.id, two.id, type="contradicts")
    plain_bank.link(one.id, two.id, type="similar", strength=0.75)
    assert [link.strength for link in plain_bank.links(one.id)] == [1.0, 0.75]
    plain_bank.unlink(one.id, two.id, type="similar")
    plain_bank.rebuild()
    assert [link.type for link in plain_bank.links(one.id)] == [LinkType.CONTRADICTS]


@requirement("GEN-3")
@pytest.mark.parametrize("strength", [-0.1, 1.1, float("nan"), "strong", True])
def test_a_strength_outside_0_to_1_is_refused(plain_bank, strength):
    one, two = recorded(plain_bank, "one"), recorded(plain_bank, "two")
    with pytest.raises(InvalidInput, match="strength"):
        plain_bank.link(one.id, two.id, type="similar", strength=strength)
    assert plain_bank.links(one.id) == []


def test_a_link_of_an_unknown_type_to_itself_or_to_nothing_is_refused(plain_bank):
    one, two = recorded(plain_bank, "one"), recorded(plain_bank, "two")
    with pytest.raises(InvalidInput, match="type"):
        plain_bank.link(one.id, two.id, type="friend")
    with pytest.raises(InvalidInput, match="target"):
        plain_bank.link(one.id, one.id, type="similar")
    with pytest.raises(NotFound):
        plain_bank.link(one.id, new_id(), type="similar")
    with pytest.raises(NotFound):
        plain_bank.link(new_id(), two.id, type="similar")


def chain(bank):
    """Only the first can be found by its words; each is linked to the next."""
    texts = {"retry uploads": "wait", "cool the cake": "sponge", "tune the piano": "strings"}
    first, second, third = (
        bank.record(a_memory(title=title, description=content, content=content))
        for title, content in texts.items()
    )
    bank.link(first.id, second.id, type="analogy", strength=0.5)
    bank.link(third.id, second.id, type="causes")
    return first, second, third


@requirement("GEN-3")
def test_a_search_can_follow_links_one_step(plain_bank):
    first, second, third = chain(plain_bank)
    found = [hit.memory.id for hit in plain_bank.search("retry uploads")]
    assert found == [first.id]
    reply = plain_bank.search("retry uploads", follow_links=True)
    assert [hit.memory.id for hit in reply] == [first.id, second.id]
    assert reply[1].via == first.id
    assert reply[1].score == pytest.approx(0.5 * reply[0].score, abs=1e-5)
    back = plain_bank.search("cool the cake", follow_links=True)
    assert [hit.memory.id for hit in back] == [second.id, third.id, first.id]


@requirement("GEN-3")
def test_what_a_link_leads_to_is_held_to_the_filter(plain_bank):
    first, second, _ = chain(plain_bank)

    def reached(**options):
        reply = plain_bank.search("retry uploads", follow_links=True, **options)
        return [hit.memory.id for hit in reply]

    assert reached(filter=Filter(outcomes=(Outcome.SUCCESS,))) == [first.id, second.id]
    plain_bank.update(second.id, outcome="failure")
    assert reached(filter=Filter(outcomes=(Outcome.SUCCESS,))) == [first.id]
    assert reached() == [first.id, second.id]
    for _ in range(20):
        plain_bank.outcome(second.id, succeeded=False)
    assert reached() == [first.id]
    plain_bank.archive(second.id)
    assert reached(min_confidence=0) == [first.id]


@requirement("GEN-3")
def test_a_link_leads_to_nothing_that_may_not_be_seen(open_bank):
    bank = open_bank()
    shared = recorded(bank, "retry uploads", scope=Scope.TEAM)
    hidden = recorded(bank, "cool the cake")
    bank.link(shared.id, hidden.id, type="similar")
    other = bank.within(open_bank.project("other"))
    reply = other.search("retry uploads", follow_links=True)
    assert [hit.memory.id for hit in reply] == [shared.id]
    assert other.links(shared.id) == []


@requirement("GEN-2")
def test_the_text_tree_has_every_memory_under_what_it_came_from_and_a_ring_ends(capsys):
    from reasonbank.surfaces.show import tables

    edges = (("a", "b"), ("b", "c"), ("c", "a"), ("c", "d"))
    titles = {id: f"memory {id.upper()}" for id in "abcd"}
    kin = Genealogy(id="a", stage=0, ancestors=("c", "b"), descendants=("b", "c", "d"),
                    edges=edges, memories=titles)  # fmt: skip
    tables.genealogy(kin)
    lines = capsys.readouterr().out.splitlines()
    _, led_to = "\n".join(lines).split("led to")
    indents = {line.strip("│├└─ ")[7]: line.index("memory") for line in led_to.splitlines()[1:]}
    assert indents["B"] < indents["C"] < indents["D"]
