"""How a bank stood before steps of the schema that came later."""

from __future__ import annotations

AFTER_TWELVE = (
    "drop table passages",
    "drop table taken_back",
    "drop table shared_evidence",
    "drop index memories_probation",
    *(
        f"alter table memories drop column {name}"
        for name in ("entered", "since", "probation", "hand")
    ),
    *(f"alter table evidence drop column {name}" for name in ("hand", "witnessed")),
    "alter table tasks drop column hand",
    *(
        f"drop table {name}"
        for name in ("peers", "invitations", "logs", "log_entries", "shared_projects", "offers")
    ),
)
"""What the thirteenth step and those after it made."""
