"""Commands for the bearer tokens of the HTTP server."""

from __future__ import annotations

import os

import click

from reasonbank.surfaces.cli.shell import Shell, command, main, say


@main.group()
def token() -> None:
    """Make, list or revoke the bearer tokens of `reasonbank serve`."""


@command("create", group=token, workspace=False)
@click.option("--scope", required=True, help="read, write or admin; each includes the former.")
@click.option("--workspace", "workspaces", multiple=True, metavar="PATH|ID|NAME",
              help="A workspace it reaches; repeatable [default: all].")  # fmt: skip
@click.option("--name", help="Who it is for: the author of what is written with it.")
@click.option("--expires", "days", type=int, metavar="DAYS", help="[default: never]")
@click.option("--may", multiple=True, metavar="RIGHT",
              help="share-team or share-org: who may see what it records; repeatable.")  # fmt: skip
@click.option("--max-tokens", type=int, metavar="N",
              help="Tokens of the model that it may spend in all [default: any].")  # fmt: skip
def create(
    shell: Shell,
    scope: str,
    workspaces: tuple[str, ...],
    name: str | None,
    days: int | None,
    may: tuple[str, ...],
    max_tokens: int | None,
) -> None:
    """Make a token, and print it this once."""
    from reasonbank.access import TokenStore

    with shell.bank(creates=True) as bank:
        made = TokenStore(bank).create(
            scope=scope,
            workspaces=[_full(place) for place in workspaces] or None,
            name=name,
            expires_days=days,
            may=may,
            max_tokens=max_tokens,
            by=bank,
        )

    def draw() -> None:
        say(f"Token {made.id} ({made.name}), scope {made.scope}. Keep it; it is shown once:")
        click.echo(made.token)

    shell.show(made, draw)


def _full(workspace: str) -> str:
    """A directory that is there may be given as it is seen from here."""
    return os.path.abspath(workspace) if os.path.isdir(workspace) else workspace


@command("list", group=token)
def list_(shell: Shell) -> None:
    """List all tokens that were ever made, without their secrets."""
    from reasonbank.access import TokenStore
    from reasonbank.surfaces.show import tables

    with shell.bank() as bank:
        found = TokenStore(bank).list()
    shell.show(found, lambda: tables.tokens(found))


@command("revoke", group=token)
@click.argument("id")
def revoke(shell: Shell, id: str) -> None:
    """Revoke a token; it opens nothing from now on."""
    from reasonbank.access import TokenStore

    with shell.bank() as bank:
        told = TokenStore(bank).revoke(id, by=bank)
    shell.show(told, lambda: say(f"Revoked {told.id} ({told.name})"))
