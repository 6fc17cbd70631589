"""What every ``Embedder`` must do, as tests. An adapter's test file is a subclass:

class TestHashed(EmbedderContract):
    @pytest.fixture
    def embedder(self):
        return Hashed()
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from reasonbank.embed.port import Embedder

TEXTS = [
    "retry the upload with backoff",
    "",
    "the migration failed because the table was locked " * 12,
    "retry the upload with backoff",
    "été à Zürich: 日本語 🙂",
    "close the file",
]
STRANGE = [
    "\x00",
    "\ud800 lone \udfff",
    "\u202e\u200b",
    "\U000e0001",
    "�" * 9,
    " \n\t",
    "a" * 5_000,
]


class EmbedderContract:
    """Subclass this and give ``embedder``; a fresh one for each test need not be cheap."""

    tolerance = 1e-5

    @pytest.fixture
    def embedder(self) -> Embedder:
        raise NotImplementedError("a contract needs an embedder to test")

    def test_it_has_a_name_and_is_whole(self, embedder: Embedder) -> None:
        assert embedder.name and embedder.dimensions > 0
        embedder.verify()

    def test_an_empty_batch_gives_an_empty_array(self, embedder: Embedder) -> None:
        assert embedder.embed([]).shape == (0, embedder.dimensions)

    def test_every_text_gives_one_unit_vector_of_32_bit_numbers(self, embedder: Embedder) -> None:
        vectors = embedder.embed(TEXTS + STRANGE)
        assert vectors.shape == (len(TEXTS + STRANGE), embedder.dimensions)
        assert vectors.dtype == np.float32
        assert np.allclose(np.linalg.norm(vectors, axis=1), 1, atol=self.tolerance)

    def test_a_text_has_the_same_vector_alone_and_in_any_batch(self, embedder: Embedder) -> None:
        together = embedder.embed(TEXTS)
        assert np.array_equal(together[0], together[3])
        backwards = embedder.embed(TEXTS[::-1])[::-1]
        alone = np.concatenate([embedder.embed([text]) for text in TEXTS])
        assert np.abs(together - backwards).max() < self.tolerance
        assert np.abs(together - alone).max() < self.tolerance

    def test_answers_keep_the_order_asked_across_many_chunks(self, embedder: Embedder) -> None:
        texts = [f"note {i}: " + "fix the build " * (i * 7 % 40) for i in range(60)]
        vectors = embedder.embed(texts)
        for i in (0, 17, 42, 59):
            assert np.abs(vectors[i] - embedder.embed([texts[i]])[0]).max() < self.tolerance

    def test_ten_megabytes_are_cut_and_not_refused(self, embedder: Embedder) -> None:
        text = "the cache was stale " * 500_000
        vectors = embedder.embed([text, text[:100_000], "\u3000" * 10_000_000])
        assert np.array_equal(vectors[0], vectors[1])

    def test_threads_that_all_call_at_once_get_the_same_vectors(self, embedder: Embedder) -> None:
        with ThreadPoolExecutor(8) as pool:
            answers = list(pool.map(lambda _: embedder.embed(TEXTS), range(16)))
        assert all(np.abs(answer - answers[0]).max() < self.tolerance for answer in answers)
