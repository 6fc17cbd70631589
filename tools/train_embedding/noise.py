"""How texts reach an agent's memory: misspelt, shouted, as identifiers, in traces, in prompts.

Every function takes the random numbers it draws from, so that a seed decides all of it.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from random import Random

Noise = tuple[str, str]
"""What is read, and the clean text whose vector it should get."""

_NEAR = {
    "a": "sq", "b": "vn", "c": "xv", "d": "sf", "e": "wr", "f": "dg", "g": "fh", "h": "gj",
    "i": "uo", "j": "hk", "k": "jl", "l": "k", "m": "n", "n": "bm", "o": "ip", "p": "o",
    "q": "wa", "r": "et", "s": "ad", "t": "ry", "u": "yi", "v": "cb", "w": "qe", "x": "zc",
    "y": "tu", "z": "x",
}  # fmt: skip
_MODULES = (
    "orders users billing reports worker scheduler router cache client session models views "
    "storage payments search uploader parser tasks gateway metrics notifier imports handlers"
).split()
_PACKAGES = (
    "django flask sqlalchemy requests httpx pandas celery pydantic express webpack react axios "
    "lodash spring hibernate jackson tokio serde hyper gin grpc numpy asyncio starlette"
).split()
_ERRORS = (
    "ValueError TypeError KeyError RuntimeError OSError ConnectionError PermissionError Error "
    "AssertionError ImportError java.lang.IllegalStateException java.io.IOException panic fatal"
).split()
_MARKS = (
    "", "", "", "Task: ", "The task: ", "Problem: ", "Issue: ", "Bug report: ", "Question: ",
    "What happens: ", "The user says: ", "Request: ", "TODO: ", "Here is what I see: ",
    "### Task\n",
    "<task>", "User: ", "Please help with this: ", "Error: ",
)  # fmt: skip
# Sentences of ours that belong to nearly every prompt; the collected ones vary them.
_PROMPT = (
    "You are a coding agent with a shell and an editor.",
    "You are a careful senior engineer who works in small steps.",
    "The repository is checked out in the current directory.",
    "Read the code before you change it.",
    "Find the cause first; do not hide the symptom.",
    "Keep the change small and run the tests.",
    "Ask if anything is unclear.",
    "Answer briefly, then give the patch.",
    "Do not touch unrelated files.",
    "Today everyone else is away, so decide by yourself.",
    "The customer waits for this, it is urgent.",
    "It worked last week.",
    "Thanks in advance for your help!",
    "Hello, I hope you are well.",
    "When you are done, say what you changed.",
    "Never print credentials.",
    "Operating system: Linux. Shell: bash.",
    "Think step by step and check each step.",
)
_OPPOSITES = (
    ("enable", "disable"), ("enabled", "disabled"), ("before", "after"), ("increase", "decrease"),
    ("first", "last"), ("always", "never"), ("true", "false"), ("allow", "deny"), ("add", "remove"),
    ("with", "without"), ("can", "cannot"), ("must", "must not"), ("is", "is not"), ("up", "down"),
    ("are", "are not"), ("should", "should not"), ("start", "stop"), ("open", "close"),
    ("lower", "higher"), ("minimum", "maximum"), ("input", "output"), ("read", "write"),
    ("create", "delete"), ("include", "exclude"), ("all", "none"), ("local", "remote"),
    ("client", "server"), ("source", "target"), ("encode", "decode"), ("upload", "download"),
)  # fmt: skip
_OPPOSITE = {a: b for pair in _OPPOSITES for a, b in (pair, pair[::-1])}


def misspelt(draw: Random, text: str, share: float | None = None) -> str:
    """At least one word that has letters enough gets a slip of the fingers."""
    words = text.split(" ")
    able = [i for i, word in enumerate(words) if len(word) > 3 and word.isalpha()]
    if not able:
        return text
    share = share or draw.choice((0.15, 0.3, 0.5, 0.7))
    chosen = [i for i in able if draw.random() < share] or [draw.choice(able)]
    for i in chosen:
        words[i] = _slip(draw, words[i])
    return " ".join(words)


def _slip(draw: Random, word: str) -> str:
    at = draw.randrange(len(word) - 1)
    kind = draw.random()
    if kind < 0.3:
        return word[:at] + word[at + 1] + word[at] + word[at + 2 :]
    if kind < 0.6:
        return word[:at] + word[at + 1 :]
    if kind < 0.8:
        return word[: at + 1] + word[at:]
    near = _NEAR.get(word[at].lower(), "e")
    return word[:at] + draw.choice(near) + word[at + 1 :]


def identifier(draw: Random, words: Sequence[str]) -> str:
    spelling = draw.randrange(6)
    if spelling < 2:
        return words[0] + "".join(word.capitalize() for word in words[1:])
    if spelling == 2:
        return "".join(word.capitalize() for word in words)
    joined = ("_", "-", ".")[draw.choice((0, 0, 0, 1, 2))].join(words)
    return joined.upper() if spelling == 5 else joined


def as_identifier(draw: Random, text: str) -> Noise:
    """Some words become one name: alone (to those words), or within the text (to the text)."""
    words = text.split(" ")
    plain = [word.isascii() and word.isalpha() and word.islower() for word in words]
    starts = [i for i in range(len(words) - 1) if plain[i] and plain[i + 1]]
    if not starts:
        return misspelt(draw, text), text
    start = draw.choice(starts)
    end = start + 2
    while end < min(len(words), start + 4) and plain[end] and draw.random() < 0.5:
        end += 1
    name = identifier(draw, words[start:end])
    if draw.random() < 0.5:
        return name + draw.choice(("", "", "()", ".py", ".ts", ".go")), " ".join(words[start:end])
    return " ".join((*words[:start], name, *words[end:])), text


def respelt(draw: Random, name: str) -> str:
    """camelCase, snake_case and words: another spelling of one identifier."""
    words = re.findall(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|\d+", name)
    if len(words) < 2:
        return name
    lower = [word.lower() for word in words]
    return " ".join(lower) if draw.random() < 0.4 else identifier(draw, lower)


def traced(draw: Random, message: str) -> str:
    """The message at the end (Python) or the beginning (others) of a stack trace."""
    message = " ".join(message.split())
    frames, kind = draw.randint(1, 7), draw.randrange(5)
    lines = [_frame(draw, kind) for _ in range(frames)]
    error = draw.choice(_ERRORS)
    if kind < 3:
        return "\n".join(("Traceback (most recent call last):", *lines, f"{error}: {message}"))
    return "\n".join((f"{error}: {message}", *lines))


def _frame(draw: Random, kind: int) -> str:
    module, line = draw.choice(_MODULES), draw.randint(2, 1800)
    called = (
        f"{draw.choice(('load', 'save', 'get', 'run', 'send', 'build'))}_{draw.choice(_MODULES)}"
    )
    if kind < 3:
        place = draw.choice(("/app", "/srv/app", f"/usr/lib/python3/{draw.choice(_PACKAGES)}"))
        return f'  File "{place}/{module}.py", line {line}, in {called}\n    self.{called}(value)'
    if kind == 3:
        place = draw.choice(("/app/src", f"node_modules/{draw.choice(_PACKAGES)}/lib"))
        return f"    at {called} ({place}/{module}.js:{line}:{draw.randint(1, 80)})"
    return f"\tat com.example.{module}.{called.title().replace('_', '')}({module}.java:{line})"


def prompted(draw: Random, text: str, prompts: Sequence[str], most: int = 900) -> str:
    """The text somewhere in a prompt, short enough that all of it is read."""
    room = max(0, draw.choice((200, 400, 600, most)) - len(text))
    around: list[str] = []
    while room > 0 and len(around) < 14:
        sentence = draw.choice(prompts if prompts and draw.random() < 0.6 else _PROMPT)
        around.append(sentence)
        room -= len(sentence) + 1
    before = draw.choice((0, len(around) // 2, len(around), draw.randint(0, len(around))))
    parts = (" ".join(around[:before]), draw.choice(_MARKS) + text, " ".join(around[before:]))
    return draw.choice((" ", "\n", "\n\n")).join(part for part in parts if part)


def plain_case(draw: Random, text: str) -> str:
    return text.upper() if draw.random() < 0.15 else re.sub(r"[.,;:!?`'\"]", "", text).lower()


def changed(draw: Random, text: str) -> str:
    """Nearly the same words with another meaning: another number, or the opposite.

    Empty where nothing in the text can be turned so.
    """
    ways: list[Callable[[], str]] = []
    numbers = list(re.finditer(r"(?<![\w.])\d+(?![\w.])", text))
    if numbers:
        ways.append(lambda: _other_number(draw, text, draw.choice(numbers)))
    able = [word for word in re.finditer(r"[a-z]+", text) if word.group() in _OPPOSITE]
    if able:
        ways.append(lambda: _replaced(text, found := draw.choice(able), _OPPOSITE[found.group()]))
    return draw.choice(ways)() if ways else ""


def _other_number(draw: Random, text: str, found: re.Match[str]) -> str:
    value = int(found.group()[:9])
    other = draw.choice((value * 10, value + 1, value * 2 + 1, max(0, value // 2 - 1)))
    return _replaced(text, found, str(other if other != value else value + 3))


def _replaced(text: str, found: re.Match[str], other: str) -> str:
    return text[: found.start()] + other + text[found.end() :]


def noisy(draw: Random, text: str, prompts: Sequence[str], *, message: bool) -> Noise:
    """What is read, and the clean text whose vector it should get.

    More than half of the short texts and all long ones stay as they are: that keeps the geometry.
    Few stand in a prompt: long texts are searched sentence by sentence, and a model that learns
    to read past what surrounds a problem also reads past parts of plain questions.
    """
    kind = draw.random()
    if len(text) >= 400 or kind < 0.55:
        return text, text
    if message and kind < 0.72:
        return traced(draw, text), text
    if kind < 0.72:
        return misspelt(draw, text), text
    if kind < 0.77:
        return plain_case(draw, text), text
    if kind < 0.87:
        return as_identifier(draw, text)
    if kind < 0.89:
        return prompted(draw, misspelt(draw, text, 0.2), prompts), text
    return prompted(draw, text, prompts), text


def noisy_question(draw: Random, text: str, prompts: Sequence[str]) -> str:
    """Milder: its document is the aim."""
    kind = draw.random()
    if " " not in text:
        return respelt(draw, text) if kind < 0.6 else text
    if len(text) > 350 or kind < 0.65:
        return text
    if kind < 0.82:
        return misspelt(draw, text)
    if kind < 0.9:
        return plain_case(draw, text)
    return prompted(draw, text, prompts)
