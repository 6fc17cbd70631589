"""What the Model port promises, of every adapter, over real HTTP where it speaks HTTP."""

import pytest
from tests.llm.conftest import KEY
from tests.llm.servers import busy, chat, message, responses

from reasonbank.errors import ModelUnavailable
from reasonbank.llm.anthropic import AnthropicModel
from reasonbank.llm.openai import OpenAIModel
from reasonbank.testing import Scripted
from reasonbank.testing.model_contract import ModelContract


class TestScripted(ModelContract):
    def saying(self, text):
        return Scripted(lambda _: text)

    def unreachable(self):
        return Scripted(lambda _: ModelUnavailable("nobody answers"))


class Served(ModelContract):
    """An adapter and a server that answers in its way."""

    @pytest.fixture(autouse=True)
    def _serving(self, serve):
        self.serve = serve

    def saying(self, text):
        return self.connected(self.serve([self.answer(text)]))

    def unreachable(self):
        return self.connected(self.serve([busy(503)]))


class TestChat(Served):
    answer = staticmethod(chat)

    def connected(self, server):
        return OpenAIModel(model="small", base_url=server.url, key=KEY, timeout=5.0, style="chat")


class TestResponses(Served):
    answer = staticmethod(responses)

    def connected(self, server):
        options = {"model": "small", "base_url": server.url, "key": KEY, "timeout": 5.0}
        return OpenAIModel(**options, style="responses")


class TestMessages(Served):
    answer = staticmethod(message)

    def connected(self, server):
        url = server.url.removesuffix("/v1")
        return AnthropicModel(model="claude", base_url=url, key=KEY, timeout=5.0)
