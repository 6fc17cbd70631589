"""`import reasonbank` and `reasonbank --help` load nothing heavy, and a door no other door."""

import os
import subprocess
import sys

import pytest

HEAVY = {
    "numpy", "pydantic", "httpx", "httpx2", "mcp", "apsw", "rich", "yaml", "asyncio", "re2",
    "platformdirs", "openai", "anthropic", "jsonschema", "onnxruntime", "tokenizers",
}  # fmt: skip

AFTER_HELP = """
import sys
from reasonbank.surfaces.cli import main
try:
    main(["--help"])
except SystemExit:
    print("loaded", *sys.modules)
"""


AFTER_SEARCH = """
import sys
from reasonbank.surfaces.cli import main
try:
    main(["search", "anything"])
except SystemExit:
    print("loaded", *sys.modules)
"""

# The SDK itself loads click; what counts is whether a module of ours does.
THE_MCP_SERVER = """
import os, sys
before = dict(os.environ)
import reasonbank.surfaces.mcp.server
assert os.environ == before
ours = {n: m for n, m in sys.modules.items() if n.partition(".")[0] == "reasonbank"}
print("loaded", *ours, *("click" for module in ours.values() if hasattr(module, "click")))
"""


def loaded(code, **environment):
    done = subprocess.run(
        [sys.executable, "-c", code],
        env=os.environ | environment,
        capture_output=True,
        text=True,
        check=True,
    )
    return set(done.stdout.rpartition("loaded ")[2].split())


@pytest.mark.parametrize(
    "code",
    [
        "import sys, reasonbank; print('loaded', *sys.modules)",
        "import sys; from reasonbank import Memory, Settings; print('loaded', *sys.modules)",
        "import sys, reasonbank.surfaces.cli; print('loaded', *sys.modules)",
        AFTER_HELP,
    ],
    ids=["the package", "its nouns", "the command", "the command's help"],
)
def test_loading_is_light(code):
    found = loaded(code)
    assert "reasonbank" in found
    assert found & HEAVY == set()


def of_the_command(modules):
    folder = "reasonbank.surfaces.cli."
    return {name.removeprefix(folder) for name in modules if name.startswith(folder)}


def test_a_command_loads_no_other_command(tmp_path):
    url = f"sqlite:///{tmp_path}/bank.db"
    found = loaded(AFTER_SEARCH, REASONBANK_URL=url, REASONBANK_EMBED_MODEL="hashed")
    assert of_the_command(found) == {"shell", "memory"}
    assert found & {"pydantic", "httpx", "httpx2", "mcp"} == set()


def test_the_mcp_server_loads_no_command_and_changes_no_environment():
    found = loaded(THE_MCP_SERVER)
    assert "reasonbank.surfaces.mcp.server" in found
    assert found & {"click", "reasonbank.surfaces.cli"} == set()
