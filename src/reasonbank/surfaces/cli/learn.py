"""Commands for learning from sessions: hand one in, look after the queue."""

from __future__ import annotations

import json
import sys
from contextlib import nullcontext
from dataclasses import replace
from typing import TYPE_CHECKING

import click

from reasonbank.errors import InvalidInput
from reasonbank.learn.transcripts import FORMATS
from reasonbank.model import counted
from reasonbank.surfaces.cli.plain import add_plain
from reasonbank.surfaces.cli.shell import Shell, command, main, one_text, reading, say

if TYPE_CHECKING:
    from reasonbank.bank import Bank
    from reasonbank.model import HandedIn, Trace


@command()
@click.argument("file", type=click.Path(dir_okay=False, allow_dash=True))
@click.option(
    "--format",
    "form",
    type=click.Choice(("trace", *sorted(FORMATS))),
    help="trace is one JSON object; the others are transcripts [default: by its text].",
)
@click.option("--outcome", help="success, failure or mixed, if you know.")
@click.option("--now", "when", flag_value="now", help="Learn from it here, whoever else works.")
@click.option("--later", "when", flag_value="later", help="Only queue it.")
def distil(
    shell: Shell, file: str, form: str | None, outcome: str | None, when: str | None
) -> None:
    """Learn from a finished session; - is standard input.

    If a server or a worker has this bank open, it does the learning; if none does, this command
    does. No other session is learned from. What is learned belongs to the project that the
    session worked in, unless --workspace says otherwise.
    """
    from reasonbank.jobs.learner import nothing_new
    from reasonbank.store.queue import handed_in

    with reading(file) as source:
        trace = session_in(source.read(), form, outcome)
    with shell.bank(creates=True) as opened:
        bank = _project_of(opened, trace, shell)
        job = bank.distil(trace)
        learned, by = _learned(bank, job, when)
        job = handed_in(bank.context, job.id) if by is None else job
        memories = [bank.get(id) for id in learned]
        why = "" if memories or by else nothing_new(bank.context, bank.trace(trace.id))

    def draw() -> None:
        if by is not None:
            say(f"Session {job.subject} (job {job.id}): {by}")
        elif job.state == "done" and not memories:
            say(f"Session {job.subject} {why}")
        elif job.state == "done":
            say(f"Learned {counted(len(memories))} from session {job.subject}")
            for memory in memories:
                say(f"  {memory.id}  {memory.title}")
        else:
            say(f"Job {job.id} is {job.state}: {job.error or 'another worker has it'}")

    shell.show(job, draw)


def _learned(bank: Bank, job: HandedIn, when: str | None) -> tuple[tuple[str, ...], str | None]:
    """What was learned here; or why nothing was, and who learns from it."""
    from reasonbank.jobs.service import work_now
    from reasonbank.opening import model_for
    from reasonbank.store.context import reasoner_of
    from reasonbank.store.working import who

    if job.state == "done":
        return (), job.message
    if reasoner_of(bank.context) == "agent":
        return (), "queued; an agent learns from it (ticket prepare, or the tool distil_prepare)"
    if when == "later":
        return (), "queued; a server or a worker learns from it"
    if when is None and (other := who(bank.context)) is not None:
        return (), f"queued; {other} learns from it"
    model = model_for(bank.store)
    done = work_now(bank.context, model, workspace=None, turns=False, only=(job.id,))
    return done.learned, None


def _project_of(bank: Bank, trace: Trace, shell: Shell) -> Bank:
    """The project that the session worked in, unless the owner names one."""
    from reasonbank.store.workspaces import is_place

    directory = trace.metadata.get("directory")
    if shell.workspace is not None or not is_place(directory):
        return bank
    return bank.within(directory)


def session_in(text: str, form: str | None, outcome: str | None) -> Trace:
    from reasonbank.fields import choice
    from reasonbank.learn import session, transcripts
    from reasonbank.model import Outcome, Trace, derived_id

    told = None if outcome is None else choice(Outcome, outcome, "outcome")
    form = form or transcripts.format_of(text) or "trace"
    if form == "trace":
        trace = Trace.from_json(text)
        return trace if told is None else replace(trace, outcome=told)
    read = transcripts.read(form, text)
    if not read.entries:
        raise InvalidInput("file", f"has no step of a {form} session; choose one with --format")
    # By its name: read twice, it is the same session.
    return session.to_trace(read, told, id=derived_id("session", read.agent, read.id))


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
    with shell.bank(creates=True, surface="worker") as bank:
        logs.embeds(bank)
        done = run_worker(bank, until_empty=until_empty)
    shell.show({"done": done}, lambda: say(f"Done: {done} jobs"))


def run_worker(bank: Bank, *, until_empty: bool) -> int:
    from reasonbank.jobs.service import work
    from reasonbank.opening import model_for
    from reasonbank.surfaces.hooks.door import answering_hooks

    with nullcontext() if until_empty else answering_hooks(bank):
        return work(bank.context, model_for(bank.store), until_empty=until_empty)


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
    with shell.bank(creates=True) as bank:
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
    with shell.bank(creates=True) as bank:
        captured = bank.capture(question, answer, session=session)
    shell.show(captured, lambda: say(
        f"Kept as {captured.id}" if captured.id else f"Not kept: {captured.reason}"))  # fmt: skip


@command()
@one_text("task")
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
        if injection.held_out:
            click.echo("This task goes without memory on purpose (proof.hold_out)", err=True)

    shell.show(injection, draw)


@main.group()
def queue() -> None:
    """List, retry or drop the jobs that wait for a worker."""


add_plain(queue)
