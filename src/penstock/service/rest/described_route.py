"""A route that says what it takes and answers, from which the OpenAPI document is made (open_api.py)."""

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
    """Behind the `?`. `type`: a Python type; `many`: it may be given more than once."""

    name: str
    text: str
    type: type = str
    many: bool = False


class DescribedRoute(Route):
    """`answer` and `body`: types of what is sent and taken, as msgspec reads them. `status`: of a success.

    `text`: Markdown, its first sentence the title; None: what the docstring of `endpoint` says behind the path.
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
    """What the docstring of a function says, without the path that it begins with."""
    text = _OF_PATH.sub("", inspect.getdoc(render) or "")
    return text[:1].upper() + text[1:]
