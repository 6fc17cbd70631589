"""A model for each role: who thinks need not be who judges."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar

from reasonbank.llm.port import Calling, Completion, Model, ModelCall
from reasonbank.settings import ROLES, ModelRole

_role: ContextVar[ModelRole | None] = ContextVar("role", default=None)


@contextmanager
def acting(role: ModelRole) -> Iterator[None]:
    """The calls within are made in this role.

    It is no argument of ``complete``, so that a model of the user's own need not know roles.
    """
    token = _role.set(role)
    try:
        yield
    finally:
        _role.reset(token)


class ByRole(Calling):
    """Asks the role's own model, or the main one. It stands where the adapter does, so that
    limits, budget and cache are one for all; its name is that of the model that would answer."""

    def __init__(self, main: Model, others: Mapping[ModelRole, Model]) -> None:
        self._main = main
        self._others = others

    @property
    def name(self) -> str:
        return self._chosen.name

    @property
    def _chosen(self) -> Model:
        role = _role.get()
        return self._main if role is None else self._others.get(role, self._main)

    async def answer(self, call: ModelCall) -> Completion:
        return await call.put_to(self._chosen)

    async def close(self) -> None:
        for model in (self._main, *self._others.values()):
            await model.close()


def names_of(model: Model) -> dict[str, str]:
    """Which model acts in which role."""
    found = {}
    for role in ROLES:
        with acting(role):
            found[str(role)] = model.name
    return found
