"""How ReasonBank is started: with words that still do so tomorrow."""

from __future__ import annotations

import os
import re
import shutil
import sys
from collections.abc import Mapping
from pathlib import Path

from reasonbank.surfaces.install.wiring import NAME

_UV = re.compile(r"[/\\](?:archive|environments|builds)-v\d{1,6}[/\\]")
_PIPX = re.compile(r"[/\\]pipx[/\\](?:\.cache|[0-9a-f]{8,128})[/\\]|[/\\]\.cache[/\\]pipx[/\\]")


def launcher(argument: str, environment: Mapping[str, str]) -> tuple[str, ...]:
    """``argument`` is what this program was called by.

    A link on the PATH stays a link: it outlives the version that it leads to. The environments
    that uvx and pipx make for one run do not last, so they are asked to make another.
    """
    path = environment.get("PATH")
    where = f"{Path(sys.executable).absolute()}\0{Path(argument).absolute()}"
    if _UV.search(where):
        named = Path(environment.get("UV") or "uv").with_name("uvx")
        found = str(named) if named.is_file() else shutil.which("uvx", path=path)
        return (found or "uvx", NAME)
    if _PIPX.search(where):
        return (shutil.which("pipx", path=path) or "pipx", "run", NAME)
    for candidate in (argument, str(Path(sys.executable).parent / NAME)):
        found = shutil.which(candidate, path=path)
        if found and Path(found).stem == NAME:
            return (os.path.abspath(found),)
    return (sys.executable, "-m", "reasonbank.surfaces.cli")
