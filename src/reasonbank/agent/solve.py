"""Solving a task with what the bank knows, and teaching the bank what came of it."""

from __future__ import annotations

import logging
import os
import time
from collections.abc import Sequence
from dataclasses import replace

import anyio
import anyio.to_thread

from reasonbank.agent import matts
from reasonbank.agent.attempts import Attempt, best
from reasonbank.agent.matts import AttemptPlan, Difficulty, Mode
from reasonbank.agent.solution import Metered, Solution
from reasonbank.agent.thinking import OnProgress, Thinking, storable
from reasonbank.agent.verify import Verifier, verifier
from reasonbank.errors import (
    BudgetExhausted,
    InvalidInput,
    ModelError,
    ReasonBankError,
    StorageError,
)
from reasonbank.fields import checked, choice, parse_id, text, whole
from reasonbank.learn import distil, lessons
from reasonbank.learn.judge import Verdict, judge
from reasonbank.ledger.port import Writing
from reasonbank.llm.budget import Budgeted
from reasonbank.llm.layers import Limited
from reasonbank.llm.port import Effort, Model
from reasonbank.llm.roles import names_of
from reasonbank.llm.tokens import counter
from reasonbank.model import Filter, Hit, Memory, Outcome, Trace, from_micros, new_id
from reasonbank.search.answer import search
from reasonbank.search.inject import CHECKED
from reasonbank.store import queue, traces
from reasonbank.store.context import Context

MOST_ITERATIONS = 10
ENOUGH = 0.8
"""A score from here on ends the work."""

ELSEWHERE = ("http", "mcp")
"""Surfaces whose callers need not be whoever owns this machine."""

log = logging.getLogger(__name__)


async def solve(
    context: Context,
    task: str,
    *,
    model: Model,
    mode: Mode | str | None = None,
    k: int | None = None,
    iterations: int | None = None,
    verify: str | Verifier | None = None,
    ask_model: bool = True,
    use_memory: bool = True,
    filter: Filter = CHECKED,
    store: bool = True,
    budget: int | None = None,
    effort: Effort | None = None,
    difficulty: Difficulty | str | None = None,
    parent: str | None = None,
    on_progress: OnProgress | None = None,
) -> Solution:
    """Think, evaluate and refine until a solution is good enough, and learn from it.

    What is left out comes from the settings (``agent``). ``verify`` is the name of a verifier
    that the operator allows, or one of your own; with ``ask_model=False`` it alone evaluates.
    Of the memories, those are shown that ``filter`` lets through.
    ``budget`` is in tokens, for everything that this task asks of the model; 0 means no limit.
    ``difficulty`` (simple, moderate or complex) tells the adaptive mode how many attempts the
    task needs; left out, it is that of the memories that fit.

    ``BudgetExhausted`` carries the best ``Solution`` so far, if there is one. Cancelled, it
    keeps the attempts as a trace without an outcome, and nothing else.
    """
    defaults = context.settings.agent
    limits = context.settings.limits
    work = _Work(
        context=context,
        task=text(task, "task", min(limits.content, limits.query)),
        model=model,
        mode=choice(Mode, defaults.mode if mode is None else mode, "mode"),
        k=whole(defaults.k if k is None else k, "k", least=1, most=matts.MOST_ATTEMPTS),
        iterations=whole(
            defaults.iterations if iterations is None else iterations,
            "iterations", least=1, most=MOST_ITERATIONS,
        ),
        verifier=_verifier(context, verify),
        ask_model=ask_model,
        use_memory=use_memory,
        filter=filter,
        store=store,
        budget=whole(
            defaults.budget_tokens if budget is None else budget,
            "budget", least=0, most=1_000_000_000,
        ),
        effort=effort,
        difficulty=(
            None if difficulty is None else choice(Difficulty, difficulty, "difficulty")
        ),
        parent=None if parent is None else parse_id(parent, "parent"),
        on_progress=on_progress,
    )  # fmt: skip
    return await work.done()


def _verifier(context: Context, verify: str | Verifier | None) -> Verifier | None:
    """Who calls from elsewhere gets a closed box or nothing, whatever the settings allow here."""
    found = verifier(context.settings, verify) if isinstance(verify, str) else verify
    if found is None or context.surface not in ELSEWHERE:
        return found
    return replace(found, limits=replace(found.limits, network="refuse"))


class _Work:
    """One call of ``solve``."""

    def __init__(
        self, *, context: Context, task: str, model: Model, mode: Mode, k: int, iterations: int,
        verifier: Verifier | None, ask_model: bool, use_memory: bool, filter: Filter, store: bool,
        budget: int, effort: Effort | None, difficulty: Difficulty | None, parent: str | None,
        on_progress: OnProgress | None,
    ) -> None:  # fmt: skip
        self._context = context
        self._mode = mode
        self._k = k
        self._iterations = iterations
        self._use_memory = use_memory
        self._filter = filter
        self._store = store
        self._budget = budget
        self._difficulty = difficulty
        self._parent = parent
        self._enough = ENOUGH
        self._trace_id = new_id()
        self._stored = False
        self._started = time.perf_counter()
        self._hits: tuple[Hit, ...] = ()
        self._plan = AttemptPlan(k=k, sequential=False, reason="")
        self._metered = Metered(model)
        llm = context.settings.llm
        self._thinking = Thinking(
            # One limiter and one budget for all attempts, whatever model was given.
            model=Budgeted(
                Limited(self._metered, concurrency=llm.concurrency),
                budget=budget,
                input_tokens=llm.input_tokens,
                setting="agent.budget_tokens",
                count=counter(llm.tokenizer),
            ),
            task=task,
            memories=(),
            verifier=verifier,
            ask_model=ask_model,
            checks=anyio.CapacityLimiter(os.cpu_count() or 1),
            effort=effort,
            max_tokens=llm.max_tokens,
            now=lambda: from_micros(context.now()),
            on_progress=on_progress,
        )

    async def done(self) -> Solution:
        thinking = self._thinking
        if thinking.verifier is not None:
            await thinking.verifier.check()
        try:
            await self._prepare()
            chosen = await self._attempts()
            verdict = await self._verdict(chosen)
            learned = await self._learn(chosen, verdict)
            await thinking.report(f"done: {verdict.outcome}", chosen, done=thinking.total)
            return self._solution(chosen, verdict.outcome, learned)
        except BudgetExhausted as error:
            raise await self._exhausted(error) from None
        except anyio.get_cancelled_exc_class():
            # What was paid for is not thrown away; nobody knows how it would have ended.
            with anyio.CancelScope(shield=True):
                await self._keep(best(thinking.spoken()), None, "cancelled")
            raise

    async def _prepare(self) -> None:
        thinking = self._thinking
        if self._use_memory:
            reply = await anyio.to_thread.run_sync(self._search)
            self._hits = reply
            thinking.memories = [hit.format_for_prompt() for hit in reply]
        self._plan = matts.plan(self._mode, self._k, self._hits, self._difficulty)
        refinements = 0 if self._plan.sequential else self._iterations - 1
        thinking.total = self._plan.k + refinements + 1
        shown = f"{len(self._hits)} memories in sight; " if self._use_memory else ""
        await thinking.report(f"{shown}attempts: {self._plan.reason}")

    def _search(self) -> tuple[Hit, ...]:
        settings = self._context.settings
        reply = search(
            self._context,
            self._thinking.task,
            limit=settings.agent.memories,
            filter=self._filter,
            min_confidence=settings.belief.inject_above,
            session=self._trace_id,
            unread=True,
        )
        # Nobody reads this prompt before the model does.
        return tuple(hit for hit in reply if not hit.suspicious)

    async def _attempts(self) -> Attempt:
        """Whatever the model's side breaks, what was thought of before that counts."""
        thinking, plan = self._thinking, self._plan
        try:
            if plan.sequential:
                await matts.sequential(thinking, plan.k, enough=self._enough)
                return await matts.selected(thinking, thinking.spoken())
            await matts.parallel(thinking, plan.k)
            chosen = await matts.selected(thinking, thinking.spoken())
            return await matts.refined(
                thinking, chosen, iterations=self._iterations, enough=self._enough
            )
        except BudgetExhausted:
            raise
        except ModelError as error:
            found = best(thinking.spoken())
            if found is None:
                raise
            thinking.note(f"ended early: {error}")
            return found

    async def _verdict(self, chosen: Attempt) -> Verdict:
        thinking = self._thinking
        if chosen.passed is not None:
            return self._by_score(chosen)
        await thinking.report("judging", chosen)
        try:
            return await judge(thinking.model, self._as_trace(chosen))
        except ModelError as error:
            thinking.note(f"the outcome is the score's, as nobody judged it: {error}")
            return self._by_score(chosen)

    def _by_score(self, chosen: Attempt) -> Verdict:
        outcome = chosen.outcome(self._enough) or Outcome.MIXED
        by = "evaluation" if chosen.passed is None else "verifier"
        reason = (chosen.feedback or "")[:2000]
        return Verdict(outcome=outcome, by=by, score=chosen.score, reason=reason)

    async def _learn(self, chosen: Attempt, verdict: Verdict) -> tuple[str, ...]:
        if not self._store:
            return ()
        thinking = self._thinking
        await thinking.report("learning from it", chosen)
        trace = self._trace(chosen, verdict.outcome, "done")
        try:
            memories = await self._lessons(trace, verdict.outcome)
        except ModelError as error:
            thinking.note(f"the session waits in the queue to be learned from: {error}")
            memories = None
        # Learning has cost something too.
        trace = self._trace(chosen, verdict.outcome, "done")
        try:
            return await anyio.to_thread.run_sync(self._write, trace, verdict, memories)
        except StorageError as error:
            # The solution is there and paid for; whoever asked for it gets it.
            thinking.note(f"nothing was stored: {error}")
            return ()

    async def _lessons(self, trace: Trace, outcome: Outcome) -> list[Memory]:
        """Several attempts are compared; one is read for itself."""
        model = self._thinking.model
        told = [a for a in self._thinking.spoken() if a.text and a.repeats is None]
        if len(told) < 2:
            found = distil.memories(await distil.distil(model, trace, outcome), trace, outcome)
        else:
            found = await distil.contrast(model, [self._as_trace(attempt) for attempt in told])
            whole_trace = (1, len(trace.trajectory))
            found = [replace(memory, source_span=whole_trace) for memory in found]
        return [memory for memory in found if self._fit(memory)]

    def _fit(self, memory: Memory) -> bool:
        try:
            checked(memory, self._context.settings.limits)
        except InvalidInput as error:
            self._thinking.note(f"a lesson was left out: {error}")
            return False
        return True

    def _write(
        self, trace: Trace, verdict: Verdict, memories: Sequence[Memory] | None
    ) -> tuple[str, ...]:
        """All of it in one transaction; without ``memories``, a worker finds them later."""
        context = self._context
        # What was shown and comes back is an echo, and no second witness.
        found = [
            lesson
            for lesson in lessons.prepare(context, memories or (), trace)
            if lesson.twin not in self._shown()
        ]

        def work(txn: Writing) -> lessons.Stored:
            if memories is None:
                queue.distil_in(context, txn, trace)
            else:
                traces.store_in(context, txn, trace)
            return lessons.store(context, txn, trace, found, verdict)

        learned = context.write(work).learned
        self._stored = True
        context.store.indexing.wake()
        return tuple(learned)

    async def _exhausted(self, error: BudgetExhausted) -> BudgetExhausted:
        chosen = best(self._thinking.spoken())
        said = error.what or self._said()
        if chosen is None:
            return BudgetExhausted(f"{said}, before there was any attempt: {error}")
        verdict = self._by_score(chosen)
        outcome = verdict.outcome if chosen.passed is not None else Outcome.MIXED
        await self._keep(chosen, replace(verdict, outcome=outcome), "budget")
        return BudgetExhausted(
            f"{said}; the best attempt so far is number {chosen.number}",
            best=self._solution(chosen, outcome, ()),
        )

    def _said(self) -> str:
        return (
            f"the {self._budget:,} tokens for this task (agent.budget_tokens) are used up"
            if self._budget
            else "the tokens of this process (llm.budget_tokens) are used up"
        )

    async def _keep(self, chosen: Attempt | None, verdict: Verdict | None, ended: str) -> None:
        """Store how far it came, without what a model would have to say about it."""
        if not self._store or self._stored or chosen is None:
            return
        trace = self._trace(chosen, verdict.outcome if verdict else None, ended)

        def write() -> None:
            def work(txn: Writing) -> None:
                traces.store_in(self._context, txn, trace)
                if verdict is not None:
                    lessons.store(self._context, txn, trace, (), verdict)

            self._context.write(work)
            self._stored = True

        try:
            await anyio.to_thread.run_sync(write)
        except ReasonBankError as error:
            # It must not take the place of what the caller has to know.
            log.warning("what was tried could not be kept: %s", error)

    # What is told of it

    def _as_trace(self, attempt: Attempt) -> Trace:
        return Trace(
            task=self._thinking.task,
            outcome=attempt.outcome(self._enough),
            trajectory=attempt.steps(),
            final_score=attempt.score,
            memories_used=self._used(attempt),
        )

    def _trace(self, chosen: Attempt, outcome: Outcome | None, ended: str) -> Trace:
        spoken = self._thinking.spoken()
        tokens = self._metered.tokens
        names = names_of(self._metered)
        trace = Trace(
            id=self._trace_id,
            task=self._thinking.task,
            outcome=outcome,
            trajectory=tuple(step for attempt in spoken for step in attempt.steps()),
            final_score=chosen.score,
            memories_used=self._used(chosen),
            parent=self._parent,
            metadata={
                "model": names["thinking"],
                "models": names,
                "reasoning_effort": self._thinking.effort
                or self._context.settings.llm.effort
                or None,
                "difficulty": self._difficulty or matts.difficulty_of(self._hits),
                "matts_enabled": self._mode is not Mode.OFF,
                "matts_mode": str(self._mode),
                "matts_k": self._plan.k,
                "matts_reason": self._plan.reason,
                "total_iterations": max(attempt.iteration for attempt in spoken),
                "total_tokens": tokens.input + tokens.output + tokens.reasoning,
                "workspace_id": self._context.view.workspace,
                "verifier": self._thinking.verifier.name if self._thinking.verifier else None,
                "chosen_attempt": chosen.number,
                "memories_shown": list(self._shown()),
                "ended": ended,
            },
        )
        return traces.fit(self._context, trace)

    def _shown(self) -> tuple[str, ...]:
        return tuple(hit.memory.id for hit in self._hits)

    def _used(self, attempt: Attempt) -> tuple[str, ...]:
        """What an attempt and those that it refines went by.

        Whatever was merely in sight when a task failed would lose trust for nothing.
        """
        used: set[str] = set()
        line: Attempt | None = attempt
        while line is not None:
            if line.used is None:
                return self._shown()
            used.update(line.used)
            line = None if line.refines is None else self._thinking.attempts[line.refines]
        return tuple(id for id in self._shown() if id in used)

    def _solution(self, chosen: Attempt, outcome: Outcome, learned: tuple[str, ...]) -> Solution:
        spoken = self._thinking.spoken()
        return Solution(
            solution=chosen.text,
            score=chosen.score,
            outcome=outcome,
            iterations=max(attempt.iteration for attempt in spoken),
            attempts=tuple(spoken),
            memories_used=self._used(chosen),
            memories_shown=self._shown(),
            warnings=tuple(hit.memory.id for hit in self._hits if hit.warning),
            memories_learned=learned,
            tokens=self._metered.tokens,
            seconds=time.perf_counter() - self._started,
            trace_id=self._trace_id if self._stored else None,
            k=self._plan.k,
            mode=self._mode,
            reason=self._plan.reason,
            notes=tuple(storable(note) for note in self._thinking.notes),
        )
