"""What is taken from sets of requests: the tool that serves one, and others of the same intent."""

from __future__ import annotations

import csv
import hashlib
import io
import json
import re
from collections.abc import Iterable, Iterator
from typing import Any

from .markdown import plain
from .rows import Files, Found, Pair

# A batch takes at most forty pairs of a group; half as many intents leave room for both halves.
_INTENTS_TOGETHER = 20
_ASKS = re.compile(
    r"(?i)\b(?:can|could) you\b|\bplease\b|\bi (?:want|need|would like)\b|\bi'd like\b"
)


# ------------------------------------------------------------------ the tool that does it


def seal_tools(files: Files, pattern: re.Pattern[str]) -> Found:
    """Requests with the tools they call, and the tools with the field they are of."""
    lines = {path: _json_lines(text) for path, text in files.items()}
    tools = {row["api_name"]: row for path in lines for row in lines[path] if "api_name" in row}
    for name, tool in tools.items():
        yield Pair(tool["field"], name, f"{tool['api_description']}.")
    for row in (row for rows in lines.values() for row in rows if "query" in row):
        called = {call["api"] for call in row["calling"] if call["api"] in tools}
        # A request for more than three things says little about any of them.
        for name in sorted(called) if len(called) < 4 else ():
            tool = tools[name]
            yield Pair(tool["field"], row["query"], _tool(name, tool["api_description"]))


def function_calls(files: Files, pattern: re.Pattern[str]) -> Found:
    """Questions with functions to choose from; which one is right lies in a file of that name.

    Functions such as "Flights_4_FindFlight" come from a share-alike set and are left out.
    """
    answers = {
        row["id"]: {name for call in row["ground_truth"] for name in call}
        for path, text in files.items()
        if "possible_answer" in path
        for row in _json_lines(text)
    }
    for path, text in files.items():
        for row in _json_lines(text) if "possible_answer" not in path else ():
            offered = {tool["name"]: tool["description"] for tool in row["function"]}
            if any(re.fullmatch(r"[A-Z]\w*_\d_\w+", name) for name in offered):
                continue
            group = " ".join(sorted(offered))
            for name, about in offered.items():
                yield Pair(group, name, plain(about))
            right = answers.get(row["id"], set()) & set(offered)
            said = [turn["content"] for turn in row["question"][0] if turn["role"] == "user"]
            for name in sorted(right) if len(said) == 1 and len(right) < 4 else ():
                yield Pair(group, said[0], _tool(name, offered[name]))


def model_calls(files: Files, pattern: re.Pattern[str]) -> Found:
    """Wishes, and the published model that fulfils each."""
    wish = re.compile(r"Instruction'?:\s*(.{10,600}?)(?:, 'Output'|\n###|\n'?Output)", re.DOTALL)
    for text in files.values():
        for row in _json_lines(text):
            found, model = wish.search(row["code"]), row["api_data"]
            about = f"{model['functionality']}. {plain(str(model['description']))[:500]}"
            if found:
                said = found.group(1).strip("\"' \n").replace("\\n", " ")
                yield Pair(model["domain"], plain(said), _tool(model["api_name"], about))


def dialogues(files: Files, pattern: re.Pattern[str]) -> Found:
    """Talks with an assistant that calls tools; the tools are classes that describe themselves."""
    described = re.compile(r'class (\w+)\(API\):\s+description = ["\'](.+?)["\']\n')
    tools = {
        name: about
        for path, text in files.items()
        if path.endswith(".py")
        for name, about in described.findall(text)
    }
    for name, about in tools.items():
        yield Pair("", name, about)
    for path, text in files.items():
        if path.endswith(".jsonl"):
            yield from _served(((t["role"], t) for t in _json_lines(text)), tools)
        elif path.endswith(".json"):
            yield from _served(_turns(json.loads(text)["conversation"]), tools)


def _turns(conversation: list[dict[str, Any]]) -> Iterator[tuple[str, dict[str, Any]]]:
    for turn in conversation:
        for call in turn.get("apis", ()):
            yield "API", call["request"]
        yield turn["role"], turn


def _served(turns: Iterable[tuple[str, dict[str, Any]]], tools: dict[str, str]) -> Found:
    """A tool serves what was asked last; where it is the only one, the first request as well.

    An answer to the assistant ("my name is …") asks for nothing, and every talk fetches a token.
    """
    asked, served = list[str](), dict[str, str]()
    for role, turn in turns:
        if role.lower() == "user":
            asked.append(turn["text"])
        name = turn.get("api_name", "")
        if role == "API" and asked and name in tools and "Token" not in name:
            served.setdefault(name, asked[-1])
    for name, last in served.items():
        for said in sorted({last, asked[0] if len(served) == 1 else last}):
            if _ASKS.search(said):
                yield Pair("", said, _tool(name, tools[name]))


def simulated_apis(files: Files, pattern: re.Pattern[str]) -> Found:
    """Instructions to an API and the functions of it that were called."""
    listed = re.compile(r"Name: (\w+)\s+Description: (.+)")
    for text in files.values():
        for api in json.loads(text):
            functions = dict(listed.findall(api.get("Functions", "")))
            for name, about in functions.items():
                yield Pair(api["Name"], name, about)
            answers = api.get("Golden_Answers", [])
            for said, calls in zip(api["Instructions"], answers, strict=False):
                for name in {call["Action"] for call in calls} & set(functions):
                    yield Pair(api["Name"], said, _tool(name, functions[name]))
                yield Pair(api["Category"], said, _tool(api["Name"], api["Description"]))


def _tool(name: str, about: str) -> str:
    return f"{name}. {plain(about)}"


# ------------------------------------------------------------------ requests of one intent


def intents(files: Files, pattern: re.Pattern[str]) -> Found:
    """Each request leads to another one of its intent.

    A group holds one pair of each of some intents that are alike: those of one domain.
    """
    said: dict[str, dict[str, dict[str, None]]] = {}
    for domain, intent, text in _labelled(files):
        said.setdefault(domain, {}).setdefault(intent, {})[" ".join(text.split())] = None
    for domain, meant in said.items():
        for place, intent in enumerate(sorted(meant)):
            texts = sorted(meant[intent], key=lambda t: hashlib.sha256(t.encode()).digest())
            part = place // _INTENTS_TOGETHER
            for at, text in enumerate(texts):
                other = texts[(at + 1) % len(texts)]
                if other.lower() != text.lower():
                    yield Pair(f"{domain} {part} {at}", text, other, f"{domain} {intent}")


def _labelled(files: Files) -> Iterator[tuple[str, str, str]]:
    """Domain, intent and text, out of the forms in which such sets are kept."""
    for path, text in files.items():
        if path.endswith(".csv"):
            for row in csv.reader(io.StringIO(text)):
                if len(row) == 2 and row[1] != "category":
                    one = "banking" in path
                    yield ("banking" if one else row[1].split("_")[0]), row[1], row[0]
        elif path.endswith("data_full.json"):
            domains = json.loads(files[path.replace("data_full", "domains")])
            domain = {intent: name for name, many in domains.items() for intent in many}
            for part, rows in json.loads(text).items():
                for said, intent in rows if not part.startswith("oos") else ():
                    yield domain[intent], intent, said
        elif "nlupp" in path:
            for row in json.loads(text):
                if meant := " ".join(sorted(row.get("intents", []))):
                    yield f"spoken {path.split('/')[-2]}", meant, row["text"]
        elif not path.endswith("domains.json"):
            for intent, rows in json.loads(text).items():
                for row in rows:
                    yield "assistant", intent, "".join(part["text"] for part in row["data"])


def _json_lines(text: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in text.splitlines() if line.strip()]
