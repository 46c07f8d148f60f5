"""/openapi.json: an OpenAPI 3.1 document of all paths, made from the routes; and /docs, a page that shows it.

Answers of Flink's paths are described in Flink's documentation, and here only as an object or a list. Paths that are
penstock's own are described in all fields.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import msgspec
from starlette.requests import Request
from starlette.responses import FileResponse, Response
from starlette.routing import BaseRoute

import penstock
from penstock.service.rest.answers import json_answer
from penstock.service.rest.described_route import JSON, DescribedRoute, Parameter

_IN_PATH = re.compile(r"\{(\w+)(:path)?\}")
_NUMBERS = {"subtaskindex", "checkpointid"}
_REFERENCES = "#/components/schemas/{name}"
_PAGE = Path(__file__).parent / "page"
_FILES = {"/docs": ("docs.html", "text/html"), "/docs.js": ("docs.js", "text/javascript")}


class Errors(msgspec.Struct):
    """The reason for a refused request."""

    errors: list[str]


def document(routes: Iterable[BaseRoute]) -> dict[str, Any]:
    """Return the OpenAPI document of all routes that describe themselves."""
    described = [route for route in routes if isinstance(route, DescribedRoute)]
    types = [type_ for route in described for type_ in (route.answer, route.body) if type_ is not None]
    schemas, components = msgspec.json.schema_components([*types, Errors], ref_template=_REFERENCES)
    by_type = dict(zip(map(repr, [*types, Errors]), schemas, strict=True))
    paths: dict[str, dict[str, Any]] = {}
    for route in described:
        path = _IN_PATH.sub(r"{\1}", route.path)
        paths.setdefault(path, {})[route.method.lower()] = _operation(route, by_type)
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "penstock",
            "version": penstock.__version__,
            "description": "Paths, fields and status codes are those of Flink's REST API, version 2.3, as far as Flink "
            "has them. `/v1` may precede each path. Each request must send the token.",
        },
        "externalDocs": {"url": "https://nightlies.apache.org/flink/flink-docs-release-2.3/docs/ops/rest_api/"},
        "servers": [{"url": "/"}, {"url": "/v1"}],
        "security": [{"token": []}],
        "paths": dict(sorted(paths.items())),
        "components": {"schemas": components, "securitySchemes": {"token": {"type": "http", "scheme": "bearer"}}},
    }


def _operation(route: DescribedRoute, by_type: dict[str, Any]) -> dict[str, Any]:
    title, _, _ = route.text.partition("\n")
    in_path = [
        {"name": name, "in": "path", "required": True, "schema": {"type": "integer" if name in _NUMBERS else "string"}}
        for name, _ in _IN_PATH.findall(route.path)
    ]
    errors = {JSON: {"schema": by_type[repr(Errors)]}}
    schema = {"type": "string"} if route.answer is None else by_type[repr(route.answer)]
    operation: dict[str, Any] = {
        "operationId": re.sub(r"\W+", "_", route.name).strip("_"),
        "summary": title.rstrip("."),
        "description": route.text,
        "parameters": [*in_path, *map(_parameter, route.query)],
        "responses": {
            str(route.status): {"description": "Success.", "content": {route.media_type: {"schema": schema}}},
            "default": {"description": "The request is refused.", "content": errors},
        },
    }
    if route.body is not None:
        operation["requestBody"] = {"content": {JSON: {"schema": by_type[repr(route.body)]}}}
    return operation


def _parameter(parameter: Parameter) -> dict[str, Any]:
    schema = msgspec.json.schema(parameter.type)
    return {
        "name": parameter.name,
        "in": "query",
        "description": parameter.text,
        "schema": {"type": "array", "items": schema} if parameter.many else schema,
    }


async def open_api(request: Request) -> Response:
    """GET /openapi.json: this document."""
    return json_answer(document(request.app.routes))


async def docs(request: Request) -> Response:
    """GET /docs: a page that shows all paths, and sends requests to them."""
    name, media_type = _FILES[request.scope["path"]]
    return FileResponse(_PAGE / name, media_type=media_type)


routes = [
    DescribedRoute("/openapi.json", open_api, answer=dict[str, Any]),
    *(DescribedRoute(path, docs, media_type=media_type) for path, (_, media_type) in _FILES.items()),
]
