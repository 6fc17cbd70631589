"""What the server says of the session of a browser, and what begins one."""

from __future__ import annotations

import os
from dataclasses import dataclass, replace
from importlib.metadata import version

from pydantic import TypeAdapter, ValidationError
from typing_extensions import TypedDict

from reasonbank.errors import InvalidInput
from reasonbank.model import JSON, Right, Scope, Workspace
from reasonbank.surfaces.call import Call
from reasonbank.surfaces.shapes import closed


class SignedOut(TypedDict):
    signed_in: bool
    needed: bool


SIGNED_OUT: JSON = {"signed_in": False, "needed": True}


@dataclass(frozen=True, slots=True, kw_only=True)
class SignedIn:
    """Who one is, what one may do and where. ``needed``: others must sign in here.

    ``workspace`` is looked from unless another one of ``workspaces`` is asked for; None where
    one has to be. ``seq`` is the number of the last event: what comes after is told by the stream.
    """

    name: str
    right: Right
    whole: bool
    person: bool
    may_share: tuple[Scope, ...]
    workspaces: tuple[Workspace, ...]
    workspace: str | None
    version: str
    bank: str
    seq: int
    needed: bool
    signed_in: bool = True


class SignIn(TypedDict, total=False):
    """One of the two."""

    code: str
    token: str


_TAKEN = TypeAdapter(closed(SignIn))


def taken(body: bytes) -> SignIn:
    try:
        shown = _TAKEN.validate_json(body or b"{}", strict=True)
    except ValidationError:
        shown = SignIn()
    if len(shown) != 1:
        raise InvalidInput("body", 'must be {"code": "…"} or {"token": "rbk_…"}')
    return shown


def told(call: Call, locked: bool) -> SignedIn:
    caller = call.caller
    bank = call.root
    lists_all = caller.workspaces is not None or caller.right is Right.ADMIN
    own = caller.workspaces or (bank.view.workspace,)
    paths = {place.id: place.path for place in bank.workspaces()}
    places = tuple(
        # Not where it lies, which is the owner's, but what people call it.
        replace(place, name=place.name or os.path.basename(paths[place.id] or "") or None)
        for place in call.workspaces()
        # What another bank shares is seen from here; its projects are no place to look from.
        if (lists_all or place.id in own) and place.peer is None
    )
    here = bank.view.workspace if caller.reaches(bank.view.workspace) else own[0]
    return SignedIn(
        name=caller.name or bank.author,
        right=caller.right,
        whole=caller.whole or caller.local,
        person=caller.at_the_page,
        may_share=tuple(scope for scope in Scope if scope in caller.may_share),
        workspaces=places,
        workspace=bank.context.read().home(here),
        version=version("reasonbank"),
        bank=bank.store.ledger.bank_id,
        seq=bank.context.read().last_seq(),
        needed=locked,
    )
