"""No text makes a pattern run away: every one of ours is linear, by its engine or by its form.

A pattern of RE2 is. One of `re` must be such that no place can be tried for long: it has a
bounded width, or is one run of one kind of letter. Nobody keeps a list: all modules are walked.
"""

import ast
import importlib
import pkgutil
import re
from pathlib import Path
from re import _constants as op, _parser as parser

import pytest
from tests.requirement import requirement

import reasonbank
from reasonbank.safety.patterns import Pattern

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
    if isinstance(value, re.Pattern | Pattern):
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


FOUND = dict(compiled())


@requirement("SEC-3")
@pytest.mark.parametrize("name", FOUND)
def test_every_compiled_pattern_is_linear(name):
    pattern = FOUND[name]
    assert isinstance(pattern, Pattern) or is_linear(pattern.pattern, pattern.flags)


@requirement("SEC-3")
def test_every_pattern_written_inline_is_linear():
    found = list(written_inline())
    wrong = [
        f"{place}: {said!r}" for place, said, how in found if said is None or not is_linear(said)
    ]
    assert found and not wrong
