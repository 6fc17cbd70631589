"""What has an id, found by some of its digits."""

from __future__ import annotations

from reasonbank.ledger.events import BATCHES
from reasonbank.ledger.queries.base import OF_WORKSPACE, Queries, texts
from reasonbank.model import View


class IdQueries(Queries):
    def ids_with(self, view: View, kind: str, digits: str, limit: int) -> list[str]:
        find = {"memory": self._memory, "trace": self._trace_id, "job": self._job,
                "batch": self._batch}[kind]  # fmt: skip
        sql, values = find(view, digits)
        return [id for (id,) in self.db.all(f"{sql} order by 1 limit ?", (*values, limit))]

    def _has(self, column: str) -> str:
        return self.db.dialect.contains(f"replace({column}, '-', '')", "?")

    def _memory(self, view: View, digits: str) -> tuple[str, tuple[str, ...]]:
        # The inner question is answered from the index of ids, without the long rows. Of what was
        # forgotten, those are told that had to do with it, as they are by the whole id.
        return (
            f"select id from memories where realm in {self._within(view)}"
            f" and id in (select id from memories where {self._has('id')})"
            f" union select id from tombstones where {self._has('id')} and exists"
            f" (select 1 from events where subject = tombstones.id and {OF_WORKSPACE})"
        ), (digits, digits, view.workspace, view.workspace)

    def _trace_id(self, view: View, digits: str) -> tuple[str, tuple[str, ...]]:
        return (
            f"select id from traces where workspace = ? and {self._has('id')}",
            (view.workspace, digits),
        )

    def _job(self, view: View, digits: str) -> tuple[str, tuple[str, ...]]:
        return (
            f"select id from jobs where workspace = ? and {self._has('id')}",
            (view.workspace, digits),
        )

    def _batch(self, view: View, digits: str) -> tuple[str, tuple[str, ...]]:
        return (
            f"select distinct subject from events where {OF_WORKSPACE}"
            f" and what in {texts(BATCHES)} and {self._has('subject')}",
            (view.workspace, view.workspace, digits),
        )
