"""The OpenAPI document, made from the table of routes."""

from __future__ import annotations

from typing import Any

from pydantic import TypeAdapter
from pydantic.json_schema import JsonSchemaMode

from reasonbank.model import JSON
from reasonbank.surfaces import operations, shapes
from reasonbank.surfaces.http.session import SignedIn, SignedOut, SignIn
from reasonbank.surfaces.operations import OPERATIONS, Operation
from reasonbank.surfaces.shapes import closed

API = "/api/v1"
_TEXTS = ("application/x-ndjson", "text/markdown")
_ERRORS = {
    "400": "A value was refused; nothing was changed.",
    "401": "No token, or one that is not valid.",
    "403": "The token does not reach so far.",
    "default": "Something else went wrong.",
}
_WORKSPACE = "Whose memories: the project's full path, or a workspace's id or name."


def document() -> JSON:
    """OpenAPI 3.1. Its version is that of the API, and says nothing of the program."""
    schemas, parts = _schemas()
    paths: dict[str, JSON] = {}
    for operation in OPERATIONS:
        path = paths.setdefault(API + operation.path, {})
        path[operation.method.lower()] = _described(operation, schemas)
    paths |= _for_pages(schemas)
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "ReasonBank",
            "version": "1",
            "description": "A memory that learns, for LLM agents.",
        },
        "servers": [{"url": "/"}],
        "security": [{"token": []}, {"session": []}, {}],
        "paths": paths,
        "components": {
            "schemas": parts,
            "securitySchemes": {
                "token": {
                    "type": "http",
                    "scheme": "bearer",
                    "description": "Made with `reasonbank token create`.",
                },
                "session": {
                    "type": "apiKey",
                    "in": "cookie",
                    "name": "reasonbank-BANK",
                    "description": "Of a browser that has signed in; what changes anything needs "
                    "the header `X-ReasonBank-Page` and an `Origin` of this server as well.",
                },
            },
            "parameters": {
                "WorkspaceHeader": _place("header", "X-ReasonBank-Workspace"),
                "WorkspaceQuery": _place("query", "workspace"),
            },
            "responses": {
                name: {
                    "description": told,
                    "content": {"application/json": {"schema": schemas["problem"]}},
                }
                for name, told in _ERRORS.items()
            },
        },
    }


def _for_pages(schemas: dict[Any, JSON]) -> dict[str, JSON]:
    """What is of the server, and not of the bank."""
    errors = {name: {"$ref": f"#/components/responses/{name}"} for name in _ERRORS}

    def answers(kind: str, schema: JSON, told: str) -> JSON:
        return {"200": {"description": told, "content": {kind: {"schema": schema}}}, **errors}

    def does(name: str, told: str, responses: JSON, **more: Any) -> JSON:
        return {"operationId": name, "tags": [name], "summary": told, "responses": responses} | more

    who = answers("application/json", schemas["session"], "Who one is, and what one may do.")
    body = {"application/json": {"schema": schemas["sign in"]}}
    stream = answers("text/event-stream", {"type": "object"}, "What is new, as it happens.")
    after = {"in": "query", "name": "after", "required": False, "schema": {"type": "integer"}}
    return {
        f"{API}/session": {
            "get": does("who", "Tell who one is; nobody need be signed in to ask.", who),
            "post": does("sign_in", "Turn a code or a token into the cookie of a session.", who,
                         requestBody={"required": True, "content": body}),
            "delete": does("sign_out", "End the session.", who),
        },
        f"{API}/events": {
            "get": does("events", "Listen to what is written where one may look.", stream,
                        parameters=[after]),
        },
    }  # fmt: skip


def _schemas() -> tuple[dict[Any, JSON], JSON]:
    """The schema of everything that is taken and answered, and the parts they share."""
    wanted: list[tuple[Any, JsonSchemaMode, TypeAdapter[Any]]] = [
        ("problem", "serialization", TypeAdapter(shapes.Problem)),
        ("sign in", "validation", TypeAdapter(closed(SignIn))),
        ("session", "serialization", TypeAdapter(shapes.shape_of(SignedIn) | SignedOut)),
    ]
    for operation in OPERATIONS:
        if (takes := shapes.taken(operation)) is not None:
            wanted.append((_key(operation, "takes"), "validation", TypeAdapter(takes)))
        answers: Any = TypeAdapter(shapes.answered(operation))
        wanted.append((_key(operation, "answers"), "serialization", answers))
    found, parts = TypeAdapter.json_schemas(wanted, ref_template="#/components/schemas/{model}")
    return {key: schema for (key, _), schema in found.items()}, parts.get("$defs", {})


def _key(operation: Operation, what: str) -> str:
    return f"{operation.name} {what}"


def _place(where: str, name: str) -> JSON:
    return {
        "in": where,
        "name": name,
        "required": False,
        "description": _WORKSPACE,
        "schema": {"type": "string", "minLength": 1, "maxLength": 4096},
    }


def _described(operation: Operation, schemas: dict[Any, JSON]) -> JSON:
    found: JSON = {
        "operationId": operation.name,
        "tags": [operation.path.split("/")[1]],
        "summary": operation.summary,
        "description": f"{operation.description}\n\nNeeds scope {operation.right}, or more.",
        "parameters": [*_parameters(operation, schemas)],
        "responses": {
            str(operation.status): _response(operation, schemas),
            **{name: {"$ref": f"#/components/responses/{name}"} for name in _ERRORS},
        },
    }
    if operation.run is operations.import_:
        kind = {"schema": {"type": "string", "description": "What an export wrote."}}
        found["requestBody"] = {"required": True, "content": {_TEXTS[0]: kind}}
    elif shapes.taken(operation) is not None and not operation.in_query:
        schema = schemas[_key(operation, "takes")]
        found["requestBody"] = {
            "required": bool(_resolved(operation).get("required")),
            "content": {"application/json": {"schema": schema}},
        }
    return found


def _resolved(operation: Operation) -> JSON:
    found: JSON = TypeAdapter(shapes.taken(operation)).json_schema()
    return found


def _parameters(operation: Operation, schemas: dict[Any, JSON]) -> list[JSON]:
    found: list[JSON] = [
        {
            "in": "path",
            "name": name,
            "required": True,
            "schema": {"type": "string", "minLength": 1, "maxLength": 128},
        }
        for name in operation.in_path
    ]
    if operation.in_query and shapes.taken(operation) is not None:
        schema = _resolved(operation)
        found += [
            {
                "in": "query",
                "name": name,
                "required": name in schema.get("required", ()),
                "schema": {key: part for key, part in kind.items() if key != "title"},
            }
            for name, kind in schema["properties"].items()
        ]
    places = ("WorkspaceHeader", "WorkspaceQuery")
    return found + [{"$ref": f"#/components/parameters/{name}"} for name in places]


def _response(operation: Operation, schemas: dict[Any, JSON]) -> JSON:
    if operation.run is operations.export:
        content = {kind: {"schema": {"type": "string"}} for kind in _TEXTS}
    else:
        content = {"application/json": {"schema": schemas[_key(operation, "answers")]}}
    return {"description": operation.summary, "content": content}
