"""Commands about the language model."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from reasonbank.errors import InvalidSetting
from reasonbank.surfaces.cli.shell import Shell, command, main

if TYPE_CHECKING:
    from reasonbank.settings import Settings

QUESTION = "Is the sky blue on a clear day? Say yes or no, and how sure you are from 0 to 1."
SCHEMA = {
    "type": "object",
    "properties": {
        "answer": {"type": "string", "enum": ["yes", "no"]},
        "certainty": {"type": "number", "minimum": 0, "maximum": 1},
    },
    "required": ["answer", "certainty"],
    "additionalProperties": False,
}


@main.group()
def llm() -> None:
    """Look at the language model that the settings name."""


@command("check", group=llm)
def llm_check(shell: Shell) -> None:
    """Make one real call, and say what works.

    It costs about a hundred tokens. The key stays in its environment variable.
    """
    import asyncio

    from reasonbank.settings import load
    from reasonbank.surfaces.show import tables

    result = asyncio.run(_checked(load()))
    shell.show(result, lambda: tables.facts("The language model answers", result))


async def _checked(settings: Settings) -> dict[str, Any]:
    import time
    from dataclasses import replace

    from reasonbank.fence import fixed
    from reasonbank.llm.port import ModelMeters, user
    from reasonbank.opening import model_of, style_of

    meters = ModelMeters()
    # From the cache nothing would be learned.
    fresh = replace(settings, llm=replace(settings.llm, cache="off"))
    model = model_of(fresh, meters=meters)
    if model is None:
        raise InvalidSetting(
            "llm.provider",
            "is none: ReasonBank works without a model. To use one, set llm.provider and "
            "llm.model, e.g. REASONBANK_LLM_PROVIDER=ollama REASONBANK_LLM_MODEL=qwen3",
        )
    started = time.perf_counter()
    try:
        completion = await model.complete([user(fixed(QUESTION))], schema=SCHEMA, max_tokens=1024)
    finally:
        await model.close()
    return {
        "provider": settings.llm.provider,
        "model": completion.model,
        "style": style_of(settings),
        "schema": _kept(completion.enforced, meters.repairs),
        "reply": completion.value,
        "milliseconds": round((time.perf_counter() - started) * 1000),
        "calls": meters.calls,
        "retries": meters.retries,
        "repairs": meters.repairs,
        "input_tokens": meters.input_tokens,
        "output_tokens": meters.output_tokens,
        "reasoning_tokens": meters.reasoning_tokens,
        "cost": meters.cost,
    }


def _kept(enforced: bool, repairs: int) -> str:
    if not enforced:
        return "asked for in the prompt: the server takes none"
    if repairs:
        return "taken by the server, which did not keep to it; asking again did"
    return "enforced by the server"
