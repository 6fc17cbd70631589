"""Keeps tests/requirements.toml honest, in both directions.

``python -m tests.test_requirements`` rewrites it from the marks.
"""

import ast
import tomllib
from collections import defaultdict
from pathlib import Path

HERE = Path(__file__).parent
LIST = HERE / "requirements.toml"
IDS = (HERE / "spec_ids.txt").read_text().split()


def marks():
    """(test id, requirement, what is left, whether it is skipped), read off the source."""
    for path in sorted(HERE.rglob("test_*.py")):
        tree = ast.parse(path.read_text())
        for scope, function in functions(tree):
            skipped = any("skip" in ast.unparse(d) or "xfail" in ast.unparse(d)
                          for d in function.decorator_list)  # fmt: skip
            for call in function.decorator_list:
                if isinstance(call, ast.Call) and ast.unparse(call.func).endswith("requirement"):
                    name = "::".join([str(path.relative_to(HERE.parent)), *scope, function.name])
                    left = next((k.value.value for k in call.keywords if k.arg == "left"), None)
                    for arg in call.args:
                        yield name, arg.value, left, skipped


def functions(tree):
    for node in tree.body:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            yield [], node
        elif isinstance(node, ast.ClassDef):
            for inner in node.body:
                if isinstance(inner, ast.FunctionDef | ast.AsyncFunctionDef):
                    yield [node.name], inner


def proofs():
    result = defaultdict(set)
    partly = {id for _, id, left, _ in marks() if left}
    for name, id, left, _ in marks():
        if not left and id not in partly:
            result[id].add(name)
    return result


def test_every_promise_is_listed_once():
    listed = tomllib.loads(LIST.read_text())["requirements"]
    assert list(listed) == IDS


def test_a_promise_is_done_exactly_if_marked_tests_prove_it():
    listed = tomllib.loads(LIST.read_text())["requirements"]
    found = proofs()
    for id in IDS:
        assert set(listed[id]) == found[id], (
            f"{id} is out of step; run python -m tests.test_requirements"
        )


def test_every_mark_names_a_promise():
    assert {id for _, id, _, _ in marks()} <= set(IDS)


def test_no_proof_is_skipped():
    assert [name for name, _, left, skipped in marks() if skipped and not left] == []


def write():
    found = proofs()
    lines = ["# Written by `python -m tests.test_requirements`, checked by the test of that name.",
             "# An empty list: not done yet, or only in part.", "", "[requirements]"]  # fmt: skip
    for id in IDS:
        tests = sorted(found[id])
        if tests:
            lines += [f"{id} = [", *(f'  "{test}",' for test in tests), "]"]
        else:
            lines.append(f"{id} = []")
    LIST.write_text("\n".join(lines) + "\n")
    print(f"{sum(bool(found[id]) for id in IDS)} of {len(IDS)} promises have proofs")


if __name__ == "__main__":
    write()
