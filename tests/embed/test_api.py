"""Embeddings from a server, over real HTTP."""

import logging
import re

import numpy as np
import pytest
from tests.conftest import Opener
from tests.embed.conftest import vectors_of
from tests.llm.servers import CUT, HTML, Answer, Server, busy, of, refused
from tests.requirement import requirement

from reasonbank import EmbeddingError, InvalidSetting, Settings
from reasonbank.embed import api as module
from reasonbank.embed.api import API
from reasonbank.opening import embedder_of
from reasonbank.settings import Embed, check
from reasonbank.testing import a_memory

SECRET = "sk-this-must-never-be-seen"
HERE = {"OPENAI_API_KEY": SECRET}


@pytest.fixture(autouse=True)
def _short_pauses(monkeypatch):
    monkeypatch.setattr("openai._base_client.INITIAL_RETRY_DELAY", 0.02, raising=False)


@pytest.fixture
def serve():
    running = []

    def start(answers):
        running.append(Server(answers).__enter__())
        return running[-1]

    yield start
    for server in running:
        server.__exit__()


@requirement("RET-16")
def test_text_embedding_3_small_gives_1536_numbers(serve):
    server = serve(vectors_of)
    embedder = embedder_of(Settings(embed=Embed(model="api", base_url=server.url)), HERE)
    vectors = embedder.embed(["one", "two"])
    assert vectors.shape == (2, 1536)
    sent = server.requests[0]
    assert sent.path == "/v1/embeddings"
    assert sent.headers["authorization"] == f"Bearer {SECRET}"
    assert sent.body == {
        "model": "text-embedding-3-small", "input": ["one", "two"], "encoding_format": "float"
    }  # fmt: skip


@requirement("RET-16")
def test_any_compatible_server_will_do_once_its_dimensions_are_known(serve):
    server = serve(_of_768)
    settings = Embed(model="api", api_model="nomic/embed text", base_url=server.url,
                     dimensions=768, key_env="")  # fmt: skip
    embedder = embedder_of(check(Settings(embed=settings)), {})
    assert embedder.embed(["x"]).shape == (1, 768)
    assert "dimensions" not in server.requests[0].body
    assert re.fullmatch(r"[\w.-]+", embedder.name)  # It becomes part of a file's name.
    with pytest.raises(InvalidSetting, match=r"embed\.dimensions"):
        API(model="nomic", base_url=server.url, key_env="")


def _of_768(request):
    items = [{"index": i, "embedding": [1.0] * 768} for i, _ in enumerate(request.body["input"])]
    return of({"data": items})


def test_a_known_model_can_give_fewer_numbers(serve):
    server = serve(vectors_of)
    embedder = API(dimensions=256, base_url=server.url, environment=HERE)
    assert embedder.embed(["x"]).shape == (1, 256)
    assert server.requests[0].body["dimensions"] == 256
    assert embedder.name != API(base_url=server.url).name


def test_many_texts_go_in_batches_and_keep_their_order(serve, monkeypatch):
    monkeypatch.setattr(module, "BATCH", 10)
    monkeypatch.setattr(module, "BATCH_CHARACTERS", 200)
    server = serve(vectors_of)
    embedder = API(base_url=server.url, key_env="")
    texts = [f"text {i} " * (1 + i % 7 * 3) for i in range(40)]
    vectors = embedder.embed(texts)
    sizes = [len(request.body["input"]) for request in server.requests]
    assert sum(sizes) == 40
    assert max(sizes) <= 10
    assert len(sizes) > 4
    for i in (0, 13, 39):
        assert np.allclose(vectors[i], embedder.embed([texts[i]])[0])


def test_a_text_with_too_many_tokens_is_cut_until_it_fits_and_spoils_no_other(serve):
    server = serve(vectors_of)
    embedder = API(base_url=server.url, key_env="")
    long = "語" * 24_000  # 72,000 bytes: more than the server takes.
    alone = embedder.embed([long])[0]
    together = embedder.embed(["short", long])
    assert np.allclose(together[1], alone)
    assert np.allclose(together[0], embedder.embed(["short"])[0])


@pytest.mark.parametrize("fault", [busy(429), busy(503), CUT, HTML], ids=str)
def test_a_passing_fault_is_retried(serve, fault):
    server = serve(lambda r: fault if len(server.requests) < 3 else vectors_of(r))
    assert API(base_url=server.url, key_env="").embed(["x"]).shape == (1, 1536)
    assert len(server.requests) == 3


@pytest.mark.parametrize(
    ("answer", "cause"),
    [
        (busy(503), "503"),
        (refused(400, "no such thing"), "no such thing"),
        (refused(401, SECRET), "OPENAI_API_KEY is not accepted"),
        (refused(404, "no such model"), "no such model"),
        (of({"hello": "world"}), "no embeddings"),
        (of({"data": [{"index": 0, "embedding": [1.0] * 3}]}), "embed.dimensions"),
        (of({"data": [{"index": 0, "embedding": [0.0] * 1536}]}), "without a direction"),
        (of({"data": [{"index": 0, "embedding": ["x"] * 1536}]}), "no embeddings"),
        (of({"data": []}), "embed.dimensions"),
        (HTML, "not JSON"),
        (Answer(302, b"", {"location": "http://127.0.0.1:9/v1/embeddings"}), "redirects"),
    ],
    ids=range(11),
)
def test_what_goes_wrong_is_an_embedding_error_that_says_what(serve, caplog, answer, cause):
    caplog.set_level(logging.DEBUG)
    embedder = API(base_url=serve([answer]).url, environment=HERE)
    with pytest.raises(EmbeddingError, match=re.escape(cause)) as error:
        embedder.embed(["x"])
    assert SECRET not in str(error.value) + caplog.text


def test_a_missing_key_is_told_by_its_variable_when_it_is_needed():
    embedder = API(environment={})
    with pytest.raises(EmbeddingError, match="OPENAI_API_KEY"):
        embedder.embed(["x"])


@requirement("RET-16")
def test_another_model_asks_for_reindex_and_finds_by_words_until_then(
    open_bank: Opener, embedding_server
):
    before = open_bank()
    before.record(a_memory(title="Retry uploads"))
    before.close()
    settings = Settings(embed=Embed(model="api", base_url=embedding_server.url, key_env=""))
    bank = open_bank(settings=settings)
    reply = bank.search("retry uploads")
    assert any("run `reasonbank reindex`" in note for note in reply.notes)
    assert reply.hits
    bank.reindex()
    reply = bank.search("retry uploads")
    assert not any("reindex" in note for note in reply.notes)
    assert reply.hits


@requirement("DIS-10")
def test_a_secret_in_a_question_stays_here(serve):
    secret = "ghp_" + "a1B2c3D4e5F6g7H8i9J0" + "k1L2m3N4o5P6q7R8"
    server = serve(vectors_of)
    embedder_of(Settings(embed=Embed(model="api", base_url=server.url)), HERE).embed([secret])
    assert server.requests[0].body["input"] == ["[secret:github-token]"]
