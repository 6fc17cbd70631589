"""Commands that serve others."""

from __future__ import annotations

import click

from reasonbank.surfaces.shell import Shell, command


@command()
@click.option("--tools", type=click.Choice(["all", "core"]), default="all", show_default=True,
              help="core: only search, record and outcome.")  # fmt: skip
def mcp(shell: Shell, tools: str) -> None:
    """Serve an agent over standard input and output (MCP).

    A call's workspace is its own parameter, else --workspace, else the client's root, else
    this directory.
    """
    from reasonbank.opening import check_model
    from reasonbank.settings import load
    from reasonbank.surfaces import logs

    settings = load()
    logs.set_up(settings)
    check_model(settings)
    with shell.bank(surface="mcp") as bank:
        from reasonbank.surfaces.mcp import run_stdio

        run_stdio(bank, tools=tools, roots=shell.workspace is None)
