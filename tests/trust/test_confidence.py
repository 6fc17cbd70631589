"""How far a bank trusts a memory, as its users see it. `test_belief` has the pure part."""

import io

import pytest
from tests.requirement import requirement

from reasonbank import Kind, Outcome, Scope, Settings, Source, State
from reasonbank.search import answer
from reasonbank.settings import BeliefSettings, Embed
from reasonbank.store import evidence as store_evidence
from reasonbank.testing import a_memory

INITIAL = {
    ("explicit", "success"): 0.8, ("explicit", "failure"): 0.8, ("explicit", "mixed"): 0.8,
    ("distilled", "success"): 0.7, ("distilled", "failure"): 0.6, ("distilled", "mixed"): 0.5,
    **{(str(source), str(outcome)): 0.5 for source in list(Source)[2:] for outcome in Outcome},
}  # fmt: skip


def observers(bank):
    """Each kind of evidence that people and programs report, for or against."""
    return {
        "rating": lambda id, good, **s: bank.feedback(id, helpful=good, **s),
        "outcome": lambda id, good, **s: bank.outcome(id, succeeded=good, **s),
        "stability": lambda id, good, **s: bank.stability(id, kept=good, **s),
    }


@requirement("CON-1")
def test_confidence_begins_by_source(plain_bank):
    assert len(INITIAL) == len(Source) * len(Outcome)
    for (source, outcome), expected in INITIAL.items():
        memory = plain_bank.record(a_memory(source=source, outcome=outcome))
        assert memory.confidence == plain_bank.get(memory.id).confidence == expected


@requirement("CON-1")
@requirement("CON-2")
@pytest.mark.parametrize("kind", ["rating", "outcome", "stability"])
def test_the_first_praise_raises_and_the_first_blame_lowers(plain_bank, kind):
    observe = observers(plain_bank)[kind]
    for source, outcome in INITIAL:
        praised = plain_bank.record(a_memory(source=source, outcome=outcome))
        blamed = plain_bank.record(a_memory(source=source, outcome=outcome))
        assert observe(praised.id, True).confidence > praised.confidence
        assert observe(blamed.id, False).confidence < blamed.confidence


@requirement("CON-1")
def test_the_first_blame_lowers_whatever_happened_before(plain_bank, clock):
    """Old failures, a recent success: a bad rating must not excuse the old failures."""
    memory = plain_bank.record(a_memory())
    for _ in range(40):
        plain_bank.outcome(memory.id, succeeded=False)
    clock.advance(days=40)
    before = plain_bank.outcome(memory.id, succeeded=True).confidence
    assert plain_bank.feedback(memory.id, helpful=False).confidence < before
    known = plain_bank.get(memory.id).confidence
    hit = plain_bank.search("retry uploads", min_confidence=0, explain=True)[0]
    assert hit.memory.confidence == known


@requirement("CON-2")
def test_each_kind_of_evidence_is_kept_as_what_it_is(plain_bank):
    memory = plain_bank.record(a_memory())
    plain_bank.search("retry uploads", session="s")
    plain_bank.feedback(memory.id, helpful=False, comment="too slow", session="s")
    plain_bank.outcome(memory.id, succeeded=True, session="s")
    plain_bank.stability(memory.id, kept=False, session="s")
    evidence = {e.kind: e for e in plain_bank.evidence(memory.id)}
    assert {kind: e.positive for kind, e in evidence.items()} == {
        Kind.USAGE: True, Kind.EXPLICIT: False, Kind.OUTCOME: True, Kind.STABILITY: False,
    }  # fmt: skip
    assert {e.session for e in evidence.values()} == {"s"}
    assert {e.rater for e in evidence.values()} == {plain_bank.context.author}
    assert evidence[Kind.EXPLICIT].comment == "too slow"
    assert plain_bank.get(memory.id).usage_count == 1


@requirement("CON-2")
def test_being_found_by_a_search_is_evidence_too(open_bank):
    with open_bank() as bank:
        memory = bank.record(a_memory())
        bank.search("retry uploads")
    with open_bank() as bank:
        assert bank.get(memory.id).confidence > 0.8
        assert [e.kind for e in bank.evidence(memory.id)] == [Kind.USAGE]


@requirement("CON-2")
def test_each_kind_of_evidence_says_who_observed_it(open_bank):
    bank = open_bank(settings=Settings(embed=Embed(model="hashed"), author="anna"))
    memory = bank.record(a_memory())
    others = bank.context.seen_by(author="ben")
    answer.search(others, "retry uploads", session="s")
    store_evidence.feedback(others, memory.id, False, None, "s")
    bank.search("retry uploads")
    bank.credit("s", succeeded=True)
    bank.stability(memory.id, kept=True)
    known = {(e.kind, e.session): e.rater for e in bank.evidence(memory.id)}
    assert known == {
        (Kind.USAGE, "s"): "ben", (Kind.USAGE, None): "anna", (Kind.EXPLICIT, "s"): "ben",
        (Kind.OUTCOME, "s"): "anna", (Kind.STABILITY, None): "anna",
    }  # fmt: skip


@requirement("CON-2")
def test_the_outcome_of_a_session_reaches_all_that_its_searches_returned(plain_bank):
    used = [plain_bank.record(a_memory(title=f"upload {i}")) for i in range(3)]
    unused = plain_bank.record(a_memory(title="Cake", description="b", content="c"))
    plain_bank.search("retry uploads", session="task")
    assert plain_bank.credit("task", succeeded=False) == 3
    assert all(plain_bank.get(m.id).confidence < 0.8 for m in used)
    assert plain_bank.get(unused.id).confidence == 0.8
    before = [plain_bank.get(m.id) for m in used]
    assert plain_bank.credit("task", succeeded=False) == 3
    assert [plain_bank.get(m.id) for m in used] == before
    assert plain_bank.credit("another task", succeeded=True) == 0


@requirement("CON-4")
def test_a_rating_teaches_the_weight_of_evidence_that_is_there(plain_bank):
    memory = plain_bank.record(a_memory())
    start = plain_bank.statistics().evidence_weights
    plain_bank.outcome(memory.id, succeeded=True)
    assert plain_bank.statistics().evidence_weights == start
    plain_bank.feedback(memory.id, helpful=True)
    after = plain_bank.statistics().evidence_weights
    assert after["outcome"] > start["outcome"]
    assert after["stability"] < start["stability"]  # Only because they sum to 1.
    assert after["stability"] == after["usage"]
    assert sum(after.values()) == pytest.approx(1, abs=1e-5)


@requirement("CON-4")
def test_a_kind_that_foretold_wrongly_weighs_less(plain_bank):
    memory = plain_bank.record(a_memory())
    start = plain_bank.statistics().evidence_weights
    plain_bank.stability(memory.id, kept=True)
    plain_bank.feedback(memory.id, helpful=False)
    assert plain_bank.statistics().evidence_weights["stability"] < start["stability"]


@requirement("CON-4")
def test_absent_evidence_and_evidence_older_than_30_days_change_no_weight(plain_bank, clock):
    memory = plain_bank.record(a_memory())
    start = plain_bank.statistics().evidence_weights
    plain_bank.feedback(memory.id, helpful=True)
    assert plain_bank.statistics().evidence_weights == start
    clock.advance(days=1)
    plain_bank.outcome(memory.id, succeeded=True)
    clock.advance(days=40)
    other = plain_bank.record(a_memory())
    plain_bank.outcome(other.id, succeeded=True)
    clock.advance(days=31)
    plain_bank.feedback(other.id, helpful=True)
    assert plain_bank.statistics().evidence_weights == start


@requirement("CON-4")
@requirement("CON-3")
def test_weights_are_learned_for_each_project_apart(open_bank):
    bank = open_bank()
    other = bank.within(open_bank.project("other"))
    memory = bank.record(a_memory())
    other.record(a_memory())
    bank.outcome(memory.id, succeeded=True)
    bank.feedback(memory.id, helpful=True)
    start = {"explicit": 0.318182, "usage": 0.227273, "outcome": 0.227273, "stability": 0.227273}
    assert other.statistics().evidence_weights == start
    assert bank.statistics().evidence_weights != start


@requirement("CON-11")
@pytest.mark.parametrize("kind", ["rating", "outcome", "stability"])
@pytest.mark.parametrize("good", [True, False])
def test_the_same_report_of_one_session_twice_changes_nothing(plain_bank, kind, good):
    observe = observers(plain_bank)[kind]
    memory = plain_bank.record(a_memory())
    once = observe(memory.id, good, session="s")
    events = plain_bank.statistics().events
    assert observe(memory.id, good, session="s") == once
    assert plain_bank.statistics().events == events
    moved = observe(memory.id, good, session="t").confidence
    assert (moved > once.confidence) is good


@requirement("CON-11")
@pytest.mark.parametrize("kind", ["rating", "outcome", "stability"])
def test_of_two_reports_that_contradict_each_other_the_later_stands(plain_bank, kind):
    observe = observers(plain_bank)[kind]
    memory, other = plain_bank.record(a_memory()), plain_bank.record(a_memory())
    observe(memory.id, True, session="s")
    changed = observe(memory.id, False, session="s")
    assert changed.confidence == observe(other.id, False, session="s").confidence
    assert len(plain_bank.evidence(memory.id)) == 1


@requirement("CON-11")
def test_a_report_that_was_rolled_up_is_still_counted_once(plain_bank, clock):
    memory = plain_bank.record(a_memory())
    plain_bank.outcome(memory.id, succeeded=True, session="s")
    clock.advance(days=60)
    assert plain_bank.maintain().rolled_up == 1
    once = plain_bank.get(memory.id)
    assert plain_bank.outcome(memory.id, succeeded=True, session="s") == once
    changed = plain_bank.outcome(memory.id, succeeded=False, session="s").confidence
    assert changed < 0.8
    plain_bank.rebuild()
    assert plain_bank.get(memory.id).confidence == changed


@requirement("CON-6")
def test_rolling_evidence_up_changes_no_confidence_and_once_is_enough(plain_bank, clock):
    memories = [plain_bank.record(a_memory(title=f"upload {i}")) for i in range(4)]
    for day in range(0, 50, 2):
        for i, memory in enumerate(memories):
            plain_bank.outcome(memory.id, succeeded=(day * i) % 3 > 0)
            if day % 7 == i:
                plain_bank.feedback(memory.id, helpful=i % 2 == 0)
        clock.advance(days=2)
    before = [plain_bank.get(m.id).confidence for m in memories]
    weights = plain_bank.statistics().evidence_weights
    assert plain_bank.maintain().rolled_up > 30
    assert [plain_bank.get(m.id).confidence for m in memories] == before
    assert plain_bank.statistics().evidence_weights == weights
    assert plain_bank.maintain().rolled_up == 0
    assert [plain_bank.get(m.id).confidence for m in memories] == before


@requirement("CON-7")
@pytest.mark.parametrize("good", [True, False])
def test_an_untouched_belief_drifts_back_to_where_it_began(plain_bank, clock, good):
    memory = plain_bank.record(a_memory())
    for _ in range(5):
        plain_bank.outcome(memory.id, succeeded=good)
    distances = []
    for _ in range(8):
        distances.append(abs(plain_bank.get(memory.id).confidence - 0.8))
        clock.advance(days=180)
    assert distances == sorted(distances, reverse=True)
    assert distances[0] > 0.05
    assert distances[-1] < 0.01


@requirement("CON-7")
def test_the_daily_run_changes_nothing_when_it_runs_again(plain_bank, clock):
    memory = plain_bank.record(a_memory())
    for _ in range(30):
        plain_bank.outcome(memory.id, succeeded=True)
    clock.advance(days=90)
    before = plain_bank.get(memory.id)
    for _ in range(3):
        plain_bank.maintain()
    assert plain_bank.get(memory.id) == before


def worthless(bank):
    memory = bank.record(a_memory(title="worthless uploads"))
    for _ in range(20):
        bank.outcome(memory.id, succeeded=False)
    assert bank.get(memory.id).confidence < 0.3
    return memory


@requirement("CON-8")
def test_a_memory_under_0_3_is_archived_and_not_deleted(plain_bank):
    bad = worthless(plain_bank)
    good = plain_bank.record(a_memory(title="good uploads"))
    assert [hit.memory.id for hit in plain_bank.search("uploads")] == [good.id]
    assert plain_bank.maintain().pruned == (bad.id,)
    archived = plain_bank.get(bad.id)
    assert archived.state is State.ARCHIVED
    assert archived.content == bad.content
    assert plain_bank.get(good.id).state is State.ACTIVE
    assert [hit.memory.id for hit in plain_bank.search("uploads", min_confidence=0)] == [good.id]
    assert plain_bank.maintain().pruned == ()
    assert plain_bank.undo(bad.id).state is State.ACTIVE


@requirement("CON-8")
def test_under_0_5_it_is_searched_but_not_recommended_to_an_agent(bank):
    memory = bank.record(a_memory())
    for _ in range(7):
        bank.outcome(memory.id, succeeded=False)
    assert 0.3 < bank.get(memory.id).confidence < 0.5
    question = "uploads fail, retry with pauses"
    assert bank.search(question)[0].memory.id == memory.id
    assert bank.maintain().pruned == ()
    advice = bank.recommend(question)
    assert advice.strategy is None
    assert advice.warnings == ()


@requirement("CON-8")
def test_a_project_prunes_only_what_is_its_own(open_bank):
    bank = open_bank()
    shared = bank.record(a_memory(scope=Scope.TEAM))
    for _ in range(20):
        bank.outcome(shared.id, succeeded=False)
    other = bank.within(open_bank.project("other"))
    assert other.maintain().pruned == ()
    assert bank.maintain().pruned == (shared.id,)


# The same evidence gives the same number


def history(bank, clock):
    """Months in which everything happens; the ids of the memories."""
    ids = [bank.record(a_memory(title=f"upload {i}", source=Source.DISTILLED)).id for i in range(4)]
    for week in range(12):
        for i, id in enumerate(ids):
            bank.outcome(id, succeeded=(week + i) % 3 > 0, session=f"w{week}")
            if week % 5 == i:
                bank.feedback(id, helpful=i % 2 == 0, session=f"w{week}")
            if week % 7 == i:
                bank.stability(id, kept=i > 1)
        bank.search("retry uploads", session=f"w{week // 2}")
        clock.advance(days=7)
    bank.update(ids[0], outcome="failure")
    bank.archive(ids[1])
    return ids


def numbers(bank, ids):
    weights = bank.statistics().evidence_weights
    return [(m.confidence, m.usage_count, m.last_used, m.state, m.outcome) for m in
            map(bank.get, ids)], weights  # fmt: skip


@requirement("CON-5")
def test_beliefs_can_be_made_anew_from_the_log(plain_bank, clock):
    ids = history(plain_bank, clock)
    before = numbers(plain_bank, ids)
    assert len({confidence for confidence, *_ in before[0]}) == 4
    plain_bank.maintain()
    plain_bank.rebuild()
    assert numbers(plain_bank, ids)[0][0] == before[0][0]
    assert numbers(plain_bank, ids) == before


@requirement("CON-5")
def test_a_bank_restored_from_an_export_believes_the_same(open_bank, clock):
    bank = open_bank()
    ids = history(bank, clock)
    file = io.StringIO()
    bank.export(file)
    copy = open_bank("copy")
    copy.import_(io.StringIO(file.getvalue()), trusted=True)
    assert numbers(copy, ids) == numbers(bank, ids)


@requirement("CON-5")
@pytest.mark.parametrize("order", ["forwards", "backwards", "halves", "odd first", "scattered"])
def test_the_order_in_which_evidence_arrives_does_not_matter(open_bank, clock, order):
    bank = open_bank()
    ids = history(bank, clock)
    before = numbers(bank, ids)
    events = list(bank.store.ledger.read().events(None))
    middle = len(events) // 2
    parts = {
        "forwards": [events],
        "backwards": [events[::-1]],
        "halves": [events[middle:], events[:middle]],
        "odd first": [events[1::2], events[::2]],
        "scattered": [[e] for e in sorted(events, key=lambda e: e.id[::-1])],
    }[order]
    copy = open_bank("copy")
    for part in parts:
        copy.context.write(lambda txn, part=part: txn.take(part))
    assert numbers(copy, ids) == before
    copy.context.write(lambda txn: txn.take(events))
    assert numbers(copy, ids) == before


@requirement("CON-5")
def test_every_way_to_ask_gives_the_same_number(plain_bank, clock):
    ids = history(plain_bank, clock)
    listed = {m.id: m.confidence for m in plain_bank.memories()}
    hits = plain_bank.search("retry uploads", min_confidence=0)
    assert len(hits) == 3
    for hit in hits:
        assert hit.memory.confidence == listed[hit.memory.id]
    assert ids[1] not in listed


# Models of belief


@pytest.mark.parametrize("model", ["bayesian", "additive", "safla"])
@requirement("CON-10")
def test_the_model_of_belief_is_a_setting(open_bank, model):
    chosen = Settings(belief=BeliefSettings(model=model), embed=Embed(model="hashed"))
    bank = open_bank(settings=chosen)
    memory, other = bank.record(a_memory()), bank.record(a_memory(source=Source.PASSIVE))
    assert bank.statistics().belief_model == model
    start = bank.get(other.id).confidence
    for kind, observe in observers(bank).items():
        assert observe(other.id, True).confidence > start, kind
        assert observe(other.id, False).confidence < bank.get(memory.id).confidence, kind
    if model == "safla":
        return  # In a search it also looks at how well the memory matches the question.
    known = {m.id: bank.get(m.id).confidence for m in (memory, other)}
    hits = {h.memory.id: h.memory.confidence for h in bank.search("uploads", min_confidence=0)}
    assert hits == known


@requirement("CON-10")
def test_the_additive_model_takes_its_steps(open_bank, clock):
    chosen = Settings(belief=BeliefSettings(model="additive"), embed=Embed(model="hashed"))
    bank = open_bank(settings=chosen)
    memory = bank.record(a_memory(source=Source.PASSIVE))
    assert bank.feedback(memory.id, helpful=True).confidence == pytest.approx(0.8)
    assert bank.feedback(memory.id, helpful=False).confidence == pytest.approx(0.6)
    assert bank.outcome(memory.id, succeeded=True).confidence == pytest.approx(0.7)
    assert bank.stability(memory.id, kept=True).confidence == pytest.approx(0.9)
    clock.advance(days=30)
    assert bank.get(memory.id).confidence == pytest.approx(0.85)


@requirement("CON-10")
def test_switching_the_model_there_and_back_loses_nothing(open_bank, clock):
    with open_bank() as bank:
        ids = history(bank, clock)
        before = numbers(bank, ids)
    chosen = Settings(belief=BeliefSettings(model="safla"), embed=Embed(model="hashed"))
    with open_bank(settings=chosen) as bank:
        assert numbers(bank, ids) != before
    assert numbers(open_bank(), ids) == before


@requirement("CON-7")
def test_the_half_life_is_a_setting(open_bank, clock):
    with open_bank() as bank:
        memory = bank.record(a_memory())
        for _ in range(5):
            bank.outcome(memory.id, succeeded=False)
    clock.advance(days=60)
    slow = open_bank().get(memory.id).confidence
    hasty = Settings(belief=BeliefSettings(half_life_days=30.0), embed=Embed(model="hashed"))
    with open_bank(settings=hasty) as bank:
        assert bank.get(memory.id).confidence > slow
    assert open_bank().get(memory.id).confidence == slow
