"""The learning bench itself: its simple learners, its streams, and what its cache covers."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest
from bench import learning, learning_tables, learning_telecom
from bench.learning_choice import CONDITIONS, CREDIT, choice
from bench.learning_loop import SYSTEMS, Run, Stream, Task, follow
from bench.learning_parameters import parameters
from bench.learning_simple import LEARNERS, Cosine, KernelBeta, Ridge, Space, Vote, World, play
from bench.learning_streams import shortened
from bench.learning_vectors import Embedded

from reasonbank.trust import belief
from tests.requirement import requirement

ACTIONS = ("left", "right", "up")


class Drawn:
    """Vectors by chance, the same for the same text."""

    def embed(self, texts):
        found = [np.random.default_rng(list(text.encode())).normal(size=8) for text in texts]
        return np.array([each / np.linalg.norm(each) for each in found], np.float32)


def a_world(texts=("a", "b", "c", "d"), poison=()):
    stream = Stream(
        name="toy",
        condition="clean",
        lessons={name: (name, f"go {name}") for name in ACTIONS},
        tasks=[Task(text=text, rewards={"left": 1.0}, kind=text) for text in texts],
        poison=poison,
    )
    return World(stream, Space(stream, Drawn()))


def test_without_distance_kernel_beta_is_the_share_of_successes_and_its_prior():
    world = a_world()
    learner = KernelBeta(world, power=0, strength=2, prior=0, bold=0)
    for succeeded in (True, True, False):
        learner.learn(0, 1, succeeded, 1.0)
    assert learner.forecast(3, 1) == pytest.approx((1 + 2) / (2 + 3))
    assert learner.forecast(3, 0) == pytest.approx(0.5)


def test_with_a_narrow_kernel_only_the_same_question_counts():
    learner = KernelBeta(a_world(), power=1000, strength=1, prior=1, bold=0)
    before = learner.scores(1).copy()
    learner.learn(0, 2, False, 1.0)
    assert learner.scores(1) == pytest.approx(before, abs=1e-6)
    assert learner.forecast(0, 2) == pytest.approx(learner.world.resembles[2, 0] / 2)


def test_ridge_is_the_regression_of_the_textbook():
    texts = tuple("abcdefgh")
    world = a_world(texts)
    learner = Ridge(world, ridge=0.7, alpha=1.0, slope=0, constant=0)
    heard = [(0, 1.0), (3, 0.0), (5, 1.0), (0, 1.0), (6, 0.0)]
    for question, outcome in heard:
        learner.learn(question, 1, bool(outcome), 1.0)
    near = np.asarray(world.space.near, np.float64)
    asked = [question for question, _ in heard]
    outcomes = np.array([outcome for _, outcome in heard])
    known = near[np.ix_(asked, asked)] + 0.7 * np.eye(len(asked))
    mean = near[:, asked] @ np.linalg.solve(known, outcomes)
    spread = 1 - np.einsum("ij,ji->i", near[:, asked], np.linalg.solve(known, near[asked]))
    assert learner.mean[1] == pytest.approx(mean, abs=1e-4)
    assert learner.spread[1] == pytest.approx(spread, abs=1e-4)


def test_the_nearest_experiences_vote_for_what_worked_and_against_what_failed():
    world = a_world()
    learner = Vote(world, power=1, nearest=2, start=0, prior=1, against=0.5)
    learner.learn(0, 0, True, 1.0)
    learner.learn(0, 1, False, 1.0)
    assert learner.scores(0) == pytest.approx([1.0, -0.5, 0.0], abs=1e-5)
    learner.learn(0, 2, True, 1.0)
    learner.learn(0, 2, True, 1.0)
    assert np.count_nonzero(learner.scores(0)) <= 2, "only two of four are heard"


def test_a_poisoned_memory_makes_its_action_resemble_its_question():
    clean, poisoned = a_world(), a_world(poison=[("b", "up")])
    assert int(Cosine(poisoned).scores(1).argmax()) == ACTIONS.index("up")
    assert poisoned.poisoned[ACTIONS.index("up"), 1]
    assert not clean.poisoned.any()


@pytest.mark.parametrize("name", [name for name in LEARNERS if name != "nearest lesson"])
def test_every_simple_learner_finds_what_works(name):
    names = [f"tool {number}" for number in range(6)]
    asked = [(f"{tool} {number}", frozenset({tool})) for tool in names for number in range(4)] * 8
    stream = choice("toy", {tool: (tool, tool) for tool in names}, asked, 0, "clean")
    world = World(stream, Space(stream, Drawn()))
    learner = LEARNERS[name](world, **parameters(name, "toy", "clean"))
    run = play(stream, learner, 0, world)
    still = play(stream, Cosine(world), 0, world)
    assert sum(run.rewards) > 1.5 * sum(still.rewards)


def test_an_agent_that_mixes_goes_by_the_first_half_of_the_time():
    draws = [(number + 0.5) / 600 for number in range(600)]
    assert Counter(follow(3, True, draw) for draw in draws) == {0: 300, 1: 200, 2: 100}
    assert {follow(3, False, draw) for draw in draws} == {0}
    assert {follow(1, True, draw) for draw in draws} == {0}


@pytest.mark.parametrize("condition", [*CONDITIONS, *CREDIT, "judge 70"])
def test_a_stream_is_made_as_its_condition_says(condition):
    names = [f"tool {number}" for number in range(10)]
    asked = [(f"question {number}", frozenset({names[number % 10]})) for number in range(200)]
    stream = choice("toy", {name: (name, name) for name in names}, asked, 3, condition)
    assert sorted(task.text for task in stream.tasks) == sorted(text for text, _ in asked)
    right = dict(asked)
    moved = [task.rewards[next(iter(right[task.text]))] == 0 for task in stream.tasks]
    assert any(moved[100:]) == (condition == "drift") and not any(moved[:100])
    assert bool(stream.poison) == (condition in ("poison", "own"))
    assert stream.poisoner == ("agent" if condition == "own" else "stranger")
    rewards = {task.text: task.rewards for task in stream.tasks}
    assert all(rewards[text][action] == 0 for text, action in stream.poison)
    assert stream.given == (3 if condition in CREDIT else 1)
    assert stream.wrong_feedback == pytest.approx({"noise": 0.2, "judge 70": 0.3}.get(condition, 0))
    short = shortened(stream, 50)
    assert len(short.tasks) == 50
    assert {text for text, _ in short.poison} <= {task.text for task in short.tasks}


def test_a_run_counts_repeated_mistakes_and_silence():
    run = Run()
    task = Task(text="a", rewards={"left": 1.0, "up": 0.0}, kind="a")
    for action in ("up", "up", "left"):
        run.note(task, action, silent=action == "left")
    assert (run.chances, run.repeated) == (2, 1)
    assert run.numbers()["silent"] == pytest.approx(1 / 3)


def test_the_cache_covers_the_code_that_decides_a_run():
    for stream in learning.CELLS:
        for system in learning.systems(stream, "clean"):
            files = learning.sources(stream, system)
            assert all(path.is_file() for path in files)
    ours = learning.sources("tools", "ours")
    named = {"/".join(path.parts[-2:]) for path in ours}
    assert {"trust/experience.py", "search/estimate.py", "search/rank.py"} <= named


def test_only_ours_is_asked_with_the_default_settings():
    for system in SYSTEMS:
        assert (system.settings.search.threshold == -1.0) == system.defaults
        assert system.defaults == system.name.startswith("ours")


def test_telecoms_append_only_memory_appends(tmp_path):
    system = next(each for each in SYSTEMS if each.name == "append-only, top 1")
    memories = learning_telecom.Remembering(system, str(tmp_path), Embedded())
    with memories.bank:
        line = "Airplane mode is on (at home)"
        first = memories.ask(line, "task 0")[0]
        memories.tell(first, succeeded=True)
        assert len(memories.actions) == len(learning_telecom.ACTIONS) + 1
        again = memories.ask(line, "task 1")[0]
    assert again.action == first.action and again.memory != first.memory


def runs_of(condition="clean", **solved):
    """Runs of one cell, seed by seed, as they are kept: so many of a hundred tasks succeeded."""
    return {
        f"tools/{condition}/{name.replace('_', ' ')}/{seed}/300": {
            "success": each / 100,
            "tasks": "1" * each + "0" * (100 - each),
        }
        for name, seeds in solved.items()
        for seed, each in enumerate(seeds)
    }


def test_ours_is_compared_with_the_best_learner_on_the_same_seeds():
    found = runs_of(
        ours=(50, 52, 51),
        LinUCB=(60, 61, 63),
        append_and_vote=(40, 41, 42, 99),
        nearest_lesson=(30, 31, 32),
    )
    (row,) = learning_tables.musts(found).rows
    assert row[2:5] == ["LinUCB 61.3", "-10.3 ± 3.5", "WORSE"]
    assert row[5].startswith("nearest lesson") and row[7] == "better"


def test_a_learner_that_was_not_run_on_every_seed_is_not_compared():
    found = runs_of(ours=(50, 52), LinUCB=(60,), **{"kernel-Beta": (10, 10)})
    assert (
        learning_tables.beside(found, "tools", "clean", learning_tables.LEARN)[0] == "kernel-Beta"
    )


def test_who_is_told_nothing_does_the_same_where_feedback_is_wrong():
    found = runs_of("noise", ours=(50, 52)) | runs_of(nearest_lesson=(30, 31))
    (row,) = learning_tables.musts(found).rows
    assert row[5] == "nearest lesson 30.5"


@pytest.mark.parametrize(
    ("differences", "said"),
    [([[1, 0, 0, 1] * 20], "better"), ([[-1, 0, 0, -1] * 20] * 2, "WORSE"),
     ([[1, -1, 0, 0] * 20], "alike"), ([[1] * 80, [0] * 80], "alike")],
)  # fmt: skip
def test_a_difference_counts_beyond_its_interval(differences, said):
    """That of tasks, and that of whole orders."""
    assert learning_tables.verdict(*learning_tables.gap(differences)) == said


def test_forecasts_are_measured_by_what_was_told_and_by_what_happened():
    run = Run(rewards=[1.0] * 10, best=[1.0] * 10, poisoned=[False] * 10, tokens=[0] * 10,
              silent=[False] * 10, expected=[0.8] * 10, seen=[1.0] * 10,
              told=[1.0] * 8 + [0.0] * 2)  # fmt: skip
    numbers = run.numbers()
    assert numbers["ece"] == pytest.approx(0.0)
    assert numbers["ece_hidden"] == pytest.approx(0.2)


@requirement("CON-10")
def test_all_models_of_belief_are_compared_and_are_told_the_same():
    told = {system.settings.belief.model for system in SYSTEMS if system.reports}
    assert told == belief.MODELS.keys()
    for stream in learning.CELLS.keys() - {"webarena"}:
        assert {system.name for system in SYSTEMS} <= {*learning.systems(stream, "clean")}
