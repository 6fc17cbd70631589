"""Search with real models whose scale nobody measured: behind an API, and in a local folder.

The model behind the API is the packaged one, under a name that the calibration does not know; once
as it is, and once with cosines that are all high, as some models have them.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest
from bench.question_sets import asked, banks
from bench.questions import Kept
from tests.conftest import Opener
from tests.journeys.test_weak_hits import FOREIGN
from tests.llm.servers import Answer, Request, Server, of
from tests.requirement import requirement

from reasonbank import Bank, Memory, Outcome, Settings
from reasonbank.embed.calibration import UNKNOWN_MODEL, calibration_for
from reasonbank.embed.minilm import MiniLM
from reasonbank.settings import Embed

SIZES = (12, 40, 240)
LESSONS = asked("tuning")
MODEL = Kept(MiniLM())


def with_high_cosines(vectors: np.ndarray) -> np.ndarray:
    """Unrelated texts have a cosine near 0.7 then."""
    same = np.full((len(vectors), 1), 0.7**0.5)
    return np.hstack([vectors * 0.3**0.5, same])


def served(request: Request) -> Answer:
    vectors = MODEL.embed(request.body["input"])
    if request.body["model"] == "house-high":
        vectors = with_high_cosines(vectors)
    items = [{"index": i, "embedding": vector.tolist()} for i, vector in enumerate(vectors)]
    return of({"object": "list", "model": request.body["model"], "data": items})


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    with Server(served) as running:
        yield running


@pytest.fixture(params=["house-plain", "house-high"])
def behind_an_api(request, server, open_bank: Opener) -> Bank:
    dimensions = 384 + (request.param == "house-high")
    embed = Embed(model="api", api_model=request.param, base_url=server.url, key_env="",
                  dimensions=dimensions)  # fmt: skip
    return open_bank(settings=Settings(embed=embed))


@pytest.fixture
def in_a_folder(open_bank: Opener, onnx_folder) -> Bank:
    return open_bank(settings=Settings(embed=Embed(model="onnx", folder=str(onnx_folder))))


def ask(bank: Bank, size: int) -> None:
    """Own questions find their lesson first and surely; foreign ones nothing sure."""
    assert calibration_for(bank.store.indexing.embedder.name) is UNKNOWN_MODEL
    cases, others, absent = next(iter(banks(LESSONS, size)))
    lessons = [case.lesson for case in cases] + others
    right = {
        bank.record(
            Memory(
                title=lesson.title,
                description=lesson.description,
                content=lesson.content,
                outcome=Outcome.SUCCESS,
            )
        ).id: lesson
        for lesson in lessons
    }
    bank.embed_new()
    own = [(case, bank.search(case.asked["plain"])) for case in cases[:40]]
    assert [right[reply[0].memory.id] for _, reply in own] == [case.lesson for case, _ in own]
    assert sum(not reply[0].weak for _, reply in own) >= 0.95 * len(own)
    assert not [question for question in FOREIGN if bank.search(question).sure]
    assert not [question for question in FOREIGN if bank.inject(question).memories]
    # What is about the same subjects, and answered by nothing there.
    taken = [case for case in absent if bank.search(case.asked["question"]).sure]
    assert len(taken) <= 0.1 * len(absent)


@requirement("RET-9")
@pytest.mark.parametrize("size", SIZES)
def test_the_cuts_fit_a_model_behind_an_api_that_nobody_measured(behind_an_api, size):
    ask(behind_an_api, size)


@requirement("RET-9")
def test_the_cuts_fit_a_model_in_a_folder_that_nobody_measured(in_a_folder):
    ask(in_a_folder, 40)


@requirement("RET-9")
def test_below_the_lower_cut_of_such_a_model_nothing_is_returned(behind_an_api):
    for case in LESSONS.cases[:12]:
        lesson = case.lesson
        behind_an_api.record({"title": lesson.title, "content": lesson.content})
    silent = [question for question in FOREIGN if not behind_an_api.search(question)]
    assert len(silent) >= 3
    assert all(behind_an_api.search(case.asked["question"]) for case in LESSONS.cases[:12])
