"""The command `reasonbank`: every module named here adds its commands to the group."""

from reasonbank.surfaces.cli import (
    bank,
    consolidate,
    learn,
    llm,
    memory,
    report,
    server,
    solve,
    token,
)
from reasonbank.surfaces.cli.shell import main

__all__ = [
    "bank",
    "consolidate",
    "learn",
    "llm",
    "main",
    "memory",
    "report",
    "server",
    "solve",
    "token",
]
