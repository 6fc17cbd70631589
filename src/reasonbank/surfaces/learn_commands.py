"""Commands for learning from sessions: hand one in, look after the queue."""

from __future__ import annotations

import click

from reasonbank.surfaces.shell import Shell, command, main, reading


@command()
@click.argument("file", type=click.Path(dir_okay=False, allow_dash=True))
def distil(shell: Shell, file: str) -> None:
    """Queue a finished session to be learned from: a trace as JSON, - for standard input."""
    from reasonbank.model import Trace

    with reading(file) as source, shell.bank() as bank:
        job = bank.distil(Trace.from_json(source.read()))
    shell.show(job, lambda: click.echo(f"Queued session {job.subject} as job {job.id}"))


@main.group()
def queue() -> None:
    """List, retry or drop the jobs that wait for a worker."""


@command("list", group=queue)
@click.option("--state", help="waiting, running, done or dead.")
@click.option("--limit", type=int, default=50, show_default=True)
def queue_list(shell: Shell, state: str | None, limit: int) -> None:
    """List this workspace's jobs, newest first."""
    with shell.bank() as bank:
        jobs = bank.jobs(state=state, limit=limit)
    from reasonbank.surfaces import tables

    shell.show(jobs, lambda: tables.jobs(jobs))


@command("retry", group=queue)
@click.argument("id")
def queue_retry(shell: Shell, id: str) -> None:
    """Give a job that failed for good its attempts anew."""
    with shell.bank() as bank:
        job = bank.retry_job(id)
    shell.show(job, lambda: click.echo(f"Job {job.id} waits for a worker again"))


@command("drop", group=queue)
@click.argument("id")
def queue_drop(shell: Shell, id: str) -> None:
    """Remove a job; its session stays."""
    with shell.bank() as bank:
        job = bank.drop_job(id)
    shell.show(job, lambda: click.echo(f"Dropped job {job.id}"))
