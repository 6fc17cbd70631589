"""Commands about other banks."""

from __future__ import annotations

import math
from collections.abc import AsyncIterator, Callable, Coroutine, Sequence
from contextlib import asynccontextmanager
from dataclasses import asdict
from typing import TYPE_CHECKING, Any, TypeVar

import click

from reasonbank.errors import InvalidInput, ReasonBankError, Refused
from reasonbank.model import Scope, counted
from reasonbank.peers import must_be_installed
from reasonbank.surfaces.cli.shell import Shell, command, main, say, tell

if TYPE_CHECKING:
    from reasonbank.bank import Bank
    from reasonbank.peers.bus import Bus, Talk
    from reasonbank.peers.membership import Invited
    from reasonbank.surfaces.peers import InvitationShown

T = TypeVar("T")
MILLION = 1_000_000
MOST_DAYS = 3650
FAREWELL = 10.0
"""Seconds."""
HERE = ("127.", "[::1]", "localhost:")


class Amount(click.FloatRange):
    """Not less than nothing, and a number."""

    name = "amount"

    def __init__(self, most: float) -> None:
        super().__init__(0, most)

    def convert(self, value: Any, param: Any, ctx: Any) -> Any:
        number = super().convert(value, param, ctx)
        if math.isnan(number):
            self.fail(f"{value} is no number.", param, ctx)
        return number


DAYS = Amount(MOST_DAYS)
DOLLARS = Amount(1_000_000)


@main.group()
def peer() -> None:
    """Learn together with other banks.

    `peer invite` at one and `peer join` at the other is all it takes; `serve --bus` keeps them in
    touch, `peer sync` does so once.
    """


@command("init", group=peer)
@click.option("--name", help="What others call this bank [default: its author, at this machine].")
@click.option("--listen", metavar="HOST:PORT",
              help="Where it waits for others, over UDP [default: 0.0.0.0:7433].")  # fmt: skip
@click.option("--address", metavar="HOST:PORT",
              help="Where others reach it [default: this machine's own address].")  # fmt: skip
def init(shell: Shell, name: str | None, listen: str | None, address: str | None) -> None:
    """Say who this bank is to others, and where; without an option, show it."""
    members = _members()
    says = (name, listen, address) != (None, None, None)
    if not says:
        _must_be_there(shell)
    with shell.bank(creates=says) as bank:
        if says:
            members.introduce(bank.context, name=name, listen=listen, address=address)
        told = members.about(bank.context)
    shell.show(told, lambda: _drawn(told))


@command("id", group=peer)
def id_(shell: Shell) -> None:
    """Print the key that this bank is known by."""
    members = _members()
    _must_be_there(shell)
    with shell.bank() as bank:
        key = members.identity_of(bank.context).key.hex()
    shell.show({"key": key}, lambda: click.echo(key))


@command("invite", group=peer)
@click.option("--name", help="What the other bank will be called here.")
@click.option("--share", "scopes", type=click.Choice(["team", "org"]), multiple=True,
              help="What this project's team, or its org, knows [default: team].")  # fmt: skip
@click.option("--project", metavar="NAME", help="Share this project, by this name.")
@click.option("--read-only", is_flag=True, help="The other bank may listen, and say nothing.")
@click.option("--spend", type=DOLLARS, default=0.0, metavar="DOLLARS", show_default=True,
              help="What it may spend on tasks that are offered to it.")  # fmt: skip
@click.option("--expires", "days", type=DAYS, default=7.0, metavar="DAYS", show_default=True,
              help="How long the invitation can be used.")  # fmt: skip
@click.option("--stays", type=DAYS, metavar="DAYS",
              help="How long the other bank may stay [default: until it is cut off].")  # fmt: skip
@click.option("--no-wait", is_flag=True, help="Do not wait for the other bank to come.")
def invite(
    shell: Shell,
    name: str | None,
    scopes: tuple[str, ...],
    project: str | None,
    read_only: bool,
    spend: float,
    days: float,
    stays: float | None,
    no_wait: bool,
) -> None:
    """Invite another bank: prints a token for `peer join`, and waits for it to come.

    Where `serve --bus` runs already, that one answers, and nothing is waited for.
    """
    members = _members()
    with shell.bank(creates=True) as bank:
        channels = _channels(bank, scopes, project)
        operations = members.LISTENING if read_only else members.OPERATIONS

        def made() -> Invited:
            invited: Invited = members.invite(
                bank.context, address=members.address_of(bank.context), channels=channels,
                name=name, operations=operations, spend=round(spend * MILLION), days=days,
                stays=stays,
            )  # fmt: skip
            return invited

        if no_wait:
            invited = made()
            shell.show(invited, lambda: _show_invitation(invited, waits=False))
            return
        _run(_wait_for_one(shell, bank, made))


async def _wait_for_one(shell: Shell, bank: Bank, made: Callable[[], Invited]) -> None:
    import asyncio

    from reasonbank.peers.transport import AddressTaken, ConnectionEnded
    from reasonbank.surfaces.show.progress import progress

    listen = _members().listens_at(bank.context)
    async with _bus(bank) as bus:
        try:
            await bus.listen(listen)
        except AddressTaken:
            # As a rule by `serve --bus`.
            invited = made()
            shell.show(invited, lambda: _show_invitation(invited, waits=False))
            if not shell.json:
                rule = f"What listens at {listen} will answer: this bank's `serve --bus`, as a rule"
                tell(f"{rule}; else choose another place by `peer init --listen`.", err=True)
            return
        except ConnectionEnded as problem:
            raise Refused(
                f"{problem}; choose another place with `reasonbank peer init --listen`"
            ) from None
        invited = made()
        if shell.json:
            from reasonbank.surfaces.cli.shell import as_json

            click.echo(as_json(asdict(invited)))
        else:
            _show_invitation(invited, waits=True)
        came = await bus.joined.get()
        talk = bus.talks.get(bytes.fromhex(came.key))
        new, unfinished = 0, None
        if talk is not None:
            with progress("Heard", quiet=shell.json) as talk.progress:
                await bus.until_quiet(talk)
            new, unfinished = talk.new, talk.unfinished
            # It hangs up when it knows, too, that all was told.
            await asyncio.wait([asyncio.ensure_future(talk.connection.until_ended())],
                               timeout=FAREWELL)  # fmt: skip
    if not shell.json:
        say(f"{came.name} has joined; {_heard(new, unfinished)}.")
        tell("`reasonbank serve --bus` keeps you in touch; `reasonbank review` shows what came.")


@command("narrow", group=peer)
@click.argument("invitation")
@click.option("--share", "scopes", type=click.Choice(["team", "org"]), multiple=True,
              help="Only what these know, of what it shares.")  # fmt: skip
@click.option("--project", "projects", metavar="NAME", multiple=True,
              help="Only this project, of what it shares.")  # fmt: skip
@click.option("--read-only", is_flag=True, help="Whoever comes by it may listen, and say nothing.")
@click.option(
    "--spend", type=DOLLARS, metavar="DOLLARS", help="At most this, of what it may spend."
)
@click.option("--stays", type=DAYS, metavar="DAYS", help="For so long from now on, at most.")
def narrow(
    shell: Shell,
    invitation: str,
    scopes: tuple[str, ...],
    projects: tuple[str, ...],
    read_only: bool,
    spend: float | None,
    stays: float | None,
) -> None:
    """Hand on an invitation, or less of it: prints another one, for one more bank.

    INVITATION is what somebody pasted, or the name of a bank that this one has joined: then what
    this one may do there is handed on. Nobody is asked for it; whoever made the first one takes
    it back together with all that was made from it.
    """
    members = _members()
    if invitation.strip().startswith(members.PREFIX):
        pasted = members.read(invitation)
    else:
        with shell.bank() as bank:
            pasted = members.invitation_of(bank.context, invitation)
    chosen = [each for each in pasted.channels if each.partition(":")[0] in scopes]
    chosen += [members.PROJECT + name for name in projects]
    if (scopes or projects) and not chosen:
        raise InvalidInput("share", f"it shares only {', '.join(pasted.channels)}")
    invited = members.handed_on(
        pasted, channels=chosen or None, operations=members.LISTENING if read_only else None,
        spend=None if spend is None else round(spend * MILLION), days=stays,
    )  # fmt: skip
    shell.show(invited, lambda: _show_invitation(invited, waits=False))


def _show_invitation(invited: Invited, *, waits: bool) -> None:
    tell("Paste this at the other bank, once:", err=True)
    click.echo(f"reasonbank peer join {invited.invitation}")
    shared = ", ".join(invited.channels)
    tell(f"It will call {invited.address}, and share {shared}.", err=True)
    if invited.address.startswith(HERE):
        tell("No other machine reaches that: `reasonbank peer init --address HOST:PORT` says where "
             "this one is.", err=True)  # fmt: skip
    if waits:
        tell("Waiting for it to come; Control-C ends that.", err=True)


@command("join", group=peer)
@click.argument("invitation")
@click.option("--name", help="What the other bank will be called here.")
@click.option("--project", metavar="NAME",
              help="This project is the one that is shared by this name.")  # fmt: skip
def join(shell: Shell, invitation: str, name: str | None, project: str | None) -> None:
    """Join the bank that sent an invitation, and exchange what both know."""
    from reasonbank.surfaces.show.progress import progress

    members = _members()
    pasted = members.read(invitation)
    with shell.bank(creates=True) as bank:
        members.must_be_another(bank.context, pasted.key)
        members.must_know_projects(bank.context, pasted, project)
        if project is not None:
            members.share_project(bank.context, project, joins=pasted.key)

        async def call() -> Talk:
            async with _bus(bank) as bus:
                talk = await bus.join(pasted, name=name)
                with progress("Heard", quiet=shell.json) as talk.progress:
                    await bus.until_quiet(talk)
                return talk

        talk = _run(call())
        told = {"peer": talk.peer.name, "key": talk.peer.key, "new": talk.new,
                "unfinished": talk.unfinished, "channels": list(pasted.channels)}  # fmt: skip

    def draw() -> None:
        say(f"Joined {talk.peer.name}; {_heard(talk.new, talk.unfinished)}.")
        tell(f"Each tells the other what is new of {', '.join(pasted.channels)}.")
        tell("`reasonbank serve --bus` keeps you in touch; `reasonbank review` shows what came.")

    shell.show(told, draw)


def _heard(new: int, unfinished: str | None) -> str:
    told = f"{new:,} {'entry' if new == 1 else 'entries'} came that this bank did not have"
    if unfinished is not None:
        return f"{told}, and not all was told: {unfinished}; `reasonbank peer sync` goes on"
    return told if new else "nothing is new"


@command("list", group=peer)
def list_(shell: Shell) -> None:
    """List the banks that this one knows."""
    from reasonbank.surfaces import peers
    from reasonbank.surfaces.show import tables

    with shell.bank() as bank:
        found = _members().listed(bank.context)
        open_ones = peers.invitations(bank.context)

    def draw() -> None:
        tables.peers(found)
        _draw_invitations(open_ones)

    shell.show(found, draw)


@command("status", group=peer)
def status(shell: Shell) -> None:
    """Say who this bank is, who it knows, and how they are."""
    from reasonbank.surfaces import peers
    from reasonbank.surfaces.show import tables

    members = _members()
    _must_be_there(shell)
    with shell.bank() as bank:
        told = members.about(bank.context)
        found = members.listed(bank.context)
        open_ones = peers.invitations(bank.context)

    def draw() -> None:
        _drawn(told)
        _draw_invitations(open_ones)
        tables.peers(found)

    shell.show({**told, "peers": found, "invitations": open_ones}, draw)


def _draw_invitations(found: Sequence[InvitationShown]) -> None:
    for each in found:
        for_whom = f" for {each.name}" if each.name else ""
        say(f"invitation {each.id[:8]}{for_whom} is open until {each.expires_at:%Y-%m-%d %H:%M}; "
            f"`peer revoke {each.id[:8]}` takes it back")  # fmt: skip


def _drawn(told: dict[str, Any]) -> None:
    say(f"{told['name']}  {told['key']}")
    say(f"others reach it at {told['address']}")
    for channel in told["channels"]:
        say(f"shares {channel}")


@command("sync", group=peer)
@click.argument("names", nargs=-1)
def sync(shell: Shell, names: tuple[str, ...]) -> None:
    """Call the banks that this one can reach, and exchange what is new."""
    with shell.bank() as bank:
        found = _members().reachable(bank.context, names)
        told = _run(_sync(shell, bank, found))

    def draw() -> None:
        for each in told:
            say(f"{each['peer']}: {each['error'] or _heard(each['new'], each['unfinished'])}")
        if not told:
            tell("This bank has no peer that it could call: `reasonbank peer join` knows where "
                 "another one is, and who was invited calls by itself.")  # fmt: skip

    shell.show(told, draw)
    if told and all(each["error"] or each["unfinished"] for each in told):
        click.get_current_context().exit(Refused.exit_code)


async def _sync(shell: Shell, bank: Bank, peers: Sequence[Any]) -> list[dict[str, Any]]:
    from reasonbank.surfaces.show.progress import progress

    told = []
    async with _bus(bank) as bus:
        for each in peers:
            new, unfinished, error = 0, None, None
            try:
                with progress("Heard", quiet=shell.json) as advance:
                    talk = await bus.sync(each, advance)
                new, unfinished = talk.new, talk.unfinished
            except ReasonBankError as problem:
                error = str(problem)
            told.append({"peer": each.name, "new": new, "unfinished": unfinished, "error": error})
    return told


@command("revoke", group=peer)
@click.argument("name")
@click.option("--revert", is_flag=True, help="Take back all that it brought, as one batch.")
@click.option("--dry-run", is_flag=True, help="Say what would be taken back, and do nothing.")
def revoke(shell: Shell, name: str, revert: bool, dry_run: bool) -> None:
    """Cut a bank off: nothing is told to it or heard from it any more.

    NAME is its name here or the beginning of its key; or the beginning of an invitation's id, as
    `peer status` shows it: then nobody comes by that any more, and who did loses what it allowed.
    """
    with shell.bank() as bank:
        if (called := _members().invitation_called(bank.context, name)) is not None:
            if revert:
                raise InvalidInput("revert", "is for a bank; this is an invitation")
            taken = called if dry_run else _members().take_back_invitation(bank.context, name)
            told = {"peer": None, "key": None, "invitation": taken.id, "reverted": None}
            would = "Would take" if dry_run else "Took"
            shell.show(told, lambda: say(f"{would} back invitation {taken.id[:8]}"))
            return
        gone, reverted = _members().revoke(bank.context, name, revert=revert, dry_run=dry_run)
    told = {"peer": gone.name, "key": gone.key, "invitation": None, "reverted": reverted}

    def draw() -> None:
        say(f"{'Would cut' if dry_run else 'Cut'} off {gone.name}")
        if reverted is not None:
            say(f"{'Would take' if dry_run else 'Took'} back {counted(len(reverted.archived))} and "
                f"{reverted.evidence} observed"
                + (f"; `reasonbank undo {reverted.batch}` brings them back"
                   if reverted.batch else ""))  # fmt: skip

    shell.show(told, draw)


@command("trust", group=peer)
@click.argument("name")
@click.option("--no-longer", is_flag=True, help="What it says from now on is on probation again.")
def trust(shell: Shell, name: str, no_longer: bool) -> None:
    """Let a bank's word count as if it had been said here, your second machine's for example."""
    with shell.bank() as bank:
        found, accepted = _members().trust(bank.context, name, trusted=not no_longer)
    told = {"peer": found.name, "trusted": found.trusted, "accepted": accepted}

    def draw() -> None:
        if not found.trusted:
            say(f"{found.name} is no longer trusted")
        else:
            say(f"{found.name} is trusted; accepted {counted(accepted)}")

    shell.show(told, draw)


@command("offer", group=peer)
@click.argument("task")
@click.option("--most", type=DOLLARS, default=0.1, metavar="DOLLARS", show_default=True,
              help="What may be spent on it.")  # fmt: skip
@click.option("--expires", "minutes", type=Amount(MOST_DAYS * 1440), default=60.0,
              metavar="MINUTES", show_default=True)  # fmt: skip
def offer(shell: Shell, task: str, most: float, minutes: float) -> None:
    """Offer a task to the other banks; one of them does it, and what became of it is a trace here.

    It is told to them by `serve --bus`; `peer offers` shows how it stands.
    """
    must_be_installed()
    from reasonbank.peers import tasks

    with shell.bank() as bank:
        made = tasks.offer(bank.context, task, most=round(most * MILLION), seconds=60 * minutes)
    shell.show(made, lambda: say(f"Offered as {made.id}"))


@command("offers", group=peer)
def offers(shell: Shell) -> None:
    """List the tasks that were offered to other banks, or taken from them."""
    from reasonbank.surfaces import peers
    from reasonbank.surfaces.show import tables

    with shell.bank() as bank:
        found = peers.offers(bank.context)
    shell.show(found, lambda: tables.offers(found))


def _channels(bank: Bank, scopes: tuple[str, ...], project: str | None) -> list[str]:
    # A name that is blank is a mistake, and must not share something else.
    chosen = [Scope(scope) for scope in scopes] or ([Scope.TEAM] if project is None else [])
    found = [bank.view.realm(scope) for scope in chosen]
    if project is not None:
        found.append(_members().share_project(bank.context, project))
    return found


def _must_be_there(shell: Shell) -> None:
    """A bank that nobody has begun is known by no key."""
    from reasonbank.opening import absent, no_bank
    from reasonbank.settings import load

    missing = absent(shell.url, load())
    if missing is not None:
        raise no_bank(missing)


def _members() -> Any:
    """What needs the libraries of the bus; without them it says so."""
    must_be_installed()
    from reasonbank.peers import membership

    return membership


@asynccontextmanager
async def _bus(bank: Bank) -> AsyncIterator[Bus]:
    from reasonbank.peers.bus import Bus
    from reasonbank.peers.quic import Quic

    identity = _members().identity_of(bank.context)
    async with Bus(bank.context, Quic(identity)) as bus:
        yield bus


def _run(work: Coroutine[Any, Any, T]) -> T:
    import asyncio  # Heavier than all of the command's help.

    return asyncio.run(work)
