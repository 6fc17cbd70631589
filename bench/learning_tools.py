"""Tool choice. MetaTool: 3,000 questions in a row, 199 tools, one of them right.

ToolLens: 1,877 questions, which do not say what they need, 464 tools, one to three of them right.
"""

from __future__ import annotations

import re
from pathlib import Path

from bench.learning_choice import choice
from bench.learning_loop import Stream
from bench.retrieval_sets import Corpus, metatool, toollens

JUDGES = (70, 80, 90)
LENS = re.compile(
    r"category_name:(?P<category>[^,]{0,100}), tool_name:(?P<tool>.{0,200}?), "
    r"api_name:(?P<api>.{0,200}?), api_description:(?P<about>.{0,2000}?), required_params:",
    re.DOTALL,
)


def stream(data: Path, seed: int, condition: str, *, tuning: bool = False) -> Stream:
    """Tuning and test questions are those of the retrieval bench; a seed only orders them."""
    corpus = metatool(data, train=tuning).corpora[0]
    lessons = {document.title: (document.title, document.content) for document in corpus.documents}
    return choice("tools", lessons, asked(corpus, list(lessons)), seed, condition)


def lens(data: Path, seed: int, condition: str, *, tuning: bool = False) -> Stream:
    corpus = toollens(data, train=tuning).corpora[0]
    lessons = {}
    for number, document in enumerate(corpus.documents):
        said = LENS.match(document.content)
        assert said is not None, document.content[:80]
        title = f"{said['tool']}: {said['api']}"
        lessons[f"{number} {title}"] = (title[:200], f"{said['category']}. {said['about']}"[:800])
    return choice("lens", lessons, asked(corpus, list(lessons)), seed, condition)


def asked(corpus: Corpus, names: list[str]) -> list[tuple[str, frozenset[str]]]:
    return [
        (question.text, frozenset(names[place] for place in question.gold))
        for question in corpus.questions
    ]
