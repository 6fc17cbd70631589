"""The command `reasonbank`: every module named here adds its commands to the group."""

from reasonbank.surfaces import (
    bank_commands,
    consolidate_commands,
    learn_commands,
    llm_commands,
    memory_commands,
    report_commands,
    server_commands,
    solve_commands,
    token_commands,
)
from reasonbank.surfaces.shell import main

__all__ = [
    "bank_commands",
    "consolidate_commands",
    "learn_commands",
    "llm_commands",
    "main",
    "memory_commands",
    "report_commands",
    "server_commands",
    "solve_commands",
    "token_commands",
]

if __name__ == "__main__":
    main()
