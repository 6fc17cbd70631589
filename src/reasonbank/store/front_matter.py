"""Markdown that begins with a few named values, between two lines of dashes."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import Any

MOST = 400_000
"""Characters of a front matter; what is longer is none."""
_FENCE = "---"


def split(text: str) -> tuple[Mapping[str, Any], str]:
    """The values and the text below them; of a text without any, no values and all of it.

    Raises ``ValueError`` with a reason where the values cannot be read.
    """
    head, body = parts(text)
    return _values(head), body


def parts(text: str) -> tuple[str, str]:
    """What is between the lines of dashes, unread, and the text below; lines end as in Unix."""
    text = text.removeprefix("\ufeff").replace("\r\n", "\n").replace("\r", "\n")
    if not text.startswith(f"{_FENCE}\n"):
        return "", text
    start = len(_FENCE) + 1
    end = text.find(f"\n{_FENCE}\n", len(_FENCE), MOST)
    if end < 0 and text.endswith(f"\n{_FENCE}") and len(text) <= MOST:
        end = len(text) - start
    if end < 0:
        return "", text
    return text[start : end + 1], text[end + len(_FENCE) + 2 :]


def as_text(text: str) -> Mapping[str, Any]:
    """The values alone, and all of them text: neither 1.10 nor yes is anything else."""
    import yaml

    return _values(parts(text)[0], yaml.BaseLoader)


def _values(text: str, loader: Any = None) -> Mapping[str, Any]:
    import yaml

    try:
        found = yaml.load(text, Loader=loader or yaml.SafeLoader)  # nosec B506  # both loaders make plain values only
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        where = f" in line {mark.line + 2}" if mark else ""
        raise ValueError(f"its front matter is not YAML{where}") from None
    except (ValueError, RecursionError):  # A date that is none; a list in a list in a list …
        raise ValueError("its front matter cannot be read") from None
    if not found:
        return {}
    if not isinstance(found, dict):
        raise ValueError("its front matter has no names")
    return {str(name): value for name, value in found.items()}


def joined(values: Mapping[str, Any], body: str) -> str:
    """The inverse of ``split``."""
    import yaml

    head = yaml.dump(dict(values), Dumper=_dumper(), allow_unicode=True, sort_keys=False, width=100)
    return f"{_FENCE}\n{head}{_FENCE}\n{body}"


@cache
def _dumper() -> Any:
    import yaml

    class Dumper(yaml.SafeDumper):
        """Quotes what holds the end of a line: YAML folds them, and knows more than we do."""

    def text(dumper: Any, value: str) -> Any:
        style = None if value.splitlines() == [value] else '"'
        return dumper.represent_scalar("tag:yaml.org,2002:str", value, style=style)

    Dumper.add_representer(str, text)
    return Dumper


def words(value: Any) -> list[str]:
    """A list of words, which may also be one text with commas."""
    if isinstance(value, str):
        value = value.split(",")
    if not isinstance(value, list):
        return []
    found = (" ".join(str(each).split()).lstrip("#") for each in value if _plain(each))
    return list(dict.fromkeys(word for word in found if word))


def _plain(value: Any) -> bool:
    return isinstance(value, str | int | float) and not isinstance(value, bool)
