"""A session is handed in, as it goes on and in other processes: what its memories gain and lose."""

from __future__ import annotations

import io
from dataclasses import dataclass, replace

import anyio
import pytest
from hypothesis import HealthCheck, given, settings, strategies as st
from tests.learn.transcript_writers import A, C, E, U
from tests.requirement import requirement

from reasonbank import Settings
from reasonbank.jobs.learner import tasks
from reasonbank.jobs.worker import Worker
from reasonbank.learn.credits import UNNAMED
from reasonbank.learn.session import Command, Edit, Session as Told, Turn, numbered, to_trace
from reasonbank.ledger.events import EventType
from reasonbank.ledger.sessions import given_at
from reasonbank.llm.scripted import Scripted
from reasonbank.model import EvidenceKind, derived_id, from_micros
from reasonbank.settings import Embed, ProofSettings
from reasonbank.testing.builders import a_memory, a_warning

RED = C("pytest -q", 1, "E   ValueError: no\n=== 1 failed in 0.1s ===")
GREEN = C("pytest -q", 0, "=== 3 passed in 0.1s ===")
NPM = {"title": "Install with npm ci", "content": "Run npm ci in web."}


@dataclass(frozen=True)
class G:
    """A search, and what it gives."""

    question: str


class Life:
    """A session that goes on while it is told: what is searched for is given as it happens."""

    def __init__(self, bank, clock, name="the session"):
        self.bank, self.clock, self.name = bank, clock, name
        self.entries, self.times = [], []

    def goes_on(self, *story):
        for step in story:
            self.clock.now += 10_000_000
            match step:
                case G(question):
                    self.bank.search(question, session=self.name, min_confidence=0.0)
                    continue
                case U(text):
                    entry = Turn(number=0, by_user=True, text=text)
                case A(text):
                    entry = Turn(number=0, by_user=False, text=text)
                case C(command, code, output):
                    entry = Command(number=0, command=command, output=output, exit_code=code)
                case E(path, change):
                    entry = Edit(number=0, path=path, change=change)
            self.entries.append(entry)
            self.times.append(from_micros(self.clock.now))
        return self

    def trace(self, *, timed=True, outcome=None, until=None):
        told = Told(id=self.name, agent="claude-code", entries=numbered(self.entries))
        trace = to_trace(told, outcome, id=derived_id("session", self.name))
        times = self.times if timed else [None] * len(self.times)
        steps = zip(trace.trajectory, times, strict=True)
        known = tuple(replace(step, at=at) for step, at in steps)
        return replace(trace, trajectory=known[:until])

    def handed_over(self, *, model=None, **how):
        self.bank.distil(self.trace(**how))

        async def work():
            worker = Worker(self.bank.context, tasks(model))
            worker.failed = lambda job, reason: pytest.fail(reason)
            await worker.run(until_empty=True)

        anyio.run(work)
        return self


@pytest.fixture
def life(plain_bank, clock):
    return Life(plain_bank, clock)


def outcomes(bank, id):
    """Whether it helped, who says so, and in which session."""
    return [
        (e.positive, e.rater, e.session)
        for e in bank.evidence(id)
        if e.kind is EvidenceKind.OUTCOME
    ]


@requirement("CON-2")
def test_tests_that_pass_after_a_memory_was_given_raise_it(plain_bank, life):
    memory = plain_bank.record(a_memory(**NPM))
    life.goes_on(U("install web with npm"), G("install npm ci web"))
    before = plain_bank.get(memory.id).confidence
    life.goes_on(C("npm ci"), GREEN, A("done")).handed_over()
    assert plain_bank.get(memory.id).confidence > before
    [evidence] = [e for e in plain_bank.evidence(memory.id) if e.kind is EvidenceKind.OUTCOME]
    assert (evidence.rater, evidence.session) == ("tests", "the session")
    assert "pytest -q" in evidence.comment


@requirement("CON-2")
@requirement("DIS-8")
def test_a_session_that_goes_on_corrects_itself_and_counts_once(plain_bank, life):
    memory = plain_bank.record(a_memory(**NPM))
    life.goes_on(U("install web"), G("npm ci"), C("npm ci"), RED, A("red")).handed_over()
    assert outcomes(plain_bank, memory.id) == [(False, "tests", "the session")]
    low = plain_bank.get(memory.id).confidence
    life.goes_on(U("look at it again"), E("web/a.ts"), GREEN, A("green")).handed_over()
    assert outcomes(plain_bank, memory.id) == [(True, "tests", "the session")]
    high = plain_bank.get(memory.id).confidence
    assert high > low
    life.goes_on(U("thanks, now the docs"), E("README.md"), A("done")).handed_over().handed_over()
    assert plain_bank.get(memory.id).confidence == high
    life.goes_on(U("add a test"), G("npm ci"), C("npm ci"), GREEN).handed_over()
    assert outcomes(plain_bank, memory.id) == [(True, "tests", "the session")]
    assert plain_bank.get(memory.id).confidence == high


@pytest.mark.parametrize("first", ["told", "observed"])
@pytest.mark.parametrize("of", ["the memory", "the session"])
def test_what_somebody_told_stands_against_what_was_observed(plain_bank, life, first, of):
    memory = plain_bank.record(a_memory(**NPM))
    life.goes_on(U("install web"), G("npm ci"), C("npm ci"))

    def told():
        if of == "the memory":
            plain_bank.outcome(memory.id, succeeded=False, session="the session")
        else:
            plain_bank.credit("the session", succeeded=False)

    if first == "told":
        told()
    life.goes_on(GREEN, A("done")).handed_over()
    if first == "observed":
        told()
    [(positive, rater, _)] = outcomes(plain_bank, memory.id)
    assert (positive, rater == "tests") == (False, False)
    life.goes_on(U("once more"), C("npm ci"), GREEN).handed_over()
    assert [positive for positive, *_ in outcomes(plain_bank, memory.id)] == [False]


def test_where_nothing_was_verified_nothing_is_said_not_even_by_a_judge(plain_bank, life):
    memory = plain_bank.record(a_memory(**NPM))
    life.goes_on(U("install web"), G("npm ci"), C("npm ci"), A("done"))
    judge = Scripted(
        [{"outcome": "failure", "score": 10, "reason": "it says so"}, {"memories": []}]
    )
    life.handed_over(model=judge)
    assert outcomes(plain_bank, memory.id) == []


def test_without_times_the_whole_session_tells(plain_bank, life):
    memory = plain_bank.record(a_memory(**NPM))
    life.goes_on(U("install web"), G("npm ci"), C("npm ci"), GREEN, A("done"))
    life.handed_over(timed=False)
    assert outcomes(plain_bank, memory.id) == [(True, "tests", "the session")]


def test_the_caller_knows_better_how_all_of_it_went(plain_bank, life):
    memory = plain_bank.record(a_memory(**NPM))
    life.goes_on(U("install web"), G("npm ci"), C("npm ci"), GREEN, A("done"))
    life.handed_over(outcome="failure")
    assert outcomes(plain_bank, memory.id) == [(False, "the caller's word", "the session")]


@requirement("CON-2")
def test_the_right_memory_gains_and_who_stood_by_does_not(plain_bank, life):
    npm = plain_bank.record(a_memory(**NPM))
    cake = plain_bank.record(a_memory(title="npm cake", content="Bake at 180 degrees."))
    life.goes_on(U("npm install"), G("npm"), E("package.json"), C("pnpm ci web"), GREEN)
    shown = {id for id in (npm.id, cake.id) if plain_bank.get(id).usage_count}
    before = plain_bank.get(cake.id).confidence
    life.handed_over()
    assert shown == {npm.id, cake.id}, "both were given"
    assert [positive for positive, *_ in outcomes(plain_bank, npm.id)] == [True]
    assert outcomes(plain_bank, cake.id) == []
    assert plain_bank.get(cake.id).confidence == before


def test_what_several_had_a_part_in_they_share_by_their_place(plain_bank, life):
    for number in range(3):
        plain_bank.record(a_memory(title=f"Install with npm ci, way {number}", content="Run npm."))
    life.goes_on(U("install"), G("npm ci"), C("npm ci"), GREEN).handed_over()
    db = plain_bank.store.ledger.read().db
    shares = db.all("select share, question is not null from evidence where kind = 'outcome'")
    assert sum(share for share, _ in shares) == pytest.approx(1.0)
    assert {asked for _, asked in shares} == {1}, "they are told of what was asked"


@pytest.mark.parametrize(("timed", "weak_gains"), [(True, True), (False, False)])
def test_a_weak_match_gains_only_where_the_session_was_seen_to_go_by_it(
    plain_bank, life, clock, timed, weak_gains
):
    sure = plain_bank.record(a_memory(title="Test with pytest", content="Run pytest -q in web."))
    weak = plain_bank.record(a_memory(**NPM))
    context = plain_bank.context
    use = {"ids": [sure.id, weak.id], "weak": [weak.id], "session": "the session"}
    life.goes_on(U("install web with npm"))
    clock.now += 10_000_000
    context.write(lambda txn: context.append(txn, EventType.USED, "", use))
    life.goes_on(C("npm ci"), GREEN, A("done")).handed_over(timed=timed)
    assert bool(outcomes(plain_bank, weak.id)) is weak_gains
    assert outcomes(plain_bank, sure.id) == [(True, "tests", "the session")]


def test_a_session_without_a_name_is_nobodys(plain_bank, clock):
    memory = plain_bank.record(a_memory(**NPM))
    nameless = Life(plain_bank, clock, name=UNNAMED)
    nameless.goes_on(U("install web"), G("npm ci"), C("npm ci"), GREEN).handed_over()
    assert outcomes(plain_bank, memory.id) == []


def test_what_the_session_was_given_and_finds_again_is_an_echo(plain_bank, clock):
    mended = (
        C("npm run build", 1, "sh: vite: not found"), C("npm ci"), C("npm run build", 0, "built"),
    )  # fmt: skip
    first = Life(plain_bank, clock, name="first").goes_on(U("build it"), *mended).handed_over()
    [id] = plain_bank.trace(first.trace().id).memories_learned
    again = Life(plain_bank, clock, name="again")
    again.goes_on(U("build it"), G("vite: not found npm ci"), *mended).handed_over()
    assert [name for *_, name in outcomes(plain_bank, id)] == ["again"]
    other = Life(plain_bank, clock, name="other").goes_on(U("build it"), *mended).handed_over()
    names = {name for *_, name in outcomes(plain_bank, id)}
    assert names == {"again", other.trace().id}, "who finds it by themselves confirms it"


@requirement("PRV-1")
def test_a_session_that_was_given_nothing_on_purpose_tells_how_it_ended(open_bank, clock):
    bank = open_bank(
        settings=Settings(embed=Embed(model="hashed"), proof=ProofSettings(hold_out=1.0))
    )
    memory = bank.record(a_memory(**NPM))
    alone = Life(bank, clock).goes_on(U("install web"), G("npm ci"), C("npm ci"), RED, A("red"))
    alone.handed_over()

    def ended():
        [task] = bank.context.read().tasks(bank.context.view)
        assert task.session == "the session"
        return task.succeeded

    assert ended() is False
    alone.goes_on(U("again"), E("a.ts"), GREEN).handed_over()
    assert ended() is True
    assert outcomes(bank, memory.id) == []
    bank.credit("the session", succeeded=False)
    alone.goes_on(U("once more"), GREEN).handed_over()
    assert ended() is False


def test_what_a_hook_noted_is_found_and_says_who_was_given_it(plain_bank, life, clock):
    memory = plain_bank.record(a_memory(**NPM))
    life.goes_on(U("install web"))
    use = {"ids": [memory.id], "session": "the session"}
    subject = given_at("before-tool", "the session")
    context = plain_bank.context
    context.write(lambda txn: context.append(txn, EventType.USED, subject, use))
    [giving] = context.read().givings(context.view, "the session")
    assert (giving.memories, giving.moment) == ((memory.id,), "before-tool")
    life.goes_on(C("npm ci"), GREEN).handed_over()
    assert outcomes(plain_bank, memory.id) == [(True, "tests", "the session")]
    [used] = [e for e in plain_bank.evidence(memory.id) if e.kind is EvidenceKind.USAGE]
    assert used.rater == context.author


# In whatever order and parts

_STEPS = st.sampled_from([
    U("install web"), U("No, use pnpm instead of npm here."), A("done"), G("npm ci"),
    G("address in use"), G("npm server"), RED, GREEN, C("npm ci"), C("git checkout ."),
    C("pytest -q", 1, "E   OSError: Address already in use\n=== 1 failed in 0.1s ==="),
    E("package.json"), E("server.py"),
])  # fmt: skip


FILLED = (derived_id("a"), derived_id("b"))


def _fill(bank):
    port = a_warning(
        title="Stop the old server", error_type="OSError",
        failure_pattern="OSError: Address already in use", content="Stop the server first.",
    )  # fmt: skip
    bank.record(a_memory(**NPM, id=FILLED[0]))
    bank.record(replace(port, id=FILLED[1]))


def _tables(bank):
    """All that is known of these memories, but for when and in which words it was said."""
    db = bank.store.ledger.read().db
    known = db.all(
        "select id, kind, positive, session, share, question is not null from evidence"
        " join memories using (num) where id in (?, ?) order by 1, 2, 3, 4",
        FILLED,
    )
    standing = "select id, standing from memories where id in (?, ?) order by id"
    return known, db.all(standing, FILLED)


@settings(
    deadline=None, max_examples=25, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(st.lists(_STEPS, min_size=3, max_size=16), st.sets(st.integers(1, 15), max_size=4))
def test_in_whatever_parts_it_is_handed_over_the_tables_are_the_same(open_bank, clock, story, cuts):
    found = []
    begin = clock.now
    for parts in (cuts, set()):
        clock.now = begin
        bank = open_bank(f"bank-{len(open_bank.opened)}")
        _fill(bank)
        one = Life(bank, clock).goes_on(U("begin"), *story)
        for cut in sorted({*parts, len(one.entries)}):
            if cut <= len(one.entries):
                one.handed_over(until=cut)
        live = _tables(bank)
        bank.store.ledger.write(lambda txn: txn.rebuild())
        assert _tables(bank) == live, "replayed, it is the same"
        found.append(live)
        bank.close()
    assert found[0] == found[1]


def test_a_replica_knows_the_same(open_bank, clock):
    bank = open_bank()
    _fill(bank)
    Life(bank, clock).goes_on(U("go"), G("npm server"), C("npm ci"), GREEN).handed_over()
    told = io.StringIO()
    bank.export(told)
    other = open_bank("other")
    other.import_(io.StringIO(told.getvalue()), trusted=True)
    assert _tables(other) == _tables(bank)
