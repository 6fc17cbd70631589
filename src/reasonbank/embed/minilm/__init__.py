"""reasonbank-minilm-1, with no key and nothing to download: in plain numpy, or by onnxruntime.

The weights (int8) and the vocabulary lie next to this file: all-MiniLM-L6-v2, tuned by
``tools/train_embedding`` (docs/model-card.md). ``docs/decisions/0001-embedding-model.md`` says why
it is done this way, and ``0021-two-runtimes.md`` who uses which runtime.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Sequence
from threading import Lock
from typing import TYPE_CHECKING
from weakref import WeakSet

from reasonbank.embed.port import Obstacle
from reasonbank.errors import EmbeddingError

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from .network import Network
    from .quick import Quick
    from .wordpiece import WordPiece

FOLDER = os.path.dirname(os.path.abspath(__file__))
WEIGHTS, VOCABULARY, SUMS = "weights.bin", "vocabulary.txt", "SHA256SUMS"

# To load onnxruntime takes as long as numpy needs for about so many tokens.
LOADING = 4_096
INSTALL = "pip install 'reasonbank[onnx]'"
REINSTALL = "pip install --force-reinstall onnxruntime"
PROBES = (
    "how do I fix a flaky test in CI?",
    "The migration failed: the table was locked by another transaction (SQLITE_BUSY).",
    "Zürich, 日本語 🙂 parse_schedule() -> None; retry with a growing pause",
)


class MiniLM:
    """The default embedder.

    ``runtime`` is "numpy", "onnxruntime" or "auto": numpy, which is there at once, until a
    process has much to embed. A runtime that cannot be used is no error: numpy always can.
    """

    name = "reasonbank-minilm-1"
    dimensions = 384
    semantic = True

    def __init__(self, folder: str = FOLDER, runtime: str = "auto") -> None:
        self._folder = folder
        self._wanted = runtime
        self._parts: tuple[WordPiece, Network] | None = None
        self._loading = Lock()
        self._quick: Quick | None = None
        self._quickening = Lock()
        self._embedded = 0
        self.obstacle: Obstacle | None = None
        _living.add(self)

    @property
    def runtime(self) -> str:
        """What computes the vectors just now."""
        return "numpy" if self._quick is None else self._quick.runtime

    def embed(self, texts: Sequence[str]) -> NDArray[np.float32]:
        wordpiece, network = self._parts or self._load()

        import numpy as np

        # What is the same is computed once: on some processors the rounding of a row depends on
        # its place in the batch.
        kinds: dict[tuple[int, ...], int] = {}
        places = [kinds.setdefault(tuple(wordpiece(text)), len(kinds)) for text in texts]
        tokens = [list(kind) for kind in kinds]
        vectors = np.empty((len(tokens), self.dimensions), np.float32)
        if self._pays_off(sum(map(len, tokens))):
            self.quicken()
        compute_all: Network | Quick = self._quick or network

        def compute(chunk: list[int]) -> None:
            vectors[chunk] = compute_all([tokens[i] for i in chunk])

        chunks = list(_chunks(tokens, compute_all.tokens_at_once))
        if len(chunks) < 2:
            for chunk in chunks:
                compute(chunk)
        else:
            from concurrent.futures import ThreadPoolExecutor

            with ThreadPoolExecutor(_processors()) as pool:
                list(pool.map(compute, chunks))
        return vectors[places]

    def quicken(self) -> None:
        """Use onnxruntime from now on, if it can be had: for who lives long or embeds much."""
        with self._quickening:
            if self._wanted == "numpy" or self._quick is not None or self.obstacle is not None:
                return
            try:
                wordpiece, network = self._parts or self._load()
            except EmbeddingError:
                return  # Whoever embeds next is told, and tries again.
            # A package that does not fit the machine raises whatever it likes.
            try:
                from .quick import Quick

                self._quick = Quick(network, [wordpiece(text) for text in PROBES])
            except ModuleNotFoundError as error:
                self.obstacle = Obstacle(why=f"{error.name} is not installed", install=INSTALL)
            except Exception as error:  # noqa: BLE001
                told = " ".join(str(error).split())[:200]
                why = f"onnxruntime cannot be used: {type(error).__name__}: {told}"
                self.obstacle = Obstacle(why=why, install=REINSTALL, broken=True)

    def _pays_off(self, tokens: int) -> bool:
        """Whether to try onnxruntime now. A question alone never waits for it to be loaded."""
        if self._quick is not None or self.obstacle is not None or self._wanted == "numpy":
            return False
        self._embedded += tokens
        much = self._embedded > LOADING and tokens > LOADING / 8
        return much or self._wanted == "onnxruntime"

    def start_anew(self) -> None:
        """In a forked process: whoever held a lock, or computed, is not there any more."""
        self._loading, self._quickening = Lock(), Lock()
        self._quick = None
        if "onnxruntime" in sys.modules:
            why = "this process was forked from one that uses onnxruntime"
            self.obstacle = Obstacle(why=why, install=INSTALL)

    def verify(self) -> None:
        """Raise ``EmbeddingError`` unless every data file is the one that was published."""
        verify(self._folder)

    def _load(self) -> tuple[WordPiece, Network]:
        with self._loading:
            if self._parts is None:
                from .network import Network
                from .wordpiece import WordPiece

                try:
                    vocabulary = os.path.join(self._folder, VOCABULARY)
                    weights = os.path.join(self._folder, WEIGHTS)
                    self._parts = WordPiece(vocabulary), Network(weights)
                except (OSError, ValueError, KeyError) as error:
                    raise _unusable(self._folder, repr(error)) from error
            return self._parts


_living: WeakSet[MiniLM] = WeakSet()


def _start_anew() -> None:
    for embedder in list(_living):
        embedder.start_anew()


os.register_at_fork(after_in_child=_start_anew)


def _processors() -> int:
    """Those that this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def _chunks(tokens: list[list[int]], at_once: int) -> Iterator[list[int]]:
    """Which texts to compute together: of like length, since equal ones share their attention."""
    chunk: list[int] = []
    room = at_once
    for i in sorted(range(len(tokens)), key=lambda i: -len(tokens[i])):
        if chunk and len(tokens[i]) > room:
            yield chunk
            chunk, room = [], at_once
        chunk.append(i)
        room -= len(tokens[i])
    if chunk:
        yield chunk


def verify(folder: str = FOLDER) -> None:
    """Raise ``EmbeddingError`` unless every data file is the one that was published."""
    import hashlib

    try:
        with open(os.path.join(folder, SUMS), encoding="ascii", errors="replace") as file:
            published = file.read().splitlines()
        for name in (VOCABULARY, WEIGHTS):
            with open(os.path.join(folder, name), "rb") as data:
                found = hashlib.file_digest(data, "sha256").hexdigest()
            if f"{found}  {name}" not in published:
                raise _unusable(folder, f"{name} is damaged: its SHA-256 is {found}")
    except OSError as error:
        raise _unusable(folder, str(error)) from error


def _unusable(folder: str, problem: str) -> EmbeddingError:
    return EmbeddingError(
        f"the embedding model in {folder} cannot be used ({problem}); "
        "run `pip install --force-reinstall reasonbank`"
    )
