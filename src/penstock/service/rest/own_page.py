"""The page at /: the jobs of this process, live. Three files that load nothing from elsewhere."""

from __future__ import annotations

from pathlib import Path

from starlette.requests import Request
from starlette.responses import FileResponse, Response

from penstock.service.rest.described_route import DescribedRoute

_FOLDER = Path(__file__).parent / "page"
_FILES = {
    "/": ("index.html", "text/html"),
    "/page.css": ("page.css", "text/css"),
    "/page.js": ("page.js", "text/javascript"),
}


async def page(request: Request) -> Response:
    """GET /: a page that shows the jobs, and its files."""
    name, media_type = _FILES[request.scope["path"]]
    return FileResponse(_FOLDER / name, media_type=media_type)


routes = [DescribedRoute(path, page, media_type=media_type) for path, (_, media_type) in _FILES.items()]
