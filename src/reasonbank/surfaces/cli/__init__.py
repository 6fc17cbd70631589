"""The command `reasonbank`. A module adds its commands when one of them is asked for.

Nothing is imported here that the quickest of them could do without: an agent waits for each hook,
and for its server's first words.
"""

import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

__all__ = ["main"]


class Program:
    """What runs as `reasonbank`: the group of all commands, which is loaded when it is needed."""

    def __call__(self, args: "list[str] | None" = None, **more: "Any") -> "Any":
        given = sys.argv[1:] if args is None else args
        match given:
            case ["hook", event, *_] if not event.startswith("-"):
                from reasonbank.surfaces.hooks import client

                return client.main(given[1:])
            case ["mcp", *options] if tools := _offered(options):
                from reasonbank.surfaces.mcp.stdin import begin

                begin(tools)
        return self.main(args, **more)

    def __getattr__(self, name: str) -> "Any":
        from reasonbank.surfaces.cli.shell import main

        return getattr(main, name)


def _offered(options: "list[str]") -> str:
    """The tools that `mcp` is to offer; "" where the options are not the usual ones."""
    tools, left = "all", [*options]
    while left:
        name, sign, value = left.pop(0).partition("=")
        if not sign and left:
            value = left.pop(0)
        if name not in ("--tools", "--bank", "--workspace") or not value or value[0] == "-":
            return ""
        tools = value if name == "--tools" else tools
    return tools if tools in ("all", "core") else ""


main = Program()
