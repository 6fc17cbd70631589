"""Embeddings from a server that speaks OpenAI's style: OpenAI, Ollama, vLLM, llama.cpp, …"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping, Sequence
from threading import Lock
from typing import TYPE_CHECKING, Any
from weakref import finalize

from reasonbank.errors import (
    EmbeddingError,
    InvalidSetting,
    KeyRefused,
    ModelError,
    ModelRefused,
)
from reasonbank.llm.http import NO_KEY, RETRIES, Key, client, errors_of, key_in

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray
    from openai import OpenAI

BATCH = 128
BATCH_CHARACTERS = 400_000
MAX_CHARACTERS = 24_000
"""About 6,000 tokens of English; the servers' own limit is near 8,000."""
LEAST_CHARACTERS = 500

KNOWN = {
    "text-embedding-3-small": 1536,
    "text-embedding-3-large": 3072,
    "text-embedding-ada-002": 1536,
}


class API:
    semantic = True

    def __init__(
        self,
        *,
        model: str = "text-embedding-3-small",
        base_url: str = "https://api.openai.com/v1",
        key_env: str = "OPENAI_API_KEY",
        dimensions: int = 0,
        timeout: float = 30.0,
        scrub: bool = True,
        environment: Mapping[str, str] | None = None,
    ) -> None:
        """``key_env`` is empty for a server that wants no key; ``scrub`` keeps secrets here."""
        own = KNOWN.get(model.rpartition("/")[2], 0)
        if not (dimensions or own):
            raise InvalidSetting(
                "embed.dimensions", f"is 0; say how many numbers a vector of {model!r} has"
            )
        self.dimensions = dimensions or own
        self.name = re.sub(r"[^\w.-]+", "-", f"{model}-{self.dimensions}")
        self._model = model
        self._base_url = base_url
        self._key_env = key_env
        # Only models that can give fewer numbers than they have take this parameter.
        self._fewer = self.dimensions if own and self.dimensions != own else None
        self._timeout = timeout
        self._scrub = scrub
        self._environment = os.environ if environment is None else environment
        self._client: OpenAI | None = None
        self._connecting = Lock()

    def embed(self, texts: Sequence[str]) -> NDArray[np.float32]:
        import numpy as np

        vectors = np.empty((len(texts), self.dimensions), np.float32)
        sent = [_sendable(self._without_secrets(text)) for text in texts]
        for chunk in _chunks(sent):
            vectors[chunk.start : chunk.stop] = self._vectors(sent[chunk.start : chunk.stop])
        lengths = np.linalg.norm(vectors, axis=1, keepdims=True)
        if not np.isfinite(lengths).all() or (lengths == 0).any():
            raise EmbeddingError(f"{self._who} gave a vector without a direction")
        vectors /= lengths
        return vectors

    def _without_secrets(self, text: str) -> str:
        """Memories hold none; a question may."""
        if not self._scrub:
            return text
        from reasonbank.safety.scrub import clean

        return clean(text)

    def verify(self) -> None:
        """Ask it for one vector."""
        self.embed(["does it answer?"])

    @property
    def _who(self) -> str:
        return f"{self._model} at {self._base_url}"

    def _vectors(self, texts: list[str]) -> Any:
        import numpy as np

        data = self._ask(texts)
        if data is None and len(texts) == 1:
            # Too long in tokens, however few characters: a shorter beginning will do.
            return self._vectors([texts[0][: len(texts[0]) // 2]])
        if data is None:
            return np.concatenate([self._vectors([text]) for text in texts])
        try:
            ordered = sorted(data["data"], key=lambda item: item["index"])
            vectors = np.array([item["embedding"] for item in ordered], np.float32)
        except (KeyError, TypeError, ValueError):
            raise EmbeddingError(
                f"the answer of {self._who} holds no embeddings; check embed.base_url"
            ) from None
        if vectors.shape != (len(texts), self.dimensions):
            raise EmbeddingError(
                f"{self._who} gave vectors of shape {vectors.shape}, not "
                f"({len(texts)}, {self.dimensions}); check embed.dimensions"
            )
        return vectors

    def _ask(self, texts: list[str]) -> Any:
        """The server's answer; ``None`` where less of the text may be accepted."""
        try:
            import openai
        except ImportError:
            raise EmbeddingError(
                "embed.model api needs openai; run: pip install 'reasonbank[openai]'"
            ) from None
        key = self._key()
        try:
            with errors_of(openai, who=self._who, key=key, section="embed", seconds=self._timeout):
                raw = self._connected(key).embeddings.with_raw_response.create(
                    model=self._model,
                    input=texts,
                    dimensions=self._fewer or openai.omit,
                    encoding_format="float",
                )
            return raw.http_response.json()
        except ModelError as error:
            refused = isinstance(error, ModelRefused) and error.answered in (400, 413, 422)
            if refused and (len(texts) > 1 or len(texts[0]) > LEAST_CHARACTERS):
                return None
            raise EmbeddingError(str(error)) from None

    def _key(self) -> Key | None:
        try:
            return key_in(self._environment, self._key_env, setting="embed.model = api")
        except KeyRefused as error:
            raise EmbeddingError(
                f"{error}; set embed.key_env to '' if the server needs none"
            ) from None

    def _connected(self, key: Key | None) -> OpenAI:
        with self._connecting:
            if self._client is None:
                from openai import OpenAI

                self._client = OpenAI(
                    api_key=key.value if key else NO_KEY,
                    base_url=self._base_url,
                    max_retries=RETRIES,
                    timeout=self._timeout,
                    http_client=client(self._timeout),
                )
                self._client.organization = self._client.project = None
                # An embedder has no end of its own: it goes with the last bank that uses it.
                finalize(self, self._client.close)
            return self._client


def _sendable(text: str) -> str:
    """What servers accept: no empty text, no half characters, not too much."""
    return text[:MAX_CHARACTERS].encode("utf-8", "replace").decode() or " "


def _chunks(texts: list[str]) -> Iterator[range]:
    start = size = 0
    for i, text in enumerate(texts):
        if i > start and (i - start == BATCH or size + len(text) > BATCH_CHARACTERS):
            yield range(start, i)
            start, size = i, 0
        size += len(text)
    if start < len(texts):
        yield range(start, len(texts))
