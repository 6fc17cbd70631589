"""Writes docs/reference from the program itself: `python -m tools.reference`.

A test fails when the pages are out of date.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, get_type_hints

import click

from reasonbank import errors
from reasonbank.fields import Nested, Ruled, ruled
from reasonbank.settings import GONE, Settings
from reasonbank.surfaces.cli import main
from reasonbank.surfaces.shapes import returned

FOLDER = Path(__file__).parent.parent / "docs" / "reference"
NOTE = "<!-- written by `python -m tools.reference` -->\n"


def pages() -> dict[str, str]:
    return {"cli.md": cli(), "http.md": http(), "mcp.md": mcp(), "settings.md": settings()}


def cli() -> str:
    lines = [NOTE, "# Commands", "", "| exit code | meaning |", "|---|---|", "| 0 | done |"]
    lines += ["| 1 | unexpected |"]
    meaning = {2: "bad input or usage", 3: "not found", 4: "refused", 5: "storage",
               6: "embedding", 7: "language model"}  # fmt: skip
    kinds = [k for k in vars(errors).values() if isinstance(k, type) and "exit_code" in vars(k)]
    for kind in sorted(kinds, key=lambda k: k.exit_code):
        if kind.exit_code in meaning:
            lines.append(f"| {kind.exit_code} | {meaning[kind.exit_code]} (`{kind.__name__}`) |")
    for name, command in commands(main, "reasonbank"):
        context = click.Context(
            command, info_name=name, terminal_width=96, help_option_names=["-h", "--help"]
        )
        help = re.sub(r"[ \t]+$", "", command.get_help(context), flags=re.MULTILINE)
        lines += ["", f"## {name}", "", "```text", help, "```"]
    return "\n".join(lines) + "\n"


def commands(group: click.Command, name: str) -> Iterator[tuple[str, click.Command]]:
    yield name, group
    if hasattr(group, "commands"):
        for key in sorted(group.load() if hasattr(group, "load") else group.commands):
            yield from commands(group.commands[key], f"{name} {key}")


def mcp() -> str:
    from reasonbank.surfaces.mcp.memory_tools import CORE, TOOLS
    from reasonbank.surfaces.mcp.server import BankTool

    lines = [
        NOTE,
        "# MCP tools",
        "",
        "Every tool also takes `workspace`: the absolute path of the project meant, or its",
        "id or name; without it, the project that the agent works in. Over HTTP a caller needs the",
        "right named here (naming and deleting a workspace need admin); over standard streams they",
        f"have all. `--tools core` offers {', '.join(f'`{name}`' for name in CORE)}.",
        "A tool that fails says what to do; a resource that fails answers with an error code too.",
        "",
        "| resource | what it is |",
        "|---|---|",
        "| `memory://{id}` | a memory as text for a prompt, fenced as data |",
        "| `trace://{id}` | a task as JSON: steps, outcome, memories used and learned |",
    ]
    for spec in TOOLS.values():
        tool = BankTool.of(spec)
        lines += ["", f"## {spec.name}", "", spec.description, ""]
        lines += [" ".join([f"Right: {spec.right}.", *_hints(spec.hints)]), ""]
        needed = tool.parameters.get("required", [])
        own = [entry for entry in tool.parameters["properties"].items() if entry[0] != "workspace"]
        if own:
            lines += ["| parameter | type | default | what it is |", "|---|---|---|---|"]
        for name, schema in own:
            default = "needed" if name in needed else _default(schema)
            lines.append(f"| `{name}` | {_type(schema)} | {default} | {schema['description']} |")
        answers = ", ".join(f"`{field}`" for field in get_type_hints(returned(spec.function)))
        lines += [*([""] if own else []), f"Answers: {answers}."]
    return "\n".join(lines) + "\n"


def _hints(hints: Any) -> list[str]:
    said = {"Only reads.": hints.read_only_hint, "Can destroy.": hints.destructive_hint}
    return [words for words, true in said.items() if true]


def _type(schema: Any) -> str:
    if "enum" in schema:
        return " or ".join(f"`{value}`" for value in schema["enum"])
    kind = schema.get("type", "object")
    limits = {"minimum": "≥", "maximum": "≤", "maxLength": "characters ≤", "maxItems": "items ≤"}
    return ", ".join(
        [kind, *(f"{sign} {schema[k]:,}" for k, sign in limits.items() if k in schema)]
    )


def _default(schema: Any) -> str:
    return f"`{json.dumps(schema['default'])}`" if "default" in schema else ""


def settings() -> str:
    lines = [
        NOTE,
        "# Settings",
        "",
        "From `config.toml` or `config.yaml` in the user's configuration folder (or the file that",
        "`REASONBANK_CONFIG` names) and from environment variables, which win: `search.limit` is",
        "`REASONBANK_SEARCH_LIMIT`, and the others likewise. An unknown or wrong",
        "setting is an error that names it.",
        "",
        "| setting | default | may be | meaning |",
        "|---|---|---|---|",
    ]
    for name, default, f in _flat(Settings(), ""):
        shown = json.dumps(default) if isinstance(default, bool | int | float) else default
        allowed = str(f.rule) if f.rule else "text"
        lines.append(f"| `{name}` | {f'`{shown}`' if shown else ''} | {allowed} | {f.meaning} |")
    gone = ", ".join(f"`{name}`" for name in sorted(GONE))
    lines += ["", f"Settings of before, which are ignored with a warning for one release: {gone}."]
    return "\n".join(lines) + "\n"


def http() -> str:
    from reasonbank.surfaces.http.openapi import API
    from reasonbank.surfaces.operations import OPERATIONS

    lines = [
        NOTE,
        "# The JSON API",
        "",
        f"All addresses begin with `{API}`. `/openapi.json` of a running server has all fields and",
        "answers. A GET or DELETE takes its fields in the query, the others a JSON object; a",
        "field with an asterisk is needed. How to run a server, and what tokens are, is told in",
        "[Run a server](../how-to/run-a-server.md).",
        "",
        "| call | needs | what it does | fields |",
        "|---|---|---|---|",
    ]
    lines += [
        f"| `{r.method} {r.path}` | {r.right} | {r.summary} | {_fields(r)} |" for r in OPERATIONS
    ]
    lines += [
        "",
        "## Errors",
        "",
        'An error is `{"error": …, "message": …, "field": …}`; the command says the same with',
        "`--json`. `field` is there when one value was wrong.",
        "",
        "| status | error |",
        "|---|---|",
    ]
    for status, names in sorted(_statuses().items()):
        lines.append(f"| {status} | {', '.join(f'`{name}`' for name in sorted(names))} |")
    return "\n".join(lines) + "\n"


def _fields(operation: Any) -> str:
    from pydantic import TypeAdapter

    from reasonbank.surfaces.shapes import taken

    if operation.name == "import":
        return "lines of JSON"
    if (shape := taken(operation)) is None:
        return ""
    schema = TypeAdapter(shape).json_schema()
    needed = schema.get("required", ())
    names = [f"`{name}`{'*' if name in needed else ''}" for name in schema.get("properties", ())]
    return ", ".join(sorted(names, key=lambda name: not name.endswith("*")))


def _statuses() -> dict[int, set[str]]:
    # The surface adds errors of its own to the tree.
    import reasonbank.surfaces.http.app  # noqa: F401

    found: dict[int, set[str]] = {}
    kinds: list[type[errors.ReasonBankError]] = [errors.ReasonBankError]
    for kind in kinds:
        kinds += kind.__subclasses__()
        # What parts of the bank tell each other never reaches a caller by that name.
        if kind.__module__.startswith(("reasonbank.errors", "reasonbank.surfaces")):
            found.setdefault(kind.status, set()).add(kind.__name__)
    found[500] = {"Unexpected"}
    return found


def _flat(section: Any, prefix: str) -> Iterator[tuple[str, Any, Ruled]]:
    for f in ruled(type(section)):
        value = getattr(section, f.name)
        if isinstance(f.rule, Nested):
            yield from _flat(value, f"{prefix}{f.name}.")
        elif isinstance(value, Mapping):
            yield f"{prefix}{f.name}.<name>", "", f
        else:
            yield f"{prefix}{f.name}", value, f


if __name__ == "__main__":
    FOLDER.mkdir(parents=True, exist_ok=True)
    for name, text in pages().items():
        (FOLDER / name).write_text(text)
