"""The page at /: the jobs of this process, live. Three files that load nothing from elsewhere."""

from __future__ import annotations

from pathlib import Path

from starlette.requests import Request
from starlette.responses import FileResponse, Response
from starlette.routing import Route

_FOLDER = Path(__file__).parent / "page"
_FILES = {"/": "index.html", "/page.css": "page.css", "/page.js": "page.js"}


async def page(request: Request) -> Response:
    """GET /, and what belongs to it."""
    return FileResponse(_FOLDER / _FILES[request.url.path])


routes = [Route(path, page, methods=["GET"]) for path in _FILES]
