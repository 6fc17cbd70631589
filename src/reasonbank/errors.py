"""Everything that ReasonBank raises on purpose, and how each surface says it.

                                                                            exit  HTTP
    ReasonBankError                                                            1   500
    ├── InvalidInput          a value was refused; nothing was changed         2   400
    │   ├── InvalidSetting    a setting is unknown or wrong
    │   └── TooLarge          more than a limit allows                         2   413
    ├── NotFound              no such memory, workspace or trace in this view  3   404
    ├── Refused               the operation would break a promise              4   409
    │   ├── Forgotten         the memory was removed for good                  4   410
    │   ├── NewerBank         written by a newer program; left unharmed        4   503
    │   ├── LeaseLost         the job was taken over by another worker
    │   ├── ConfirmationNeeded  destructive, and nobody said yes
    │   ├── Unauthorized      no token, or one that is not valid               4   401
    │   ├── Forbidden         the token does not reach so far                  4   403
    │   └── TooMany           more calls than the server takes at a time       4   429
    ├── StorageError          the disk or database said no                     5   503
    │   ├── StorageFull       no room left; nothing half-written               5   507
    │   └── NotInUse          moved away, on its way here, or a backup
    ├── EmbeddingError        the embedding model cannot answer                6   503
    └── ModelError            the language model gave no usable answer         7   502
        ├── ModelUnavailable  busy, slow or out of reach after every retry     7   503
        ├── ModelRefused      a wrong request, no credit, no such model
        │   └── KeyRefused    the key is missing, or not accepted
        ├── InvalidReply      an answer came, but not what was asked for
        └── BudgetExhausted   the tokens that the settings allow are spent     7   503

Messages say what happened, with the value, and what to do next. In MCP a tool that
fails answers with the message; a resource that fails, with ``mcp_code``.
"""

from __future__ import annotations


class ReasonBankError(Exception):
    exit_code = 1
    status = 500
    mcp_code = -32603


class InvalidInput(ReasonBankError):
    """``field`` names what was refused, in the words of the caller; ``problem`` says why."""

    exit_code = 2
    status = 400
    mcp_code = -32602

    def __init__(self, field: str, problem: str) -> None:
        super().__init__(f"{field}: {problem}")
        self.field = field
        self.problem = problem


class InvalidSetting(InvalidInput):
    pass


class TooLarge(InvalidInput):
    status = 413


class NotFound(ReasonBankError):
    exit_code = 3
    status = 404
    mcp_code = -32602  # As of revision 2026-07-28; -32002 before.


class Refused(ReasonBankError):
    exit_code = 4
    status = 409
    mcp_code = -32600


class Forgotten(Refused):
    status = 410
    mcp_code = NotFound.mcp_code


class NewerBank(Refused):
    status = 503


class LeaseLost(Refused):
    pass


class ConfirmationNeeded(Refused):
    pass


class Unauthorized(Refused):
    status = 401


class Forbidden(Refused):
    status = 403


class TooMany(Refused):
    status = 429


class StorageError(ReasonBankError):
    exit_code = 5
    status = 503


class StorageFull(StorageError):
    status = 507


class NotInUse(StorageError):
    pass


class EmbeddingError(ReasonBankError):
    exit_code = 6
    status = 503


class ModelError(ReasonBankError):
    exit_code = 7
    status = 502


class ModelUnavailable(ModelError):
    status = 503


class ModelRefused(ModelError):
    """``answered`` is the HTTP status of the model's server, ``said`` what it gave as a reason."""

    def __init__(self, message: str, *, answered: int | None = None, said: str = "") -> None:
        super().__init__(message)
        self.answered = answered
        self.said = said


class KeyRefused(ModelRefused):
    pass


class InvalidReply(ModelError):
    """``reply`` is what the model said; ``usage`` what that cost, where it is known."""

    def __init__(self, message: str, *, reply: str = "", usage: object = None) -> None:
        super().__init__(message)
        self.reply = reply
        self.usage = usage


class BudgetExhausted(ModelError):
    """``best`` is the ``Solution`` so far, where a task was being solved and had one.

    ``what`` says which tokens are used up, where it is not the limit that was given.
    """

    status = 503

    def __init__(self, message: str, *, best: object = None, what: str | None = None) -> None:
        super().__init__(message)
        self.best = best
        self.what = what
