"""Whoever installs the package gets its types: what the pages show passes their checker."""

from __future__ import annotations

import inspect
import re
import subprocess
import sys
import typing
import venv
from pathlib import Path

import pytest

import reasonbank
from reasonbank import Bank, answers
from reasonbank.surfaces.shapes import returned
from tests.requirement import requirement
from tests.test_docs import PAGES, blocks

PACKAGE = Path(reasonbank.__file__).parent


def code_on(page):
    """The Python of a page; of a session, what was typed."""
    for block in blocks(page, "python"):
        typed = re.findall(r"^(?:>>>|\.\.\.) ?(.*)$", block, re.MULTILINE)
        yield "\n".join(typed) if block.startswith(">>>") else block


@pytest.fixture(scope="module")
def installed(tmp_path_factory):
    """A Python that has the package, and so the types only that its marker says it has."""
    folder = tmp_path_factory.mktemp("environment")
    venv.create(folder, with_pip=False)
    site = next(folder.glob("lib/python*/site-packages"))
    (site / "reasonbank").symlink_to(PACKAGE, target_is_directory=True)
    return folder / "bin" / "python"


@requirement("CLI-5")
def test_the_python_of_all_pages_passes_a_strict_checker(installed, tmp_path):
    names = []
    for page in PAGES:
        for number, code in enumerate(code_on(page)):
            name = f"{re.sub(r'[^a-z]', '_', page.stem.lower())}_{number}.py"
            (tmp_path / name).write_text(code)
            names.append(name)
    assert names
    (tmp_path / "wrong.py").write_text("from reasonbank import Bank\nBank.open().record(5)\n")
    done = subprocess.run(
        [sys.executable, "-m", "mypy", "--strict", "--config-file=", "--cache-dir", "cache",
         "--python-executable", str(installed), *names, "wrong.py"],
        cwd=tmp_path, env={"HOME": str(tmp_path)},
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    *problems, _ = done.stdout.splitlines()
    assert {line.partition(":")[0] for line in problems} == {"wrong.py"}, done.stdout + done.stderr


def named(hint):
    """The classes of ours that an annotation names."""
    if isinstance(hint, type) and hint.__module__.startswith("reasonbank"):
        yield hint
    for part in typing.get_args(hint):
        yield from named(part)


def test_every_type_that_a_bank_answers_with_can_be_imported():
    public = {getattr(reasonbank, name) for name in reasonbank.__all__} | {
        getattr(answers, name) for name in answers.__all__
    }
    for name, method in vars(Bank).items():
        if name.startswith("_") or not inspect.isfunction(method):
            continue
        for kind in named(returned(method)):
            assert kind in public, f"{name} answers with {kind.__name__}"
