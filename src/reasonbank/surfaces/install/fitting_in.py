"""Our entries in the text of a config, and out of it again. Nothing here touches a file."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

from reasonbank.surfaces.install import jsonc, tomltable
from reasonbank.surfaces.install.edits import Edit, applied, merged
from reasonbank.surfaces.install.jsonc import Malformed, Node, Path, malformed
from reasonbank.surfaces.install.wiring import NAME, SERVES, Entry, Target, is_hook

NEW = {"json": "{}\n", "toml": "", "whole": ""}
"""Of what a file that was not there is made."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Before:
    """What is known of an earlier install: ``base`` is the text without our entries, None if
    there was no file; ``written`` the one with them."""

    base: str | None
    written: str
    entries: tuple[Entry, ...] = ()


@dataclass(slots=True, kw_only=True)
class Outcome:
    """``text`` is None where there is to be no file."""

    text: str | None
    base: str | None = None
    edits: list[Edit] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)


def wired(text: str | None, target: Target, before: Before | None, *, replace: bool) -> Outcome:
    """With our entries. Raises ``Malformed`` for a text that cannot be read."""
    if target.form == "whole":
        return _whole(text, target, before, replace=replace)
    left = [] if replace else _by_hand(text, target, before)
    entries = tuple(entry for entry in target.entries if entry not in left)
    notes = [_told(entry) for entry in left]
    if text is not None and _satisfied(text, target, entries):
        return Outcome(text=text, base=text, notes=notes)
    base = unwired(text, target, before, again=True).text if text is not None else None
    edits: list[Edit] = []
    new = base if base is not None and base.strip("\ufeff \t\r\n") else None
    if new is None:
        edits.append(Edit(len(base or ""), "", NEW[target.form]))
        new = (base or "") + NEW[target.form]
    for entry in entries:
        for edit in _adding(new, target, entry):
            edits.append(edit)
            new = applied(new, [edit]) or new
    _check(base, new, target, entries)
    return Outcome(text=new, base=base, edits=edits, notes=notes)


def unwired(text: str, target: Target, before: Before | None, *, again: bool = False) -> Outcome:
    """Without them: byte for byte as it was, unless others have changed it since.

    ``again``: they are to come back, so what may be the user's own stays.
    """
    if before is not None and text == before.written:
        return Outcome(text=before.base)
    if target.form == "whole":
        ours = is_ours_whole(text)
        return Outcome(text=None if ours else text, notes=[] if ours else [_told(None)])
    rest = _without(text, target, before, again=again)
    if before is not None and before.base is not None and rest != text:
        both = merged(before.written, before.base, text)
        if both is not None and _same(both, rest, target):
            return Outcome(text=both)
    if rest != text and (before is not None and before.base is None) and not _says(rest, target):
        return Outcome(text=None)
    return Outcome(text=rest)


def present(text: str, target: Target) -> tuple[list[Entry], list[Entry]]:
    """Of the target's entries, those that are there as wanted, and those that are not."""
    root = _read(text, target)
    there = [entry for entry in target.entries if _has(root, entry)]
    return there, [entry for entry in target.entries if entry not in there]


def server(text: str, target: Target) -> tuple[list[str], dict[str, Any] | None]:
    """The server that is called like ours, whoever wrote it, and the words that start it."""
    root = _read(text, target)
    for entry in target.entries:
        there = _at(root, entry.path)
        if not entry.listed and entry.path[-1] == NAME and isinstance(there, dict):
            return _words(there), there
    return [], None


def hook_commands(text: str) -> list[str]:
    if not text.strip("\ufeff \t\r\n"):
        return []
    return [str(node.value) for _, node in _strings(jsonc.parse(text)) if is_hook(node.value)]


def _read(text: str, target: Target) -> Any:
    if target.form == "toml":
        return tomltable.parse(text)
    if not text.strip("\ufeff \t\r\n"):
        return {}
    root = jsonc.parse(text)
    if not root.object:
        raise malformed(text, root.start, "an object is expected at the top")
    return root.plain()


def _at(value: Any, path: Iterable[str | int]) -> Any:
    for step in path:
        if isinstance(value, dict):
            value = value.get(step)
        elif isinstance(value, list) and isinstance(step, int):
            value = value[step]
        else:
            return None
    return value


def _has(root: Any, entry: Entry) -> bool:
    found = _at(root, entry.path)
    if entry.path == ("version",):
        return found is not None
    return (
        entry.value in found if entry.listed and isinstance(found, list) else found == entry.value
    )


def _satisfied(text: str, target: Target, entries: tuple[Entry, ...]) -> bool:
    """All is there, and nothing of an older install."""
    root = _read(text, target)
    if not all(_has(root, entry) for entry in entries):
        return False
    return target.form == "toml" or len([*_own_hooks(jsonc.parse(text))]) == sum(
        entry.path[0] == "hooks" for entry in entries
    )


def _by_hand(text: str | None, target: Target, before: Before | None) -> list[Entry]:
    """Of our names, those that somebody else has given to something."""
    root = {} if text is None else _read(text, target)
    found = []
    for entry in target.entries:
        there = _at(root, entry.path)
        if entry.listed or entry.path[-1] != NAME or there is None:
            continue
        known = [old.value for old in (before.entries if before else ()) if old.path == entry.path]
        if there not in known and not _like_ours(there, entry.value):
            found.append(entry)
    return found


def _told(entry: Entry | None) -> str:
    what = "the file" if entry is None else ".".join(entry.path)
    return f"{what} is there already and not of this command: left as it is (--replace takes it)"


def _words(server: Any) -> list[str]:
    command = server.get("command")
    words = [*command] if isinstance(command, list) else [command, *(server.get("args") or ())]
    return [word for word in words if isinstance(word, str)]


def _like_ours(there: Any, wanted: Any) -> bool:
    """What `install` writes, whatever starts it: then it is ours, whoever has typed it."""
    if not isinstance(there, dict):
        return False
    how = {"command", "args", "url", "httpUrl", "headers", "http_headers", "bearer_token_env_var"}
    words = _words(there)
    if "--bank" in words[-2:-1]:
        words = words[:-2]
    rest = {key: value for key, value in there.items() if key not in how}
    ours = tuple(words[-len(SERVES) :]) == SERVES or str(
        there.get("url") or there.get("httpUrl") or ""
    ).endswith("/mcp")
    return ours and {**rest, "type": 0} == {
        **{key: value for key, value in wanted.items() if key not in how}, "type": 0,
    }  # fmt: skip


def _adding(text: str, target: Target, entry: Entry) -> Iterator[Edit]:
    if target.form == "toml":
        yield from tomltable.put(text, entry.path, entry.value)
        return
    container = entry.path if entry.listed else entry.path[:-1]
    for depth in range(1, len(container) + 1):
        part = container[:depth]
        new: Any = [] if entry.listed and part == entry.path else {}
        there = jsonc.parse(text).find(part)
        if there is None:
            for edit in jsonc.put(text, part, new):
                text = applied(text, [edit]) or text
                yield edit
        elif there.parts is None or there.object != isinstance(new, dict):
            kind = "a list" if new == [] else "an object"
            raise malformed(text, there.start, f"{'.'.join(map(str, part))} is to be {kind}")
    if _has(_read(text, target), entry):
        return
    yield from (jsonc.append if entry.listed else jsonc.put)(text, entry.path, entry.value)


def _check(base: str | None, new: str, target: Target, entries: tuple[Entry, ...]) -> None:
    """Everything else reads as before, and our entries as they were meant."""
    try:
        root = _read(new, target)
    except Malformed:
        root = None
    fits = root is not None and all(_has(root, entry) for entry in entries)
    if fits and target.form == "toml":
        old = tomltable.parse(base or "")
        for tree in (old, root):
            servers = tree.get("mcp_servers")
            if isinstance(servers, dict):
                servers.pop(NAME, None)
        fits = {"mcp_servers": {}} | old == {"mcp_servers": {}} | root
    if not fits:
        text = base or ""
        at = max(text.find(entries[0].path[0] if entries else ""), 0)
        raise malformed(text, at, "our entry does not fit in with what is here; add it by hand")


def _whole(text: str | None, target: Target, before: Before | None, *, replace: bool) -> Outcome:
    if text == target.text:
        return Outcome(text=text, base=text)
    mine = text is None or (before and text == before.written) or is_ours_whole(text)
    if not mine and not replace:
        return Outcome(text=text, base=text, notes=[_told(None)])
    base = before.base if before and text == before.written else None if mine else text
    edits = [Edit(0, base or "", target.text)]
    return Outcome(text=target.text, base=base, edits=edits)


def is_ours_whole(text: str) -> bool:
    if "`reasonbank install opencode`" in text[:400]:
        return True
    try:
        root = jsonc.parse(text).plain()
    except Malformed:
        return False
    hooks = root.get("hooks") if isinstance(root, dict) else None
    if not isinstance(hooks, dict) or set(root) != {"version", "hooks"} or not hooks:
        return False
    every = [each for hook in hooks.values() if isinstance(hook, list) for each in hook]
    return bool(every) and all(isinstance(e, dict) and is_hook(e.get("bash")) for e in every)


def _without(text: str, target: Target, before: Before | None, *, again: bool) -> str:
    base = None if before is None or before.base is None else _read(before.base, target)
    if target.form == "toml":
        return _without_tables(text, target, before, base)
    emptied: list[Path] = []
    while (path := next(_own(text, target, before, base, again=again), None)) is not None:
        rest = _removed(text, path)
        if rest == text:
            break
        text = rest
        emptied.append(path[:-1])
    for path in emptied:
        text = _swept(text, path, base, before)
    for entry in target.entries:
        if not entry.listed and (old := _at(base, entry.path)) is not None:
            root = _read(text, target)
            if _at(root, entry.path) is None and isinstance(_at(root, entry.path[:-1]), dict):
                text = applied(text, jsonc.put(text, entry.path, old)) or text
    return text


def _without_tables(text: str, target: Target, before: Before | None, base: Any) -> str:
    left = _by_hand(text, target, before)
    for entry in target.entries:
        if entry in left or _at(tomltable.parse(text), entry.path) is None:
            continue
        text = applied(text, tomltable.remove(text, entry.path)) or ""
        if (old := _at(base, entry.path)) is not None:
            text = applied(text, tomltable.put(text, entry.path, old)) or text
    return text


def _own(
    text: str, target: Target, before: Before | None, base: Any, *, again: bool
) -> Iterator[Path]:
    """What is ours in this text, the last first. It was there before us: it is not ours."""
    if not text.strip("\ufeff \t\r\n"):
        return
    root = jsonc.parse(text)
    plain = _read(text, target)
    left = _by_hand(text, target, before)
    yield from (path for path, _ in reversed([*_own_hooks(root)]))
    for entry in target.entries:
        if entry in left or entry.path[0] == "hooks":
            continue
        there, was = _at(plain, entry.path), _at(base, entry.path)
        if entry.listed and isinstance(there, list) and entry.value in there:
            unsure = again and before is None
            if not unsure and not (isinstance(was, list) and entry.value in was):
                yield (*entry.path, there.index(entry.value))
        elif entry.listed or there is None or there == was:
            continue
        elif entry.path[-1] == NAME or (before is not None and there == entry.value):
            yield entry.path


def _own_hooks(root: Node) -> Iterator[tuple[Path, Node]]:
    """Where our hooks stand: whole groups; of a group with others' hooks, only ours."""
    hooks = root.find(("hooks",))
    for name, node in _members(hooks):
        for n, group in enumerate(node.parts or ()):
            plain = group.plain()
            inner = plain.get("hooks") if isinstance(plain, dict) else None
            if isinstance(inner, list):
                mine = [m for m, hook in enumerate(inner) if _is_own(hook)]
                if mine and len(mine) == len(inner):
                    yield ("hooks", name, n), group
                else:
                    yield from ((("hooks", name, n, "hooks", m), group) for m in mine)
            elif _is_own(plain):
                yield ("hooks", name, n), group


def _members(node: Node | None) -> Iterator[tuple[str, Node]]:
    if node is not None and node.object and node.parts is not None:
        for name, part in zip(node.names, node.parts, strict=True):
            yield name.value, part


def _is_own(hook: Any) -> bool:
    return isinstance(hook, dict) and any(is_hook(hook.get(key)) for key in ("command", "bash"))


def _strings(node: Node, path: Path = ()) -> Iterator[tuple[Path, Node]]:
    if node.parts is None:
        if isinstance(node.value, str):
            yield path, node
        return
    names = [n.value for n in node.names] if node.object else range(len(node.parts))
    for name, part in zip(names, node.parts, strict=True):
        yield from _strings(part, (*path, name))


def _removed(text: str, path: Path) -> str:
    return applied(text, jsonc.remove(text, path)) or text


def _swept(text: str, path: Path, base: Any, before: Before | None) -> str:
    """Takes away what our entries have left empty; what was empty before is so again."""
    while path and _at(_plain(text), path) in ({}, []) and _at(base, path) is None:
        text, path = _removed(text, path), path[:-1]
    now = jsonc.parse(text).find(path)
    if before is not None and before.base is not None and now is not None and not now.parts:
        was = jsonc.parse(before.base).find(path) if before.base.strip("\ufeff \t\r\n") else None
        if was is not None and was.parts == []:
            return text[: now.start] + before.base[was.start : was.end] + text[now.end :]
    return text


def _plain(text: str) -> Any:
    return jsonc.parse(text).plain()


def _same(one: str, other: str, target: Target) -> bool:
    try:
        return bool(_read(one, target) == _read(other, target))
    except Malformed:
        return False


def _says(text: str, target: Target) -> bool:
    """Whether a text is more than an empty frame."""
    return "".join(text.strip("\ufeff").split()) not in ("{}", "")
