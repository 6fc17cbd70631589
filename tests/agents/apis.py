"""How a model offers itself: Anthropic's Messages, OpenAI's Responses and chat, Gemini."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any
from uuid import uuid4

from tests.agents.calls import Found, Offered

IN, OUT = 10, 5
"""Tokens: whatever an agent makes of them, it is the same for every answer."""


@dataclass(frozen=True, slots=True)
class Said:
    text: str
    calls: Sequence[Found] = ()


@dataclass(frozen=True, slots=True)
class Reply:
    whole: dict[str, Any]
    events: Sequence[dict[str, Any]]
    named: bool = True
    last: str = ""


@dataclass(frozen=True, slots=True)
class Api:
    name: str
    ending: str
    tools: Callable[[dict[str, Any]], Offered]
    reply: Callable[[str, Said, int], Reply]


def some_id(kind: str) -> str:
    return f"{kind}_{uuid4().hex[:20]}"


# Anthropic's Messages


def messages_tools(body: dict[str, Any]) -> Offered:
    return [("", tool.get("name", "")) for tool in body.get("tools") or []]


def messages(model: str, said: Said, now: int) -> Reply:
    blocks: list[dict[str, Any]] = [{"type": "text", "text": said.text}]
    blocks += [
        {"type": "tool_use", "id": f"toolu_{call.id[5:]}", "name": call.name, "input": call.input}
        for call in said.calls
    ]
    stop = "tool_use" if said.calls else "end_turn"
    usage = {
        "input_tokens": IN,
        "output_tokens": OUT,
        "cache_creation_input_tokens": 0,
        "cache_read_input_tokens": 0,
    }
    message = {
        "id": some_id("msg"),
        "type": "message",
        "role": "assistant",
        "model": model,
        "content": [],
        "stop_reason": None,
        "stop_sequence": None,
        "usage": usage,
    }
    events: list[dict[str, Any]] = [{"type": "message_start", "message": message}]
    for index, block in enumerate(blocks):
        if block["type"] == "text":
            empty = block | {"text": ""}
            delta = {"type": "text_delta", "text": block["text"]}
        else:
            empty = block | {"input": {}}
            delta = {"type": "input_json_delta", "partial_json": json.dumps(block["input"])}
        events += [
            {"type": "content_block_start", "index": index, "content_block": empty},
            {"type": "content_block_delta", "index": index, "delta": delta},
            {"type": "content_block_stop", "index": index},
        ]
    ending = {"stop_reason": stop, "stop_sequence": None}
    events += [
        {"type": "message_delta", "delta": ending, "usage": {"output_tokens": OUT}},
        {"type": "message_stop"},
    ]
    return Reply(message | {"content": blocks, "stop_reason": stop}, events)


# OpenAI's Responses


def responses_tools(body: dict[str, Any]) -> Offered:
    offered = []
    for tool in body.get("tools") or []:
        if tool.get("type") == "namespace":
            offered += [(tool["name"], each.get("name", "")) for each in tool.get("tools", [])]
        else:
            offered.append(("", tool.get("name") or tool.get("type", "")))
    return offered


def responses(model: str, said: Said, now: int) -> Reply:
    text = {"type": "output_text", "text": said.text, "annotations": []}
    items: list[dict[str, Any]] = [
        {
            "type": "message",
            "id": some_id("msg"),
            "role": "assistant",
            "status": "completed",
            "content": [text],
        }
    ]
    for call in said.calls:
        item = {"id": some_id("fc"), "call_id": call.id, "name": call.name, "status": "completed"}
        if isinstance(call.input, str):
            item |= {"type": "custom_tool_call", "input": call.input}
        else:
            item |= {"type": "function_call", "arguments": json.dumps(call.input)}
        items.append(item | ({"namespace": call.space} if call.space else {}))
    usage = {
        "input_tokens": IN,
        "input_tokens_details": {"cached_tokens": 0},
        "output_tokens": OUT,
        "output_tokens_details": {"reasoning_tokens": 0},
        "total_tokens": IN + OUT,
    }
    whole = {
        "id": some_id("resp"),
        "object": "response",
        "created_at": now,
        "status": "completed",
        "model": model,
        "output": items,
        "usage": usage,
    }
    begun = whole | {"status": "in_progress", "output": [], "usage": None}
    events: list[dict[str, Any]] = [{"type": "response.created", "response": begun}]
    for index, item in enumerate(items):
        place = {"output_index": index}
        events.append({"type": "response.output_item.added", "item": item} | place)
        if item["type"] == "message":
            delta = {"item_id": item["id"], "content_index": 0, "delta": said.text}
            events.append({"type": "response.output_text.delta"} | place | delta)
        events.append({"type": "response.output_item.done", "item": item} | place)
    events.append({"type": "response.completed", "response": whole})
    return Reply(whole, [e | {"sequence_number": n} for n, e in enumerate(events)])


# OpenAI's chat


def chat_tools(body: dict[str, Any]) -> Offered:
    return [("", tool.get("function", {}).get("name", "")) for tool in body.get("tools") or []]


def chat(model: str, said: Said, now: int) -> Reply:
    calls = [
        {
            "index": index,
            "id": call.id,
            "type": "function",
            "function": {"name": call.name, "arguments": json.dumps(call.input)},
        }
        for index, call in enumerate(said.calls)
    ]
    stop = "tool_calls" if calls else "stop"
    usage = {"prompt_tokens": IN, "completion_tokens": OUT, "total_tokens": IN + OUT}
    base = {"id": some_id("chatcmpl"), "created": now, "model": model}
    message = {"role": "assistant", "content": said.text} | ({"tool_calls": calls} if calls else {})
    whole = base | {
        "object": "chat.completion",
        "choices": [{"index": 0, "message": message, "finish_reason": stop}],
        "usage": usage,
    }
    chunk = base | {"object": "chat.completion.chunk"}

    def piece(delta: dict[str, Any], ended: str | None = None) -> dict[str, Any]:
        return chunk | {"choices": [{"index": 0, "delta": delta, "finish_reason": ended}]}

    events = [piece({"role": "assistant", "content": said.text})]
    events += [piece({"tool_calls": [call]}) for call in calls]
    events += [piece({}, stop), chunk | {"choices": [], "usage": usage}]
    return Reply(whole, events, named=False, last="data: [DONE]\n\n")


# Gemini


def gemini_tools(body: dict[str, Any]) -> Offered:
    groups = (tool.get("functionDeclarations", []) for tool in body.get("tools") or [])
    return [("", each["name"]) for group in groups for each in group]


def gemini(model: str, said: Said, now: int) -> Reply:
    parts: list[dict[str, Any]] = [{"text": said.text}]
    parts += [{"functionCall": {"name": call.name, "args": call.input}} for call in said.calls]
    content = {"role": "model", "parts": parts}
    counted = {
        "promptTokenCount": IN,
        "candidatesTokenCount": OUT,
        "totalTokenCount": IN + OUT,
    }
    whole = {
        "candidates": [{"content": content, "finishReason": "STOP", "index": 0}],
        "usageMetadata": counted,
        "modelVersion": "scripted",
    }
    return Reply(whole, [whole], named=False)


APIS = (
    Api("anthropic", "/messages", messages_tools, messages),
    Api("responses", "/responses", responses_tools, responses),
    Api("chat", "/chat/completions", chat_tools, chat),
    Api("gemini", "enerateContent", gemini_tools, gemini),
)
