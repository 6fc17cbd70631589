"""The OpenAPI document, made from the table of routes."""

from __future__ import annotations

from typing import Any

from pydantic import TypeAdapter
from pydantic.json_schema import JsonSchemaMode

from reasonbank.model import JSON
from reasonbank.surfaces.http import routes
from reasonbank.surfaces.http.routes import ROUTES, Route
from reasonbank.surfaces.shapes import Problem

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
    for route in ROUTES:
        paths.setdefault(API + route.path, {})[route.method.lower()] = _operation(route, schemas)
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "ReasonBank",
            "version": "1",
            "description": "A memory that learns, for LLM agents.",
        },
        "servers": [{"url": "/"}],
        "security": [{"token": []}, {}],
        "paths": paths,
        "components": {
            "schemas": parts,
            "securitySchemes": {
                "token": {
                    "type": "http",
                    "scheme": "bearer",
                    "description": "Made with `reasonbank token create`.",
                }
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


def _schemas() -> tuple[dict[Any, JSON], JSON]:
    """The schema of everything that is taken and answered, and the parts they share."""
    wanted: list[tuple[Any, JsonSchemaMode, TypeAdapter[Any]]] = [
        ("problem", "serialization", TypeAdapter(Problem))
    ]
    for route in ROUTES:
        if route.takes is not None:
            wanted.append((_key(route, "takes"), "validation", TypeAdapter(route.takes)))
        if route.answers is not None:
            wanted.append((_key(route, "answers"), "serialization", TypeAdapter(route.answers)))
    found, parts = TypeAdapter.json_schemas(wanted, ref_template="#/components/schemas/{model}")
    return {key: schema for (key, _), schema in found.items()}, parts.get("$defs", {})


def _key(route: Route, what: str) -> str:
    return f"{route.name} {what}"


def _place(where: str, name: str) -> JSON:
    return {
        "in": where,
        "name": name,
        "required": False,
        "description": _WORKSPACE,
        "schema": {"type": "string", "minLength": 1, "maxLength": 4096},
    }


def _operation(route: Route, schemas: dict[Any, JSON]) -> JSON:
    operation: JSON = {
        "operationId": route.name,
        "tags": list(route.tags),
        "summary": route.summary,
        "description": f"{route.description}\n\nNeeds a token with scope {route.right}, or more.",
        "parameters": [*_parameters(route, schemas)],
        "responses": {
            str(route.status): _response(route, schemas),
            **{name: {"$ref": f"#/components/responses/{name}"} for name in _ERRORS},
        },
    }
    if route.function is routes.import_:
        kind = {"schema": {"type": "string", "description": "What an export wrote."}}
        operation["requestBody"] = {"required": True, "content": {_TEXTS[0]: kind}}
    elif route.takes is not None and not route.in_query:
        schema = schemas[_key(route, "takes")]
        operation["requestBody"] = {
            "required": bool(_resolved(route).get("required")),
            "content": {"application/json": {"schema": schema}},
        }
    return operation


def _resolved(route: Route) -> JSON:
    return TypeAdapter(route.takes).json_schema()


def _parameters(route: Route, schemas: dict[Any, JSON]) -> list[JSON]:
    found: list[JSON] = [
        {
            "in": "path",
            "name": name,
            "required": True,
            "schema": {"type": "string", "minLength": 1, "maxLength": 128},
        }
        for name in route.parameters
    ]
    if route.in_query and route.takes is not None:
        schema = _resolved(route)
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


def _response(route: Route, schemas: dict[Any, JSON]) -> JSON:
    if route.function is routes.export:
        content = {kind: {"schema": {"type": "string"}} for kind in _TEXTS}
    else:
        content = {"application/json": {"schema": schemas[_key(route, "answers")]}}
    return {"description": route.summary, "content": content}
