"""Vectors in Chroma: one collection for a bank and a model, on a server or in a folder.

The server is spoken to over HTTP without Chroma's own client, which waits for an answer for
ever, takes seconds to load, and is not needed then. The position is in the collection's metadata.
"""

from __future__ import annotations

import base64
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from reasonbank.index.port import Unreachable
from reasonbank.index.served import Gone, Step, exact

if TYPE_CHECKING:
    from pathlib import Path

    from reasonbank.index.served import Floats, Found, Ints
    from reasonbank.settings import IndexSettings

BATCH = 500
AT_ONCE = 2000
"""Ids in one question: SQLite, which Chroma asks, takes so many."""
WRITING = 4
"""So many times longer than to answer a server may take to write."""
HNSW = {"space": "ip", "ef_construction": 200, "ef_search": 1000, "max_neighbors": 32}
"""10,000 random vectors: a recall of 0.965 where ef_search is 256, and 1.0 where it is 1000."""
JSON = dict[str, Any]


class Transport(Protocol):
    """Collections, as Chroma's API has them; ``Gone`` and ``Unreachable`` as in ``Engine``."""

    def collection(self, name: str) -> tuple[str, Mapping[str, Any]]:
        """Its id, which is another one when it was made anew, and its metadata."""

    def make(self, name: str, metadata: JSON) -> None: ...
    def modify(self, collection: str, metadata: JSON) -> None: ...
    def ask(self, collection: str, verb: str, **what: Any) -> Any:
        """get, query, upsert, delete or count."""

    def remove(self, name: str) -> None: ...
    def names(self) -> list[str]: ...
    def close(self) -> None: ...


class ChromaEngine:
    def __init__(
        self, transport: Transport, *, name: str, collection: str, family: str, dimensions: int
    ) -> None:
        self.name = name
        self._chroma = transport
        self._collection = collection
        self._family = family
        self._dimensions = dimensions
        self._here = ""

    def position(self) -> int:
        return self._there()[1]

    def begin(self) -> None:
        self._chroma.make(self._collection, {"position": 0})

    def apply(self, step: Step) -> None:
        here = self._here or self._there()[0]
        for start in range(0, len(step.nums), BATCH):
            part = slice(start, start + BATCH)
            rows = zip(step.realms[part].tolist(), step.seqs[part].tolist(), strict=True)
            self._chroma.ask(
                here,
                "upsert",
                ids=_ids(step.nums[part]),
                embeddings=step.vectors[part],
                metadatas=[{"realm": realm, "seq": seq} for realm, seq in rows],
            )
        self._delete(here, step.dropped)
        again, position = self._there()
        if again == here and position == step.after:
            self._chroma.modify(here, {"position": step.upto})
        elif again == here and position != step.upto:
            # Another process followed at the same time and may have been ahead of this one:
            # what both wrote is written once more.
            self._chroma.modify(here, {"position": min(position, step.after)})

    def search(
        self, queries: Floats, realms: Sequence[int], limit: int, among: Ints | None
    ) -> tuple[list[Found], int]:
        here, position = self._there()
        where = {"realm": {"$in": list(realms)}}
        if among is not None:
            # A graph finds some of few rows; by looking at each, all are found.
            nums, vectors = self._get(here, among, where)
            return exact(nums, vectors, queries, limit), position
        answer = self._chroma.ask(
            here, "query", query_embeddings=queries, n_results=limit, where=where,
            include=["distances"],
        )  # fmt: skip
        found = [
            (np.array([int(id) for id in ids], np.int64), 1 - np.array(distances, np.float32))
            for ids, distances in zip(answer["ids"], answer["distances"], strict=True)
        ]
        return found, position

    def fetch(self, nums: Ints) -> Found:
        return self._get(self._there()[0], nums, None)

    def erase(self, nums: Ints) -> None:
        self._delete(self._there()[0], nums)

    def count(self) -> int:
        return int(self._chroma.ask(self._there()[0], "count"))

    def drop(self) -> None:
        self._chroma.remove(self._collection)

    def drop_others(self) -> None:
        for name in self._chroma.names():
            if name.startswith(self._family) and name != self._collection:
                self._chroma.remove(name)

    def close(self) -> None:
        self._chroma.close()

    def _there(self) -> tuple[str, int]:
        here, metadata = self._chroma.collection(self._collection)
        self._here = here
        return here, int(metadata.get("position", 0))

    def _delete(self, here: str, nums: Ints) -> None:
        for start in range(0, len(nums), AT_ONCE):
            self._chroma.ask(here, "delete", ids=_ids(nums[start : start + AT_ONCE]))

    def _get(self, here: str, nums: Ints, where: JSON | None) -> Found:
        found: list[int] = []
        vectors = [np.empty((0, self._dimensions), np.float32)]
        for start in range(0, len(nums), AT_ONCE):
            ids = _ids(nums[start : start + AT_ONCE])
            answer = self._chroma.ask(here, "get", ids=ids, where=where, include=["embeddings"])
            found += map(int, answer["ids"])
            there = np.asarray(answer["embeddings"], np.float32)
            vectors.append(there.reshape(-1, self._dimensions))
        return np.array(found, np.int64), np.concatenate(vectors)


def _ids(nums: Ints) -> list[str]:
    return list(map(str, nums.tolist()))


class Server:
    """``url`` may end with a tenant and a database."""

    def __init__(self, url: str, *, settings: IndexSettings, key: str | None) -> None:
        from urllib.parse import quote, urlsplit

        import httpx2

        parts = urlsplit(url)
        tenant, database = [*filter(None, parts.path.split("/")), "", ""][:2]
        self.name = f"the Chroma index at {parts.scheme}://{parts.netloc}"
        self._timeout = settings.timeout_seconds
        self._root = (
            f"/tenants/{quote(tenant or 'default_tenant')}"
            f"/databases/{quote(database or 'default_database')}/collections"
        )
        headers = {"x-chroma-token": key, "Authorization": f"Bearer {key}"} if key else {}
        self._http = httpx2.Client(
            base_url=f"{parts.scheme}://{parts.netloc}/api/v2",
            headers=headers,
            timeout=self._timeout,
        )

    def collection(self, name: str) -> tuple[str, Mapping[str, Any]]:
        found = self._request("GET", f"/{name}")
        return found["id"], found.get("metadata") or {}

    def make(self, name: str, metadata: JSON) -> None:
        made = {"name": name, "get_or_create": True, "metadata": metadata}
        self._request("POST", "", {**made, "configuration": {"hnsw": HNSW}}, writes=True)

    def modify(self, collection: str, metadata: JSON) -> None:
        self._request("PUT", f"/{collection}", {"new_metadata": metadata}, writes=True)

    def ask(self, collection: str, verb: str, **what: Any) -> Any:
        if "embeddings" in what:
            packed = what["embeddings"].astype("<f4")
            what["embeddings"] = [base64.b64encode(row.tobytes()).decode() for row in packed]
        if "query_embeddings" in what:
            what["query_embeddings"] = what["query_embeddings"].tolist()
        method = "GET" if verb == "count" else "POST"
        writes = verb in ("upsert", "delete")
        return self._request(method, f"/{collection}/{verb}", what or None, writes=writes)

    def remove(self, name: str) -> None:
        self._request("DELETE", f"/{name}", writes=True)

    def names(self) -> list[str]:
        return [each["name"] for each in self._request("GET", "")]

    def close(self) -> None:
        self._http.close()

    def _request(
        self, method: str, path: str, body: JSON | None = None, *, writes: bool = False
    ) -> Any:
        import httpx2

        seconds = self._timeout * (WRITING if writes else 1)
        try:
            answer = self._http.request(method, self._root + path, json=body, timeout=seconds)
            if answer.status_code == 404:
                raise Gone
            if answer.is_success:
                return answer.json()
        except httpx2.TimeoutException:
            raise Unreachable(f"{self.name} did not answer within {seconds:g} s") from None
        except (httpx2.HTTPError, ValueError, RuntimeError) as error:
            raise Unreachable(f"{self.name} cannot be reached ({type(error).__name__})") from None
        if answer.status_code in (401, 403):
            why = f"refused the key (HTTP {answer.status_code}): set index.key_env"
            raise Unreachable(f"{self.name} {why} or CHROMA_API_KEY")
        raise Unreachable(f"{self.name} refused the request (HTTP {answer.status_code})")


class Folder:
    """Chroma inside this process. No other process may use the folder meanwhile: it would not
    see what is written here."""

    def __init__(self, path: Path) -> None:
        self.name = f"the Chroma index in {path}"
        self._path = path
        self._opened: Any = None
        self._handles: dict[str, Any] = {}

    def collection(self, name: str) -> tuple[str, Mapping[str, Any]]:
        found = self._call(lambda: self._client().get_collection(name, embedding_function=None))
        self._handles[str(found.id)] = found
        return str(found.id), found.metadata or {}

    def make(self, name: str, metadata: JSON) -> None:
        self._call(
            lambda: self._client().get_or_create_collection(
                name, metadata=metadata, configuration={"hnsw": HNSW}, embedding_function=None
            )
        )

    def modify(self, collection: str, metadata: JSON) -> None:
        self._call(lambda: self._handles[collection].modify(metadata=metadata))

    def ask(self, collection: str, verb: str, **what: Any) -> Any:
        return self._call(lambda: getattr(self._handles[collection], verb)(**what))

    def remove(self, name: str) -> None:
        self._call(lambda: self._client().delete_collection(name))

    def names(self) -> list[str]:
        return [each.name for each in self._call(lambda: self._client().list_collections())]

    def close(self) -> None:
        client, self._opened = self._opened, None
        if client is not None:
            client.close()

    def _client(self) -> Any:
        if self._opened is None:
            import chromadb
            from chromadb.config import Settings

            self._opened = chromadb.PersistentClient(
                str(self._path), settings=Settings(anonymized_telemetry=False)
            )
        return self._opened

    def _call(self, ask: Any) -> Any:
        from chromadb.errors import ChromaError, NotFoundError

        try:
            return ask()
        except NotFoundError:
            raise Gone from None
        except (ChromaError, OSError, ValueError, RuntimeError) as error:
            raise Unreachable(f"{self.name} failed ({type(error).__name__})") from None
