"""The tools, resources and prompts that the conformance suite asks for by name.

They stand on the real server (`make_server`), so that its tools' plumbing, errors, progress
and transport are what is exercised; those that only return some kind of content go
straight to the SDK.
"""

from __future__ import annotations

import base64
import json
import time
from typing import Any

from mcp import MCPError
from mcp.server import MCPServer
from mcp.server.mcpserver import Context
from mcp.server.mcpserver.prompts.base import UserMessage
from mcp.types import (
    MISSING_REQUIRED_CLIENT_CAPABILITY,
    AudioContent,
    Completion,
    CreateMessageRequest,
    CreateMessageRequestParams,
    ElicitRequest,
    ElicitRequestFormParams,
    EmbeddedResource,
    ImageContent,
    InputRequiredResult,
    ListRootsRequest,
    SamplingMessage,
    TextContent,
    TextResourceContents,
    ToolAnnotations,
)
from pydantic import BaseModel, Field
from typing_extensions import TypedDict

from reasonbank.bank import Bank
from reasonbank.errors import InvalidInput
from reasonbank.model import Right
from reasonbank.surfaces.call import Call
from reasonbank.surfaces.mcp.server import make_server
from reasonbank.surfaces.mcp.tool import ToolSpec

WORDS = "For the conformance suite."
PIXEL = (
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5Er"
    "kJggg=="
)
SILENCE = base64.b64encode(
    b"RIFF$\0\0\0WAVEfmt \x10\0\0\0\1\0\1\0\x40\x1f\0\0\x80\x3e\0\0\2\0\x10\0data\0\0\0\0"
).decode()


class Said(TypedDict):
    text: str


def test_tool_with_progress(call: Call) -> Said:
    """Tells of its progress."""
    for done in (0, 50, 100):
        call.progress(done, 100)
        time.sleep(0.05)
    return {"text": "done"}


def test_error_handling(bank: Bank) -> Said:
    """Fails."""
    raise InvalidInput("nothing", "This tool intentionally returns an error for testing")


def text(said: str) -> TextContent:
    return TextContent(type="text", text=said)


def image() -> ImageContent:
    return ImageContent(type="image", data=PIXEL, mime_type="image/png")


def embedded(uri: str, mime_type: str, said: str) -> EmbeddedResource:
    resource = TextResourceContents(uri=uri, mime_type=mime_type, text=said)
    return EmbeddedResource(type="resource", resource=resource)


def form(message: str, **properties: str) -> ElicitRequest:
    schema = {
        "type": "object",
        "properties": {name: {"type": kind} for name, kind in properties.items()},
        "required": list(properties),
    }
    return ElicitRequest(params=ElicitRequestFormParams(message=message, requested_schema=schema))


def sampling(question: str, most: int) -> CreateMessageRequest:
    message = SamplingMessage(role="user", content=text(question))
    return CreateMessageRequest(
        params=CreateMessageRequestParams(messages=[message], max_tokens=most)
    )


def answer(context: Context[Any, Any], key: str) -> Any:
    return (context.input_responses or {}).get(key)


def fixture_server(bank: Bank) -> MCPServer[Any]:
    specs = [
        ToolSpec(function=function, title="Test", right=Right.READ, hints=ToolAnnotations())
        for function in (test_tool_with_progress, test_error_handling)
    ]
    server = make_server(bank, tools=specs, roots=False)
    _contents(server)
    _resources_and_prompts(server)
    _questions_in_requests(server)
    _questions_in_answers(server)
    return server


def _contents(server: MCPServer[Any]) -> None:
    @server.tool(description=WORDS)
    def test_simple_text() -> str:
        return "This is a simple text response for testing."

    @server.tool(description=WORDS)
    def test_image_content() -> list[ImageContent]:
        return [image()]

    @server.tool(description=WORDS)
    def test_audio_content() -> list[AudioContent]:
        return [AudioContent(type="audio", data=SILENCE, mime_type="audio/wav")]

    @server.tool(description=WORDS)
    def test_embedded_resource() -> list[EmbeddedResource]:
        said = "This is an embedded resource content."
        return [embedded("test://embedded-resource", "text/plain", said)]

    @server.tool(description=WORDS)
    def test_multiple_content_types() -> list[TextContent | ImageContent | EmbeddedResource]:
        data = json.dumps({"test": "data", "value": 123})
        mixed = embedded("test://mixed-content-resource", "application/json", data)
        return [text("Multiple content types test:"), image(), mixed]


def _resources_and_prompts(server: MCPServer[Any]) -> None:
    @server.resource("test://static-text", mime_type="text/plain", description="A text.")
    def static_text() -> str:
        return "This is the content of the static text resource."

    @server.resource("test://static-binary", mime_type="image/png", description="An image.")
    def static_binary() -> bytes:
        return base64.b64decode(PIXEL)

    @server.resource("test://template/{id}/data", mime_type="application/json")
    def template(id: str) -> str:
        return json.dumps({"id": id, "templateTest": True, "data": f"Data for ID: {id}"})

    @server.prompt(description="Simple.")
    def test_simple_prompt() -> str:
        return "This is a simple prompt for testing."

    @server.prompt(description="With arguments.")
    def test_prompt_with_arguments(arg1: str, arg2: str) -> str:
        return f"Prompt with arguments: arg1='{arg1}', arg2='{arg2}'"

    @server.prompt(description="With a resource.")
    def test_prompt_with_embedded_resource(resourceUri: str) -> list[UserMessage]:
        resource = embedded(resourceUri, "text/plain", "Embedded resource content for testing.")
        request = text("Please process the embedded resource above.")
        return [UserMessage(part) for part in (resource, request)]

    @server.prompt(description="With an image.")
    def test_prompt_with_image() -> list[UserMessage]:
        request = text("Please analyze the image above.")
        return [UserMessage(part) for part in (image(), request)]

    @server.completion()
    async def complete(ref: Any, argument: Any, context: Any) -> Completion:
        return Completion(values=["paris", "park", "party"], total=3, has_more=False)


PLAIN = ["option1", "option2", "option3"]
TITLED = [
    {"const": f"value{number}", "title": f"{name} Option"}
    for number, name in enumerate(("First", "Second", "Third"), 1)
]
ENUMS = {
    "type": "object",
    "properties": {
        "untitledSingle": {"type": "string", "enum": PLAIN},
        "titledSingle": {"type": "string", "oneOf": TITLED},
        "legacyEnum": {
            "type": "string",
            "enum": ["opt1", "opt2", "opt3"],
            "enumNames": ["Option One", "Option Two", "Option Three"],
        },
        "untitledMulti": {"type": "array", "items": {"type": "string", "enum": PLAIN}},
        "titledMulti": {"type": "array", "items": {"anyOf": TITLED}},
    },
}


class User(BaseModel):
    username: str = Field(description="User's response")
    email: str = Field(description="User's email address")


class Defaults(BaseModel):
    name: str = "John Doe"
    age: int = 30
    score: float = 95.5
    status: str = Field(
        default="active", json_schema_extra={"enum": ["active", "inactive", "pending"]}
    )
    verified: bool = True


def _questions_in_requests(server: MCPServer[Any]) -> None:
    """What a server of earlier revisions asks its client in the middle of a call."""

    @server.tool(description=WORDS)
    async def test_sampling(prompt: str, context: Context[Any, Any]) -> str:
        params = sampling(prompt, 100).params
        reply = await context.session.create_message(
            messages=params.messages,
            max_tokens=100,
            related_request_id=context.request_id,
        )
        return f"LLM response: {reply.content}"

    @server.tool(description=WORDS)
    async def test_elicitation(message: str, context: Context[Any, Any]) -> str:
        reply = await context.elicit(message, User)
        return f"User response: {reply}"

    @server.tool(description=WORDS)
    async def test_elicitation_sep1034_defaults(context: Context[Any, Any]) -> str:
        reply = await context.elicit("Defaults", Defaults)
        return f"Elicitation completed: action={reply.action}"

    @server.tool(description=WORDS)
    async def test_elicitation_sep1330_enums(context: Context[Any, Any]) -> str:
        reply = await context.session.elicit_form("Enums", ENUMS, context.request_id)
        return f"Elicitation completed: action={reply.action}"


def _questions_in_answers(server: MCPServer[Any]) -> None:
    """What a server of revision 2026-07-28 asks its client in the answer to a call."""

    @server.tool(description=WORDS)
    async def test_input_required_result_elicitation(
        context: Context[Any, Any],
    ) -> str | InputRequiredResult:
        if (said := answer(context, "user_name")) is not None:
            return f"Hello, {said.content['name']}!"
        return InputRequiredResult(
            input_requests={"user_name": form("What is your name?", name="string")}
        )

    @server.tool(description=WORDS)
    async def test_streaming_elicitation(context: Context[Any, Any]) -> str | InputRequiredResult:
        return await test_input_required_result_elicitation(context)

    @server.tool(description=WORDS)
    async def test_missing_capability(context: Context[Any, Any]) -> str:
        can = context.client_capabilities
        if can is None or can.sampling is None:
            raise MCPError(
                code=MISSING_REQUIRED_CLIENT_CAPABILITY,
                message="this tool needs sampling",
                data={"requiredCapabilities": {"sampling": {}}},
            )
        return "sampling is there"

    @server.tool(description=WORDS)
    async def test_logging_tool() -> str:
        return "This server sends no log messages."

    @server.tool(description=WORDS)
    async def test_input_required_result_sampling(
        context: Context[Any, Any],
    ) -> str | InputRequiredResult:
        if (said := answer(context, "capital_question")) is not None:
            return str(said.content)
        question = sampling("What is the capital of France?", 100)
        return InputRequiredResult(input_requests={"capital_question": question})

    @server.tool(description=WORDS)
    async def test_input_required_result_list_roots(
        context: Context[Any, Any],
    ) -> str | InputRequiredResult:
        if (said := answer(context, "client_roots")) is not None:
            return f"Roots: {[str(root.uri) for root in said.roots]}"
        return InputRequiredResult(input_requests={"client_roots": ListRootsRequest()})

    for name in ("request_state", "tampered_state"):

        @server.tool(name=f"test_input_required_result_{name}", description=WORDS)
        async def with_state(context: Context[Any, Any]) -> str | InputRequiredResult:
            if context.request_state == "first" and answer(context, "confirm") is not None:
                return "state-ok"
            return InputRequiredResult(
                input_requests={"confirm": form("Please confirm", ok="boolean")},
                request_state="first",
            )

    @server.tool(description=WORDS)
    async def test_input_required_result_multiple_inputs(
        context: Context[Any, Any],
    ) -> str | InputRequiredResult:
        if context.input_responses:
            return f"Thanks for {sorted(context.input_responses)}"
        return InputRequiredResult(
            input_requests={
                "user_name": form("What is your name?", name="string"),
                "greeting": sampling("Generate a greeting", 50),
                "client_roots": ListRootsRequest(),
            },
            request_state="first",
        )

    @server.tool(description=WORDS)
    async def test_input_required_result_multi_round(
        context: Context[Any, Any],
    ) -> str | InputRequiredResult:
        if answer(context, "step2") is not None:
            return "done"
        if answer(context, "step1") is not None:
            step = {"step2": form("Step 2: What is your favorite color?", color="string")}
            return InputRequiredResult(input_requests=step, request_state="second")
        step = {"step1": form("Step 1: What is your name?", name="string")}
        return InputRequiredResult(input_requests=step, request_state="first")

    @server.tool(description=WORDS)
    async def test_input_required_result_capabilities(
        context: Context[Any, Any],
    ) -> str | InputRequiredResult:
        can = context.client_capabilities
        requests: dict[str, Any] = {}
        if can and can.elicitation is not None:
            requests["user_name"] = form("What is your name?", name="string")
        if can and can.sampling is not None:
            requests["greeting"] = sampling("Generate a greeting", 50)
        return InputRequiredResult(input_requests=requests) if requests else "nothing to ask"

    @server.prompt(description="Asks first.")
    async def test_input_required_result_prompt(
        context: Context[Any, Any],
    ) -> str | InputRequiredResult:
        if (said := answer(context, "user_context")) is not None:
            return f"With {said.content}"
        request = form("What context should the prompt use?", context="string")
        return InputRequiredResult(input_requests={"user_context": request})
