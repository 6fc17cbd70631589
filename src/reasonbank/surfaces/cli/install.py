"""Commands that connect coding agents."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from reasonbank.errors import InvalidInput
from reasonbank.surfaces.agents import AGENTS
from reasonbank.surfaces.cli.shell import Shell, command, say, tell

if TYPE_CHECKING:
    from reasonbank.surfaces.install.plan import Change, Plan
    from reasonbank.surfaces.install.wiring import Wish

ALL = "all"
_WHO = click.argument(
    "agents", nargs=-1, metavar="[AGENT]...",
    type=click.Choice([*(agent.name for agent in AGENTS), ALL]),
)  # fmt: skip
_PROJECT = click.option(
    "--project", is_flag=True, help="In this directory's project only, for all who work on it."
)
_DRY = click.option("--dry-run", is_flag=True, help="Say what would change; change nothing.")


@command()
@_WHO
@_PROJECT
@_DRY
@click.option("--replace", is_flag=True,
              help="Also take over entries of that name which somebody wrote by hand.")  # fmt: skip
@click.option(
    "--http",
    "address",
    metavar="URL",
    help="A server that runs already, e.g. http://127.0.0.1:8321; needs --project.",
)
def install(
    shell: Shell, agents: tuple[str, ...], project: bool, dry_run: bool, replace: bool,
    address: str | None,
) -> None:  # fmt: skip
    """Connect coding agents: server, permissions and hooks.

    Without a name, says which agents are here and what would be done; `all` connects these.
    Each file is copied before it is changed; `uninstall` undoes it.
    """
    from reasonbank.surfaces.install import plan
    from reasonbank.surfaces.install.notes import Notes

    meant = _meant(agents)
    wish = _wish(shell, project, address)
    dry_run = dry_run or not agents
    if dry_run:
        made = plan.installing(meant, wish, os.environ, replace=replace)
    else:
        with Notes(os.environ).alone():
            made = plan.installing(meant, wish, os.environ, replace=replace)
            made = plan.install(made, os.environ)
    _show(shell, made, meant, dry_run=dry_run, installs=True)
    if not agents and not shell.json:
        tell("Nothing was changed. To do it: reasonbank install all, or name the agents."
             if meant else f"No agent was found here. Known are: {_known()}.")  # fmt: skip
    _end(made)


@command()
@_WHO
@_PROJECT
@_DRY
def uninstall(shell: Shell, agents: tuple[str, ...], project: bool, dry_run: bool) -> None:
    """Take out what `install` has written, and nothing else; memories stay."""
    from reasonbank.surfaces.install import plan
    from reasonbank.surfaces.install.notes import Notes

    if not agents:
        raise click.UsageError(f"Say which: {ALL}, or any of {_known()}.")
    meant = [agent.name for agent in AGENTS if agent.name in agents or ALL in agents]
    wish = _wish(shell, project, None)
    if dry_run:
        made = plan.uninstalling(meant, wish, os.environ)
    else:
        with Notes(os.environ).alone():
            made = plan.uninstalling(meant, wish, os.environ)
            made = plan.uninstall(made, os.environ)
    _show(shell, made, meant, dry_run=dry_run, installs=False)
    _end(made)


def _known() -> str:
    return ", ".join(agent.name for agent in AGENTS)


def _meant(agents: tuple[str, ...]) -> list[str]:
    from reasonbank.surfaces.install.plan import found

    here = found(os.environ) if not agents or ALL in agents else []
    if ALL in agents and not here:
        raise InvalidInput("agents", f"none was found here; name those you want: {_known()}")
    return [agent.name for agent in AGENTS if agent.name in agents or agent.name in here]


def _wish(shell: Shell, project: bool, url: str | None) -> Wish:
    from reasonbank.surfaces.install.launcher import launcher
    from reasonbank.surfaces.install.wiring import NAME, Wish

    if shell.workspace and not project:
        raise InvalidInput("workspace", "needs --project: it says which project is meant")
    if url is not None and not url.startswith(("http://", "https://")):
        raise InvalidInput("http", "is to be an address such as http://127.0.0.1:8321")
    if url is not None and not project:
        raise InvalidInput("http", "needs --project: a server does not see in which directory "
                           "an agent works, so each project names itself")  # fmt: skip
    return Wish(
        # A project's files go to other machines, where our path is not.
        launcher=(NAME,) if project else launcher(sys.argv[0], os.environ),
        bank=shell.url,
        project=Path(shell.workspace or ".").absolute() if project else None,
        url=url and url.rstrip("/").removesuffix("/mcp") + "/mcp",
    )


def _show(
    shell: Shell, made: Plan, meant: list[str], *, dry_run: bool, installs: bool
) -> None:  # fmt: skip
    from reasonbank.surfaces.install.plan import difference
    from reasonbank.surfaces.install.wiring import PLUGS, agent_named

    def human() -> None:
        for name in meant:
            agent = agent_named(name)
            changes = [
                change
                for change in made.changes
                if change.agent == name and (installs or change.old is not None)
            ]
            if not changes:
                continue
            click.secho(agent.title + ("" if agent.tested else " (untested)"), bold=True)
            for change in changes:
                _drawn(change, dry_run=dry_run)
            for advice in PLUGS[name].advice if installs else ():
                tell(f"  Note: {advice}", fg="yellow")
        if installs and any(not change.private for change in made.changes):
            tell("Note: agents follow the files of a project only once you have told them to "
                 "trust it.", fg="yellow")  # fmt: skip
        for problem in made.problems:
            click.secho(f"Error: {problem}", fg="red", err=True)

    value: dict[str, Any] = {
        "dry_run": dry_run,
        "changes": [
            {"agent": change.agent, "file": str(change.file), "action": change.action,
             "difference": difference(change), "copies": _copies(change),
             "notes": list(change.notes)}
            for change in made.changes
        ],
        "problems": list(made.problems),
    }  # fmt: skip
    shell.show(value, human)


def _drawn(change: Change, *, dry_run: bool) -> None:
    from reasonbank.surfaces.install.plan import difference

    action = change.action
    if dry_run and action != "unchanged":
        action = f"would be {action}"
    say(f"  {change.file}: {action}")
    for line in difference(change).splitlines():
        colour = "green" if line.startswith("+") else "red"
        click.secho(f"    {line}", fg=colour)
    for copy in () if dry_run else _copies(change):
        say(f"    as it was: {copy}")
    for note in change.notes:
        tell(f"    {note}", fg="yellow")


def _copies(change: Change) -> list[str]:
    from reasonbank.surfaces.install.notes import copy_of

    if change.action == "unchanged":
        return []
    return [str(copy_of(change.file, data)) for data in change.copies]


def _end(made: Plan) -> None:
    if made.problems:
        sys.exit(InvalidInput.exit_code)
