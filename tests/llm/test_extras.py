"""Clients of models are extras: without them all else works, and the error says what to install."""

import os
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
from tests.requirement import requirement

INSTALL = "pip install 'reasonbank[{}]'"
WITHOUT = "import sys; sys.modules['{}'] = None\n"
PROJECT = tomllib.loads((Path(__file__).parents[2] / "pyproject.toml").read_text())


def started(missing, code, **environment):
    return subprocess.run(
        [sys.executable, "-c", WITHOUT.format(missing) + code],
        env=os.environ | environment, capture_output=True, text=True, check=False, timeout=120,
    )  # fmt: skip


COMMAND = "from reasonbank.surfaces.cli import main; main({!r})"


@requirement("LLM-1")
@pytest.mark.parametrize(
    ("provider", "client"),
    [("openrouter", "openai"), ("openai", "openai"), ("ollama", "openai"),
     ("anthropic", "anthropic")],
)  # fmt: skip
def test_a_provider_whose_client_is_missing_names_what_to_install(tmp_path, provider, client):
    told = started(
        client, COMMAND.format(["--bank", f"sqlite:///{tmp_path}/bank.db", "llm", "check"]),
        REASONBANK_LLM_PROVIDER=provider, REASONBANK_LLM_MODEL="m",
        REASONBANK_EMBED_MODEL="hashed",
    )  # fmt: skip
    assert told.returncode == 2
    assert f"{provider} needs a package that is not installed" in told.stderr
    assert INSTALL.format(client) in " ".join(told.stderr.split())


def test_embeddings_over_an_api_name_what_to_install(tmp_path):
    code = (
        "from reasonbank.embed.api import API\n"
        "API(model='m', base_url='http://127.0.0.1:9/v1', key_env='', dimensions=3)"
        ".embed(['x'])"
    )
    assert INSTALL.format("openai") in started("openai", code).stderr


def test_a_bank_learns_and_answers_without_the_client_of_any_model(tmp_path):
    place = ["--bank", f"sqlite:///{tmp_path}/bank.db", "--workspace", str(tmp_path)]
    lesson = ["record", "--title", "Retry uploads", "--description", "When an upload fails",
              "--content", "Wait longer each time.", "--outcome", "success"]  # fmt: skip
    assert started("openai", COMMAND.format([*place, *lesson])).returncode == 0
    found = started("openai", COMMAND.format([*place, "search", "upload fails"]))
    assert "Retry uploads" in found.stdout


def test_no_client_of_a_model_is_needed_to_install():
    needed = " ".join(PROJECT["project"]["dependencies"])
    for client in ("openai", "anthropic"):
        assert client not in needed
        assert PROJECT["project"]["optional-dependencies"][client]
        assert any(str(one).startswith(client) for one in PROJECT["dependency-groups"]["dev"])
