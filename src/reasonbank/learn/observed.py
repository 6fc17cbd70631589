"""What a session shows of the memories that it was given: what was verified after they were. Pure.

A session is long and has many tasks. Memories are given at a moment of it, and what is observed
from there on tells of them, and nothing else does:

- what is given with a prompt is about that turn: its tests, builds and linters, until the next
  prompt. Where one is red then, the turn that runs it again goes on with the same task.
- what is given right after the failure that it knows is about that failure: the next runs of
  the command that failed.
- that the failure comes all the same which a memory warns of is not held against the memory: it
  was right, and was not heeded.
- the user's correction tells of the memories that what was corrected went by, a revert of all
  that was given before the work which it took back.

Who has nothing in common with what was done meanwhile stood by, and nothing is said of it as long
as another one has. Where nothing was verified, nothing is said at all. What is said of a part of
a session is never taken back by more of it, only corrected: so it does not matter in which parts
a session is handed over.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime

from reasonbank.learn.failures import is_same
from reasonbank.learn.outcome import Basis, passed, reverted, takes_back
from reasonbank.learn.rules.changes import as_edit, only_reads
from reasonbank.learn.rules.corrections import correction, meant, names_in
from reasonbank.learn.rules.failure import complaint_of
from reasonbank.learn.rules.shell import invocation, kind_of_check, parsed
from reasonbank.learn.session import Command, Edit, Entry, Session, Turn
from reasonbank.ledger.sessions import AFTER_TOOL, BEFORE_TOOL, Giving
from reasonbank.model import Memory
from reasonbank.safety.patterns import compile

_words = str.split

MOST_GIVINGS = 1_000
"""So many of a session are looked at, the latest."""
MOST_STEPS = 20
"""So many steps before a correction may be what it speaks of."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Observation:
    memory: str
    succeeded: bool
    by: Basis
    reason: str
    followed: bool = True
    """Whether it has something in common with what was done, and is not only meant because nothing
    else has."""


def observations(
    session: Session,
    times: Sequence[datetime | None],
    givings: Sequence[Giving],
    known: Mapping[str, Memory],
) -> list[Observation]:
    """What is known of each memory now; of one that was given several times, the latest.

    ``times`` are those of the entries. ``known`` are the memories that are still there.
    """
    found: dict[str, Observation] = {}
    for stretch in _stretches(session, times, givings, known):
        found |= stretch.found
    return list(found.values())


def led_to(
    session: Session,
    times: Sequence[datetime | None],
    givings: Sequence[Giving],
    known: Mapping[str, Memory],
    printed: str,
) -> list[str]:
    """The memories that had a part in what led to a command which printed this."""
    found: dict[str, None] = {}
    for stretch in _stretches(session, times, givings, known):
        if any(isinstance(act, Command) and printed in act.output for act in stretch.acts):
            found |= dict.fromkeys(watch.memory.id for watch in stretch.involved())
    return list(found)


def _stretches(
    session: Session,
    times: Sequence[datetime | None],
    givings: Sequence[Giving],
    known: Mapping[str, Memory],
) -> Iterator[_Stretch]:
    when = _filled(times)
    turns = _turns(session.entries)
    for giving in sorted(givings, key=lambda giving: giving.at)[-MOST_GIVINGS:]:
        here = [known[id] for id in giving.memories if id in known]
        start = _begin(session.entries, when, giving) if when else len(times)
        if here and start < len(times):
            stretch = _Stretch(session, turns, start, here, giving.moment)
            stretch.watch()
            yield stretch


def _begin(entries: Sequence[Entry], when: Sequence[datetime], giving: Giving) -> int:
    """The first entry that came after it was given."""
    start = bisect_right(when, giving.at)
    if giving.moment != AFTER_TOOL or start == len(entries):
        return start
    # An agent may write down how a command ended only after its hooks have run.
    late = _has_failed(entries[start])
    if late and start and _has_failed(entries[start - 1]):
        late = when[start] - giving.at < giving.at - when[start - 1]
    return start + 1 if late else start


def _has_failed(entry: Entry) -> bool:
    return isinstance(entry, Command) and passed(entry) is False


def _filled(times: Sequence[datetime | None]) -> list[datetime] | None:
    """Each entry's time, never going back; None where there are none at all."""
    if not any(times):
        return None
    latest = datetime.min.replace(tzinfo=UTC)
    found = []
    for at in times:
        latest = max(latest, at) if at is not None else latest
        found.append(latest)
    return found


_GOING_ON = compile(
    r"(?i)^\W*(?:(?:yes|ok(?:ay)?|sure|please|go|right|fine|good|and|now|then|just|do|it|so|well)\W+)*"
    r"(?:continue|go (?:on|ahead)|proceed|carry on|keep going|yes|ok(?:ay)?|sure|do it|"
    r"(?:try|run)(?: (?:it|that|them|the (?:tests?|build|checks?)))?(?: again)?|again|resume)\W*$"
)


def _turns(entries: Sequence[Entry]) -> list[int]:
    """Where the user asked for something else; what only says to go on begins nothing."""
    starts: list[int] = []
    acted = True
    for place, entry in enumerate(entries):
        if not isinstance(entry, Turn) or not entry.by_user:
            acted = True
            continue
        if acted and not (starts and _GOING_ON.match(entry.text[:200])):
            starts.append(place)
        acted = False
    return starts


@dataclass(slots=True)
class _Watch:
    """What is known of one memory. ``checks`` are the latest runs by program, ``only`` those that
    still count. ``answers``: it was given as an answer to the failure that it knows; ``tried``:
    something was done since, so that it may have been followed."""

    memory: Memory
    names: frozenset[str]
    kinds: frozenset[str]
    checks: dict[str, tuple[str, bool]] = field(default_factory=dict)
    only: frozenset[str] | None = None
    answers: bool = False
    tried: bool = False
    open: bool = True
    ran: bool = True
    """Whether a check that was red at the last prompt was run since."""

    def take(self, command: Command) -> tuple[bool, Basis] | None:
        """How it stands after this command, if the command tells."""
        name, kind = _check(command)
        asked = self.answers and self.only is not None and name in self.only
        ended = passed(command)
        if ended is None or (ended and command.claimed) or not (kind or asked):
            return None
        if self.only is not None and name not in self.only:
            return None
        if kind and self.kinds and kind not in self.kinds:
            return None
        self.ran = True
        heard = self.answers and self.tried
        if not ended and not heard and is_same(self.memory.error_context, command):
            return None
        self.checks[name] = (kind or "", ended)
        return self._standing()

    def _standing(self) -> tuple[bool, Basis]:
        for kind, basis in (("tests", Basis.TESTS), ("build", Basis.BUILD), ("", Basis.EXIT_CODE)):
            ends = [ended for known, ended in self.checks.values() if known == kind]
            if ends:
                return all(ends), basis
        raise AssertionError("a check was just taken")

    def turn_ended(self) -> None:
        """A red check is taken up by the next turn, if that one runs it."""
        red = frozenset(name for name, (_, ended) in self.checks.items() if not ended)
        self.open = self.open and self.ran and bool(red)
        self.only, self.ran = red, False


def _check(command: Command) -> tuple[str, str | None]:
    """What a run is known by, so that a later one supersedes it; and what it checks."""
    what = invocation(command)
    kind = kind_of_check(what)
    return (what.program if kind else " ".join(what.words[:2])), kind


class _Stretch:
    """A session from the moment at which some memories were given."""

    def __init__(
        self, session: Session, turns: Sequence[int], start: int, memories: Sequence[Memory],
        moment: str,
    ) -> None:  # fmt: skip
        self.session, self.start = session, start
        entries = session.entries
        self.starts = frozenset(turn for turn in turns if turn > start)
        own = max((turn for turn in turns if turn <= start), default=0)
        asked = entries[own]
        self.prompt = asked.text if isinstance(asked, Turn) else ""
        self.watches = [_watch(memory) for memory in memories]
        before = entries[start - 1] if start > own else None
        if isinstance(before, Command) and moment != BEFORE_TOOL and passed(before) is False:
            self._answer(before, sure=moment == AFTER_TOOL)
        self.done: set[str] = set()
        self.written: set[str] = set()
        self.acts: list[Command | Edit] = []
        self.found: dict[str, Observation] = {}

    def _answer(self, failed: Command, *, sure: bool) -> None:
        for watch in self.watches:
            if sure or is_same(watch.memory.error_context, failed):
                watch.answers, watch.only = True, frozenset({_check(failed)[0]})
                watch.kinds = frozenset()

    def watch(self) -> None:
        over = False
        for place in range(self.start, len(self.session.entries)):
            entry = self.session.entries[place]
            if place in self.starts and isinstance(entry, Turn):
                self._turn_ends(entry)
                self.prompt = entry.text
                over = not any(watch.open for watch in self.watches)
            edit = as_edit(entry)
            if over and edit:
                break  # What is taken back from here on is other work.
            if isinstance(entry, Command):
                self._note(entry)
                self._look(place, entry)
            elif isinstance(entry, Edit):
                self._note(entry)

    def _look(self, place: int, command: Command) -> None:
        involved = self.involved()
        if takes_back(command):
            part = self.session.entries[self.start : place + 1]
            if reverted(replace(self.session, entries=part)):
                reason = f"`{command.command[:80]}` took the work back (step {command.number})"
                for watch in involved:
                    self._say(watch, False, Basis.REVERT, reason)
            return
        for watch in self.watches:
            told = watch.take(command) if watch.open else None
            if told is None or watch not in involved:
                continue
            succeeded, basis = told
            # Who asks, or wants to see a failure, is not disappointed by one.
            if succeeded or watch.answers or not _is_wanted(self.prompt):
                ended = "passed" if passed(command) else "failed"
                reason = f"`{command.command[:80]}` (step {command.number}) {ended}"
                self._say(watch, succeeded, basis, reason)

    def _turn_ends(self, prompt: Turn) -> None:
        said = correction(prompt.text)
        if said:
            step = meant(said, self.acts[-MOST_STEPS:])
            for watch in self.involved():
                if watch.open and _is_to_blame(watch, said, step):
                    self._say(watch, False, Basis.CORRECTION, f"the user said: {said[:200]}")
        for watch in self.watches:
            watch.turn_ended()
            watch.open = watch.open and not said

    def involved(self) -> list[_Watch]:
        """Those that have something in common with what was done; all, if none has."""
        return [watch for watch in self.watches if self._is_followed(watch)] or self.watches

    def _is_followed(self, watch: _Watch) -> bool:
        in_common = watch.names & self.done or len(watch.names & self.written) > 1
        return watch.answers or bool(in_common)

    def _note(self, entry: Command | Edit) -> None:
        self.acts.append(entry)
        for watch in self.watches:
            watch.tried = watch.tried or _may_help(entry, watch.only)
        if isinstance(entry, Edit):
            self.done |= _names(entry.path)
            self.written |= _names(entry.change)
            return
        self.done |= _names(entry.command)
        if passed(entry) is False and (failure := complaint_of(entry.output)):
            self.done |= _names(f"{failure.type} {failure.message}")

    def _say(self, watch: _Watch, succeeded: bool, by: Basis, reason: str) -> None:
        id = watch.memory.id
        self.found[id] = Observation(
            memory=id, succeeded=succeeded, by=by, reason=reason, followed=self._is_followed(watch)
        )


def _may_help(entry: Command | Edit, checks: frozenset[str] | None) -> bool:
    if isinstance(entry, Edit):
        return True
    return not only_reads(invocation(entry)) and _check(entry)[0] not in (checks or ())


# What half of all sessions name.
_COMMON = frozenset(_words("""
    test py js ts src lib error fail failed failure git main python python3 home tmp exit code
    import from return def class self true false none null bash sh step first found
"""))  # fmt: skip


def _names(text: str) -> frozenset[str]:
    return names_in(text.replace("/", " ")) - _COMMON


def _told(memory: Memory) -> Iterator[str]:
    yield from (memory.title, memory.description, memory.content)
    if error := memory.error_context:
        yield from filter(None, (error.error_type, error.failure_pattern, error.error_message,
                                 error.corrective_guidance))  # fmt: skip


_QUOTED = compile(r"`([^`\n]{2,200})`")


def _watch(memory: Memory) -> _Watch:
    """A memory about an error is checked by what it names, where it names a check."""
    told = "\n".join(_told(memory))
    quoted = _QUOTED.findall(told[:8_000]) if memory.error_context else ()
    kinds = {kind_of_check(parsed(command)) for command in quoted}
    names = frozenset().union(*(_names(part) for part in _told(memory)))
    return _Watch(memory, names, frozenset(kind for kind in kinds if kind))


_WANTED = compile(
    r"(?i)\b(?:reproduc\w*|should fail|shall fail|must fail|test first|tests first|tdd|"
    r"(?:write|add) (?:a |some )?failing tests?)\b"
)
_ASKING = compile(r"(?i)^\W*(?:why|what|where|when|which|who|how|does|do|is|are|did|was|were)\b")


def _is_wanted(prompt: str) -> bool:
    asks = prompt.rstrip().endswith("?") and _ASKING.match(prompt[:200])
    return bool(asks or _WANTED.search(prompt[:4_000]))


_INSTEAD = compile(
    r"(?i)\b(?:use|using|with|via|through|prefer|run|call|in|to|called|be)\s+[`'\"]?([\w./-]+)"
)


def _is_to_blame(watch: _Watch, said: str, step: Command | Edit | None) -> bool:
    """Whether what the user did not want is what the memory says, and what they want is not."""
    did: frozenset[str] = frozenset()
    match step:
        case Command(command=command):
            did = _names(command)
        case Edit(path=path, change=change):
            did = _names(path) | _names(change)
    wanted = frozenset().union(*(_names(word) for word in _INSTEAD.findall(said))) - did
    if watch.names & wanted:
        return False
    return step is None or bool(watch.names & did)
