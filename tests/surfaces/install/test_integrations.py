"""The registry's entry, the plugin and the extension are what the table of `install` says."""

import json
import re
import tomllib

import pytest
from tools.integrations import ROOT, pages

from reasonbank.surfaces.agents import AGENTS
from reasonbank.surfaces.install.wiring import SERVES, is_hook

VERSION = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"]


@pytest.mark.parametrize("name", pages())
def test_each_file_is_up_to_date(name):
    assert (ROOT / name).read_text() == pages()[name], "run python -m tools.integrations"


def test_the_registry_would_take_the_entry():
    """Its rules: https://github.com/modelcontextprotocol/registry, server.schema.json."""
    entry = json.loads((ROOT / "server.json").read_text())
    assert re.fullmatch(r"[a-zA-Z0-9.-]+/[a-zA-Z0-9._-]+", entry["name"])
    assert 1 <= len(entry["description"]) <= 100 and len(entry["title"]) <= 100
    assert entry["version"] == VERSION
    [package] = entry["packages"]
    assert package["registryType"] == "pypi" and package["version"] == VERSION
    assert package["transport"] == {"type": "stdio"}
    assert [word["value"] for word in package["packageArguments"]] == [*SERVES]


@pytest.mark.parametrize("agent", ["claude-code", "gemini-cli"])
def test_they_call_a_hook_at_each_event_and_start_the_released_package(agent):
    [events] = [each.events for each in AGENTS if each.name == agent]
    hooks = json.loads((ROOT / "integrations" / agent / "hooks" / "hooks.json").read_text())
    assert hooks["hooks"].keys() == events.keys()
    for name, [group] in hooks["hooks"].items():
        [hook] = group["hooks"]
        assert hook["command"] == f"uvx reasonbank hook {events[name]} --agent {agent}"
        assert is_hook(hook["command"])
