"""The commands that need no words of their own: made from the table of operations."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Annotated, Any, get_args, get_origin

import click

from reasonbank.arguments import Query, parameter_types
from reasonbank.surfaces.cli.shell import Asking, OneText, Shell, common, main, say
from reasonbank.surfaces.operations import OPERATIONS, Operation

MOST = 100_000
"""What the lists of a bank hold at most."""


def add_plain(group: click.Group) -> None:
    """Add the plain commands of a group; those of ``main`` are single words."""
    prefix = "" if group is main else f"{group.name} "
    for operation in OPERATIONS:
        words = operation.command or " "
        if words.startswith(prefix) and " " not in words[len(prefix) :]:
            group.add_command(_command(operation, words[len(prefix) :]))


def _command(operation: Operation, name: str) -> click.Command:
    def run(**given: Any) -> None:
        shell: Any = click.get_current_context().find_object(Shell)
        limit = given.get("limit", 0)
        with shell.bank() as bank:
            value = operation.run(bank, **given)
            more = False
            if limit and len(value) == limit < MOST and not shell.json:
                more = len(operation.run(bank, **given | {"limit": limit + 1})) > limit
        shell.show(value, lambda: _say(operation, value))
        if more:
            say(f"… and more; --limit {limit * 2}")

    run.__doc__ = operation.description
    return click.command(name, cls=Asking, params=_parameters(operation))(common(run))


def _say(operation: Operation, value: Any) -> None:
    if "{" in operation.says:
        say(operation.says.format(value))
        return
    from reasonbank.surfaces.show import tables

    getattr(tables, operation.says)(value)


def _parameters(operation: Operation) -> list[click.Parameter]:
    hints = parameter_types(inspect.unwrap(operation.run))
    found: list[click.Parameter] = []
    for name, parameter in list(operation.signature.parameters.items())[1:]:
        hint = hints[name]
        if parameter.default is parameter.empty:
            found.append(OneText([name]) if hint == Query else click.Argument([name]))
            continue
        told = [m for part in (hint, *get_args(hint)) for m in getattr(part, "__metadata__", ())]
        found.append(
            click.Option(
                [f"--{name.replace('_', '-')}"],
                type=_type(hint),
                default=parameter.default,
                show_default=parameter.default is not None,
                help=next((m for m in told if isinstance(m, str)), None),
            )
        )
    return found


def _type(hint: Any) -> Callable[[str], Any]:
    """What a text from a shell becomes; the rules of the method do the rest."""
    kinds = [get_args(p)[0] if get_origin(p) is Annotated else p for p in get_args(hint) or (hint,)]
    kinds += [get_args(hint)[0]] if get_origin(hint) is Annotated else []
    return int if int in kinds else float if float in kinds else str


add_plain(main)
