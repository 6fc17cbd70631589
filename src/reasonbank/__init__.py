"""A memory that learns, for LLM agents."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"

# Loaded when first used: `import reasonbank` must cost nothing.
_HOMES = {
    "Bank": "bank",
    "Settings": "settings",
    "Filter": "ledger.port",
    **dict.fromkeys(
        ("ErrorContext", "Evidence", "Genealogy", "Hit", "Kind", "Link", "LinkType", "Memory",
         "Outcome", "Reply", "Revision", "Scope", "Source", "State", "Step", "Trace",
         "Workspace"),
        "model",
    ),
    **dict.fromkeys(
        ("ConfirmationNeeded", "EmbeddingError", "Forgotten", "InvalidInput", "InvalidSetting",
         "NewerBank", "NotFound", "ReasonBankError", "Refused", "StorageError", "StorageFull"),
        "errors",
    ),
}  # fmt: skip

__all__ = ["__version__", *sorted(_HOMES)]  # noqa: PLE0604

if TYPE_CHECKING:
    from reasonbank.bank import Bank as Bank
    from reasonbank.errors import (
        ConfirmationNeeded as ConfirmationNeeded,
    )
    from reasonbank.errors import (
        EmbeddingError as EmbeddingError,
    )
    from reasonbank.errors import (
        Forgotten as Forgotten,
    )
    from reasonbank.errors import (
        InvalidInput as InvalidInput,
    )
    from reasonbank.errors import (
        InvalidSetting as InvalidSetting,
    )
    from reasonbank.errors import (
        NewerBank as NewerBank,
    )
    from reasonbank.errors import (
        NotFound as NotFound,
    )
    from reasonbank.errors import (
        ReasonBankError as ReasonBankError,
    )
    from reasonbank.errors import (
        Refused as Refused,
    )
    from reasonbank.errors import (
        StorageError as StorageError,
    )
    from reasonbank.errors import (
        StorageFull as StorageFull,
    )
    from reasonbank.ledger.port import Filter as Filter
    from reasonbank.model import (
        ErrorContext as ErrorContext,
    )
    from reasonbank.model import (
        Evidence as Evidence,
    )
    from reasonbank.model import (
        Genealogy as Genealogy,
    )
    from reasonbank.model import (
        Hit as Hit,
    )
    from reasonbank.model import (
        Kind as Kind,
    )
    from reasonbank.model import (
        Link as Link,
    )
    from reasonbank.model import (
        LinkType as LinkType,
    )
    from reasonbank.model import (
        Memory as Memory,
    )
    from reasonbank.model import (
        Outcome as Outcome,
    )
    from reasonbank.model import (
        Reply as Reply,
    )
    from reasonbank.model import (
        Revision as Revision,
    )
    from reasonbank.model import (
        Scope as Scope,
    )
    from reasonbank.model import (
        Source as Source,
    )
    from reasonbank.model import (
        State as State,
    )
    from reasonbank.model import (
        Step as Step,
    )
    from reasonbank.model import (
        Trace as Trace,
    )
    from reasonbank.model import (
        Workspace as Workspace,
    )
    from reasonbank.settings import Settings as Settings


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)


def __dir__() -> list[str]:
    return __all__
