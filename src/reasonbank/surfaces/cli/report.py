"""The command that shows whether memory helps."""

from __future__ import annotations

import click

from reasonbank.surfaces.cli.shell import Shell, command, tell


@command()
@click.option("--html", "page", is_flag=True, help="Print a web page.")
def report(shell: Shell, page: bool) -> None:
    """Show what memory is worth, whether forecasts can be believed, and repeated mistakes."""
    from reasonbank.proof.report import sentences

    with shell.bank() as bank:
        found = bank.report()
    if page:
        from reasonbank.surfaces.show.report_page import html

        click.echo(html(found), nl=False)
        return
    shell.show(found, lambda: tell("\n".join(sentences(found))))
