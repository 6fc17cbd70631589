import asyncio

import pytest
from tests.llm.servers import Server

from reasonbank.llm.http import Key
from reasonbank.llm.openai import OpenAIModel

SECRET = "sk-or-v1-this-must-never-be-seen"
KEY = Key(variable="OPENROUTER_API_KEY", value=SECRET)


FIRST_PAUSE = 0.02


@pytest.fixture(autouse=True)
def _short_pauses(monkeypatch):
    """The SDKs' back-off, as it is but for its unit: half a second would make tests slow."""
    for sdk in ("openai", "anthropic"):
        monkeypatch.setattr(f"{sdk}._base_client.INITIAL_RETRY_DELAY", FIRST_PAUSE, raising=False)


@pytest.fixture
def serve():
    """Starts servers, and ends them with the test."""
    running = []

    def start(answers):
        server = Server(answers).__enter__()
        running.append(server)
        return server

    yield start
    for server in running:
        server.__exit__()


@pytest.fixture
def connect():
    """A bare adapter on a server: no layers, chat style unless said otherwise."""

    def model(server, **options):
        given = {"model": "small", "base_url": server.url, "key": KEY, "timeout": 5.0} | options
        return OpenAIModel(**given)

    return model


def run(call):
    """Runs one awaitable to its end."""

    async def here():
        return await call

    return asyncio.run(here())


def reply_of(model, messages, **options):
    """What a model says in an event loop of its own; connections are given back."""

    async def here():
        try:
            return await model.complete(messages, **options)
        finally:
            await model.close()

    return asyncio.run(here())
