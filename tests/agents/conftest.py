"""Real agents, as far as they are installed: `make agents`, or `make agents-all`."""

from __future__ import annotations

import os

import pytest
from tests.agents.box import Box
from tests.agents.programs import PROGRAMS, Program

ALL = os.environ.get("REASONBANK_TEST_AGENTS") == "all"
CHOSEN = [each for each in PROGRAMS if each.first or ALL]


@pytest.fixture(scope="module", params=CHOSEN, ids=lambda program: program.name)
def program(request) -> Program:
    program: Program = request.param
    if not program.path.exists():
        pytest.skip(
            f"{program.name} {program.version} IS NOT INSTALLED, nothing was proven with it: "
            "`make agents` needs the npm registry"
        )
    return program


@pytest.fixture
def box(program, tmp_path) -> Box:
    return Box(program, tmp_path)
