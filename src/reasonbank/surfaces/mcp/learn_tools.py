"""The tools for learning from sessions, and the prompts behind them."""

from __future__ import annotations

from dataclasses import replace
from typing import Annotated, Any, Literal

import anyio.to_thread
from mcp.server import MCPServer
from pydantic import BeforeValidator, Field, WithJsonSchema

from reasonbank.bank import Bank
from reasonbank.fence import fenced, prompt
from reasonbank.fields import LIMITS, Text
from reasonbank.learn.distil import MOST_BY_CONTRAST, MOST_BY_SESSION
from reasonbank.learn.passive import Captured
from reasonbank.learn.tickets import Prepared, Submitted, think
from reasonbank.llm.prompts import words
from reasonbank.model import HandedIn, Right, Trace, derived_id
from reasonbank.store import queue
from reasonbank.surfaces.call import Call
from reasonbank.surfaces.mcp.memory_tools import tool
from reasonbank.surfaces.shapes import DoneStep, unpacked

Task = Annotated[str, Text(LIMITS.content), Field(description="What was to be done.")]
Trajectory = Annotated[
    list[DoneStep],
    BeforeValidator(unpacked),
    Field(max_length=LIMITS.steps, description="What was done, in order."),
]
Ending = Annotated[
    Literal["success", "failure", "mixed"], Field(description="Only if you know for sure.")
]
Ids = Annotated[list[str], BeforeValidator(unpacked), Field(description="Ids of memories.")]


_thread = anyio.to_thread.run_sync


FORMERLY = {"steps": "trajectory"}


def _session(
    task: str, trajectory: list[DoneStep], outcome: str | None, used: list[str] | None
) -> Trace:
    numbered = [{"iteration": n, **step} for n, step in enumerate(trajectory, 1)]
    return Trace.from_json(
        {"task": task, "trajectory": numbered, "outcome": outcome, "memories_used": used or []}
    )


@tool("Learn from a finished task", Right.WRITE, formerly=FORMERLY)
async def distil(
    call: Call,
    task: Task,
    trajectory: Trajectory,
    outcome: Ending | None = None,
    memories_used: Ids | None = None,
    session: Annotated[
        str,
        Text(LIMITS.label),
        Field(description="Your session's id: handed in again, only what is new is learned."),
    ]
    | None = None,
) -> HandedIn:
    """Hand in a finished task, to be learned from in the background.

    Call this at the end of a task that others could learn from: something failed and was put
    right. Lessons appear in later searches. No secrets. To think yourself: distil_prepare.
    """
    bank = call.bank
    trace = _session(task, trajectory, outcome, memories_used)
    if session is not None:
        trace = replace(trace, id=derived_id("session", bank.view.workspace, "mcp", session))
    if call.clients_model is None:
        return await _thread(lambda: bank.distil(trace))
    kept = call.kept
    if "ticket" not in kept:
        given = await _thread(lambda: bank.distil_prepare(trace))
        kept |= {"ticket": given.ticket, "trace": given.trace_id}
    await think(bank.context, call.clients_model, kept["ticket"], kept["trace"])
    id = kept["ticket"].partition(".")[0]
    return await _thread(lambda: queue.handed_in(bank.context, id))


@tool("Prepare lessons", Right.WRITE, formerly=FORMERLY)
def distil_prepare(
    bank: Bank,
    task: Task | None = None,
    trajectory: Annotated[
        Trajectory | None,
        WithJsonSchema({"type": "array", "items": {"type": "object"}}),
        Field(description="As for distil."),
    ] = None,
    outcome: Ending | None = None,
    memories_used: Ids | None = None,
) -> Prepared:
    """Get the prompt for a finished task, and a ticket: you do the thinking.

    Call this with the task that you finished, or with nothing for the oldest that waits. Follow
    `prompt` and hand the answer in with distil_submit. `ticket` is null when nothing waits.
    """
    session = None if task is None else _session(task, trajectory or [], outcome, memories_used)
    return bank.distil_prepare(session)


@tool("Submit lessons", Right.WRITE, idempotent=True)
def distil_submit(
    bank: Bank,
    ticket: Annotated[str, Field(max_length=200, description="From distil_prepare.")],
    answer: Annotated[
        dict[str, Any],
        BeforeValidator(unpacked),
        Field(description="In the form of answer_schema."),
    ],
) -> Submitted:
    """Hand in your answer for a ticket; it is checked and stored once.

    `learned` are ids of new memories, `confirmed` those that said the same already. After an
    error, correct it and hand it in again.
    """
    return bank.distil_submit(ticket, answer)


@tool("Keep a question and its answer", Right.WRITE, idempotent=True)
def capture_knowledge(
    bank: Bank,
    question: Annotated[str, Text(LIMITS.query), Field(description="What was asked.")],
    answer: Annotated[str, Text(LIMITS.trace), Field(description="What was answered.")],
) -> Captured:
    """Keep an exchange that a later task may need: code, an explanation, steps.

    Call this after an answer about this project that somebody will need again. What says too
    little is left out; `reason` says why.
    """
    return bank.capture(question, answer)


def add_prompts(server: MCPServer[Any]) -> None:
    """The prompts that models are asked with, for whoever wants to ask with them."""

    @server.prompt(title="Judge a task", description="Decide how a task went, from its record.")
    def judge(record: str) -> str:
        return prompt(words("learn", "judge"), fenced("record", record))

    @server.prompt(title="Distil a session", description="Lessons from the record of one task.")
    def distil(record: str, outcome: str = "success") -> str:
        form = "success" if outcome == "success" else "failure"
        return prompt(words("learn", form, most=MOST_BY_SESSION), fenced("record", record))

    @server.prompt(title="Contrast attempts", description="What made the difference between them.")
    def contrast(attempts: str) -> str:
        form = words("learn", "contrast", most=MOST_BY_CONTRAST)
        return prompt(form, fenced("attempts", attempts))
