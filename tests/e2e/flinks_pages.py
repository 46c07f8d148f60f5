"""Flink's own web pages, out of its distribution, before a REST endpoint that does not serve them."""

from __future__ import annotations

import http.client
import socket
import threading
import zipfile
from pathlib import Path

import uvicorn
from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route
from starlette.staticfiles import StaticFiles


class FlinksPages:
    """Serves the pages in `jar` at `url`, and hands all other requests on to the endpoint at `port`."""

    def __init__(self, jar: Path, directory: Path, port: int, token: str) -> None:
        with zipfile.ZipFile(jar) as packed:
            packed.extractall(directory, [name for name in packed.namelist() if name.startswith("web/")])
        self._port, self._token = port, token
        self._web = directory / "web"
        self._files = StaticFiles(directory=self._web, html=True)
        listening = socket.create_server(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{listening.getsockname()[1]}"
        routes = [Route("/{path:path}", self._answer, methods=["GET", "POST", "PATCH", "DELETE"])]
        self._server = uvicorn.Server(uvicorn.Config(Starlette(routes=routes), log_level="critical"))
        self._thread = threading.Thread(target=lambda: self._server.run(sockets=[listening]))
        self._thread.start()

    def close(self) -> None:
        """Serve no more."""
        self._server.should_exit = True
        self._thread.join()

    async def _answer(self, request: Request) -> Response:
        name = request.path_params["path"]
        if not name or (self._web / name).is_file():
            return await self._files.get_response(name or "index.html", request.scope)
        return await run_in_threadpool(self._handed_on, request)

    def _handed_on(self, request: Request) -> Response:
        connection = http.client.HTTPConnection("127.0.0.1", self._port, timeout=30)
        try:
            path = request.url.path + f"?{request.url.query}" * bool(request.url.query)
            connection.request(request.method, path, headers={"Authorization": f"Bearer {self._token}"})
            answer = connection.getresponse()
            return Response(answer.read(), answer.status, media_type=answer.getheader("content-type"))
        finally:
            connection.close()
