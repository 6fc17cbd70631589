"""The documentation is run: what a reader would type must give what the page shows."""

import doctest
import os
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
PACKAGE = ROOT / "src" / "reasonbank"
PAGES = [
    ROOT / "README.md",
    *sorted((ROOT / "docs").glob("*.md")),
    *sorted((ROOT / "docs" / "how-to").glob("*.md")),
]
FILE = re.compile(r"^```json (\S+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
BLOCK = re.compile(r"^```(\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def blocks(page, language):
    return [body for kind, body in BLOCK.findall(page.read_text()) if kind == language]


def environment(home):
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    return {"PATH": path, "HOME": str(home), "COLUMNS": "80", "LANG": "C.UTF-8"}


def as_pattern(shown):
    """What is printed, with … for the parts that differ from run to run."""
    lines = [line.rstrip() for line in shown.strip().splitlines()]
    return "\n".join(".*?".join(map(re.escape, line.split("…"))) for line in lines)


@pytest.mark.parametrize("page", PAGES, ids=lambda p: p.name)
def test_the_commands_on_a_page_print_what_it_shows(page, tmp_path):
    session = "".join(blocks(page, "console"))
    for name, content in FILE.findall(page.read_text()):
        (tmp_path / name).write_text(content)
    steps = re.findall(r"^\$ (.*)\n((?:(?!\$ ).*\n)*)", session, re.MULTILINE)
    script = "\n".join(f"{command}\necho '=={number}'" for number, (command, _) in enumerate(steps))
    done = subprocess.run(
        ["bash", "-c", script], cwd=tmp_path, env=environment(tmp_path),
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    printed = re.split(r"^==\d+\n", done.stdout, flags=re.MULTILINE)
    assert not done.stderr, done.stderr
    for (command, shown), actual in zip(steps, printed, strict=False):
        found = "\n".join(line.rstrip() for line in actual.strip().splitlines())
        assert re.fullmatch(as_pattern(shown), found, re.DOTALL), f"$ {command}\n{actual}"


@pytest.mark.parametrize("page", PAGES, ids=lambda p: p.name)
def test_the_python_on_a_page_runs(page, tmp_path):
    for code in blocks(page, "python"):
        if code.startswith(">>>"):
            examples = doctest.DocTestParser().get_doctest(code, {}, page.name, None, None)
            assert doctest.DocTestRunner().run(examples).failed == 0
            continue
        done = subprocess.run(
            [sys.executable, "-c", code], cwd=tmp_path, env=environment(tmp_path),
            capture_output=True, text=True, check=False,
        )  # fmt: skip
        assert done.returncode == 0, done.stderr


@pytest.mark.parametrize(
    "page",
    [*ROOT.glob("*.md"), *sorted((ROOT / "docs").glob("**/*.md"))],
    ids=lambda p: p.name,
)
def test_the_links_on_a_page_lead_somewhere(page):
    for target in re.findall(r"\]\(([^)#]+)\)", page.read_text()):
        if "://" not in target:
            assert (page.parent / target).exists(), target


@pytest.mark.parametrize(
    "page",
    ["CONTRIBUTING.md", "SECURITY.md", "docs/architecture.md", "docs/decisions/0018-the-house.md"],
)
def test_the_code_that_a_page_names_is_there(page):
    """`search/answer.py:recall` is a file under src/reasonbank and what it defines."""
    for path, name in re.findall(r"`([a-z_/]+\.py)(?::([\w.]+))?`", (ROOT / page).read_text()):
        found = [top / path for top in (PACKAGE, ROOT) if (top / path).is_file()]
        assert found, path
        for part in name.split("."):
            defined = rf"^ *(?:async def |def |class )?{part}\b"
            assert re.search(defined, found[0].read_text(), re.MULTILINE), f"{path}:{name}"


def test_the_layers_of_the_page_are_those_that_are_checked():
    with (ROOT / "pyproject.toml").open("rb") as file:
        contract = tomllib.load(file)["tool"]["importlinter"]["contracts"][0]
    assert "\n".join(contract["layers"]) in (ROOT / "docs" / "architecture.md").read_text()


@pytest.mark.parametrize("name", ["cli.md", "http.md", "mcp.md", "settings.md"])
def test_the_reference_is_what_the_program_says(name):
    from tools.reference import FOLDER, pages

    written = (FOLDER / name).read_text()
    assert written == pages()[name], "run python -m tools.reference"
