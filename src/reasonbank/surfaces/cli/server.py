"""Commands that serve others."""

from __future__ import annotations

import json
import os
import shlex
import sys
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
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
@click.option("--bus", is_flag=True,
              help="Keep in touch with the banks of `reasonbank peer`, too.")  # fmt: skip
@click.option("--tasks", is_flag=True,
              help="With --bus: do what they offer, with your model, at your cost.")  # fmt: skip
@click.option("--member", is_flag=True, hidden=True)  # fmt: skip
def serve(
    shell: Shell,
    host: str,
    port: int,
    tools: str,
    no_auth: bool,
    processes: int,
    bus: bool,
    tasks: bool,
    member: bool,
) -> None:
    """Serve agents and programs over HTTP.

    MCP is at /mcp, a JSON API at /api/v1, its OpenAPI document at /openapi.json, a page for
    people at /. A call's workspace is its own, else --workspace or this directory.
    Every call needs a token; yours is made at the first start and kept beside the bank.
    """
    _start()
    with shell.bank(creates=True, surface="http") as bank, _in_touch(bank, bus=bus, tasks=tasks):
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
            announce=lambda opened: announce(shell, bank, opened),
            shared=member,
            background=nullcontext
            if member
            else lambda: in_background(bank.context, model_for(bank.store)),
        )


@contextmanager
def _in_touch(bank: Bank, *, bus: bool, tasks: bool) -> Iterator[None]:
    """With other banks, if that is wanted."""
    if not bus:
        yield
        return
    from reasonbank.peers import must_be_installed

    must_be_installed()
    from reasonbank.peers.membership import address_of, listens_at
    from reasonbank.peers.service import in_touch

    solver = None
    if tasks:
        from reasonbank.surfaces.doing_tasks import solver_of

        solver = solver_of(bank)
    with in_touch(bank.context, listens_at(bank.context), solver):
        click.echo(f"Other banks reach this one at {address_of(bank.context)}", err=True)
        yield


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
        announce(shell, bank, opened)
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


def announce(shell: Shell, bank: Bank, opened: Opened) -> None:
    address, owner = opened.address, opened.owner
    if shell.json:
        # Without a code: what programs read is kept in logs.
        told = {"address": address, "mcp": f"{address}/mcp", "token_needed": opened.locked,
                "token_file": owner and str(owner.file)}  # fmt: skip
        click.echo(json.dumps(told))
        sys.stdout.flush()
        return
    from reasonbank.surfaces.connecting import VARIABLE, snippets
    from reasonbank.surfaces.signing_in import FIRST_CODE_SECONDS, address_of

    page = address_of(bank, address, seconds=FIRST_CODE_SECONDS) if owner else address
    click.secho(f"ReasonBank serves at {address}", bold=True, err=True)
    if owner is not None:
        click.echo(f"Your token is in {owner.file}. For agents and programs:", err=True)
        click.echo(f"export {VARIABLE}=$(cat {shlex.quote(str(owner.file))})", err=True)
    for snippet in snippets(address, locked=opened.locked):
        click.secho(f"\n{snippet.agent} ({snippet.where}):", bold=True, err=True)
        click.echo(snippet.text, err=True)
    # What a person needs first comes last, where a terminal still shows it.
    click.secho("\nThe page, for you:", bold=True, err=True)
    # On standard output, which is for whoever started it: standard error is its log.
    click.echo(page)
    sys.stdout.flush()
    if owner is not None:
        click.echo("Open it within an hour, and once; `reasonbank open` makes another.", err=True)
    click.echo("Control-C ends it.", err=True)


@command("open")
@click.argument("id", required=False)
@click.option("--host", default="127.0.0.1", show_default=True, envvar="REASONBANK_HOST",
              show_envvar=True, help="Where the server listens.")  # fmt: skip
@click.option("--port", type=click.IntRange(1, 65535), default=8321, show_default=True,
              envvar="REASONBANK_PORT", show_envvar=True)  # fmt: skip
def open_(shell: Shell, id: str | None, host: str, port: int) -> None:
    """Open the page of a running server in the browser, at a memory if one is named.

    It prints the address too, whose code lets you in: for ten minutes, and once.
    """
    from urllib.parse import quote

    from reasonbank.surfaces.signing_in import address_of

    # Listening everywhere is no address to call.
    host = "127.0.0.1" if host in ("0.0.0.0", "::") else host  # nosec B104  # compared, not bound
    address = f"http://{f'[{host}]' if ':' in host else host}:{port}"
    with shell.bank() as bank:
        _must_answer(address)
        path = f"/memory/{bank.get(id).id}" if id else "/"
        page = address_of(bank, address, path=f"{path}?workspace={quote(bank.view.workspace)}")
    if shell.json:
        click.echo(json.dumps({"page": page}))
        return
    import webbrowser

    click.echo(page)
    webbrowser.open(page)


def _must_answer(address: str) -> None:
    from urllib.error import URLError
    from urllib.request import urlopen

    from reasonbank.errors import NotFound

    try:
        with urlopen(f"{address}/livez", timeout=5) as answer:  # nosec B310  # http, as above
            alive = answer.read(100)
    except (URLError, OSError, ValueError):
        alive = b""
    if b"alive" not in alive:
        raise NotFound(
            f"no server answers at {address}; start one with `reasonbank serve`, or name its --port"
        )
