"""Which servers there are, where their keys are kept, and whether a key is accepted."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from reasonbank.errors import KeyRefused
from reasonbank.remote import Key

log = logging.getLogger(__name__)

PATIENCE = 5.0
"""Seconds that a server gets at start to say whether it accepts the key."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Provider:
    base_url: str = ""
    key_env: str = ""
    """Empty: it needs no key, though it may be given one."""
    style: Literal["responses", "chat"] = "chat"
    output_limit: Literal["max_tokens", "max_completion_tokens"] = "max_tokens"
    probe: str = "/models"
    """What can be read with a valid key only."""
    version: str = ""
    """Of Anthropic's API, the one that its SDK speaks."""


PROVIDERS: Mapping[str, Provider] = {
    "openrouter": Provider(
        base_url="https://openrouter.ai/api/v1",
        key_env="OPENROUTER_API_KEY",
        style="responses",
        probe="/key",  # Its list of models is open to all.
    ),
    "openai": Provider(
        base_url="https://api.openai.com/v1",
        key_env="OPENAI_API_KEY",
        style="responses",
        output_limit="max_completion_tokens",
    ),
    "anthropic": Provider(
        base_url="https://api.anthropic.com",
        key_env="ANTHROPIC_API_KEY",
        probe="/v1/models",
        version="2026-10-21",
    ),
    "ollama": Provider(base_url="http://127.0.0.1:11434/v1"),
    "openai-compatible": Provider(),
}


def status_of(base_url: str, *, provider: Provider, key: Key | None) -> int | str:
    """What the server answers to a question that costs nothing, or why it does not answer."""
    import httpx2

    headers = {} if key is None else {"Authorization": f"Bearer {key.value}"}
    if provider.version:
        headers["anthropic-version"] = provider.version
    try:
        return httpx2.get(
            base_url.rstrip("/") + provider.probe,
            headers=headers,
            timeout=PATIENCE,
            follow_redirects=False,
        ).status_code
    except (httpx2.HTTPError, httpx2.InvalidURL, ValueError, OSError) as error:
        return type(error).__name__


def check_key(key: Key, base_url: str, *, provider: Provider, setting: str) -> None:
    """Raise ``KeyRefused`` if the server says so. A server that says nothing is let pass."""
    status = status_of(base_url, provider=provider, key=key)
    if isinstance(status, str):
        log.warning("%s could not be asked about its key: %s", setting, status)
    # 403 may only mean that this key may not look at this page.
    elif status == 401:
        raise KeyRefused(
            f"the server of {setting} does not accept the key in {key.variable}; set a valid one "
            "and start again",
            answered=status,
        )
