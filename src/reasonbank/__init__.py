"""A memory that learns, for LLM agents."""

__version__ = "0.1.0"

# Type checkers know it by its name. To import it would cost more than all the rest here: every
# command and every hook of an agent starts with this module.
TYPE_CHECKING = False

# Loaded when first used: `import reasonbank` must cost nothing.
_HOMES = {
    "Bank": "bank",
    "Settings": "settings",
    "Filter": "model",
    **dict.fromkeys(
        ("Change", "ErrorContext", "Evidence", "Gap", "Genealogy", "HandedIn", "Hit", "Job",
         "JobState", "Kind", "Link", "LinkType", "Memory", "Outcome", "Principal", "Reply",
         "Revision", "Scope", "Source", "Standing", "State", "Step", "Trace", "Workspace"),
        "model",
    ),
    **dict.fromkeys(
        ("BudgetExhausted", "ConfirmationNeeded", "EmbeddingError", "Forbidden",
         "Forgotten", "InvalidInput", "InvalidReply", "InvalidSetting", "KeyRefused",
         "LeaseLost", "ModelError", "ModelRefused", "ModelUnavailable", "NewerBank",
         "NotFound", "NotInUse", "ReasonBankError", "Refused", "StorageError", "StorageFull",
         "TooLarge", "TooMany", "Unauthorized"),
        "errors",
    ),
}  # fmt: skip

__all__ = ["__version__", *sorted(_HOMES)]  # noqa: PLE0604

if TYPE_CHECKING:
    from reasonbank.bank import Bank as Bank
    from reasonbank.errors import (
        BudgetExhausted as BudgetExhausted,
        ConfirmationNeeded as ConfirmationNeeded,
        EmbeddingError as EmbeddingError,
        Forbidden as Forbidden,
        Forgotten as Forgotten,
        InvalidInput as InvalidInput,
        InvalidReply as InvalidReply,
        InvalidSetting as InvalidSetting,
        KeyRefused as KeyRefused,
        LeaseLost as LeaseLost,
        ModelError as ModelError,
        ModelRefused as ModelRefused,
        ModelUnavailable as ModelUnavailable,
        NewerBank as NewerBank,
        NotFound as NotFound,
        NotInUse as NotInUse,
        ReasonBankError as ReasonBankError,
        Refused as Refused,
        StorageError as StorageError,
        StorageFull as StorageFull,
        TooLarge as TooLarge,
        TooMany as TooMany,
        Unauthorized as Unauthorized,
    )
    from reasonbank.model import (
        Change as Change,
        ErrorContext as ErrorContext,
        Evidence as Evidence,
        Filter as Filter,
        Gap as Gap,
        Genealogy as Genealogy,
        HandedIn as HandedIn,
        Hit as Hit,
        Job as Job,
        JobState as JobState,
        Kind as Kind,
        Link as Link,
        LinkType as LinkType,
        Memory as Memory,
        Outcome as Outcome,
        Principal as Principal,
        Reply as Reply,
        Revision as Revision,
        Scope as Scope,
        Source as Source,
        Standing as Standing,
        State as State,
        Step as Step,
        Trace as Trace,
        Workspace as Workspace,
    )
    from reasonbank.settings import Settings as Settings


def __getattr__(name: str) -> object:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    return getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)


def __dir__() -> list[str]:
    return __all__
