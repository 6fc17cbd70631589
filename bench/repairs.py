"""Small bugs and the strategies that repair them. Standard library only: it runs in the box.

Every strategy is a way to rewrite one place of a program. What one application of it breaks,
another may repair, and the problem's tests say whether it did.
"""

from __future__ import annotations

import ast
import copy
import signal
import traceback
from collections.abc import Callable, Iterator
from typing import Any

MOST_REPAIRS = 16
"""Places that a strategy may try."""

_SWAPS: dict[str, dict[type, type]] = {
    "cmp_boundary": {ast.Lt: ast.LtE, ast.LtE: ast.Lt, ast.Gt: ast.GtE, ast.GtE: ast.Gt},
    "cmp_direction": {ast.Lt: ast.Gt, ast.Gt: ast.Lt, ast.LtE: ast.GtE, ast.GtE: ast.LtE},
    "eq_negate": {ast.Eq: ast.NotEq, ast.NotEq: ast.Eq, ast.In: ast.NotIn, ast.NotIn: ast.In},
    "arith_op": {ast.Add: ast.Sub, ast.Sub: ast.Add, ast.Mult: ast.FloorDiv,
                 ast.FloorDiv: ast.Mult, ast.Div: ast.Mult, ast.Mod: ast.FloorDiv},
    "bool_op": {ast.And: ast.Or, ast.Or: ast.And},
}  # fmt: skip
_NAMES = {"min": "max", "max": "min", "any": "all", "all": "any"}


def _swapped(strategy: str, op: Any) -> list[Any]:
    other = _SWAPS[strategy].get(type(op))
    return [other()] if other else []


def _rewrites(strategy: str, node: Any) -> Iterator[Callable[[Any], None]]:
    """What may be done to this node; each is carried out on a copy of it."""

    def put(name: str, value: Any) -> Callable[[Any], None]:
        return lambda n: setattr(n, name, value)

    def shifted(name: str) -> Iterator[Callable[[Any], None]]:
        for by in (1, -1):
            old = getattr(node, name)
            if old is not None:
                yield put(name, ast.BinOp(left=old, op=ast.Add(), right=ast.Constant(value=by)))

    match strategy, node:
        case "cmp_boundary" | "cmp_direction" | "eq_negate", ast.Compare(ops=[op]):
            yield from (put("ops", [new]) for new in _swapped(strategy, op))
        case "arith_op", ast.BinOp(op=op):
            yield from (put("op", new) for new in _swapped(strategy, op))
        case "aug_assign", ast.AugAssign(op=op):
            yield from (put("op", new) for new in _swapped("arith_op", op))
        case "bool_op", ast.BoolOp(op=op):
            yield from (put("op", new) for new in _swapped(strategy, op))
        case "const_off_by_one", ast.Constant(value=int() as value) if not isinstance(value, bool):
            yield from (put("value", value + by) for by in (1, -1))
        case "bool_const", ast.Constant(value=bool() as value):
            yield put("value", not value)
        case "cond_negate", ast.If(test=ast.UnaryOp(op=ast.Not(), operand=inner)):
            yield put("test", inner)
        case "cond_negate", ast.If(test=test):
            yield put("test", ast.UnaryOp(op=ast.Not(), operand=test))
        case "range_bound", ast.Call(func=ast.Name(id="range"), args=[*args, last]):
            for by in (1, -1):
                moved = ast.BinOp(left=last, op=ast.Add(), right=ast.Constant(value=by))
                yield put("args", [*args, moved])
        case "index_shift", ast.Subscript(slice=index) if not isinstance(index, ast.Slice):
            yield from shifted("slice")
        case "slice_bound", ast.Slice():
            yield from shifted("lower")
            yield from shifted("upper")
        case "minmax_anyall", ast.Call(func=ast.Name(id=name)) if name in _NAMES:
            yield put("func", ast.Name(id=_NAMES[name], ctx=ast.Load()))


MEANING = {
    "cmp_boundary": "move the boundary of a comparison: < becomes <=, > becomes >=",
    "cmp_direction": "turn a comparison round: < becomes >",
    "eq_negate": "negate an equality or a membership: == becomes !=, in becomes not in",
    "arith_op": "exchange an arithmetic operator: plus and minus, times and divide",
    "bool_op": "exchange and with or",
    "aug_assign": "exchange the operator of an accumulator: += becomes -=",
    "const_off_by_one": "a constant number is one too large or too small",
    "bool_const": "exchange True with False",
    "cond_negate": "negate the condition of an if",
    "range_bound": "the end of a range is one too far or too near",
    "index_shift": "an index into a list or string is off by one",
    "slice_bound": "the begin or end of a slice is off by one",
    "minmax_anyall": "exchange min with max, any with all",
}
STRATEGIES = (*_SWAPS, "aug_assign", "const_off_by_one", "bool_const", "cond_negate",
              "range_bound", "index_shift", "slice_bound", "minmax_anyall")  # fmt: skip


def candidates(source: str, strategy: str) -> Iterator[str]:
    """The program with the strategy applied at one place after the other."""
    tree = ast.parse(source)
    for position, node in enumerate(ast.walk(tree)):
        for number, _ in enumerate(_rewrites(strategy, node)):
            changed = copy.deepcopy(tree)
            target = next(n for i, n in enumerate(ast.walk(changed)) if i == position)
            list(_rewrites(strategy, target))[number](target)
            yield ast.unparse(ast.fix_missing_locations(changed))


def failure(program: str, test: str, entry: str, seconds: int = 1) -> str | None:
    """None if the tests pass; else which of them failed, and how."""

    def late(*_: object) -> None:
        raise TimeoutError("it took too long")

    signal.signal(signal.SIGALRM, late)
    signal.alarm(seconds)
    try:
        scope: dict[str, Any] = {"__name__": "tried"}
        exec(compile(program, "program.py", "exec"), scope)
        exec(compile(test, "test.py", "exec"), scope)
        scope["check"](scope[entry])
    except BaseException as error:  # noqa: BLE001  (whatever a broken program does)
        lines = test.splitlines()
        where = [f.lineno for f in traceback.extract_tb(error.__traceback__)
                 if f.filename == "test.py" and f.lineno]  # fmt: skip
        line = lines[where[-1] - 1].strip() if where else ""
        return f"{type(error).__name__} at `{line[:160]}`"
    finally:
        signal.alarm(0)
    return None


def repaired(program: str, test: str, entry: str, strategy: str) -> bool:
    for number, candidate in enumerate(candidates(program, strategy)):
        if number >= MOST_REPAIRS:
            return False
        if failure(candidate, test, entry) is None:
            return True
    return False


def features(source: str) -> str:
    kinds = {type(node).__name__ for node in ast.walk(ast.parse(source))}
    known = {"For": "for loop", "While": "while loop", "If": "if branch", "Compare": "comparison",
             "Subscript": "subscript", "Slice": "slice", "AugAssign": "accumulator",
             "BoolOp": "and/or", "BinOp": "arithmetic", "ListComp": "list comprehension",
             "Lambda": "lambda"}  # fmt: skip
    return ", ".join(name for kind, name in known.items() if kind in kinds)
