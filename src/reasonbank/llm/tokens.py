"""How many tokens a text has, before a server says so."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

from reasonbank.errors import InvalidSetting
from reasonbank.llm.port import Message

if TYPE_CHECKING:
    from tokenizers import Tokenizer

CHARACTERS_A_TOKEN = 4

Count = Callable[[str], int]


def by_characters(text: str) -> int:
    """Four characters a token, as in English; in other writing, one token less than it has bytes.

    That is more than most models need for such a character, so that a limit holds for them.
    """
    if text.isascii():
        return -(-len(text) // CHARACTERS_A_TOKEN)
    plain = len(text.encode("ascii", "ignore"))
    return -(-plain // CHARACTERS_A_TOKEN) + len(text.encode("utf-8", "replace")) - len(text)


def counter(tokenizer: str) -> Count:
    """Counts by the model's own ``tokenizer.json``, or by characters where none is named."""
    return by_tokenizer(Path(tokenizer).expanduser()) if tokenizer else by_characters


def by_tokenizer(path: Path) -> Count:
    tokenizer = _tokenizer(path)
    return lambda text: len(tokenizer.encode(text, add_special_tokens=False))


def tokens_in(messages: tuple[Message, ...], count: Count = by_characters) -> int:
    """An estimate: what the server adds around messages is not in it."""
    return count("".join(message.content for message in messages))


@cache
def _tokenizer(path: Path) -> Tokenizer:
    try:
        from tokenizers import Tokenizer
    except ImportError:
        raise InvalidSetting(
            "llm.tokenizer",
            "needs a package that is not installed; run: pip install 'reasonbank[tokenizer]'",
        ) from None
    try:
        return Tokenizer.from_file(str(path))
    except Exception as error:  # noqa: BLE001  (the library raises nothing narrower)
        raise InvalidSetting("llm.tokenizer", f"{path} cannot be read: {error}") from None
