"""basic-memory's folder: Markdown notes with front matter, observations and relations."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from reasonbank.errors import InvalidInput
from reasonbank.learn.bring.found import Found, LeftOut, Note, files_in, text_of
from reasonbank.store import front_matter


def read(path: Path) -> Iterator[Found]:
    if not path.is_dir():
        raise InvalidInput("path", f"{path} is not a folder; name the one that has the notes")
    notes = 0
    for file in files_in(path):
        where = file.relative_to(path).as_posix()
        if file.suffix.lower() != ".md":
            yield LeftOut(where=where, reason="is not Markdown")
            continue
        notes += 1
        yield _note(file, where)
    if not notes:
        raise InvalidInput("path", f"{path} has no Markdown in it")


def _note(file: Path, where: str) -> Found:
    try:
        values, body = front_matter.split(text_of(file))
    except InvalidInput as error:
        return LeftOut(where=where, reason=error.problem)
    except ValueError as error:
        return LeftOut(where=where, reason=str(error))
    title = _text(values.get("title")) or file.stem
    body = _without_heading(body.strip(), title)
    if _text(values.get("type")) == "schema":
        return LeftOut(where=where, reason="is a schema, not a note")
    if not body:
        return LeftOut(where=where, reason="has no text")
    return Note(
        key=_text(values.get("permalink")) or where,
        where=where,
        title=title,
        content=body,
        tags=tuple(front_matter.words(values.get("tags"))),
    )


def _text(value: Any) -> str:
    return " ".join(str(value).split()) if isinstance(value, str | int | float) else ""


def _without_heading(body: str, title: str) -> str:
    """A note begins by repeating its title."""
    first, _, rest = body.partition("\n")
    return rest.strip() if first.strip() == f"# {title}" else body
