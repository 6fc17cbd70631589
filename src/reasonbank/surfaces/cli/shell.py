"""What all commands share: the options, the bank they open, and how errors end.

Exit codes: 0 done, 1 unexpected, 2 bad input or usage, 3 not found, 4 refused,
5 storage, 6 embedding, 7 language model. `--json` prints one JSON value, also for errors.
"""

from __future__ import annotations

import json
import os
import re
import sys
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import wraps
from importlib import import_module
from typing import TYPE_CHECKING, Any

import click

from reasonbank.errors import ConfirmationNeeded, InvalidInput, ReasonBankError, StorageError
from reasonbank.safety.scrub import hushed

if TYPE_CHECKING:
    from reasonbank.bank import Bank
    from reasonbank.model import JSON

Command = Callable[..., Any]

# One process answers one question: threads of BLAS would cost more than they bring.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")


# What steers a terminal or hides text in it: DEL, C1, marks of direction, breaks of lines.
_STEERING = re.compile(
    "[\x7f-\x9f\u061c\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb]"
)


def say(text: str) -> None:
    """A line for people: stored text in it cannot steer the terminal."""
    from reasonbank.surfaces.show.cards import clean

    click.echo(clean(text))


def as_json(value: Any, indent: int | None = None) -> str:
    """JSON for terminals too: what could steer one is escaped, and reads the same."""
    text = json.dumps(value, ensure_ascii=False, indent=indent)
    return _STEERING.sub(lambda found: f"\\u{ord(found[0]):04x}", text)


class Shell:
    def __init__(self) -> None:
        self.url: str | None = None
        self.workspace: str | None = None
        self.json = False

    @contextmanager
    def bank(self, *, read_only: bool = False, surface: str = "cli") -> Iterator[Bank]:
        """One that cannot be written, as its disk is full or read-only, is at least read."""
        from reasonbank.bank import Bank

        def opened(read_only: bool) -> Bank:
            return Bank.open(
                self.url, workspace=self.workspace, surface=surface, read_only=read_only
            )

        refusal: StorageError | None = None
        try:
            bank = opened(read_only)
        except StorageError as error:
            try:
                bank = opened(read_only=True)
            except ReasonBankError:
                raise error from None
            refusal = error
            click.secho(f"Warning: opened for reading only: {error}", fg="yellow", err=True)
        with bank:
            try:
                yield bank
            except StorageError as error:
                raise refusal or error from None

    def show(self, value: Any, human: Callable[[], None]) -> None:
        if self.json:
            from reasonbank.fields import plain

            click.echo(as_json(plain(value), indent=2))
        else:
            human()


def common(command: Command, *, workspace: bool = True) -> Command:
    """The options that may stand before or after the command's name."""

    def take(name: str) -> Callable[[click.Context, click.Parameter, Any], None]:
        def callback(context: click.Context, _: click.Parameter, value: Any) -> None:
            shell = context.ensure_object(Shell)
            if value:
                setattr(shell, name, value)

        return callback

    options = (
        # The settings read REASONBANK_URL; here it would win over a --bank before the command.
        click.option("--bank", "url", metavar="URL", expose_value=False,
                     callback=take("url"), help="Where the bank is, e.g. sqlite:///bank.db."),
        click.option("--workspace", metavar="PATH", expose_value=False,
                     callback=take("workspace"), help="The project [default: this directory]."),
        click.option("--json", "as_json", is_flag=True, is_eager=True, expose_value=False,
                     callback=take("json"), help="Print JSON."),
    )  # fmt: skip
    for option in reversed(options if workspace else (options[0], options[2])):
        command = option(command)
    return command


MODULES = {
    "memory": "record remember search list show update forget undo feedback outcome stability gaps "
              "link genealogy",
    "bank": "stats audit workspace trace export import reindex maintain doctor demo",
    "learn": "distil worker ticket capture inject queue",
    "consolidate": "consolidate promote",
    "llm": "llm",
    "report": "report",
    "server": "mcp serve",
    "solve": "solve",
    "token": "token",
}  # fmt: skip
"""Where each command is: a module is loaded when one of its commands is asked for. What is not
here is in the table of operations, if anywhere."""
PLAIN = "reasonbank.surfaces.cli.plain"
_MODULE_OF = {name: module for module, names in MODULES.items() for name in names.split()}


class Friendly(click.Group):
    """Turns our errors into a line on stderr and an exit code."""

    def list_commands(self, context: click.Context) -> list[str]:
        import_module(PLAIN)
        return sorted({*_MODULE_OF, *self.commands})

    def get_command(self, context: click.Context, name: str) -> click.Command | None:
        module = _MODULE_OF.get(name)
        import_module(f"reasonbank.surfaces.cli.{module}" if module else PLAIN)
        return super().get_command(context, name)

    def load(self) -> dict[str, click.Command]:
        """All commands, by name."""
        import_module(PLAIN)
        for module in MODULES:
            import_module(f"reasonbank.surfaces.cli.{module}")
        return dict(self.commands)

    def invoke(self, context: click.Context) -> Any:
        shell = context.ensure_object(Shell)
        try:
            with warnings.catch_warnings():
                warnings.showwarning = _warned
                return super().invoke(context)
        except ReasonBankError as error:
            hushed(error)
            if shell.json:
                problem: JSON = {"error": type(error).__name__, "message": str(error)}
                if isinstance(error, InvalidInput):
                    problem["field"] = error.field
                if best := getattr(error, "best", None):
                    from reasonbank.fields import plain

                    problem["best"] = plain(best)
                click.echo(as_json(problem))
            else:
                from reasonbank.surfaces.show.cards import clean

                click.secho(f"Error: {clean(str(error))}", fg="red", err=True)
            context.exit(error.exit_code)
        except click.UsageError as error:
            if not shell.json:
                raise
            problem = {"error": "UsageError", "message": error.format_message()}
            click.echo(as_json(problem))
            context.exit(error.exit_code)


def _warned(message: Warning | str, *_: Any, **__: Any) -> None:
    """A line for whoever typed the command, rather than for who wrote it."""
    click.secho(f"Warning: {message}", fg="yellow", err=True)


@click.group(cls=Friendly, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(package_name="reasonbank", prog_name="reasonbank")
@common
@click.pass_context
def main(context: click.Context) -> None:
    """A memory that learns, for LLM agents.

    Search before you act; report afterwards how it went.
    """
    context.ensure_object(Shell)


def command(
    name: str | None = None, group: click.Group = main, *, workspace: bool = True
) -> Callable[[Command], Command]:
    """A subcommand that takes the common options and gets the shell.

    ``workspace``: unless it has an option of that name itself.
    """

    def decorate(function: Command) -> Command:
        @wraps(function)
        def run(*args: Any, **options: Any) -> Any:
            return function(click.get_current_context().find_object(Shell), *args, **options)

        return group.command(name)(common(run, workspace=workspace))

    return decorate


def confirm(shell: Shell, yes: bool, question: str) -> None:
    if yes:
        return
    if shell.json or not sys.stdin.isatty():
        raise ConfirmationNeeded(f"{question} Say so with --yes")
    if not click.confirm(question):
        raise ConfirmationNeeded("nothing was changed")


@contextmanager
def reading(file: str) -> Iterator[Any]:
    try:
        source = sys.stdin if file == "-" else open(file, encoding="utf-8")  # noqa: SIM115
    except OSError as error:
        raise InvalidInput("file", f"cannot read {file}: {error.strerror}") from None
    with source:
        try:
            yield source
        except UnicodeDecodeError:
            raise InvalidInput("file", f"{file} is not UTF-8 text") from None
