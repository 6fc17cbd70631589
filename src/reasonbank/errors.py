"""Everything that ReasonBank raises on purpose.

    ReasonBankError
    ├── InvalidInput          a value was refused; nothing was changed       (exit 2)
    │   └── InvalidSetting    a setting is unknown or wrong                   (exit 2)
    ├── NotFound              no such memory, workspace or trace in this view (exit 3)
    ├── Refused               the operation would break a promise             (exit 4)
    │   ├── Forgotten         the memory was removed for good
    │   ├── NewerBank         written by a newer program; left unharmed
    │   └── ConfirmationNeeded  destructive, and nobody said yes
    ├── StorageError          the disk or database said no                    (exit 5)
    │   └── StorageFull       no room left; nothing half-written
    └── EmbeddingError        the embedding model cannot answer               (exit 6)

Messages say what happened, with the value, and what to do next.
"""

from __future__ import annotations


class ReasonBankError(Exception):
    exit_code = 1


class InvalidInput(ReasonBankError):
    """``field`` names what was refused, in the words of the caller."""

    exit_code = 2

    def __init__(self, field: str, problem: str) -> None:
        super().__init__(f"{field}: {problem}")
        self.field = field


class InvalidSetting(InvalidInput):
    pass


class NotFound(ReasonBankError):
    exit_code = 3


class Refused(ReasonBankError):
    exit_code = 4


class Forgotten(Refused):
    pass


class NewerBank(Refused):
    pass


class ConfirmationNeeded(Refused):
    pass


class StorageError(ReasonBankError):
    exit_code = 5


class StorageFull(StorageError):
    pass


class EmbeddingError(ReasonBankError):
    exit_code = 6
