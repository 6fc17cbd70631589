"""The texts that models are asked with: files beside the code that asks."""

from __future__ import annotations

from collections.abc import Sequence
from enum import Enum
from functools import cache
from importlib.resources import files

from reasonbank.fence import Fact, Prompt, fixed


def words(room: str, name: str, **facts: Fact | Sequence[Enum]) -> Prompt:
    return fixed(_file(room, name), **facts)


@cache
def _file(room: str, name: str) -> str:
    return files("reasonbank").joinpath(room, "prompts", f"{name}.md").read_text("utf-8")
