"""`import reasonbank` and `reasonbank --help` load nothing heavy."""

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
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    loaded = set(done.stdout.rpartition("loaded ")[2].split())
    assert "reasonbank" in loaded
    assert loaded & HEAVY == set()
