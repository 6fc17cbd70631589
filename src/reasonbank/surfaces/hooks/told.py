"""What an agent tells a hook, in one shape: whichever agent it is."""

from __future__ import annotations

from reasonbank.surfaces.agents import Event
from reasonbank.values import valueclass


@valueclass(frozen=True, slots=True, kw_only=True)
class Told:
    """``event`` is ours, ``name`` what the agent calls it.

    ``failed`` is None where nobody can tell. ``own``: the tool is one of ReasonBank's.
    ``stopping``: this end of a turn was itself caused by a hook.
    """

    agent: str
    event: Event
    name: str
    session: str = ""
    directory: str = ""
    transcript: str = ""
    prompt: str = ""
    tool: str = ""
    command: str = ""
    path: str = ""
    output: str = ""
    failed: bool | None = None
    own: bool = False
    stopping: bool = False
