"""Prompts of a page and more: the problem is found wherever it stands, at a bounded price."""

from __future__ import annotations

import pytest
from tests.requirement import requirement

from reasonbank import Bank
from reasonbank.embed.hashed import Hashed
from reasonbank.search.gather import MAX_TERMS
from reasonbank.search.pieces import MOST, pieces, sentences
from reasonbank.testing import a_memory

LESSONS = {
    "zone": ("Pin the time zone in date tests", "Set TZ=UTC in the runner and freeze the clock."),
    "pool": ("Close database sessions in a finally block",
             "A pool runs dry when transactions are never closed."),
    "cors": ("Preflight requests carry no cookie", "Let OPTIONS through before the login check."),
    "lock": ("Two migrations at once wait for each other for ever",
             "Take an advisory lock before the first statement."),
    "npm": ("A lockfile that differs fails the build", "Use npm ci and commit the lockfile."),
    "utf8": ("A byte order mark breaks the first column of a CSV", "Read it as utf-8-sig."),
    "disk": ("Docker fills the disk with old layers", "Prune images every night."),
    "dns": ("Containers keep an address that has moved", "Lower the lifetime of cached names."),
    "jwt": ("Tokens are refused right after they are made", "Allow a minute of clock skew."),
    "lfs": ("A checkout has pointers where pictures should be", "Run git lfs pull in the job."),
    "oom": ("The worker is killed without a message", "Stream the file, and set a memory limit."),
    "flag": ("A feature flag is read once at start", "Ask for the flag on every request."),
}  # fmt: skip
PROBLEM = "When customers upload a CSV file, the name of its first column is never recognised."
AROUND = (
    "You are working in the billing service of a shop. The repository has a frontend written in"
    " TypeScript and a backend written in Python, and most of the people who know it are on"
    " holiday. Please be careful with everything that touches invoices.",
    "We follow trunk-based development. Every change needs a short description, at least one test"
    " and a line in the changelog. Reviews are done by whoever is on call, usually within a day,"
    " and the release goes out each Thursday afternoon.",
    "Last quarter we moved the report generator into a service of its own. It reads from the same"
    " queue as before and writes its results into object storage, where the accounting department"
    " picks them up by hand once a month.",
    "Formatting is checked by a tool, so do not spend time on it. Prefer small functions with"
    " plain names. If something is unclear, say which assumption you made, rather than asking"
    " back. Do not add dependencies, and leave generated code alone.",
    "When you are finished, list the files that you changed and explain in two or three sentences"
    " what was wrong. Mention what you did not look at, so that somebody else can go on from"
    " there tomorrow morning.",
    "The service starts with make run, the tests with make test, and both need a minute. Ask for"
    " access to the staging environment in the usual channel if you want to try it there.",
)


def prompt(at: int) -> str:
    return "\n\n".join((*AROUND[:at], PROBLEM, *AROUND[at:]))


@pytest.fixture
def lessons(bank: Bank) -> dict[str, str]:
    return {
        key: bank.record(a_memory(title=title, description=title, content=content)).id
        for key, (title, content) in LESSONS.items()
    }


@requirement("RET-17")
@pytest.mark.parametrize("at", [0, 3, 6])
def test_a_problem_is_found_wherever_it_stands_in_a_long_prompt(bank, lessons, at):
    asked = prompt(at)
    assert len(asked) > 1300
    assert bank.search(asked).hits[0].memory.id == lessons["utf8"]


@requirement("RET-17")
def test_the_words_of_a_long_prompt_are_found_to_its_end(plain_bank):
    plain_bank.record(a_memory(title="Renew the certificate", content="Ask zebrafish for it."))
    for n in range(3):
        plain_bank.record(a_memory(title=f"Note {n}", content=" ".join(AROUND)))
    words = " ".join(f"word{n}" for n in range(2 * MAX_TERMS))
    reply = plain_bank.search(f"{words} {' '.join(AROUND)} zebrafish", limit=10)
    assert "Renew the certificate" in [hit.memory.title for hit in reply]


@requirement("RET-17")
def test_a_word_that_a_memory_gets_later_is_found_in_a_long_prompt(plain_bank):
    memory = plain_bank.record(a_memory(title="Renew the certificate", content="Ask somebody."))
    plain_bank.record(a_memory(title="Another", content="Something else."))
    words = " ".join(f"word{n}" for n in range(2 * MAX_TERMS)) + " zebrafish"
    plain_bank.search(words)
    plain_bank.update(memory.id, content="Ask zebrafish for it.")
    first = plain_bank.search(words, explain=True).hits[0]
    assert first.memory.id == memory.id
    assert first.parts["bm25"] > 0


class Counting(Hashed):
    """Knows how many texts it was given at a time."""

    def __init__(self) -> None:
        super().__init__()
        self.batches: list[int] = []

    def embed(self, texts):
        self.batches.append(len(texts))
        return super().embed(texts)


@requirement("RET-17")
def test_a_prompt_of_any_length_costs_one_batch_of_so_many_texts(open_bank):
    embedder = Counting()
    bank = open_bank(embedder=embedder)
    bank.record(a_memory())
    bank.search("anything")
    embedder.batches.clear()
    bank.search(" ".join(f"Sentence number {n} says it." for n in range(900)))
    assert len(embedder.batches) == 1
    assert embedder.batches[0] <= 1 + MOST


@requirement("RET-17")
def test_a_long_prompt_is_asked_sentence_by_sentence():
    assert PROBLEM.rstrip(".") in sentences(prompt(6))
    assert sentences(" ".join(AROUND * 3)) == sentences(" ".join(AROUND))


@requirement("RET-17")
def test_what_a_program_printed_stays_in_one_piece_in_a_long_prompt():
    printed = "Traceback (most recent call last):\n" + "".join(
        f'  File "/app/module_{n}.py", line {n}, in run\n    self.call_number_{n}(value)\n'
        for n in range(6)
    )
    assert printed.strip() in sentences("\n\n".join((AROUND[0], printed, *AROUND[1:])))


@requirement("RET-17")
def test_of_very_many_sentences_those_that_tell_most_and_both_ends_are_asked():
    text = " ".join(f"Sentence number {n} of this very long text." for n in range(200))
    asked = pieces(text, lambda sentence: float("number 77 " in sentence))
    assert len(asked) == MOST
    assert {0, 77, 199} <= {int(piece.split()[2]) for piece in asked}
    assert list(asked) == sorted(asked, key=sentences(text).index)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "Why do the date tests fail at night?",
        "Traceback (most recent call last):\n"
        + "".join(
            f'  File "/app/module_{n}.py", line {n}, in run\n    self.call_number_{n}(value)\n'
            for n in range(12)
        )
        + "KeyError: 'customer'",
        "\n".join(
            f"src/part{n}.rs:{n}:5: error[E0502]: cannot borrow as mutable" for n in range(20)
        ),
        "java.lang.IllegalStateException: the pool is closed\n"
        + "\n".join(f"\tat com.example.shop.Order.run{n}(Order.java:{n})" for n in range(20)),
        # Mostly plain words, but hardly a sentence among them.
        "\n".join(
            f"Normal   Scheduled  {n}m  default scheduler   assigned shop web to node"
            for n in range(8)
        )
        + "\nWarning  Unhealthy  1m  kubelet  Liveness probe failed with status code 500",
    ],
)  # fmt: skip
def test_a_short_question_and_a_printed_one_are_asked_whole(text):
    assert sentences(text) == ()
