"""The command that shows whether memory helps."""

from __future__ import annotations

import click

from reasonbank.surfaces.cli.shell import Shell, command


@command()
@click.option("--html", "page", is_flag=True, help="Print a web page.")
def report(shell: Shell, page: bool) -> None:
    """Show what memory is worth, whether confidence can be believed, and repeated mistakes."""
    from reasonbank.proof import report as proof

    with shell.bank() as bank:
        found = proof.report(bank.context)
    if page:
        click.echo(proof.html(found), nl=False)
        return
    shell.show(found.to_json(), lambda: click.echo("\n".join(proof.sentences(found))))
