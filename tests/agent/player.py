"""A scripted model that plays every part of the loop; a test says only what it is about."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from typing import Any

from reasonbank.llm.port import ModelCall
from reasonbank.llm.scripted import Scripted, Slow

LESSON = {
    "title": "Handle the empty list first",
    "description": "When a function folds a list",
    "content": "Return the neutral element before the loop.",
    "tags": ["edges"],
}


def part_of(call: ModelCall) -> str:
    """Which part a call plays: think, evaluate, compare, judge, distil or contrast."""
    properties = (call.schema or {}).get("properties", {})
    if not properties:
        return "think"
    if "better" in properties:
        return "compare"
    if "memories" in properties:
        lesson = properties["memories"]["items"]["properties"]
        return "contrast" if "attempts" in lesson else "distil"
    return "judge" if "outcome" in properties else "evaluate"


class Player(Scripted):
    """Thinks of ``solutions`` in turn, and scores each by its text."""

    def __init__(
        self,
        solutions: Iterable[Any] | Callable[[ModelCall], Any] = ("a", "b", "c", "d", "e", "f", "g"),
        *,
        scores: dict[str, Any] | None = None,
        outcome: str = "success",
        better: Callable[[ModelCall], str] = lambda _: "first",
        lessons: list[dict[str, Any]] | None = None,
        delay: float = 0.0,
        **parts: Any,
    ) -> None:
        said = iter(solutions) if not callable(solutions) else None
        self.parts: list[str] = []

        def reply(call: ModelCall) -> Any:
            part = part_of(call)
            self.parts.append(part)
            if part in parts:
                return parts[part](call) if callable(parts[part]) else parts[part]
            if part == "think":
                return next(said) if said is not None else solutions(call)  # type: ignore[operator]
            if part == "evaluate":
                return self._score(call, scores or {})
            if part == "compare":
                return {"reason": "it is", "better": better(call)}
            if part == "judge":
                return {"reason": "the tests ran", "outcome": outcome, "score": 90}
            if part == "distil":
                spans = {"first_step": 1, "last_step": 1}
                return {"memories": [one | spans for one in lessons or []]}
            shown = {"outcome": "success", "attempts": [1]}
            return {"memories": [one | shown for one in lessons or []]}

        super().__init__(reply, delay=delay)

    def _score(self, call: ModelCall, scores: dict[str, Any]) -> Any:
        text = re.search(
            r"<solution-(\w+)>\n(?P<text>.*?)\n</solution-\1>", call.messages[-1].content, re.DOTALL
        )
        assert text is not None
        score = scores.get(text["text"], 0.5)
        if isinstance(score, Slow | BaseException | str | dict):
            return score
        return {"feedback": f"look at {text['text']} again", "score": score}

    def asked(self, part: str) -> list[ModelCall]:
        return [call for call in self.calls if part_of(call) == part]
