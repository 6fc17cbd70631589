"""Two workers learn the same lesson from two sessions at the same moment: it is one memory."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import anyio
import pytest
from fault_tools import open_bank, processes
from tests.learn.test_distil import a_lesson
from tests.requirement import requirement

from reasonbank.embed.hashed import Hashed
from reasonbank.embed.minilm import MiniLM
from reasonbank.errors import EmbeddingError
from reasonbank.jobs.learner import tasks
from reasonbank.jobs.worker import Worker
from reasonbank.llm.scripted import Scripted
from reasonbank.model import JobState
from reasonbank.testing.builders import a_trace

PATIENCE = 60
TOPICS = ("uploads to the archive", "database migrations", "image thumbnails", "password mails")


class Away(Hashed):
    def embed(self, texts: Any) -> Any:
        raise EmbeddingError("the model is on holiday")


EMBEDDERS = {"hashed": Hashed, "minilm": MiniLM, "away": Away}


def learn(path: Path, kind: str, together: Any, number: int, ending: str, pipe: Any) -> None:
    """One session a round; both workers are asking their models when either gets its answer."""

    def answer(call: Any) -> Any:
        together.wait(PATIENCE)
        topic = next(topic for topic in TOPICS if topic in str(call.messages))
        content = f"Retry {topic} after 1, 2 and 4 seconds, with jitter; {ending}."
        return {"memories": [a_lesson(title=f"Retry {topic} with back-off", content=content)]}

    async def work(bank: Any) -> None:
        await Worker(bank.context, tasks(Scripted(answer)), slots=1).run(until_empty=True)

    try:
        with open_bank(path, embedder=EMBEDDERS[kind]()) as bank:
            for topic in TOPICS:
                bank.distil(a_trace(task=f"{number} mends {topic}"))
                together.wait(PATIENCE)
                anyio.run(work, bank)
                together.wait(PATIENCE)
        pipe.send(None)
    except BaseException as error:
        pipe.send(repr(error))
        raise


@requirement("DIS-6")
@requirement("DIS-11")
@pytest.mark.parametrize(
    ("kind", "endings"),
    [
        ("hashed", ("stop after five", "stop after five")),
        ("minilm", ("stop after five", "stop after five tries")),
        ("away", ("stop after five", "Stop  after five")),
    ],
    ids=["the same words", "nearly the same words", "the same words and no embedder"],
)
def test_two_workers_that_learn_the_same_at_once_store_it_once(
    path: Path, kind: str, endings: tuple[str, str]
) -> None:
    with open_bank(path) as bank:
        together = processes.Barrier(2)
        pipes, started = [], []
        for number, ending in enumerate(endings):
            ours, theirs = processes.Pipe(duplex=False)
            process = processes.Process(
                target=learn, args=(path, kind, together, number, ending, theirs), daemon=True
            )
            process.start()
            theirs.close()
            pipes.append(ours)
            started.append(process)
        assert [pipe.recv() for pipe in pipes] == [None, None]
        for process in started:
            process.join(PATIENCE)
        jobs = bank.jobs()
        assert [job.state for job in jobs] == [JobState.DONE] * 2 * len(TOPICS)
        assert {job.attempts for job in jobs} == {1}
        titles = sorted(memory.title for memory in bank.memories())
        assert titles == sorted(f"Retry {topic} with back-off" for topic in TOPICS)
        for memory in bank.memories():
            found_again = [each for each in bank.evidence(memory.id) if each.positive]
            assert len(found_again) == 1, "the second session is a witness of the first one's"
