"""The command that agents call; people are told what it does."""

from __future__ import annotations

import click

from reasonbank.surfaces.agents import AGENTS, Event
from reasonbank.surfaces.cli.shell import Shell, command


@command(workspace=False)
@click.argument("event", type=click.Choice([str(event) for event in Event]))
@click.option("--agent", type=click.Choice([agent.name for agent in AGENTS]), required=True,
              help="Whose hook it is: each agent has its own words.")  # fmt: skip
def hook(shell: Shell, event: str, agent: str) -> None:
    """Answer a coding agent's hook: called by the agent itself.

    It reads what the agent tells on standard input, and prints what the agent is to know, in the
    agent's own format: memories for a prompt, a warning before a tool, what helped when one has
    failed. At the end of a turn or a session the transcript is handed over to be learned from.

    It always ends with 0, within 1.5 seconds, and without a word where there is nothing to say or
    something is wrong; `reasonbank doctor` tells when hooks were called and how that went.
    """
    from reasonbank.surfaces.hooks.client import main

    main([event, "--agent", agent, *(["--bank", shell.url] if shell.url else ())])
