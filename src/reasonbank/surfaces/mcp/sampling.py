"""Asking the client for its model, in both ways that the protocol has had.

Until revision 2025-11-25 a server sends a request while the call is under way; that needs a
channel back to the client, which plain HTTP without a session does not have. From 2026-07-28 on
it answers with what it needs to know, and the client calls again: the tool begins anew, with all
answers so far.
"""

from __future__ import annotations

import hashlib
import json
from typing import Any

from mcp.server.mcpserver import Context
from mcp.shared.message import ServerMessageMetadata
from mcp.types import (
    CreateMessageRequest,
    CreateMessageResult,
    InputRequiredResult,
    ListRootsRequest,
    ListRootsResult,
)

from reasonbank.llm.sampling import Unanswered

# From this revision on, a server asks in its answer rather than in a request.
ASKS_IN_ANSWERS = "2026-07-28"


class Conversation:
    """What one call may ask of its client, and what is kept while the client answers.

    The SDK seals what is kept: a client gives back what it was given, or nothing.
    """

    def __init__(self, context: Context[Any, Any]) -> None:
        self._context = context
        state = json.loads(context.request_state) if context.request_state else {}
        self.kept: dict[str, Any] = state.get("kept", {})
        self._answers: dict[str, Any] = state.get("answers", {})
        given = context.input_responses or {}
        self._roots = isinstance(given.get("roots"), ListRootsResult)
        for key, answer in given.items():
            if isinstance(answer, CreateMessageResult):
                self._answers[key] = answer.model_dump(mode="json", by_alias=True)

    @property
    def offers_model(self) -> bool:
        capabilities = self._context.client_capabilities
        if capabilities is None or capabilities.sampling is None:
            return False
        return self._in_answers or self._context.session.can_send_request

    @property
    def at_once(self) -> bool:
        """Whether an answer comes while the call is under way."""
        return self.offers_model and not self._in_answers

    @property
    def _in_answers(self) -> bool:
        return (self._context.protocol_version or "") >= ASKS_IN_ANSWERS

    async def ask(self, request: CreateMessageRequest) -> CreateMessageResult:
        context = self._context
        if not self._in_answers:
            answer: CreateMessageResult = await context.session.send_request(
                request,
                CreateMessageResult,
                metadata=ServerMessageMetadata(related_request_id=context.request_id),
            )
            return answer
        known = self._answers.get(_key(request))
        if known is None:
            raise Unanswered(request)
        return CreateMessageResult.model_validate(known)

    def asking(self, wanted: Unanswered) -> InputRequiredResult:
        requests: dict[str, Any] = {_key(wanted.request): wanted.request}
        if self._roots:
            requests["roots"] = ListRootsRequest()  # Each call names its project anew.
        state = json.dumps({"kept": self.kept, "answers": self._answers})
        return InputRequiredResult(input_requests=requests, request_state=state)


def _key(request: CreateMessageRequest) -> str:
    """The same question has the same key in every round."""
    asked = request.params.model_dump_json(exclude_none=True)
    return f"sample-{hashlib.sha256(asked.encode()).hexdigest()[:32]}"
