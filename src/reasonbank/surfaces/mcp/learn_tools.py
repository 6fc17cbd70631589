"""The tools for learning from sessions, and the prompts behind them."""

from __future__ import annotations

from dataclasses import replace
from typing import Annotated, Any, Literal

import anyio.to_thread
from mcp.server import MCPServer
from pydantic import BeforeValidator, Field

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
Steps = Annotated[
    list[DoneStep],
    BeforeValidator(unpacked),
    Field(max_length=LIMITS.steps, description="What was done, in order."),
]
Ending = Annotated[
    Literal["success", "failure", "mixed"], Field(description="Only if you know for sure.")
]
Ids = Annotated[
    list[str], BeforeValidator(unpacked), Field(description="Ids of the memories that were used.")
]


_thread = anyio.to_thread.run_sync


def _session(
    task: str, steps: list[DoneStep], outcome: str | None, used: list[str] | None
) -> Trace:
    numbered = [{"iteration": n, **step} for n, step in enumerate(steps, 1)]
    return Trace.from_json(
        {"task": task, "trajectory": numbered, "outcome": outcome, "memories_used": used or []}
    )


@tool("Learn from a finished task", Right.WRITE)
async def distil(
    call: Call,
    task: Task,
    steps: Steps,
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

    Call this at the end of a task from which others could learn: something failed and was
    put right, or took several attempts. Nobody waits: lessons appear in later searches. Leave
    out secrets. To think about the lessons yourself, call distil_prepare instead.
    """
    bank = call.bank
    trace = _session(task, steps, outcome, memories_used)
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


@tool("Get a session to think about", Right.WRITE)
def distil_prepare(
    bank: Bank,
    task: Task | None = None,
    steps: Steps | None = None,
    outcome: Ending | None = None,
    memories_used: Ids | None = None,
) -> Prepared:
    """Get the prompt for a finished task, and a ticket: you do the thinking.

    Call this with the task that you just finished, or with nothing for the oldest that waits.
    Follow `prompt`, answer in the form of `answer_schema`, and hand the answer in with
    distil_submit. `ticket` is null when nothing waits.
    """
    session = None if task is None else _session(task, steps or [], outcome, memories_used)
    return bank.distil_prepare(session)


@tool("Hand in what a session taught", Right.WRITE, idempotent=True)
def distil_submit(
    bank: Bank,
    ticket: Annotated[str, Field(max_length=200, description="From distil_prepare.")],
    answer: Annotated[
        dict[str, Any],
        BeforeValidator(unpacked),
        Field(description="In the form of answer_schema; no memories is a good answer too."),
    ],
) -> Submitted:
    """Hand in your answer for a ticket; it is checked and stored once.

    `learned` are the ids of new memories, `confirmed` those that said the same already. An
    error says what to correct; then hand it in again.
    """
    return bank.distil_submit(ticket, answer)


@tool("Keep a question and its answer", Right.WRITE, idempotent=True)
def capture_knowledge(
    bank: Bank,
    question: Annotated[str, Text(LIMITS.query), Field(description="What was asked.")],
    answer: Annotated[str, Text(LIMITS.trace), Field(description="What was answered.")],
) -> Captured:
    """Keep an exchange that a later task may need: code, an explanation, steps.

    Call this after you answered a question about this project that somebody will ask again.
    What is too short or says nothing is left out, and `reason` says so.
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
