"""A route that describes its parameters and answer, from which the OpenAPI document is made (open_api.py)."""

from __future__ import annotations

import inspect
import re
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, NamedTuple

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

_OF_PATH = re.compile(r"^[A-Z]+ \S+?(?:, \S+?)*: ")
JSON = "application/json"
TEXT = "text/plain"


class Parameter(NamedTuple):
    """A parameter after the `?`. `type`: a Python type; `many`: it may be repeated."""

    name: str
    text: str
    type: type = str
    many: bool = False


class DescribedRoute(Route):
    """`answer` and `body`: types of what is sent and received, as msgspec reads them. `status`: of a success.

    `text`: Markdown whose first sentence is the title; None: the docstring of `endpoint` after its path.
    """

    def __init__(
        self,
        path: str,
        endpoint: Callable[[Request], Awaitable[Response]],
        *,
        method: str = "GET",
        text: str | None = None,
        query: Sequence[Parameter] = (),
        body: Any = None,
        answer: Any = None,
        media_type: str = JSON,
        status: int = 200,
    ) -> None:
        super().__init__(path, endpoint, methods=[method], name=f"{method} {path}")
        self.method = method
        self.text = text_of(endpoint) if text is None else text
        self.query = query
        self.body = body
        self.answer = answer
        self.media_type = media_type
        self.status = status


def text_of(render: Callable[..., Any]) -> str:
    """Return the docstring of a function, without the path that it begins with."""
    text = _OF_PATH.sub("", inspect.getdoc(render) or "")
    return text[:1].upper() + text[1:]
