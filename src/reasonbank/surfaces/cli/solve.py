"""The command that solves a task, with a live view of its attempts."""

from __future__ import annotations

import signal
import sys
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from typing import TYPE_CHECKING, Any, cast

import click

from reasonbank.errors import BudgetExhausted
from reasonbank.surfaces.cli.shell import Shell, command, one_text, say
from reasonbank.surfaces.show.fitting import clean

if TYPE_CHECKING:
    from reasonbank.agent.attempts import Attempt
    from reasonbank.agent.solution import Solution
    from reasonbank.agent.thinking import OnProgress, Progress
    from reasonbank.llm.port import Effort


@command()
@one_text("task")
@click.option("--k", type=int, help="Number of attempts, 1 to 5 [default: agent.k].")
@click.option("--mode", help="parallel, sequential, adaptive or off [default: agent.mode].")
@click.option(
    "--iterations", type=int, help="Maximum number of rounds [default: agent.iterations]."
)
@click.option("--verify", metavar="NAME", help="A verifier that the settings allow.")
@click.option("--budget", type=int, help="Tokens for all of it [default: agent.budget_tokens].")
@click.option("--effort", help="How hard the model thinks: low, medium or high.")
@click.option("--difficulty", help="Of the task, for --mode adaptive: simple, moderate, complex.")
@click.option("--parent", metavar="TRACE", help="The trace that this task is a part of.")
@click.option("--no-memory", is_flag=True, help="Show the model nothing that the bank knows.")
@click.option("--no-store", is_flag=True, help="Keep no trace and learn nothing.")
def solve(
    shell: Shell,
    task: str,
    k: int | None,
    mode: str | None,
    iterations: int | None,
    verify: str | None,
    budget: int | None,
    effort: str | None,
    difficulty: str | None,
    parent: str | None,
    no_memory: bool,
    no_store: bool,
) -> None:
    """Solve a task with what the bank knows, and learn from how it went.

    The solution goes to standard output, all that is said about it to standard error.
    """
    import asyncio

    with shell.bank(creates=True) as bank:
        from functools import partial

        work = partial(
            bank.solve, task, mode=mode, k=k, iterations=iterations, verify=verify,
            budget=budget, effort=cast("Effort", effort), difficulty=difficulty, parent=parent,
            use_memory=not no_memory, store=not no_store,
        )  # fmt: skip
        try:
            solution = asyncio.run(_watched(shell, work))
        except asyncio.CancelledError:
            raise KeyboardInterrupt from None
        except BudgetExhausted as error:
            _so_far(shell, error)
            raise
    shell.show(solution, lambda: _tell(solution))


async def _watched(shell: Shell, work: Callable[..., Awaitable[Solution]]) -> Solution:
    import asyncio

    task = asyncio.current_task()
    assert task is not None
    # Through the loop, so that it wakes whichever thread the signal is given to.
    with suppress(NotImplementedError, ValueError):
        asyncio.get_running_loop().add_signal_handler(signal.SIGINT, task.cancel)
    async with _view(shell) as on_progress:
        return await work(on_progress=on_progress)


@asynccontextmanager
async def _view(shell: Shell) -> AsyncIterator[OnProgress | None]:
    """Attempts as they come and go, where somebody is watching."""
    if shell.json or not sys.stderr.isatty():
        yield None
        return
    from rich.console import Console
    from rich.live import Live

    attempts: dict[int, Attempt] = {}
    with Live(console=Console(stderr=True), refresh_per_second=8, transient=True) as live:

        async def show(progress: Progress) -> None:
            if progress.attempt is not None:
                attempts[progress.attempt.number] = progress.attempt
            live.update(_drawn(progress, attempts))

        yield show


def _drawn(progress: Progress, attempts: dict[int, Attempt]) -> Any:
    from rich.console import Group
    from rich.progress_bar import ProgressBar
    from rich.table import Table
    from rich.text import Text

    table = Table("attempt", "round", "score", "verifier", "says", box=None, pad_edge=False)
    for number in sorted(attempts):
        one = attempts[number]
        if one.error:
            state = "failed"
        elif not one.text:
            state = "thinking …"
        else:
            state = " ".join(clean(one.feedback or "").split())[:60]
        table.add_row(
            str(number),
            str(one.iteration),
            "–" if one.score is None else f"{one.score:.2f}",
            {None: "", True: "passed", False: "failed"}[one.passed],
            Text(state),
        )
    bar = ProgressBar(total=progress.total, completed=progress.done, width=40)
    return Group(table, bar, Text(clean(progress.message), style="dim"))


def _tell(solution: Solution) -> None:
    say(solution.solution)
    score = "none" if solution.score is None else f"{solution.score:.2f}"
    tokens = solution.tokens
    facts = [
        f"{solution.outcome}, score {score}, after {len(solution.attempts)} attempts in "
        f"{solution.iterations} rounds and {solution.seconds:.1f} s",
        f"attempts: {solution.reason}",
        f"memories: {len(solution.memories_shown)} shown ({len(solution.warnings)} warnings), "
        f"{len(solution.memories_used)} used, {len(solution.memories_learned)} learned",
        f"tokens: {tokens.input:,} in, {tokens.output:,} out, {tokens.reasoning:,} reasoning",
        *([f"trace {solution.trace_id}"] if solution.trace_id else []),
        *(f"note: {note}" for note in solution.notes),
    ]
    for line in facts:
        click.secho(clean(line), dim=True, err=True)


def _so_far(shell: Shell, error: BudgetExhausted) -> None:
    from reasonbank.agent.solution import Solution

    if isinstance(error.best, Solution) and not shell.json:
        _tell(error.best)
