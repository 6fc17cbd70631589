"""Authors: in how many tasks what somebody wrote has helped, and in how many it failed."""

from __future__ import annotations

from typing import NamedTuple

from reasonbank.ledger.queries import Reader
from reasonbank.trust.belief import day_of


def task_of(session: str | None, at: int) -> str:
    """What is told without a session is of one task a day: nobody knows that it was of more."""
    return session or f"day {day_of(at)}"


class Said(NamedTuple):
    """What a task says of a memory, for or against whoever wrote it."""

    num: int
    workspace: str
    kind: str
    positive: bool
    task: str


def _side(helped: int, failed: int) -> str | None:
    """How a task went for an author, by how often it says the one and the other."""
    if not helped and not failed:
        return None
    return "helped" if helped >= failed else "failed"


class AuthorProjection(Reader):
    def _speak(self, said: Said, count: int) -> None:
        """Count it for the author as well, where the memory's own project observed it. A task
        counts once for an author, as most of what it says of their memories."""
        row = self.db.one(
            "select m.author, coalesce(t.helped, 0), coalesce(t.failed, 0) from memories m"
            " left join author_tasks t on t.workspace = m.workspace and t.author = m.author"
            " and t.task = ? where m.num = ? and m.workspace = ?",
            (said.task, said.num, said.workspace),
        )
        if row is None or said.kind == "usage":
            return
        author, *before = row
        helped, failed = before[0] + count * said.positive, before[1] + count * (not said.positive)
        task = (said.workspace, author, said.task)
        self._judge_author(*task[:2], _side(*before), _side(helped, failed))
        if helped or failed:
            self.db.execute(
                "insert into author_tasks values (?, ?, ?, ?, ?)"
                " on conflict (workspace, author, task)"
                " do update set helped = excluded.helped, failed = excluded.failed",
                (*task, helped, failed),
            )
        else:
            self.db.execute(
                "delete from author_tasks where workspace = ? and author = ? and task = ?", task
            )

    def _judge_author(
        self, workspace: str, author: str, before: str | None, after: str | None
    ) -> None:
        if before == after:
            return
        for side, change in ((before, -1), (after, 1)):
            if side is not None:
                self.db.execute(
                    f"update authors set {side} = {side} + ? where workspace = ? and author = ?",
                    (change, workspace, author),
                )

    def _speak_all(self, num: int, count: int) -> None:
        """All that its project observed of a memory."""
        for workspace, kind, positive, session, at in self.db.all(
            "select e.workspace, kind, positive, session, at from evidence e join memories m"
            " on m.num = e.num and m.workspace = e.workspace where e.num = ? and kind != 'usage'",
            (num,),
        ):
            self._speak(Said(num, workspace, kind, bool(positive), task_of(session, at)), count)

    def _author(self, workspace: str, author: str, change: int) -> None:
        """Whoever has memories here is one of its authors, and nobody else."""
        self.db.execute(
            "insert into authors values (?, ?, ?, 0, 0) on conflict (workspace, author)"
            " do update set memories = authors.memories + excluded.memories",
            (workspace, author, change),
        )
        if change < 0:
            self.db.execute(
                "delete from authors where workspace = ? and author = ? and memories = 0",
                (workspace, author),
            )
