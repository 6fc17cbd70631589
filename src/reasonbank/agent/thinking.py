"""One task's thinking: every question that a model is asked about it, and every answer."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime

import anyio

from reasonbank.agent.attempts import Attempt, declared, digest, parted
from reasonbank.agent.verify import Verification, Verifier
from reasonbank.errors import BudgetExhausted, InvalidReply, ModelError
from reasonbank.fence import Fenced, Prompt, asked, fenced, fixed, prompt, said
from reasonbank.llm.excerpt import excerpt
from reasonbank.llm.port import (
    Completion,
    Effort,
    Message,
    Model,
    Schema,
    assistant,
    system,
    user,
)
from reasonbank.llm.prompts import words
from reasonbank.llm.reply import closed, one_of
from reasonbank.llm.roles import acting

# Attempts should differ from each other; judgements of one thing should not.
THINKING, JUDGING = 1.0, 0.0
EVALUATION_TOKENS = 1024
SHOWN = 24_000
"""Characters of a solution that go into another question."""
LONGEST = 200_000
# A solution that passes beats any that does not, whatever the model thinks of the two.
PASSES, FAILS = 0.8, 0.5

_APART = """
This is attempt {number} of {of}, made apart from the others: go about it in your own way.
"""
_PASSED = fixed("It was run, and passed. The report is the program's output, not a word of ours:")
_FAILED = fixed("It was run, and did not pass. The report is the program's output:")

EVALUATION = closed(
    {
        "feedback": {"type": "string", "maxLength": 8000},
        "score": {"type": "number", "minimum": 0, "maximum": 1},
    }
)
PLACES = ("first", "second", "third", "fourth", "fifth")


def comparison(among: int) -> Schema:
    return closed(
        {"reason": {"type": "string", "maxLength": 2000}, "better": one_of(PLACES[:among])}
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Progress:
    """``done`` of ``total`` steps, at most; ``attempt`` is what the message is about."""

    done: int
    total: int
    message: str
    attempt: Attempt | None = None


OnProgress = Callable[[Progress], Awaitable[None]]


@dataclass(kw_only=True)
class Thinking:
    """``attempts`` holds whatever there is at any moment, by number."""

    model: Model
    task: str
    memories: Sequence[Prompt]
    verifier: Verifier | None
    ask_model: bool
    """Whether the model evaluates; with a verifier it may be spared."""
    checks: anyio.CapacityLimiter
    effort: Effort | None
    max_tokens: int
    now: Callable[[], datetime]
    on_progress: OnProgress | None
    total: int = 0
    done: int = 0
    attempts: dict[int, Attempt] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)
    _seen: dict[str, int] = field(default_factory=dict)

    def spoken(self) -> list[Attempt]:
        return [self.attempts[number] for number in sorted(self.attempts)]

    async def report(self, message: str, attempt: Attempt | None = None, *, done: int = 0) -> None:
        self.done = min(self.done + done, self.total)
        if self.on_progress is not None:
            await self.on_progress(
                Progress(done=self.done, total=self.total, message=message, attempt=attempt)
            )

    def note(self, text: str) -> None:
        if text not in self.notes:
            self.notes.append(text)

    # Solutions

    def _opening(self, number: int, of: int) -> list[Message]:
        parts = [words("agent", "think")]
        if self.memories:
            parts += [words("agent", "memories"), *self.memories]
        if of > 1:
            parts.append(fixed(_APART, number=number, of=of))
        return [system(prompt(*parts)), user(asked(self.task))]

    async def think(self, number: int, of: int = 1) -> Attempt:
        await self.report(f"attempt {number}: thinking", Attempt(number=number, iteration=1))
        return await self._attempt(Attempt(number=number, iteration=1), self._opening(number, of))

    async def refine(self, last: Attempt, *, number: int, iteration: int) -> Attempt:
        attempt = Attempt(number=number, iteration=iteration, refines=last.number)
        await self.report(f"attempt {number}: refining {last.number}", attempt)
        question = prompt(words("agent", "refine"), _feedback(last))
        shown = assistant(said(excerpt(last.text, SHOWN)))
        return await self._attempt(attempt, [*self._opening(1, 1), shown, user(question)])

    async def recheck(self, line: Sequence[Attempt], *, number: int) -> Attempt:
        """One more refinement of a line of thought; all of it is in sight."""
        attempt = Attempt(number=number, iteration=number, refines=line[-1].number)
        await self.report(f"attempt {number}: looking again", attempt)
        talk = self._opening(1, 1)
        for one in line:
            notes = f"<notes>{one.notes}</notes>\n" if one.notes else ""
            talk += [assistant(said(excerpt(notes + one.text, SHOWN))),
                     user(prompt(words("agent", "recheck"), _feedback(one)))]  # fmt: skip
        return await self._attempt(attempt, talk)

    async def _attempt(self, attempt: Attempt, talk: list[Message]) -> Attempt:
        with acting("thinking"):
            reply = await self.model.complete(
                talk, temperature=THINKING, max_tokens=self.max_tokens, effort=self.effort
            )
        answer, used = declared(storable(reply.text))
        text, notes = parted(answer)
        if not text:
            raise InvalidReply(f"{reply.model} gave an empty solution", usage=reply.usage)
        if len(text) > LONGEST:
            raise InvalidReply(
                f"{reply.model} gave {len(text):,} characters, more than {LONGEST:,}"
            )
        if reply.cut:
            self.note(f"attempt {attempt.number} ends at {self.max_tokens} tokens (llm.max_tokens)")
        attempt = replace(attempt, text=text, notes=notes, used=used, at=self.now())
        first = self._seen.setdefault(digest(text), attempt.number)
        if first != attempt.number:
            attempt = replace(attempt, repeats=first)
        self.attempts[attempt.number] = attempt
        if attempt.repeats is None:
            attempt = await self.evaluate(attempt)
        await self.report(f"attempt {attempt.number}: {_told(attempt)}", attempt, done=1)
        return attempt

    def failed(self, number: int, iteration: int, error: ModelError) -> None:
        """An attempt that came to nothing; what it had thought of already is kept."""
        attempt = self.attempts.get(number, Attempt(number=number, iteration=iteration))
        self.attempts[number] = replace(attempt, error=storable(str(error))[:2000], at=self.now())

    # Evaluations

    async def evaluate(self, attempt: Attempt) -> Attempt:
        verdict: Verification | None = None
        if self.verifier is not None:
            async with self.checks:
                verdict = await self.verifier.verify(attempt.text)
            if not verdict.isolated:
                self.note("the verifier ran without a box (sandbox.network = allow)")
            # Kept before the model is asked: it may have nothing left to say.
            attempt = self._evaluated(
                attempt, 1.0 if verdict.passed else 0.0, verdict.report, verdict.passed
            )
        if verdict is None or self.ask_model:
            score, feedback = await self._opinion(attempt.text, verdict)
            if verdict is not None:
                share = 0.0 if score is None else score
                score = PASSES + (1 - PASSES) * share if verdict.passed else FAILS * share
                feedback = f"{verdict.report}\n\n{feedback}"
            attempt = self._evaluated(attempt, score, feedback, attempt.passed)
        return attempt

    def _evaluated(
        self, attempt: Attempt, score: float | None, feedback: str, passed: bool | None
    ) -> Attempt:
        attempt = replace(
            attempt, score=score, feedback=feedback, passed=passed, evaluated_at=self.now()
        )
        self.attempts[attempt.number] = attempt
        return attempt

    async def _opinion(self, text: str, verdict: Verification | None) -> tuple[float | None, str]:
        parts: list[Prompt | Fenced] = [fenced("task", self.task),
                                        fenced("solution", excerpt(text, SHOWN))]  # fmt: skip
        if verdict is not None:
            parts += [_PASSED if verdict.passed else _FAILED, fenced("report", verdict.report)]
        try:
            reply = await self._weighed("evaluate", EVALUATION, prompt(*parts))
        except InvalidReply as error:
            # Half a number is no number: such an attempt ranks behind all that have one.
            self.note(f"an evaluation had no usable score: {str(error)[:200]}")
            return None, "The evaluation could not be read."
        return float(reply.value["score"]), storable(reply.value["feedback"])

    async def best_of(self, equals: Sequence[Attempt]) -> Attempt:
        """Of some that rank the same, all asked about at once: one after another would take as
        long as so many attempts. Without a usable answer, the latest."""
        # However many there are, the question is as long as one about two.
        room = 2 * SHOWN // len(equals)
        shown = [
            fenced(place, excerpt(attempt.text, room))
            for place, attempt in zip(PLACES, equals, strict=False)
        ]
        try:
            question = prompt(fenced("task", self.task), *shown)
            reply = await self._weighed("compare", comparison(len(shown)), question)
        except BudgetExhausted:
            raise
        except ModelError as error:
            numbers = " and ".join(str(attempt.number) for attempt in equals)
            self.note(f"attempts {numbers} were not compared: {error}")
            return equals[-1]
        return equals[PLACES.index(reply.value["better"])]

    async def _weighed(self, form: str, schema: Schema, question: Prompt) -> Completion:
        with acting("evaluating"):
            return await self.model.complete(
                [system(words("agent", form)), user(question)],
                schema=schema,
                temperature=JUDGING,
                max_tokens=EVALUATION_TOKENS,
                effort=self.effort,
            )


def storable(text: str) -> str:
    """Models say anything; a bank keeps text."""
    return text.replace("\0", "�").encode("utf-8", "replace").decode()


def _feedback(attempt: Attempt) -> Fenced:
    return fenced("feedback", attempt.feedback or "Nobody has evaluated it.")


def _told(attempt: Attempt) -> str:
    if attempt.repeats is not None:
        return f"the same as attempt {attempt.repeats}"
    said = "no score" if attempt.score is None else f"score {attempt.score:.2f}"
    if attempt.passed is not None:
        said += ", passed" if attempt.passed else ", did not pass"
    return said
