"""Scaling at test time: parallel, sequential, adaptive; which attempt is taken."""

from __future__ import annotations

import re

import anyio
import pytest

from reasonbank import Settings
from reasonbank.agent.matts import Difficulty, Mode, plan
from reasonbank.agent.solve import solve
from reasonbank.errors import ModelUnavailable
from reasonbank.llm.scripted import Slow
from reasonbank.model import Hit
from reasonbank.settings import LLM, Embed
from reasonbank.testing.builders import a_memory, a_warning
from tests.agent.player import LESSON, Player
from tests.requirement import requirement

TASK = "Write a function that adds up a list"


def solved(bank, model, task=TASK, **options):
    return anyio.run(lambda: solve(bank.context, task, model=model, **options))


# Parallel


@requirement("AGT-5")
def test_five_attempts_are_made_at_once_and_the_best_is_taken(plain_bank):
    """Each waits for all the others to have begun: one after the other would never end."""
    begun = []

    async def until_all_have_begun(_):
        begun.append(1)
        with anyio.fail_after(10):
            while len(begun) < 5:
                await anyio.lowlevel.checkpoint()

    model = Player(lambda call: Slow(seconds=1, reply="abcde"[len(begun)]), scores={"c": 0.9})
    model._sleep = until_all_have_begun
    solution = solved(plain_bank, model, mode="parallel")
    assert len(solution.attempts) == solution.k == 5
    assert (solution.solution, solution.iterations) == ("c", 1)


@requirement("AGT-5")
def test_the_best_is_refined(plain_bank):
    model = Player("abcdefg", scores={"b": 0.6, "f": 0.9})
    solution = solved(plain_bank, model, mode="parallel")
    assert (solution.solution, solution.iterations) == ("f", 2)
    assert solution.attempts[-1].refines == 2
    assert model.asked("think")[-1].messages[-2].content == "b"


@requirement("AGT-5")
def test_one_failed_attempt_cancels_none(plain_bank):
    model = Player(["a", ModelUnavailable("busy"), "c"], scores={"c": 0.9})
    solution = solved(plain_bank, model, mode="parallel", k=3)
    assert [attempt.error for attempt in solution.attempts] == [None, "busy", None]
    assert solution.solution == "c"
    steps = [s.action for s in plain_bank.trace(solution.trace_id).trajectory]
    assert steps == ["think", "evaluate", "fail", "think", "evaluate"]


def test_an_attempt_whose_evaluation_fails_is_still_an_attempt(plain_bank):
    model = Player(["a"], scores={"a": ModelUnavailable("busy")})
    solution = solved(plain_bank, model, mode="parallel", k=1, iterations=1)
    assert (solution.solution, solution.score) == ("a", None)


def test_when_all_attempts_fail_their_error_is_the_answer(plain_bank):
    with pytest.raises(ModelUnavailable, match="busy"):
        solved(plain_bank, Player(think=ModelUnavailable("busy")), mode="parallel")


def test_equal_attempts_are_evaluated_once(plain_bank):
    model = Player(lambda call: "a", scores={"a": 0.9})
    solution = solved(plain_bank, model, mode="parallel", k=4)
    assert [attempt.repeats for attempt in solution.attempts] == [None, 1, 1, 1]
    assert len(model.asked("evaluate")) == 1


def test_one_limiter_holds_all_attempts(open_bank):
    settings = Settings(embed=Embed(model="hashed"), llm=LLM(concurrency=2))
    running, most = [], []

    async def counted(_):
        running.append(1)
        most.append(len(running))
        for _ in range(5):
            await anyio.lowlevel.checkpoint()
        running.pop()

    model = Player(lambda call: Slow(seconds=1, reply=str(len(model.calls))), scores={"3": 0.9})
    model._sleep = counted
    solved(open_bank(settings=settings), model, mode="parallel", k=5, iterations=1)
    assert max(most) == 2


def test_one_budget_holds_all_attempts(plain_bank):
    """What attempts under way may still need is not there for the others."""

    async def a_while(_):
        for _ in range(20):
            await anyio.lowlevel.checkpoint()

    model = Player(lambda call: Slow(seconds=1, reply="abcde"[len(model.calls) - 1]))
    model._sleep = a_while
    solution = solved(plain_bank, model, mode="parallel", budget=14_000, iterations=1)
    failed = [attempt for attempt in solution.attempts if attempt.error]
    assert failed and all("agent.budget_tokens" in attempt.error for attempt in failed)
    assert solution.solution in "abcd"


# Sequential


@requirement("AGT-6")
def test_one_line_of_thought_is_looked_at_again_with_all_of_it_in_sight(plain_bank):
    model = Player(["a", "<notes>the empty list</notes>b", "<notes>types</notes>c"])
    solution = solved(plain_bank, model, mode="sequential", k=3)
    assert [attempt.text for attempt in solution.attempts] == ["a", "b", "c"]
    assert [attempt.refines for attempt in solution.attempts] == [None, 1, 2]
    line = [m.content for m in model.asked("think")[2].messages if m.role == "assistant"]
    assert line == ["a", "<notes>the empty list</notes>\nb"]


@requirement("AGT-6")
def test_notes_on_the_way_feed_the_memory(plain_bank):
    model = Player(["a", "<notes>mind the empty list</notes>b"], lessons=[LESSON])
    solution = solved(plain_bank, model, mode="sequential", k=2)
    steps = plain_bank.trace(solution.trace_id).trajectory
    assert ("note", "mind the empty list") in [(s.action, s.content) for s in steps]
    assert "mind the empty list" in model.asked("contrast")[0].messages[-1].content
    assert len(solution.memories_learned) == 1


def test_a_line_of_thought_ends_when_it_is_good_enough(plain_bank):
    model = Player("abcde", scores={"b": 0.8})
    assert len(solved(plain_bank, model, mode="sequential").attempts) == 2


def test_notes_alone_are_taken_as_the_solution(plain_bank):
    model = Player(["<notes>only this</notes>"], scores={})
    assert "only this" in solved(plain_bank, model, mode="off", iterations=1).solution


# Which one is taken


@requirement("AGT-5")
def test_equal_scores_are_settled_by_one_question_about_all_of_them(plain_bank):
    model = Player("abcde", better=lambda _: "fourth")
    solution = solved(plain_bank, model, mode="parallel", k=5, iterations=1)
    assert solution.solution == "d"
    [compared] = model.asked("compare")
    shown = re.findall(r"<(\w+)-\w+>\n(\w)\n</", compared.messages[-1].content)
    assert shown == [*zip(("first", "second", "third", "fourth", "fifth"), "abcde", strict=True)]


class Rounds(Player):
    """Knows how many of its calls had to wait for an earlier one, however many ran at once."""

    ended = 0

    async def _said(self, call):
        round = self.ended + 1
        for _ in range(50):  # Those that begin together end together.
            await anyio.lowlevel.checkpoint()
        self.ended = max(self.ended, round)
        return await super()._said(call)


@requirement("AGT-5")
@pytest.mark.parametrize("iterations", [1, 3])
def test_five_attempts_that_score_the_same_wait_hardly_longer_than_one(open_bank, iterations):
    """One question more, whatever k is: which of them is the best."""
    waited = {}
    for k in (1, 3, 5):
        model = Rounds("abcdefghi")
        solved(open_bank(f"bank {k}"), model, mode="parallel", k=k, iterations=iterations)
        waited[k] = model.ended
    assert waited[3] == waited[5] == waited[1] + 1


def test_different_scores_need_no_comparison(plain_bank):
    model = Player("abc", scores={"b": 0.6})
    solved(plain_bank, model, mode="parallel", k=3, iterations=1)
    assert model.asked("compare") == []


def test_a_comparison_without_an_answer_costs_nobody_the_solution(plain_bank):
    model = Player("ab", compare="neither")
    solution = solved(plain_bank, model, mode="parallel", k=2, iterations=1)
    assert solution.solution == "b" and "not compared" in solution.notes[0]


# Adaptive


def hit(memory, relevance, confidence):
    from dataclasses import replace

    return Hit(memory=replace(memory, confidence=confidence), relevance=relevance, score=relevance)


@requirement("AGT-8")
@pytest.mark.parametrize(
    ("hits", "k", "because"),
    [
        ([], 5, "knows nothing"),
        ([hit(a_memory(), 0.9, 0.9)], 1, "close to one that succeeded"),
        ([hit(a_memory(), 0.6, 0.7)], 3, "may help"),
        ([hit(a_memory(), 0.3, 0.6)], 5, "not confident"),
        ([hit(a_memory(), 0.7, 0.8), hit(a_warning(), 0.9, 0.9)], 5, "mostly of failure"),
    ],
)
def test_the_number_of_attempts_follows_what_the_bank_knows(hits, k, because):
    chosen = plan(Mode.ADAPTIVE, 5, hits)
    assert chosen.k == k and because in chosen.reason


@requirement("AGT-8")
@pytest.mark.parametrize(
    ("hits", "simple", "complex"),
    [
        ([], 3, 5),
        ([hit(a_memory(), 0.9, 0.9)], 1, 3),
        ([hit(a_memory(), 0.6, 0.7)], 1, 5),
        ([hit(a_warning(), 0.9, 0.9)], 3, 5),
    ],
)
def test_a_simple_task_takes_fewer_attempts_and_a_complex_one_more(hits, simple, complex):
    assert plan(Mode.ADAPTIVE, 5, hits, Difficulty.SIMPLE).k == simple
    chosen = plan(Mode.ADAPTIVE, 5, hits, Difficulty.COMPLEX)
    assert chosen.k == complex and "the task is complex, as was said" in chosen.reason


@requirement("AGT-8")
def test_how_hard_a_task_is_follows_from_what_is_known_of_such_tasks():
    hard, easy = a_memory(difficulty="Hard "), a_memory(difficulty="easy")
    assert plan(Mode.ADAPTIVE, 5, [hit(hard, 0.9, 0.9)]).k == 3
    mostly_hard = [hit(hard, 0.8, 0.8), hit(easy, 0.6, 0.6), hit(a_memory(), 0.9, 0.9)]
    assert "complex, as tasks like it were" in plan(Mode.ADAPTIVE, 5, mostly_hard).reason
    assert plan(Mode.ADAPTIVE, 5, mostly_hard, Difficulty.SIMPLE).k == 1
    assert "the task is" not in plan(Mode.ADAPTIVE, 5, [hit(a_memory(), 0.6, 0.7)]).reason


def test_an_adaptive_run_never_makes_more_attempts_than_asked_for():
    assert plan(Mode.ADAPTIVE, 2, []).k == 2
    assert plan(Mode.ADAPTIVE, 2, [hit(a_memory(), 0.6, 0.7)]).k == 2


@requirement("AGT-8")
def test_a_task_close_to_a_trusted_success_takes_one_attempt(bank):
    known = bank.record(a_memory(title=TASK, description=TASK, content=f"{TASK}: use sum()."))
    for session in "abcdefgh":
        bank.outcome(known.id, succeeded=True, session=session)
    solution = solved(bank, Player(scores={"a": 0.9}), mode="adaptive")
    assert solution.k == 1 and "close to one that succeeded" in solution.reason
    unknown = solved(bank, Player(), task="Bake bread from rye", mode="adaptive", iterations=1)
    assert unknown.k == 5 and "knows nothing" in unknown.reason
