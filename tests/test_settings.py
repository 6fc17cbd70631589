"""Settings from files and from the environment, checked when a bank is opened."""

import json
import os
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from pathlib import Path

import pytest

from reasonbank import Bank, InvalidSetting, Settings
from reasonbank.fields import Nested, ruled
from reasonbank.settings import GONE, default_url, load
from tests.requirement import requirement

TOML = """
org = "acme"
trace_days = 90
[embed]
model = "hashed"
dimensions = 60
[search]
limit = 7
diversity = 0.25
[belief]
model = "additive"
[limits]
title = 80
"""

YAML = """
org: acme
trace_days: 90
embed: {model: hashed, dimensions: 60}
search:
  limit: 7
  diversity: 0.25
belief: {model: additive}
limits: {title: 80}
"""


@pytest.fixture
def config(tmp_path):
    """Loads settings from a file with this text."""

    def loaded(text, name="config.toml", **environment):
        path = tmp_path / name
        path.write_bytes(text if isinstance(text, bytes) else text.encode())
        return load({"HOME": str(tmp_path), "REASONBANK_CONFIG": str(path), **environment})

    return loaded


@requirement("DEP-3")
@pytest.mark.parametrize(("name", "text"), [("c.toml", TOML), ("c.yaml", YAML), ("c.yml", YAML)])
def test_a_toml_or_yaml_file_sets_what_it_names_and_nothing_else(config, name, text):
    settings = config(text, name)
    assert (settings.org, settings.trace_days, settings.team) == ("acme", 90, "default")
    assert (settings.embed.model, settings.embed.dimensions) == ("hashed", 60)
    assert (settings.search.limit, settings.search.diversity) == (7, 0.25)
    assert settings.belief.model == "additive"
    assert settings.limits.title == 80
    assert settings.search.recency == Settings().search.recency


@requirement("DEP-3")
def test_the_environment_wins_over_the_file(config):
    settings = config(TOML, REASONBANK_SEARCH_LIMIT="9", REASONBANK_ORG="umbrella")
    assert (settings.search.limit, settings.org) == (9, "umbrella")
    assert settings.search.diversity == 0.25


@requirement("DEP-3")
def test_every_setting_can_be_given_in_the_environment():
    def names(section, prefix="REASONBANK_"):
        for f in fields(section):
            value = getattr(section, f.name)
            if is_dataclass(value):
                yield from names(value, f"{prefix}{f.name.upper()}_")
            elif not isinstance(value, Mapping):
                yield prefix + f.name.upper(), str(value)

    everything = dict(names(Settings()))
    assert len(everything) > 35
    assert load({"HOME": "/nowhere", **everything}) == Settings()


@requirement("DEP-3")
@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("serch = 1", "serch"),
        ("[search]\nlimits = 1", "search.limits"),
        ("[search]\nlimit = 'many'", "search.limit"),
        ("[search]\nlimit = 2.5", "search.limit"),
        ("[search]\nlimit = true", "search.limit"),
        ("[search]\nlimit = [1]", "search.limit"),
        ("[search]\nlimit = 0", "search.limit"),
        ("[search]\nlimit = 1000", "search.limit"),
        ("[search]\ndiversity = 1.5", "search.diversity"),
        ("[search]\nrecency = nan", "search.recency"),
        ("[search]\nhalf_life_days = inf", "search.half_life_days"),
        ("search = 5", "search"),
        ("[embed]\nmodel = 'gpt'", "embed.model"),
        ("[belief]\nmodel = 'hope'", "belief.model"),
        ("[belief]\nhalf_life_days = 1", "belief.half_life_days"),
        ("[limits]\ncontent = 99999999", "limits.content"),
        ("trace_days = -1", "trace_days"),
        ("[org]\nname = 'acme'", "org"),
    ],
)
def test_a_wrong_setting_in_a_file_is_refused_by_its_name(config, text, name):
    with pytest.raises(InvalidSetting) as refused:
        config(text)
    assert refused.value.field == name
    assert "config.toml" in str(refused.value)


@requirement("DEP-3")
def test_weights_that_are_all_zero_are_refused(config):
    with pytest.raises(InvalidSetting, match=r"search\.similarity"):
        config("[search]\nsimilarity = 0\nrecency = 0\nerror_match = 0")


@requirement("DEP-3")
@pytest.mark.parametrize(
    ("variable", "value", "name"),
    [
        ("REASONBANK_SERCH_LIMIT", "1", "serch_limit"),
        ("REASONBANK_SEARCH_LIMITS", "1", "search.limits"),
        ("REASONBANK_SEARCH_LIMIT", "many", "search.limit"),
        ("REASONBANK_SEARCH_LIMIT", "", "search.limit"),
        ("REASONBANK_SEARCH", "1", "search"),
        ("REASONBANK_EMBED_MODEL", "gpt", "embed.model"),
        ("REASONBANK_BELIEF_PRUNE_BELOW", "2", "belief.prune_below"),
        ("REASONBANK_CONFIGURATION", "x", "configuration"),
        ("REASONBANK_DATABASE", "x", "database"),
    ],
)
def test_a_wrong_variable_is_refused_by_its_name(variable, value, name):
    with pytest.raises(InvalidSetting) as refused:
        load({"HOME": "/nowhere", variable: value})
    assert refused.value.field == name
    assert "environment" in str(refused.value)


@pytest.mark.parametrize("name", sorted(GONE))
def test_a_setting_that_went_is_warned_of_and_changes_nothing(config, name):
    section, _, rest = name.partition(".")
    variable = f"REASONBANK_{name.replace('.', '_').upper()}"
    with pytest.warns(FutureWarning, match=rf"{name} \(in .*config\.toml\) is no longer a setting"):
        assert config(f"[{section}]\n{rest} = 1") == Settings()
    with pytest.warns(FutureWarning, match=rf"{name} \(in the environment\)"):
        assert load({"HOME": "/nowhere", variable: "x"}) == Settings()


def test_a_command_warns_of_a_setting_that_went_in_one_line(tmp_path):
    done = subprocess.run(
        [Path(sys.executable).with_name("reasonbank"), "stats", "--json"],
        env={**os.environ, "HOME": str(tmp_path), "REASONBANK_EMBED_MODEL": "hashed",
             "REASONBANK_SEARCH_POOL": "50"},
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    assert json.loads(done.stdout)["memories"] == 0
    assert done.stderr == (
        "Warning: search.pool (in the environment) is no longer a setting and is ignored; "
        "remove it\n"
    )


def test_every_setting_says_its_rule_and_what_it_means():
    def told(kind, prefix=""):
        for f in ruled(kind):
            if isinstance(f.rule, Nested):
                yield from told(f.rule.kind, f"{prefix}{f.name}.")
            else:
                yield f"{prefix}{f.name}", f

    found = dict(told(Settings))
    # The sections of the five roles are one thing to learn.
    assert len({(f.name, f.meaning) for f in found.values()}) <= 100
    assert not found.keys() & GONE
    for name, f in found.items():
        assert f.meaning.endswith("."), name
        assert f.rule is None or "object at" not in str(f.rule), name


@requirement("DEP-3")
@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("[search]\nlimit = 0", "search.limit: 0 is not a whole number from 1 to 100 (in"),
        ("[search]\ndiversity = 1.5", "search.diversity: 1.5 is not a number from 0 to 1 (in"),
        ("[embed]\nmodel = 'gpt'",
         "embed.model: must be one of minilm, hashed, onnx, api (got 'gpt') (in"),
        ("[llm]\nbase_url = 'ftp://x'",
         "llm.base_url: must be an http(s) URL without credentials or query string (in"),
        ("[llm]\nkey_env = 'sk-1'",
         "llm.key_env: must be the name of an environment variable; the key itself stays there"),
        ("scrub = 'perhaps'", "scrub: must be true or false (in"),
        ("org = [1]", "org: must be text, got list (in"),
        ("[limits]\ntitle = 201", "limits.title: 201 is not a whole number from 1 to 200 (in"),
        ("verify = 5", "verify: is a section of names and commands (in"),
    ],
)  # fmt: skip
def test_a_wrong_setting_is_refused_in_a_sentence(config, text, sentence):
    with pytest.raises(InvalidSetting) as refused:
        config(text)
    assert str(refused.value).startswith(sentence)


@requirement("DEP-3")
@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("c.toml", "not toml"),
        ("c.toml", b"\xff\xfe"),
        ("c.yaml", "a: [1"),
        ("c.yaml", "- a list"),
        ("c.yaml", "!!python/object/apply:os.system ['true']"),
    ],
)
def test_a_file_that_cannot_be_read_is_refused_by_its_name(config, name, text):
    with pytest.raises(InvalidSetting, match=name):
        config(text, name)


@requirement("DEP-3")
def test_a_file_that_is_named_but_not_there_is_an_error(tmp_path):
    with pytest.raises(InvalidSetting, match=r"nothing\.toml") as refused:
        load({"REASONBANK_CONFIG": str(tmp_path / "nothing.toml")})
    assert refused.value.field == "REASONBANK_CONFIG"


@requirement("DEP-3")
@pytest.mark.parametrize("name", ["config.toml", "config.yaml", "config.yml"])
def test_a_file_in_the_users_folder_is_found_by_itself(tmp_path, name):
    folder = tmp_path / "reasonbank"
    folder.mkdir()
    (folder / name).write_text(TOML if name.endswith("toml") else YAML)
    assert load({"XDG_CONFIG_HOME": str(tmp_path)}).org == "acme"
    assert load({"XDG_CONFIG_HOME": str(tmp_path / "no")}) == Settings()


@requirement("DEP-3")
def test_settings_are_checked_when_a_bank_is_opened(tmp_path, monkeypatch):
    monkeypatch.setenv("REASONBANK_EMBED_MODEL", "gpt")
    with pytest.raises(InvalidSetting, match=r"embed\.model"):
        Bank.open(f"sqlite:///{tmp_path}/bank.db")
    assert not (tmp_path / "bank.db").exists()


@requirement("DEP-3")
def test_settings_that_only_code_could_give_are_checked_too(tmp_path):
    from reasonbank.settings import Embed

    with pytest.raises(InvalidSetting, match=r"embed\.model"):
        Bank.open(f"sqlite:///{tmp_path}/bank.db", settings=Settings(embed=Embed(model="gpt")))


def test_a_bank_without_a_url_is_in_the_users_data_folder(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    assert default_url() == f"sqlite:///{tmp_path}/data/reasonbank/bank.db"
    with Bank.open() as bank:
        assert bank.statistics().store == default_url()
    monkeypatch.setenv("REASONBANK_URL", f"sqlite:///{tmp_path}/named.db")
    with Bank.open() as bank:
        assert bank.statistics().store.endswith("named.db")


def test_a_setting_that_is_wrong_ends_a_command_with_its_name(tmp_path):
    done = subprocess.run(
        [Path(sys.executable).with_name("reasonbank"), "stats"],
        env={**os.environ, "HOME": str(tmp_path), "REASONBANK_SERCH": "1"},
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert (done.returncode, done.stdout) == (2, "")
    assert "serch" in done.stderr
    assert "Traceback" not in done.stderr


def test_an_agents_token_in_the_environment_is_no_setting():
    assert load({"HOME": "/nowhere", "REASONBANK_TOKEN": "rbk_…"}) == Settings()
