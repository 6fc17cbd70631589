"""No text makes a pattern run away: every one of ours is linear, by its engine or by its form.

A pattern of RE2 is. One of `re` must be such that no place can be tried for long: it has a
bounded width, or is one run of one kind of letter; or it sees a bounded piece of the text, and
takes twice as long for twice as much. Nobody keeps a list: all modules are walked.
"""

import ast
import importlib
import pkgutil
import re
import sys
import time
from pathlib import Path
from re import _constants as op, _parser as parser

import pytest
from tests.requirement import requirement

import reasonbank
from reasonbank.learn.passive import worth_keeping
from reasonbank.safety.patterns import Brief, Pattern
from reasonbank.safety.scrub import scrub
from reasonbank.settings import Passive

WIDEST = 1_000
SOURCE = Path(reasonbank.__file__).parent


def modules():
    for found in pkgutil.walk_packages([str(SOURCE)], "reasonbank."):
        if found.name.endswith("__main__"):
            continue
        try:
            yield importlib.import_module(found.name)
        except ImportError:
            continue  # An extra that is not installed.


def patterns_in(value, depth=0):
    if isinstance(value, re.Pattern | Pattern | Brief):
        yield value
    elif isinstance(getattr(value, "__self__", None), re.Pattern):
        yield value.__self__
    elif isinstance(value, tuple | list | set | frozenset) and depth < 4:
        for item in value:
            yield from patterns_in(item, depth + 1)
    elif isinstance(value, dict) and depth < 4:
        for item in value.values():
            yield from patterns_in(item, depth + 1)


def compiled():
    """(module and name, pattern) for every one that a module holds."""
    for module in modules():
        for name, value in list(vars(module).items()):
            for pattern in patterns_in(value):
                yield f"{module.__name__}.{name}", pattern


def written_inline():
    """Patterns that are handed to `re` where they are used, by file and line."""
    for file in sorted(SOURCE.rglob("*.py")):
        for node in ast.walk(ast.parse(file.read_text())):
            called = getattr(node, "func", None)
            if (
                isinstance(called, ast.Attribute)
                and isinstance(called.value, ast.Name)
                and called.value.id == "re"
                and called.attr not in ("compile", "escape")
            ):
                said = node.args[0]
                place = f"{file.relative_to(SOURCE)}:{node.lineno}"
                yield place, said.value if isinstance(said, ast.Constant) else None, called.attr


def is_linear(pattern, flags=0):
    tree = parser.parse(pattern, flags)
    if len(tree) == 1 and tree[0][0] in (op.MAX_REPEAT, op.POSSESSIVE_REPEAT):
        repeated = tree[0][1][2]
        if len(repeated) == 1 and repeated[0][0] in (op.IN, op.LITERAL, op.NOT_LITERAL, op.ANY):
            return True
    return tree.getwidth()[1] <= WIDEST


FOUND = {f"{name}-{n}": pattern for n, (name, pattern) in enumerate(compiled())}
# What models answer to our own prompts, and what an owner forgets; bounded where they are read.
# An agent's settings are its user's own, and are matched at one place after the other.
ELSEWHERE = ("reasonbank.safety.patterns", "reasonbank.surfaces.install.jsonc")
PIECES = ("a", "A", "1", "_", ".", "/", "-", " ", "\n", "`", '"', "=", "a.", "1.", "/a", "a-", "aA",
          "://", "a=", "1:", " a", "\n1", "a,", "```\n", "not ", "use a, ")  # fmt: skip


def effort(pattern, text):
    """Processor time, the least of three."""
    spent = []
    for _ in range(3):
        begin = time.process_time_ns()
        pattern.findall(text)
        spent.append(time.process_time_ns() - begin)
    return min(spent)


@requirement("SEC-3")
@pytest.mark.parametrize("name", [name for name in FOUND if not name.startswith(ELSEWHERE)])
def test_every_compiled_pattern_is_linear(name):
    pattern = FOUND[name]
    if isinstance(pattern, Brief):
        for piece in PIECES:
            whole = (piece * pattern.most)[: pattern.most]
            # What is over within ten million steps of a processor is short enough to be anything.
            grown = effort(pattern, whole)
            assert grown < 10_000_000 or grown <= 3 * effort(pattern, whole[: len(whole) // 2])
    else:
        assert isinstance(pattern, Pattern) or is_linear(pattern.pattern, pattern.flags)


@requirement("SEC-3")
def test_every_pattern_written_inline_is_linear():
    found = [f for f in written_inline() if not f[0].startswith(("agent/", "ledger/"))]
    wrong = [(place, said) for place, said, _ in found if said is None or not is_linear(said)]
    assert found and not wrong


class Calls:
    """How often the engine is asked, and how much text it is shown in all."""

    def __init__(self, work):
        self.asked = self.shown = 0
        sys.setprofile(self._watch)
        try:
            work()
        finally:
            sys.setprofile(None)

    def _watch(self, frame, event, called):
        if event == "c_call" and getattr(called, "__name__", "") == "Match":
            held = frame.f_locals
            self.asked += 1
            self.shown += held.get("encoded_endpos", held.get("endpos", 0)) or 0
            self.shown -= held.get("encoded_pos", held.get("pos", 0)) or 0


ANSWERS = ("a", "```", "```\n", "1. a\n", "a. ", "Because a. ", "- ", "\n", "no ")
DENSE = (
    "a", "token=", "sk-", "://a:", 'token="', "eyJ", "-----BEGIN PRIVATE KEY-----",
    "kind: Secret\ndata:\n", "authorization: ", "password is ",
)  # fmt: skip


@requirement("SEC-3")
@pytest.mark.parametrize("piece", ANSWERS)
def test_what_passive_learning_reads_grows_with_the_answer_and_not_with_its_square(piece):
    def shown(size):
        text = (piece * size)[:size]
        return Calls(lambda: worth_keeping("How does it go?", text, Passive(), workspace="w")).shown

    assert shown(400_000) <= 2.5 * shown(200_000) + 10_000


@requirement("SEC-3")
@pytest.mark.parametrize("piece", DENSE)
def test_scrubbing_asks_the_engine_in_proportion_to_the_text(piece):
    def asked(size):
        return Calls(lambda: scrub((piece * size)[:size])).asked

    scrub("compiled when first used")
    assert asked(80_000) <= 2.5 * asked(40_000) + 100
