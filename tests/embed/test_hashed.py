from __future__ import annotations

import numpy as np
import pytest

from reasonbank.embed.hashed import Hashed
from reasonbank.embed.minilm import MiniLM


def test_shared_words_bring_texts_together():
    asked, alike, other = Hashed().embed(
        ["the database is locked", "why is my database locked?", "book a flight to Rome"]
    )
    assert asked @ alike > 0.5 > 0.3 > asked @ other


def test_shared_spelling_brings_words_together():
    asked, alike, other = Hashed().embed(["migrating", "migrated", "refund"])
    assert asked @ alike > 0.3 > asked @ other


def test_vectors_are_pinned_because_banks_store_them():
    vector = Hashed().embed(["Find the race"])[0]
    assert np.flatnonzero(vector)[:6].tolist() == [20, 37, 92, 106, 186, 211]
    assert vector[[20, 92]].round(5).tolist() == pytest.approx([-0.28868, 0.28868])


def test_it_declares_itself_degraded_and_never_passes_for_the_model():
    assert not Hashed().semantic
    assert MiniLM().semantic
    assert Hashed().name != MiniLM().name
