"""The page for people: files of this package, read once, served as they are.

They hold no data, so that anybody may have them; what the page shows it asks of the JSON API.
"""

from __future__ import annotations

import gzip
import hashlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from importlib.resources import files
from importlib.resources.abc import Traversable

from reasonbank.surfaces.http.exchange import HttpAnswer

VIEWS = frozenset(
    {"search", "memory", "review", "learning", "sessions", "work", "agents", "peers", "settings"}
)
"""The first part of an address that the page itself makes sense of."""
POLICY = (
    b"default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; "
    b"font-src 'self'; connect-src 'self'; base-uri 'none'; form-action 'none'; "
    b"frame-ancestors 'none'"
)
_KINDS = {
    "html": b"text/html; charset=utf-8",
    "js": b"text/javascript; charset=utf-8",
    "css": b"text/css; charset=utf-8",
    "svg": b"image/svg+xml",
    "png": b"image/png",
    "json": b"application/json; charset=utf-8",
    "txt": b"text/plain; charset=utf-8",
    "woff2": b"font/woff2",
}
_PACKED = frozenset({"html", "js", "css", "svg", "json", "txt"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Asset:
    body: bytes
    packed: bytes | None
    tag: bytes
    kind: bytes

    def answer(self, headers: Mapping[bytes, bytes]) -> HttpAnswer:
        told = (
            (b"content-security-policy", POLICY),
            (b"cache-control", b"no-cache"),
            (b"etag", self.tag),
            (b"vary", b"accept-encoding"),
        )
        if self.tag in headers.get(b"if-none-match", b""):
            return HttpAnswer(body=b"", status=304, kind=self.kind, headers=told)
        if self.packed is not None and b"gzip" in headers.get(b"accept-encoding", b""):
            packed = (b"content-encoding", b"gzip")
            return HttpAnswer(body=self.packed, kind=self.kind, headers=(*told, packed))
        return HttpAnswer(body=self.body, kind=self.kind, headers=told)


class Assets:
    def __init__(self) -> None:
        folder = files("reasonbank.surfaces.http") / "page"
        self._found = dict(_read(folder, ""))

    def find(self, path: str) -> Asset | None:
        """The file of an address; every view is the one page, which looks at its address."""
        if path.startswith("/assets/"):
            return self._found.get(path.removeprefix("/assets/"))
        view = path.split("/")[1]
        return self._found["index.html"] if view in VIEWS or path == "/" else None


def _read(folder: Traversable, above: str) -> Iterator[tuple[str, Asset]]:
    for entry in folder.iterdir():
        name = f"{above}{entry.name}"
        ending = entry.name.rpartition(".")[2]
        if entry.is_dir():
            yield from _read(entry, f"{name}/")
        elif ending in _KINDS:
            body = entry.read_bytes()
            tag = f'"{hashlib.sha256(body).hexdigest()[:20]}"'.encode()
            packed = gzip.compress(body, mtime=0) if ending in _PACKED else None
            yield name, Asset(body=body, packed=packed, tag=tag, kind=_KINDS[ending])
