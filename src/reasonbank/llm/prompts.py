"""The texts that models are asked with: files beside the code that asks."""

from __future__ import annotations

from functools import cache
from importlib.resources import files


@cache
def prompt(room: str, name: str) -> str:
    return files("reasonbank").joinpath(room, "prompts", f"{name}.md").read_text("utf-8")
