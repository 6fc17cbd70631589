"""Commands that serve others."""

from __future__ import annotations

import json
import os
import shlex
import sys
from contextlib import nullcontext
from typing import TYPE_CHECKING

import click

from reasonbank.errors import ReasonBankError
from reasonbank.safety.scrub import hushed
from reasonbank.surfaces.cli.shell import Shell, command

if TYPE_CHECKING:
    from reasonbank.bank import Bank
    from reasonbank.surfaces.http.server import Opened
    from reasonbank.surfaces.mcp.stdin import Wire


@command()
@click.option("--tools", type=click.Choice(["all", "core"]), default="all", show_default=True,
              help="core: only search, record and outcome.")  # fmt: skip
def mcp(shell: Shell, tools: str) -> None:
    """Serve an agent over standard input and output (MCP).

    A call's workspace is its own parameter, else --workspace, else the client's root, else
    this directory.
    """
    from reasonbank.surfaces.mcp.stdin import begin

    wire = begin(tools)
    try:
        _start()
        with shell.bank(creates=True, surface="mcp") as bank:
            from reasonbank.surfaces.mcp.stdio import run_stdio

            run_stdio(bank, tools=tools, roots=shell.workspace is None)
    except ReasonBankError as error:
        if wire.served or not wire.opening.answered:
            raise
        _refuse(wire, error)
        click.get_current_context().exit(error.exit_code)


def _refuse(wire: Wire, error: ReasonBankError) -> None:
    """The client has its tools already: each call says why they cannot be used."""
    from reasonbank.surfaces.mcp.words import for_agents

    told = str(hushed(error))
    click.secho(f"Error: {told}", fg="red", err=True)
    wire.refuse(
        f"This memory cannot be opened: {for_agents(told)}. Tell your user, and go on without "
        "it: it can be used again once that is mended and this server is started anew."
    )


@command()
@click.option("--host", default="127.0.0.1", show_default=True, envvar="REASONBANK_HOST",
              show_envvar=True,
              help="Where to listen; for more than loopback, make a token first.")  # fmt: skip
@click.option("--port", type=click.IntRange(0, 65535), default=8321, show_default=True,
              envvar="REASONBANK_PORT", show_envvar=True,
              help="0 picks any free port.")  # fmt: skip
@click.option("--tools", type=click.Choice(["all", "core"]), default="all", show_default=True,
              help="MCP tools; core: only search, record and outcome.")  # fmt: skip
@click.option("--no-auth", is_flag=True,
              help="Need no token: whoever is on this machine has the bank.")  # fmt: skip
@click.option(
    "--processes",
    type=click.IntRange(1, 64),
    default=1,
    show_default=True,
    help="Number of server processes, at best one per core. Learning gets its own.",
)
@click.option("--member", is_flag=True, hidden=True)  # fmt: skip
def serve(
    shell: Shell, host: str, port: int, tools: str, no_auth: bool, processes: int, member: bool
) -> None:
    """Serve agents and programs over HTTP.

    MCP is at /mcp, a JSON API at /api/v1, its OpenAPI document at /openapi.json, a page that
    says how to connect at /. A call's workspace is its own, else --workspace or this directory.
    Every call needs a token; yours is made at the first start and kept beside the bank.
    """
    _start()
    with shell.bank(creates=True, surface="http") as bank:
        from reasonbank.jobs.background import in_background
        from reasonbank.opening import model_for
        from reasonbank.surfaces import logs
        from reasonbank.surfaces.http.server import serve as listen

        logs.embeds(bank)
        if processes > 1:
            _serve_many(shell, bank, host=host, port=port, tools=tools, no_auth=no_auth,
                        count=processes)  # fmt: skip
            return
        if member:
            from reasonbank.surfaces.http.processes import end_with_parent

            end_with_parent()
        listen(
            bank,
            host=host,
            port=port,
            tools=tools,
            authenticate=not no_auth,
            announce=lambda opened: announce(shell, opened),
            shared=member,
            background=nullcontext
            if member
            else lambda: in_background(bank.context, model_for(bank.store)),
        )


def _serve_many(
    shell: Shell, bank: Bank, *, host: str, port: int, tools: str, no_auth: bool, count: int
) -> None:
    """Others serve; this process sees to them and does what a worker does."""
    from reasonbank.jobs.service import work
    from reasonbank.opening import model_for
    from reasonbank.surfaces.http.processes import Members
    from reasonbank.surfaces.http.server import Opened, admit

    # Before the others start, so that all find the same token.
    owner = admit(bank, host, authenticate=not no_auth)
    arguments = ["--tools", tools, *(["--no-auth"] if no_auth else ())]
    if shell.url:
        # Not as an argument, which everybody on this machine can read: it may hold a password.
        os.environ["REASONBANK_URL"] = shell.url
    if shell.workspace:
        arguments += ["--workspace", shell.workspace]
    members = Members(arguments, host=host, port=port, count=count)
    try:
        told = json.loads(members.told)
        opened = Opened(address=told["address"], locked=told["token_needed"], owner=owner)
        announce(shell, opened)
        work(bank.context, model_for(bank.store), until_empty=False)
    finally:
        members.end()


def _start() -> None:
    """What every server does first; one whose settings need a key does not start without."""
    from reasonbank.opening import check_model
    from reasonbank.settings import load
    from reasonbank.surfaces import logs

    settings = load()
    logs.set_up(settings)
    check_model(settings)


def announce(shell: Shell, opened: Opened) -> None:
    address, owner = opened.address, opened.owner
    if shell.json:
        told = {"address": address, "mcp": f"{address}/mcp", "token_needed": opened.locked,
                "token_file": owner and str(owner.file)}  # fmt: skip
        click.echo(json.dumps(told))
        sys.stdout.flush()
        return
    from reasonbank.surfaces.connecting import VARIABLE, snippets

    click.secho(f"ReasonBank serves at {address}", bold=True, err=True)
    if owner is not None:
        # On standard output, which is for whoever started it: standard error is its log.
        click.echo(f"{address}/#token={owner.secret}")
        sys.stdout.flush()
        click.echo(f"Your token is in {owner.file}. For agents and programs:", err=True)
        click.echo(f"export {VARIABLE}=$(cat {shlex.quote(str(owner.file))})", err=True)
    for snippet in snippets(address, locked=opened.locked):
        click.secho(f"\n{snippet.agent} ({snippet.where}):", bold=True, err=True)
        click.echo(snippet.text, err=True)
    click.echo("\nControl-C ends it.", err=True)
