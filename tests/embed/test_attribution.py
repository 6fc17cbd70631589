"""The wheel says whose texts its model was trained on."""

from __future__ import annotations

import tomllib
from pathlib import Path

from tools.attribution import FILE, text
from tools.train_embedding.sources import table

ROOT = Path(__file__).parents[2]


def test_the_attribution_is_that_of_the_table_of_sources():
    assert FILE.read_text("utf-8") == text(table()), "run: python -m tools.attribution"


def test_it_names_every_holder_and_nobody_whose_texts_were_only_measured_on():
    written = FILE.read_text("utf-8")
    sources = table()
    trained = {source.repository for source in sources if source.use == "train"}
    for source in sources:
        named = f"github.com/{source.repository} " in written
        assert named == (source.repository in trained), source.repository
        assert not named or source.holder in written


def test_the_wheel_carries_it():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    assert str(FILE.relative_to(ROOT)) in project["license-files"]
