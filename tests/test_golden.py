"""What the doors say, frozen: it changes on purpose, with ``--update-golden``, or not at all.

Frozen elsewhere, and so not here: the text of every ``--help`` is docs/reference/cli.md, which
is held to what the command prints below; ``reasonbank.__all__`` is in test_public_names.py.

An answer keeps its keys, their order and what is the same in every run; an id, a time, a
path, a duration is a placeholder that names its type. Trust fades by the second, and so
fractions have four digits.
"""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import anyio
import pytest
from click.testing import CliRunner
from tools import reference

from reasonbank.surfaces.cli import main
from tests.conftest import GOLDEN
from tests.surfaces.http_server import serving
from tests.surfaces.mcp_agent import connected
from tests.surfaces.test_parity import CASES, filled, furnished, has_command, through_cli, url_of

DURATION = re.compile(r"\w+_(ms|seconds)|uptime")
TEXTS = {
    "<id>": re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}"),
    "<time>": re.compile(r"\d{4}-\d\d-\d\dT[\d:.]+(\+00:00|Z)?"),
    "<hash>": re.compile(r"\b[0-9a-f]{16,64}\b"),
}


def shown(value: Any) -> str:
    return json.dumps(value, indent=1, ensure_ascii=False) + "\n"


def shape(value: Any, folder: Path, key: str = "") -> Any:
    """``value`` with a placeholder for what no two runs have in common."""
    if isinstance(value, dict):
        return {shape(name, folder): shape(item, folder, name) for name, item in value.items()}
    if isinstance(value, list):
        return [shape(item, folder) for item in value]
    if isinstance(value, str):
        value = value.replace(str(folder), "<folder>")
        for placeholder, pattern in TEXTS.items():
            value = pattern.sub(placeholder, value)
        return value
    if isinstance(value, float):
        return "<duration>" if DURATION.fullmatch(key) else round(value, 4)
    return value


def test_the_api_is_described_as_before(golden, tmp_path):
    with serving(tmp_path) as server:
        golden("openapi.json", shown(server.get("/openapi.json").json()))


def test_agents_are_offered_the_same_tools(golden, plain_bank):
    offered, small = anyio.run(offers, plain_bank)
    golden("tools.json", shown(offered))
    # In other words: the few have the room to tell of the loop, and name fewer parameters.
    golden("tools-core.json", shown(small))
    assert {tool["name"] for tool in small} < {tool["name"] for tool in offered}


async def offers(bank):
    found = []
    for tools in ("all", "core"):
        async with connected(bank, tools=tools) as agent:
            listed = await agent.tools()
            found.append([tool.model_dump(by_alias=True, exclude_none=True, mode="json")
                          for tool in listed.values()])  # fmt: skip
    return found


def test_the_reference_has_the_help_that_every_command_prints():
    written = (reference.FOLDER / "cli.md").read_text()
    for name, _ in reference.commands(main, "reasonbank"):
        words = name.split()[1:]
        done = CliRunner().invoke(
            main, [*words, "--help"], prog_name="reasonbank", terminal_width=96
        )
        printed = re.sub(r"[ \t]+$", "", done.stdout, flags=re.MULTILINE)
        assert f"## {name}\n\n```text\n{printed}```\n" in written, name


COMMANDS = [name for name in CASES if has_command(name)]


@pytest.mark.parametrize("name", COMMANDS)
def test_a_command_answers_with_the_same_json(name, golden, tmp_path):
    url, project = url_of(tmp_path), tmp_path / "project"
    bank, names = furnished(url, project, CASES[name])
    bank.close()
    told = through_cli(url, project, name, filled(CASES[name].given, names))
    golden(f"answers/{name}.json", shown(shape(told, tmp_path)))


def test_no_frozen_answer_is_left_over():
    assert {file.stem for file in (GOLDEN / "answers").iterdir()} == set(COMMANDS)
