"""Vectors in Qdrant: one collection for a bank and a model, whatever number of projects it has.

A realm is a tenant of the collection. Rows that were dropped stay as empty points with their
sequence number, so that a slower process cannot bring back what a quicker one dropped; the
position is the number of one more such point.
"""

from __future__ import annotations

import math
import uuid
import warnings
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from functools import partial
from threading import Lock
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from reasonbank.index.port import Unreachable
from reasonbank.index.served import Gone, Step

if TYPE_CHECKING:
    from pathlib import Path

    from reasonbank.index.served import Floats, Found, Ints
    from reasonbank.settings import IndexSettings

T = TypeVar("T")

MARKER = str(uuid.uuid5(uuid.NAMESPACE_URL, "reasonbank:position"))
BATCH = 1000
"""Points in one request: about 4 MB of JSON at 384 numbers."""


class QdrantEngine:
    """``at`` is the URL of a server, or a folder for the client's local mode."""

    def __init__(
        self,
        at: str | Path,
        *,
        collection: str,
        family: str,
        dimensions: int,
        settings: IndexSettings,
        key: str | None = None,
    ) -> None:
        self.name = f"the Qdrant index at {at}"
        self._at = at
        self._collection = collection
        self._family = family
        self._dimensions = dimensions
        self._settings = settings
        self._key = key
        self._client: Any = None
        # The local mode is for one thread at a time.
        self._turn: AbstractContextManager[Any] = Lock() if self._is_local else nullcontext()

    def position(self) -> int:
        found = self._call(
            lambda client: client.retrieve(self._collection, [MARKER], with_payload=["seq"])
        )
        return int(found[0].payload["seq"]) if found else self._gone()

    def begin(self) -> None:
        self._call(self._make)
        marker = self._points([MARKER], [{"seq": 0}], np.zeros((1, self._dimensions), np.float32))
        models = _models()
        # Only where there is none: another process may be further.
        self._update(
            models.UpsertOperation(
                upsert=models.PointsList(points=marker, update_filter=_seq_at_most(-1))
            )
        )

    def apply(self, step: Step) -> None:
        models = _models()
        nothing = np.zeros((len(step.dropped), self._dimensions), np.float32)
        payloads = [
            {"seq": seq, "realm": str(realm)}
            for seq, realm in zip(step.seqs.tolist(), step.realms.tolist(), strict=True)
        ]
        points = self._points(step.nums.tolist(), payloads, step.vectors)
        points += self._points(
            step.dropped.tolist(), [{"seq": seq} for seq in step.dropped_seqs.tolist()], nothing
        )
        # A point with a higher number than all of these is newer than what is brought here.
        older = _seq_at_most(step.upto)
        if self._is_local and self.position() == step.after:
            older = None  # Nobody else is there, and each point would be compared with all.
        for start in range(0, len(points), BATCH):
            some = models.PointsList(points=points[start : start + BATCH], update_filter=older)
            self._update(models.UpsertOperation(upsert=some))
        between = models.Filter(
            must=[
                models.HasIdCondition(has_id=[MARKER]),
                models.FieldCondition(key="seq", range=models.Range(gte=step.after, lt=step.upto)),
            ]
        )
        moved = models.SetPayload(payload={"seq": step.upto}, filter=between)
        self._update(models.SetPayloadOperation(set_payload=moved))

    def search(
        self, queries: Floats, realms: Sequence[int], limit: int, among: Ints | None
    ) -> tuple[list[Found], int]:
        models = _models()
        any_of = models.MatchAny(any=[str(realm) for realm in realms])
        must: list[Any] = [models.FieldCondition(key="realm", match=any_of)]
        if among is not None:
            must.append(models.HasIdCondition(has_id=among.tolist()))
        requests = [
            models.QueryRequest(
                query=query,
                filter=models.Filter(must=must),
                limit=limit,
                params=self._params(exact=among is not None),
            )
            for query in queries.tolist()
        ]
        marker = models.Filter(must=[models.HasIdCondition(has_id=[MARKER])])
        requests.append(models.QueryRequest(filter=marker, limit=1, with_payload=["seq"]))
        *answers, last = self._call(
            lambda client: client.query_batch_points(
                self._collection, requests, consistency=self._consistency
            )
        )
        if not last.points:
            self._gone()
        found = [
            (
                np.array([point.id for point in answer.points], np.int64),
                np.array([point.score for point in answer.points], np.float32),
            )
            for answer in answers
        ]
        return found, int(last.points[0].payload["seq"])

    def fetch(self, nums: Ints) -> Found:
        found = self._call(
            lambda client: client.retrieve(
                self._collection, nums.tolist(), with_payload=False, with_vectors=True,
                consistency=self._consistency,
            )
        )  # fmt: skip
        vectors = np.array([point.vector for point in found], np.float32)
        return (
            np.array([point.id for point in found], np.int64),
            vectors.reshape(len(found), self._dimensions),
        )

    def erase(self, nums: Ints) -> None:
        """Overwritten with nothing, which no search finds."""
        models = _models()
        position = self.position()
        nothing = np.zeros((len(nums), self._dimensions), np.float32)
        points = self._points(nums.tolist(), [{"seq": position}] * len(nums), nothing)
        for start in range(0, len(points), BATCH):
            some = models.PointsList(points=points[start : start + BATCH])
            self._update(models.UpsertOperation(upsert=some))

    def count(self) -> int:
        models = _models()
        empty = models.IsEmptyCondition(is_empty=models.PayloadField(key="realm"))
        found = self._call(
            lambda client: client.count(
                self._collection, count_filter=models.Filter(must_not=[empty]), exact=True
            )
        )
        return int(found.count)

    def drop(self) -> None:
        self._delete(self._collection)

    def drop_others(self) -> None:
        for each in self._call(lambda client: client.get_collections()).collections:
            if each.name.startswith(self._family) and each.name != self._collection:
                self._delete(each.name)

    def close(self) -> None:
        client, self._client = self._client, None
        if client is not None:
            client.close()

    @property
    def _is_local(self) -> bool:
        return not isinstance(self._at, str)

    @property
    def _consistency(self) -> str | None:
        """Where there are copies, one that lags behind does not answer alone."""
        return "majority" if self._settings.replicas > 1 and not self._is_local else None

    def _make(self, client: Any) -> None:
        models = _models()
        if client.collection_exists(self._collection):
            return
        self._create(client)
        if self._is_local:
            return  # It would warn that it has no indexes.
        tenant = models.KeywordIndexParams(type=models.KeywordIndexType.KEYWORD, is_tenant=True)
        client.create_payload_index(self._collection, "realm", field_schema=tenant)
        number = models.IntegerIndexParams(
            type=models.IntegerIndexType.INTEGER, lookup=False, range=True
        )
        client.create_payload_index(self._collection, "seq", field_schema=number)

    def _create(self, client: Any) -> None:
        from qdrant_client.http.exceptions import UnexpectedResponse

        models, settings = _models(), self._settings
        made = partial(
            client.create_collection,
            self._collection,
            vectors_config=models.VectorParams(size=self._dimensions, distance=models.Distance.DOT),
            quantization_config=_quantization(settings.quantization),
            replication_factor=settings.replicas,
        )
        try:
            made()
        except UnexpectedResponse as error:
            if error.status_code != 409:  # Another process was quicker.
                raise

    def _params(self, *, exact: bool) -> Any:
        if self._is_local:
            return None  # It is always exact, and warns of parameters.
        models = _models()
        again = models.QuantizationSearchParams(rescore=True, oversampling=2.0)
        return models.SearchParams(exact=exact, hnsw_ef=256, quantization=again)

    def _points(self, ids: list[Any], payloads: list[dict[str, Any]], vectors: Floats) -> list[Any]:
        models = _models()
        return [
            models.PointStruct(id=id, vector=vector, payload=payload)
            for id, payload, vector in zip(ids, payloads, vectors.tolist(), strict=True)
        ]

    def _update(self, operation: Any) -> None:
        self._call(lambda client: client.batch_update_points(self._collection, [operation]))

    def _delete(self, collection: str) -> None:
        self._call(lambda client: client.delete_collection(collection))

    def _gone(self) -> Any:
        raise Gone

    def _call(self, ask: Callable[[Any], T]) -> T:
        from qdrant_client.common.client_exceptions import QdrantException
        from qdrant_client.http.exceptions import ApiException, UnexpectedResponse

        try:
            with self._turn:
                if self._client is None:
                    self._client = self._connected()
                return ask(self._client)
        except UnexpectedResponse as error:
            if error.status_code == 404:
                raise Gone from None
            raise Unreachable(f"{self.name} {_refusal(error.status_code)}") from None
        except (ApiException, QdrantException, OSError) as error:
            raise Unreachable(f"{self.name} {self._silence(error)}") from None
        except (ValueError, RuntimeError) as error:
            if self._is_local and "not found" in str(error):
                raise Gone from None
            raise Unreachable(f"{self.name} failed ({type(error).__name__})") from None

    def _connected(self) -> Any:
        from qdrant_client import QdrantClient

        if self._is_local:
            return QdrantClient(path=str(self._at))
        with warnings.catch_warnings():
            # A key over plain HTTP is for whoever set it up so.
            warnings.simplefilter("ignore", UserWarning)
            return QdrantClient(
                url=str(self._at),
                api_key=self._key,
                timeout=math.ceil(self._settings.timeout_seconds),
                check_compatibility=False,
            )

    def _silence(self, error: Exception) -> str:
        source = getattr(error, "source", error)
        if "timeout" in type(source).__name__.lower() or "timed out" in str(source):
            return f"did not answer within {self._settings.timeout_seconds:g} s"
        return f"cannot be reached ({type(source).__name__})"


def _refusal(status: int | None) -> str:
    if status in (401, 403):
        return f"refused the key (HTTP {status}): set index.key_env or QDRANT_API_KEY"
    return f"refused the request (HTTP {status})"


def _seq_at_most(seq: int) -> Any:
    models = _models()
    return models.Filter(must=[models.FieldCondition(key="seq", range=models.Range(lte=seq))])


def _quantization(kind: str) -> Any:
    models = _models()
    if kind == "scalar":
        int8 = models.ScalarType.INT8
        return models.ScalarQuantization(
            scalar=models.ScalarQuantizationConfig(type=int8, always_ram=True)
        )
    if kind == "binary":
        return models.BinaryQuantization(binary=models.BinaryQuantizationConfig(always_ram=True))
    return None


def _models() -> Any:
    from qdrant_client import models

    return models
