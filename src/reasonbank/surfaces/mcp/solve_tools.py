"""The tool that solves a task; its docstring is read by models."""

from __future__ import annotations

from typing import Annotated, Literal, cast

from mcp.types import ToolAnnotations
from pydantic import Field
from typing_extensions import TypedDict

from reasonbank.agent.solution import Solution
from reasonbank.agent.thinking import OnProgress, Progress
from reasonbank.errors import BudgetExhausted, InvalidSetting
from reasonbank.fields import LIMITS, Text, Whole, plain
from reasonbank.model import Right
from reasonbank.surfaces.call import Call
from reasonbank.surfaces.mcp.tool import ToolSpec


class Tried(TypedDict):
    number: int
    iteration: int
    score: float | None
    passed: bool | None
    feedback: str | None
    refines: int | None
    repeats: int | None
    error: str | None


class TokensUsed(TypedDict):
    input: int
    output: int
    reasoning: int


class Solved(TypedDict):
    solution: str
    score: float | None
    outcome: Literal["success", "failure", "mixed"]
    iterations: int
    attempts: list[Tried]
    memories_used: list[str]
    memories_shown: list[str]
    warnings: list[str]
    memories_learned: list[str]
    tokens: TokensUsed
    solution_time: float
    trace_id: str | None
    matts_k: int
    reason: str
    notes: list[str]


async def solve_coding_task(
    call: Call,
    task: Annotated[
        str, Text(LIMITS.query), Field(description="The whole task, in your own words.")
    ],
    use_memory: Annotated[
        bool, Field(description="Show it what memory knows.")
    ] = True,
    enable_matts: Annotated[
        bool, Field(description="Several attempts; else one, refined.")
    ] = True,
    matts_k: Annotated[int, Whole(1, 5), Field(description="How many attempts, at most.")] = 5,
    matts_mode: Annotated[
        Literal["parallel", "sequential", "adaptive"],
        Field(description="At once, one refined again and again, or as many as it needs."),
    ] = "parallel",
    store_result: Annotated[
        bool, Field(description="Keep the trace and learn from it.")
    ] = True,
    verify: Annotated[
        str | None,
        Field(description="A verifier that the operator allows."),
    ] = None,
    difficulty: Annotated[
        Literal["simple", "moderate", "complex"] | None,
        Field(description="How hard the task is, for matts_mode adaptive."),
    ] = None,
) -> Solved:  # fmt: skip
    """Have a task solved by this server's language model, with what memory knows of it.

    Call it for what can be solved by thinking: it sees no files, so put what matters into
    `task`. It makes several attempts, takes a while and spends the operator's tokens. Check
    `solution` yourself: without a verifier, `outcome` and `score` are a model's opinion.
    """
    if call.model is None:
        raise InvalidSetting(
            "llm.provider",
            "is none: this server has no language model to solve with. Solve the task yourself: "
            "memory_search first, memory_outcome and memory_record afterwards",
        )
    try:
        solution = await call.bank.solve(
            task,
            model=call.model,
            mode=matts_mode if enable_matts else "off",
            k=matts_k,
            verify=verify,
            difficulty=difficulty,
            use_memory=use_memory,
            store=store_result,
            on_progress=_telling(call),
        )
    except BudgetExhausted as error:
        if isinstance(error.best, Solution):
            raise BudgetExhausted(f"{error}. It is:\n\n{error.best.solution}") from None
        raise
    return _told(solution)


def _telling(call: Call) -> OnProgress | None:
    report = call.report
    if report is None:
        return None

    async def tell(progress: Progress) -> None:
        await report(progress.done, progress.total, progress.message)

    return tell


def _told(solution: Solution) -> Solved:
    known = plain(solution)
    known |= {
        "attempts": [{n: one[n] for n in Tried.__annotations__} for one in known["attempts"]],
        "solution_time": solution.seconds,
        "matts_k": solution.k,
    }
    return cast(Solved, {name: known[name] for name in Solved.__annotations__})


SOLVE = ToolSpec(
    function=solve_coding_task,
    title="Solve a task",
    right=Right.WRITE,
    hints=ToolAnnotations(
        read_only_hint=False,
        destructive_hint=False,
        # It asks a language model, and that may be anywhere.
        open_world_hint=True,
    ),
)
