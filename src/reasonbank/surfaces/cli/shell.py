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
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import wraps
from importlib import import_module
from typing import TYPE_CHECKING, Any

import click

from reasonbank.errors import ConfirmationNeeded, InvalidInput, ReasonBankError, StorageError
from reasonbank.safety.scrub import hushed

if TYPE_CHECKING:
    from reasonbank.bank import Bank
    from reasonbank.ledger.port import Ledger
    from reasonbank.model import JSON, Principal

Command = Callable[..., Any]

# One process answers one question: threads of BLAS would cost more than they bring.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")


# What steers a terminal or hides text in it: DEL, C1, marks of direction, breaks of lines.
_STEERING = re.compile(
    "[\x7f-\x9f\u061c\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb]"
)


def say(text: str) -> None:
    """A line for people: stored text in it cannot steer the terminal."""
    from reasonbank.surfaces.show.fitting import clean

    click.echo(clean(text))


def tell(text: str, **style: Any) -> None:
    """Sentences for people, in lines that fit their terminal."""
    from reasonbank.surfaces.show.cards import told

    told(text, **style)


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
    def bank(self, *, creates: bool = False, surface: str = "cli") -> Iterator[Bank]:
        """The bank that is meant; only a command that ``creates`` makes one, and says so.

        One that cannot be written, as its disk is full or read-only, is at least read.
        """
        from reasonbank.bank import Bank
        from reasonbank.opening import absent, no_bank
        from reasonbank.settings import load

        settings = load()
        missing = absent(self.url, settings)
        named = bool(self.url or settings.url)
        if missing is not None and named and not creates:
            raise no_bank(missing)

        def opened(read_only: bool) -> Bank:
            # Where nobody has recorded anything yet, there is nothing to be seen.
            ledger = _empty() if missing is not None and not creates else None
            return Bank.open(
                self.url, workspace=self.workspace, settings=settings, surface=surface,
                principal=_at_the_keyboard(surface), read_only=read_only, ledger=ledger,
            )  # fmt: skip

        refusal: StorageError | None = None
        try:
            bank = opened(read_only=False)
        except StorageError as error:
            try:
                bank = opened(read_only=True)
            except ReasonBankError:
                raise error from None
            refusal = error
            click.secho(f"Warning: opened for reading only: {error}", fg="yellow", err=True)
        # Programs may read standard error too: of the usual place only people are told.
        if missing is not None and creates and (named or sys.stderr.isatty()):
            click.echo(f"Made a new bank at {missing}", err=True)
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


def _at_the_keyboard(surface: str) -> Principal | None:
    """An agent where one has started this shell; else who usually comes through this surface. What
    a worker reads in is the bank's, whoever started it."""
    from reasonbank.model import Principal
    from reasonbank.surfaces.agent_shell import agent_above

    return Principal.AGENT if surface != "worker" and agent_above() else None


def _empty() -> Ledger:
    from reasonbank.testing.memory_ledger import MemoryLedger

    return MemoryLedger()


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
    "backfill": "backfill",
    "consolidate": "consolidate promote revert",
    "install": "install uninstall",
    "llm": "llm",
    "mirror": "mirror",
    "move": "migrate backup restore",
    "peer": "peer",
    "report": "report",
    "review": "review",
    "hooks": "hook",
    "server": "mcp serve open",
    "solve": "solve",
    "token": "token",  # nosec B105  # a command
}  # fmt: skip
"""Where each command is: a module is loaded when one of its commands is asked for. What is not
here is in the table of operations, if anywhere."""
PLAIN = "reasonbank.surfaces.cli.plain"
_MODULE_OF = {name: module for module, names in MODULES.items() for name in names.split()}


class Asking(click.Command):
    """Names everything that is missing at once, and says how to ask with words that look like
    options."""

    def parse_args(self, context: click.Context, args: list[str]) -> list[str]:
        given = [*args]
        try:
            return super().parse_args(context, args)
        except click.MissingParameter as error:
            missing = self._missing(context, given)
            if len(missing) == 1 and " or " not in missing[0][0]:
                raise
            width = max(len(name) for name, _ in missing)
            lines = (f"  {name:{width}}  {help}".rstrip() for name, help in missing)
            raise click.UsageError("What is missing:\n" + "\n".join(lines), context) from error
        except click.NoSuchOption as error:
            if not any(isinstance(parameter, OneText) for parameter in self.params):
                raise
            told = f"{error.message} If it is a part of the text, put that in quotes."
            raise click.NoSuchOption(
                error.option_name, told, possibilities=error.possibilities, ctx=context
            ) from None

    def _missing(self, context: click.Context, args: list[str]) -> list[tuple[str, str]]:
        options, _, _ = self.make_parser(context).parse_args(args)
        found = []
        for parameter in self.get_params(context):
            try:
                if parameter.required:
                    parameter.handle_parse_result(context, options, [])
            except click.MissingParameter:
                found.append(_named(context, parameter))
            except click.UsageError:
                continue  # It is there, and what is wrong with it is said next time.
        return found


def _named(context: click.Context, parameter: click.Parameter) -> tuple[str, str]:
    if not isinstance(parameter, click.Option):
        return parameter.make_metavar(context), ""
    return " or ".join((*parameter.opts, *parameter.secondary_opts)), parameter.help or ""


class OneText(click.Argument):
    """All words which are no options, as one text: a question needs no quotes."""

    def __init__(self, names: Sequence[str], **more: Any) -> None:
        super().__init__(names, nargs=-1, required=True, callback=_joined, **more)


def _joined(_: click.Context, __: click.Parameter, words: tuple[str, ...]) -> str:
    return " ".join(words)


def one_text(name: str) -> Callable[[Command], Command]:
    return click.argument(name, cls=OneText)


class Friendly(click.Group):
    """Turns our errors into a line on stderr and an exit code."""

    def list_commands(self, context: click.Context) -> list[str]:
        import_module(PLAIN)
        return sorted({*_MODULE_OF, *self.commands})

    def get_command(self, context: click.Context, name: str) -> click.Command | None:
        module = _MODULE_OF.get(name)
        import_module(f"reasonbank.surfaces.cli.{module}" if module else PLAIN)
        found = super().get_command(context, name)
        if found is None:
            self.load()  # So that one with a similar name is proposed.
        return found

    def format_commands(self, context: click.Context, formatter: click.HelpFormatter) -> None:
        from reasonbank.surfaces.cli.overview import drawn

        def help_of(name: str) -> str:
            found = self.get_command(context, name)
            return (found and (found.short_help or found.help)) or ""

        shown = (name for name, each in self.load().items() if not each.hidden)
        for title, lines in drawn(sorted(shown), help_of, formatter.width):
            with formatter.section(title):
                formatter.write_dl(lines)

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
                from reasonbank.surfaces.show.fitting import clean

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

        return group.command(name, cls=Asking)(common(run, workspace=workspace))

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
