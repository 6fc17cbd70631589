"""A folder with one readable file per memory, in step with the bank in both directions.

Each run compares three things, field by field: how a memory stood when its file was written, which
the bank's history knows; how it stands now; and what the file says. What only one side changed
goes to the other. What both changed differently is a conflict: the file gets the bank's text, and
the other is kept beside it until somebody has looked.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from reasonbank.errors import ConfirmationNeeded, InvalidInput
from reasonbank.fields import parse_id
from reasonbank.ledger.port import Reading, Writing
from reasonbank.model import Filter, Memory, Principal, derived_id
from reasonbank.store import given, memories, probation
from reasonbank.store.context import Context
from reasonbank.store.mirror import files, text
from reasonbank.store.mirror.files import Copy, Entry, Folder

ALL = 1_000_000
FEW = 4
"""So many missing files may be meant, however few there are in all."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """What is, or would be, done about one file: ``what`` is one of the words below."""

    what: str
    file: str
    id: str | None = None
    why: str = ""


WRITTEN, REVISED, RECORDED, RESTORED = "written", "revised", "recorded", "restored"
MEANWHILE = "it was changed meanwhile; the next run looks at it"
ARCHIVED, REMOVED, CONFLICT, LEFT = "archived", "removed", "conflict", "left"


@dataclass(frozen=True, slots=True, kw_only=True)
class Mirrored:
    """What one run did, or would do; ``conflicts`` are the files that wait for somebody to look."""

    folder: str
    dry_run: bool
    memories: int
    steps: tuple[Step, ...]
    conflicts: tuple[str, ...]


def mirror(
    context: Context, path: Path, *, adopt: bool = False, confirm: bool = False,
    dry_run: bool = False,
) -> Mirrored:  # fmt: skip
    """Bring a folder and this workspace's own memories into step; a second run changes nothing.

    A file that is deleted archives its memory. ``confirm`` says so where most are gone at once.
    """
    folder = files.opened(path, context.store.ledger.bank_id, context.view.workspace, adopt=adopt)
    run = _Run(context, folder, dry_run)
    run.look()
    if not confirm:
        run.must_be_meant()
    run.go()
    return Mirrored(
        folder=str(path),
        dry_run=dry_run,
        memories=len(run.held if dry_run else run.entries),
        steps=tuple(run.steps),
        conflicts=tuple(folder.conflicts()),
    )


@dataclass(slots=True)
class _Run:
    context: Context
    folder: Folder
    dry_run: bool
    steps: list[Step] = field(default_factory=list)
    entries: dict[str, Entry] = field(default_factory=dict)
    copies: dict[str, Copy] = field(default_factory=dict)
    told: dict[str, text.Told] = field(default_factory=dict)
    held: dict[str, Memory] = field(default_factory=dict)
    owner: dict[str, str] = field(default_factory=dict)
    """Which file speaks for which memory."""

    def look(self) -> None:
        here = self.context.view.workspace
        listed = memories.listed(self.context, Filter(), ALL)
        self.held = {memory.id: memory for memory in listed if memory.workspace == here}
        self.copies = self.folder.copies()
        for name, copy in self.copies.items():
            try:
                if copy.text is None:
                    raise ValueError(copy.problem)
                self.told[name] = text.read(copy.text)
            except ValueError as error:
                self._left(name, str(error))
        self._find_owners()

    def _find_owners(self) -> None:
        """A file keeps its memory when it is renamed; a copy of it is another memory."""
        before = {entry.name: id for id, entry in self.folder.entries.items()}
        for name in self.copies:  # What cannot be read is at least not gone.
            if name not in self.told and name in before:
                self.owner[before[name]] = name
        claims = [(name, told.id) for name, told in self.told.items()]
        claims.sort(key=lambda claim: before.get(claim[0]) != claim[1])
        settled: set[str] = set()
        # Whose own id is mistyped, or another's, is known by its name.
        for name, id in (*claims, *((name, before.get(name)) for name in self.told)):
            if id and id not in self.owner and name not in settled and self._known(id):
                self.owner[id] = name
                settled.add(name)

    def _known(self, id: str) -> bool:
        if id in self.held or id in self.folder.entries:
            return True
        try:
            row = self.context.read().row(self.context.view, parse_id(id, "id"))
        except InvalidInput:
            return False
        return row is not None and row.workspace == self.context.view.workspace

    def must_be_meant(self) -> None:
        missing = self._missing()
        if len(missing) > max(FEW, len(self.folder.entries) // 2):
            raise ConfirmationNeeded(
                f"{len(missing)} of {len(self.folder.entries)} files are gone from "
                f"{self.folder.path}, and their memories would be archived. If that is not meant, "
                f"remove {files.STATE} in it and say --adopt: then they are written anew"
            )

    def _missing(self) -> list[str]:
        return [id for id in self.folder.entries if id in self.held and id not in self.owner]

    def go(self) -> None:
        speaking = {name: id for id, name in self.owner.items()}
        for name, told in self.told.items():
            id = speaking.get(name)
            try:
                if id is None:
                    self._create(name, told)
                elif id in self.held:
                    self._settle(name, told, self.held[id])
                else:
                    self._gone(name, told, id)
            except InvalidInput as error:
                self.context.hush(error)
                self._left(name, str(error))
        for id in self._missing():
            self._archive(id)
        taken = {name.casefold() for name in self.copies}
        for id, memory in self.held.items():
            if id not in self.entries and id not in self.owner:
                name = files.name_for(memory.title, id, taken)
                taken.add(name.casefold())
                self._put(name, memory, {}, None)
        left = {step.file for step in self.steps if step.what == LEFT}
        for id, name in self.owner.items():
            if id not in self.entries and id in self.folder.entries and name in left:
                self.entries[id] = self.folder.entries[id]
        if not self.dry_run:
            self.folder.save(self.entries)

    # One file

    def _create(self, name: str, told: text.Told) -> None:
        copy = self.copies[name]
        found = {key: value for key, value in told.lesson.items() if value}
        # After a crash the file is as it was: it must not become a second memory.
        id = derived_id("mirror", self.context.view.workspace, name, copy.digest)
        memory = given.memory(self.context, found | {"id": id})
        reading = self.context.read()
        if reading.forgotten(id):
            self._left(name, "it was forgotten for good; change it to record it again")
            return
        if id in self.held:
            self._put(name, self.held[id], told.others, copy.data)
        elif reading.taken(id):
            self._gone(name, told, id)
        else:
            self._record(name, told, self.context.fit(memory))

    def _record(self, name: str, told: text.Told, memory: Memory) -> None:
        self.steps.append(Step(what=RECORDED, file=name, id=memory.id))
        if not self.dry_run:
            context = self._in_whose_name(self.context.read(), memory)
            stored = memories.record(context, memory)
            self._put(name, stored, told.others, self.copies[name].data, say=False)

    def _settle(self, name: str, told: text.Told, memory: Memory) -> None:
        """Both are there: who changed what since the file was written?"""
        now = text.lesson(memory)
        was = self._base(told, memory)
        edited = {n: v for n, v in told.lesson.items() if v != was.get(n) and v != now.get(n)}
        disputed = [n for n in edited if now.get(n) != was.get(n)]
        copy = self.copies[name]
        if disputed:
            if self._keep_beside(name, memory.id, f"both changed {', '.join(disputed)}"):
                self._put(name, memory, told.others, copy.data, say=False)
            return
        if edited:
            changed = text.changes(edited)
            revised = memory if self.dry_run else self._revise(memory, changed)
            if revised is None:
                self._left(name, MEANWHILE)
                return
            if self.dry_run or revised.revision != memory.revision:
                why = ", ".join(edited)
                self.steps.append(Step(what=REVISED, file=name, id=memory.id, why=why))
            if self.dry_run:
                return
            memory = revised
        self._put(name, memory, told.others, copy.data, say=not edited)

    def _base(self, told: text.Told, memory: Memory) -> Mapping[str, Any]:
        """How the memory stood when its file was written; now, if nobody can tell."""
        entry = self.folder.entries.get(memory.id)
        revision = entry.revision if entry else told.revision
        if revision is None or revision >= memory.revision:
            return text.lesson(memory)
        history = memories.history(self.context, memory.id)
        return text.lesson(next(r.memory for r in history if r.number >= revision))

    def _revise(self, memory: Memory, changed: Mapping[str, Any]) -> Memory | None:
        def work(txn: Writing) -> Memory | None:
            if self.context.own_row(txn, memory.id).revision != memory.revision:
                return None
            context = self._in_whose_name(txn, replace(memory, **changed))
            return memories.update_in(context, txn, memory.id, changed)

        revised = self.context.write(work)
        self.context.store.indexing.wake()
        return revised

    def _in_whose_name(self, reading: Reading, memory: Memory) -> Context:
        """Who runs this, but who wrote a file is not known: what would have an agent do something
        new waits for a person, as it does in an import."""
        if not any(probation.unheard_of(self.context, reading, memory)):
            return self.context
        return replace(self.context, acts_as=Principal.IMPORT)

    def _gone(self, name: str, told: text.Told, id: str) -> None:
        """The file of a memory that is archived, or forgotten, in the bank."""
        copy, entry = self.copies[name], self.folder.entries.get(id)
        row = self.context.read().row(self.context.view, id)
        if entry is None and row is not None:
            # Somebody put the file back, from a backup or another branch: it is meant to be.
            self.steps.append(Step(what=RESTORED, file=name, id=id))
            if not self.dry_run:
                self._settle(name, told, memories.restore(self.context, id))
        elif entry is not None and entry.digest == copy.digest:
            self.steps.append(Step(what=REMOVED, file=name, id=id, why="it left the bank"))
            if not self.dry_run:
                self.folder.remove(name, was=copy.data)
        else:
            why = "is archived in the bank" if row is not None else "was forgotten in the bank"
            if self._keep_beside(name, id, why) and not self.dry_run:
                self.folder.remove(name, was=copy.data)

    def _archive(self, id: str) -> None:
        entry, memory = self.folder.entries[id], self.held[id]
        if memory.revision != entry.revision:
            self._put(entry.name, memory, {}, None)
            return
        self.steps.append(Step(what=ARCHIVED, file=entry.name, id=id, why="its file was deleted"))
        if not self.dry_run:
            memories.archive(self.context, id, "its file was deleted from the mirror")
        self.owner[id] = entry.name

    def _keep_beside(self, name: str, id: str, why: str) -> bool:
        """Whether the file's text is safe; only then may the file itself be written."""
        copy = self.copies[name]
        beside = files.conflict_name(name, copy.digest)
        if not self.dry_run and not self.folder.keep(beside, copy.data):
            self._left(name, f"{beside} is in the way; move it elsewhere")
            return False
        self.steps.append(Step(what=CONFLICT, file=beside, id=id, why=why))
        return True

    def _put(
        self, name: str, memory: Memory, others: Mapping[str, Any], was: bytes | None, *,
        say: bool = True,
    ) -> None:  # fmt: skip
        written = text.written(memory, others)
        if written.encode() != was and say:
            self.steps.append(Step(what=WRITTEN, file=name, id=memory.id))
        if not self.dry_run and not self.folder.write(name, written, was=was):
            self._left(name, MEANWHILE)
            return
        self.entries[memory.id] = Entry(
            name=name, revision=memory.revision, digest=files.digest_of(written.encode())
        )

    def _left(self, name: str, why: str) -> None:
        self.steps.append(Step(what=LEFT, file=name, why=self.context.without_secrets(why)))
