"""What a session shows of the memories that it was given, at the moment that it was given them."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given, settings, strategies as st
from tests.learn.transcript_writers import A, C, E, U
from tests.requirement import requirement

from reasonbank.learn.observed import observations
from reasonbank.learn.outcome import Basis
from reasonbank.learn.session import Command, Edit, Session, Turn, numbered
from reasonbank.ledger.sessions import Giving
from reasonbank.model import derived_id
from reasonbank.testing.builders import a_memory, a_warning

START = datetime(2026, 3, 1, 12, tzinfo=UTC)


@dataclass(frozen=True)
class G:
    """Memories are given, by their names, and maybe by a hook."""

    names: str
    moment: str = ""


NPM = a_memory(
    id=derived_id("npm"), title="Install with npm ci", description="When modules are missing",
    content="Run `npm ci` in web, then `npm run build`.",
)  # fmt: skip
PNPM = a_memory(
    id=derived_id("pnpm"), title="Install with pnpm", description="When modules are missing",
    content="This project uses pnpm, other managers break the lockfile.",
)  # fmt: skip
CAKE = a_memory(
    id=derived_id("cake"), title="Bake at 180 degrees", description="When a cake is wanted",
    content="Preheat the oven, and wait.",
)  # fmt: skip
PORT = a_warning(
    id=derived_id("port"), title="Stop the old server before `pytest -q`",
    description="When the tests of web say that the address is in use",
    content="A server of an earlier run keeps port 8080; run `fuser -k 8080/tcp` before.",
    error_type="AddressInUse", failure_pattern="AddressInUse: OSError: [Errno <n>] Address "
    "already in use", corrective_guidance="fuser -k 8080/tcp",
)  # fmt: skip
MEMORIES = {"npm": NPM, "pnpm": PNPM, "cake": CAKE, "port": PORT}

IN_USE = "E   OSError: [Errno 98] Address already in use"
RED = C("pytest -q", 1, "E   ValueError: no\n=== 1 failed in 0.1s ===")
GREEN = C("pytest -q", 0, "=== 3 passed in 0.1s ===")
TAKEN = C("pytest -q", 1, f"{IN_USE}\n=== 1 failed in 0.1s ===")


def told(story):
    """A story as a session, the times of its entries, and what was given when."""
    entries, times, givings = [], [], []
    for second, step in enumerate(story):
        at = START + timedelta(seconds=10 * second)
        match step:
            case G(names, moment):
                ids = tuple(MEMORIES[name].id for name in names.split())
                givings.append(Giving(at=at, memories=ids, moment=moment))
                continue
            case U(text):
                entries.append(Turn(number=0, by_user=True, text=text))
            case A(text):
                entries.append(Turn(number=0, by_user=False, text=text))
            case C(command, code, output):
                entries.append(Command(number=0, command=command, output=output, exit_code=code))
            case E(path, change):
                entries.append(Edit(number=0, path=path, change=change))
        times.append(at)
    session = Session(id="s", agent="a", entries=numbered(entries))
    return session, times, givings


def seen(*story, known=None):
    """By the memory's name: whether it helped, and what says so."""
    known = known or {memory.id: memory for memory in MEMORIES.values()}
    names = {memory.id: name for name, memory in MEMORIES.items()}
    found = observations(*told(story), known)
    return {names[each.memory]: (each.succeeded, each.by) for each in found}


HELPED, FAILED = (True, Basis.TESTS), (False, Basis.TESTS)


@requirement("CON-2")
@pytest.mark.parametrize(("check", "expected"), [
    (GREEN, HELPED), (RED, FAILED),
    (C("npm run build", 0), (True, Basis.BUILD)), (C("ruff check .", 1), (False, Basis.BUILD)),
    (C("ls", 0), None), (C("helm upgrade web .", 1, "Error: no"), None),
    (C("pytest -q", None), None),
])  # fmt: skip
def test_what_is_checked_after_a_memory_was_given_tells_of_it(check, expected):
    story = [G("npm"), U("build it"), E("web/a.ts"), C("npm ci", 0), check, A("done")]
    assert seen(*story).get("npm") == expected
    # The prompt may be written down before or after what is given with it.
    assert seen(story[1], story[0], *story[2:]).get("npm") == expected


def test_what_was_checked_before_does_not():
    assert seen(U("go"), RED, C("npm ci", 0), G("npm"), A("I know that"), C("npm ls")) == {}


@requirement("CON-2")
def test_what_answers_a_failure_may_be_noted_before_the_failure_is():
    """Some agents run their hooks before they write down how a command ended."""
    given = G("port", "after-tool")
    rest = [C("fuser -k 8080/tcp", 0), GREEN]
    assert seen(U("go"), given, TAKEN, *rest) == seen(U("go"), TAKEN, given, *rest)
    assert seen(U("go"), given, TAKEN, *rest) == {"port": HELPED}
    assert seen(U("go"), given, TAKEN, E("web/a.py"), TAKEN) == {"port": FAILED}


def test_without_times_nobody_can_tell():
    session, times, givings = told([U("go"), G("npm"), C("npm ci"), GREEN])
    known = {NPM.id: NPM}
    assert observations(session, times, givings, known)
    assert observations(session, [None] * len(times), givings, known) == []
    some = [None, *times[1:]]
    assert observations(session, some, givings, known)


def test_a_turn_is_judged_by_itself():
    first = [U("install it"), G("npm"), C("npm ci"), GREEN, A("done")]
    second = [U("now port the server"), G("port"), E("port.py"), RED, A("hm")]
    assert seen(*first, *second) == {"npm": HELPED, "port": FAILED}
    # What is given again is told by the later turn.
    third = [U("build the web part"), G("npm"), C("npm ci"), RED]
    assert seen(*first, *third) == {"npm": FAILED}


def test_a_red_check_is_taken_up_by_the_turn_that_runs_it_again():
    begun = [U("add npm workspaces"), G("npm"), C("npm ci"), RED, A("one test is red")]
    assert seen(*begun) == {"npm": FAILED}
    assert seen(*begun, U("look at test_a"), E("a.py"), GREEN) == {"npm": HELPED}
    assert seen(*begun, U("look at test_a"), RED, U("and b"), E("b.py"), GREEN) == {"npm": HELPED}
    # Something else is asked for, and what was red stays so.
    other = [U("write the README"), E("README.md"), A("done"), U("add a test"), GREEN]
    assert seen(*begun, *other) == {"npm": FAILED}
    assert seen(*begun, U("look"), C("ruff check .", 0), GREEN) == {"npm": HELPED}
    assert seen(*begun, U("look"), C("ruff check .", 0)) == {"npm": FAILED}


@pytest.mark.parametrize(
    "text", ["go on", "Yes, continue.", "ok, run the tests again", "please go ahead!"]
)
def test_who_only_says_to_go_on_asks_for_nothing_new(text):
    assert seen(U("install"), G("npm"), C("npm ci"), A("shall I test?"), U(text), GREEN) == {
        "npm": HELPED
    }


def test_who_asks_or_wants_a_failure_is_not_disappointed():
    for asked in ("why is the npm build red?", "reproduce the bug in npm first"):
        assert seen(U(asked), G("npm"), C("npm ci"), RED, A("that is why")) == {}
    assert seen(U("can you fix the failing test?"), G("npm"), C("npm ci"), RED) == {"npm": FAILED}


# Warnings


def test_a_warning_that_was_heeded_helped():
    story = [U("test web"), G("port"), C("fuser -k 8080/tcp"), GREEN]
    assert seen(*story) == {"port": HELPED}
    # The failure came once, and was put right.
    assert seen(U("test web"), G("port"), TAKEN, C("fuser -k 8080/tcp"), GREEN) == {"port": HELPED}


def test_a_warning_that_was_not_heeded_did_not_fail():
    assert seen(U("test web"), A("I run them"), G("port"), TAKEN, A("it failed")) == {}
    assert seen(U("test web"), G("port"), C("ruff check .", 0), TAKEN) == {}
    assert seen(U("test web"), TAKEN, G("port"), TAKEN, A("again")) == {}


def test_an_answer_to_a_failure_is_told_by_the_next_run_of_what_failed():
    begun = [U("test web"), TAKEN, G("port"), C("fuser -k 8080/tcp")]
    assert seen(*begun, GREEN) == {"port": HELPED}
    assert seen(*begun, TAKEN) == {"port": FAILED}, "it was tried, and did not help"
    assert seen(*begun, C("ruff check .", 0)) == {}
    deploy = C("helm upgrade web .", 1, IN_USE)
    start = [U("deploy"), deploy, G("port"), C("fuser -k 8080/tcp")]
    assert seen(*start, replace_code(deploy, 0)) == {"port": (True, Basis.EXIT_CODE)}
    assert seen(*start, deploy) == {"port": (False, Basis.EXIT_CODE)}


def test_a_hook_says_what_it_gave_a_memory_for():
    tried = [C("fuser -k 8080/tcp"), TAKEN]
    before, after = G("port", "before-tool"), G("port", "after-tool")
    assert seen(U("test web"), TAKEN, before, *tried) == {}, "a warning that was not heeded"
    assert seen(U("test web"), TAKEN, after, *tried) == {"port": FAILED}, "an answer that failed"
    # Found by its meaning, for a failure in other words.
    busy = C("pytest -q", 1, "E   RuntimeError: the socket is busy\n=== 1 failed in 0.1s ===")
    assert seen(U("test web"), busy, after, C("fuser -k 8080/tcp"), GREEN) == {"port": HELPED}
    assert seen(U("test web"), busy, after, C("fuser -k 8080/tcp"), C("ruff check .", 1)) == {}


def replace_code(command, code):
    return C(command.command, code, "")


def test_another_failure_of_the_same_kind_is_another_one():
    requests = a_warning(
        error_type="ModuleNotFoundError",
        failure_pattern="ModuleNotFoundError: No module named 'requests'",
        content="Run `pip install requests` before `pytest -q`.",
    )
    missing = "E   ModuleNotFoundError: No module named '{}'\n=== 1 error in 0.1s ==="

    def found(module):
        session, times, givings = told(
            [U("test"), G("npm"), C("pip install -e ."), C("pytest -q", 2, missing.format(module))]
        )
        return observations(
            session, times, [Giving(at=givings[0].at, memories=(requests.id,))],
            {requests.id: requests},
        )  # fmt: skip

    assert found("requests") == []
    assert [each.succeeded for each in found("numpy")] == [False]


# Who had a part in it


@requirement("CON-2")
def test_who_stood_by_neither_gains_nor_loses():
    for check, expected in ((GREEN, HELPED), (RED, FAILED)):
        story = [U("install"), G("cake npm"), C("npm ci"), check]
        assert seen(*story) == {"npm": expected}


def test_where_nobody_has_anything_in_common_all_share():
    assert seen(U("bake"), G("cake npm"), E("oven/a.py"), GREEN) == {"cake": HELPED}
    assert seen(U("bake"), G("cake npm"), E("b/a.py"), GREEN) == {"cake": HELPED, "npm": HELPED}


def test_a_memory_that_is_gone_is_not_spoken_of():
    assert seen(U("x"), G("cake npm"), E("b/a.py"), GREEN, known={CAKE.id: CAKE}) == {
        "cake": HELPED
    }


# The user and git


@requirement("CON-2")
def test_a_correction_tells_of_what_led_to_it():
    story = [U("install"), G("npm"), C("npm ci"), GREEN, A("done")]
    blamed = (False, Basis.CORRECTION)
    assert seen(*story, U("No, use pnpm instead of npm here.")) == {"npm": blamed}
    assert seen(*story, U("Thanks! Now write the docs.")) == {"npm": HELPED}
    # It speaks of something else.
    other = [U("install"), G("npm"), C("npm ci"), E("docs/guide.md"), GREEN, A("done")]
    assert seen(*other, U("No, don't touch docs/guide.md, it is generated.")) == {"npm": HELPED}
    # No test told, and the user does.
    assert seen(*story[:3], U("No, use pnpm instead of npm here.")) == {"npm": blamed}
    # Who is corrected and then does well has not done so by what was given before.
    mended = [U("No, use pnpm instead of npm here."), C("pnpm install"), GREEN]
    assert seen(*story, *mended) == {"npm": blamed}


def test_a_memory_that_had_said_what_the_user_wants_is_not_blamed():
    story = [U("install"), G("pnpm"), C("npm ci"), U("No, use pnpm instead of npm here.")]
    assert seen(*story) == {}


@requirement("CON-2")
def test_work_that_was_taken_back_failed():
    undone = (False, Basis.REVERT)
    story = [U("install"), G("npm"), E("package.json"), C("npm ci"), GREEN]
    assert seen(*story, C("git checkout .", 0)) == {"npm": undone}
    assert seen(*story, A("done"), U("Take it back."), C("git reset --hard", 0)) == {"npm": undone}
    # What was written since is other work.
    later = [A("done"), U("now the server"), E("server.py"), C("git checkout .", 0)]
    assert seen(*story, *later) == {"npm": HELPED}
    # A second attempt in the same turn.
    assert seen(*story, C("git checkout .", 0), E("package.json", "2"), GREEN) == {"npm": HELPED}


# Handed over in whatever parts

_STEPS = st.sampled_from([
    U("install web"), U("go on"), U("No, use pnpm instead of npm here."), U("why is it red?"),
    A("done"), G("npm"), G("port npm"), G("cake port"), G("pnpm cake npm"), RED, GREEN, TAKEN,
    C("npm ci"), C("fuser -k 8080/tcp"), C("npm run build", 1, "npm ERR! code ENOENT"),
    C("npm run build", 0), C("ruff check .", 0), C("git checkout ."), E("package.json"),
    E("oven/a.py"),
])  # fmt: skip


@settings(deadline=None)
@given(st.lists(_STEPS, min_size=2, max_size=25), st.sets(st.integers(1, 24)))
def test_in_whatever_parts_a_session_is_handed_over_the_same_is_known_in_the_end(story, cuts):
    whole = seen(*story)
    parts = {}
    for cut in sorted(cuts):
        if cut < len(story):
            parts |= seen(*story[:cut])
    parts |= seen(*story)
    assert {name: what[0] for name, what in parts.items()} == {
        name: what[0] for name, what in whole.items()
    }


def test_a_thousand_givings_in_a_long_session_are_looked_at_once_each():
    counted = []

    class Counting(dict):
        def __getitem__(self, key):
            counted.append(key)
            return super().__getitem__(key)

    story = [step for n in range(1_500) for step in (U(f"task {n} of web"), G("npm"), GREEN)]
    session, times, givings = told(story)
    assert observations(session, times, givings, Counting({NPM.id: NPM}))
    assert len(counted) == 1_000
