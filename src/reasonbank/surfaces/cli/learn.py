"""Commands for learning from sessions: hand one in, look after the queue."""

from __future__ import annotations

import json
import sys
from dataclasses import replace
from typing import TYPE_CHECKING

import click

from reasonbank.errors import InvalidInput
from reasonbank.learn.transcripts import FORMATS
from reasonbank.model import counted
from reasonbank.surfaces.cli.plain import add_plain
from reasonbank.surfaces.cli.shell import Shell, command, main, reading, say

if TYPE_CHECKING:
    from reasonbank.bank import Bank
    from reasonbank.model import Trace


@command()
@click.argument("file", type=click.Path(dir_okay=False, allow_dash=True))
@click.option(
    "--format",
    "form",
    type=click.Choice(("trace", *sorted(FORMATS))),
    help="trace is one JSON object; the others are transcripts [default: by its text].",
)
@click.option("--outcome", help="success, failure or mixed, if you know.")
@click.option("--now", is_flag=True, help="Learn from it at once, rather than by a worker.")
def distil(shell: Shell, file: str, form: str | None, outcome: str | None, now: bool) -> None:
    """Queue a finished session to be learned from; - is standard input."""
    from reasonbank.jobs.learner import nothing_new

    with reading(file) as source:
        trace = session_in(source.read(), form, outcome)
    with shell.bank() as bank:
        job = bank.distil(trace)
        if now:
            run_worker(bank, until_empty=True, turns=False)
            job = next((j for j in bank.jobs(limit=1000) if j.id == job.id), job)
        after = bank.trace(trace.id)
        learned = [bank.get(id) for id in after.memories_learned]
        why = "" if learned or not now else nothing_new(bank.context, after)

    def draw() -> None:
        if not now:
            say(f"Queued session {job.subject} as job {job.id}")
        elif job.state == "done" and not learned:
            say(f"Session {job.subject} {why}")
        elif job.state == "done":
            say(f"Learned {counted(len(learned))} from session {job.subject}")
            for memory in learned:
                say(f"  {memory.id}  {memory.title}")
        else:
            say(f"Job {job.id} is {job.state}: {job.error or 'another worker has it'}")

    shell.show(job, draw)


def session_in(text: str, form: str | None, outcome: str | None) -> Trace:
    from reasonbank.fields import choice
    from reasonbank.learn import session, transcripts
    from reasonbank.model import Outcome, Trace, derived_id

    told = None if outcome is None else choice(Outcome, outcome, "outcome")
    form = form or _form_of(text)
    if form == "trace":
        trace = Trace.from_json(text)
        return trace if told is None else replace(trace, outcome=told)
    read = transcripts.read(form, text)
    if not read.entries:
        raise InvalidInput("file", f"has no step of a {form} session; choose one with --format")
    # By its name: read twice, it is the same session.
    return session.to_trace(read, told, id=derived_id("session", read.agent, read.id))


def _form_of(text: str) -> str:
    """A trace is one object, which may take several lines; a transcript has one a line."""
    from reasonbank.learn.transcripts import format_of

    first = text.lstrip().partition("\n")[0]
    if '"task"' in text and not first.rstrip().endswith("}"):
        return "trace"
    return format_of(text) or "trace"


@command()
@click.option("--until-empty", is_flag=True, help="End when nothing is due.")
def worker(shell: Shell, until_empty: bool) -> None:
    """Learn from queued sessions, until told to stop."""
    from reasonbank.opening import check_model
    from reasonbank.settings import load
    from reasonbank.surfaces import logs

    settings = load()
    logs.set_up(settings)
    check_model(settings)
    with shell.bank(surface="worker") as bank:
        done = run_worker(bank, until_empty=until_empty)
    shell.show({"done": done}, lambda: say(f"Done: {done} jobs"))


def run_worker(bank: Bank, *, until_empty: bool, turns: bool = True) -> int:
    from reasonbank.jobs.service import work
    from reasonbank.opening import model_for

    return work(bank.context, model_for(bank.store), until_empty=until_empty, turns=turns)


@main.group()
def ticket() -> None:
    """Think about sessions yourself: take a prompt, hand in an answer."""


@command("prepare", group=ticket)
@click.argument("file", type=click.Path(dir_okay=False, allow_dash=True), required=False)
def ticket_prepare(shell: Shell, file: str | None) -> None:
    """Get the prompt for a session (FILE, else the oldest that waits), and a ticket."""
    session = None
    if file is not None:
        with reading(file) as source:
            session = session_in(source.read(), None, None)
    with shell.bank() as bank:
        given = bank.distil_prepare(session)

    def draw() -> None:
        if given.ticket is None:
            say(given.message)
        else:
            say(f"{given.prompt}\n\nTicket: {given.ticket}")

    shell.show(given, draw)


@command("submit", group=ticket)
@click.argument("ticket")
@click.argument("file", type=click.Path(dir_okay=False, allow_dash=True))
def ticket_submit(shell: Shell, ticket: str, file: str) -> None:
    """Hand in the answer to a ticket: a JSON object, - for standard input."""
    with reading(file) as source:
        try:
            answer = json.loads(source.read())
        except (ValueError, RecursionError):
            raise InvalidInput("answer", "is not JSON; see `ticket prepare --json`") from None
    with shell.bank() as bank:
        result = bank.distil_submit(ticket, answer)
    shell.show(result, lambda: say(
        f"Learned {len(result.learned)}, confirmed {len(result.confirmed)}"))  # fmt: skip


@command()
@click.argument("question")
@click.argument("answer")
@click.option("--session")
def capture(shell: Shell, question: str, answer: str, session: str | None) -> None:
    """Keep a question and its answer, if they are worth it; - reads the answer from stdin."""
    if answer == "-":
        answer = sys.stdin.read()
    with shell.bank() as bank:
        captured = bank.capture(question, answer, session=session)
    shell.show(captured, lambda: say(
        f"Kept as {captured.id}" if captured.id else f"Not kept: {captured.reason}"))  # fmt: skip


@command()
@click.argument("task")
@click.option("--max-tokens", type=int, default=1000, show_default=True)
@click.option("--limit", type=int, help="Maximum number of results [default: 5].")
@click.option("--session", help="The task at hand, to credit its outcome later.")
def inject(
    shell: Shell, task: str, max_tokens: int, limit: int | None, session: str | None
) -> None:
    """Print the memories for a task as text for a prompt, within a budget."""
    with shell.bank() as bank:
        injection = bank.inject(task, max_tokens=max_tokens, limit=limit, session=session)

    def draw() -> None:
        if injection.prompt:
            say(injection.prompt)
        for id, reason in injection.withheld:
            click.echo(f"Withheld {id}: {reason}", err=True)

    shell.show(injection, draw)


@main.group()
def queue() -> None:
    """List, retry or drop the jobs that wait for a worker."""


add_plain(queue)
