"""The texts that the agent asks a model with, one file each."""

from __future__ import annotations

from functools import cache
from importlib.resources import files


@cache
def prompt(name: str) -> str:
    return files(__name__).joinpath(f"{name}.md").read_text("utf-8")
