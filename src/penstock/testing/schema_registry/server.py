"""The process of a schema registry, serving HTTP. Its argument is a directory with its settings and schemas."""

from __future__ import annotations

import base64
import json
import re
import ssl
import sys
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, ClassVar
from urllib.parse import unquote

from penstock.testing.schema_registry.schemas import RefusedError, Schemas
from penstock.testing.server_process import LOOPBACK

_CONTENT = "application/vnd.schemaregistry.v1+json"
_NAME = "([^/]+)"

Answer = Callable[[Schemas, Any, list[str]], Any]


def _compatibility(schemas: Schemas, body: Any, names: list[str]) -> Any:
    schemas.version(*names)
    faults = schemas.faults(names[0], body)
    return {"is_compatible": not faults, "messages": faults}


def _set_level(schemas: Schemas, body: Any, names: list[str]) -> Any:
    schemas.set_level(names[0] if names else "", body["compatibility"])
    return {"compatibility": body["compatibility"]}


ROUTES: list[tuple[str, str, Answer]] = [
    ("GET", "/subjects", lambda schemas, _, names: schemas.subjects),
    ("GET", f"/subjects/{_NAME}/versions", lambda schemas, _, names: schemas.versions(names[0])),
    ("GET", f"/subjects/{_NAME}/versions/{_NAME}", lambda schemas, _, names: schemas.version(*names)),
    ("POST", f"/subjects/{_NAME}/versions", lambda schemas, body, names: {"id": schemas.register(names[0], body)}),
    ("POST", f"/subjects/{_NAME}", lambda schemas, body, names: schemas.look_up(names[0], body)),
    ("GET", r"/schemas/ids/(\d+)", lambda schemas, _, names: schemas.by_id(int(names[0]))),
    ("POST", f"/compatibility/subjects/{_NAME}/versions/{_NAME}", _compatibility),
    ("GET", "/config", lambda schemas, _, names: {"compatibilityLevel": schemas.level()}),
    ("GET", f"/config/{_NAME}", lambda schemas, _, names: {"compatibilityLevel": schemas.level(names[0])}),
    ("PUT", "/config", _set_level),
    ("PUT", f"/config/{_NAME}", _set_level),
]


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    schemas: ClassVar[Schemas]
    authorization: ClassVar[str | None] = None

    def do_GET(self) -> None:
        self._handle()

    def do_POST(self) -> None:
        self._handle()

    def do_PUT(self) -> None:
        self._handle()

    def _handle(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        try:
            status, answer = 200, self._answer(body)
        except RefusedError as error:
            status, answer = error.status, {"error_code": error.code, "message": str(error)}
        content = json.dumps(answer).encode()
        self.send_response(status)
        self.send_header("Content-Type", _CONTENT)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def _answer(self, body: bytes) -> Any:
        if self.authorization is not None and self.headers.get("Authorization") != self.authorization:
            raise RefusedError(401, 401, "Unauthorized")
        path = self.path.partition("?")[0]
        for method, pattern, answer in ROUTES:
            if method == self.command and (found := re.fullmatch(pattern, path)):
                try:
                    content = json.loads(body) if body else {}
                except ValueError:
                    raise RefusedError(400, 400, "The request is not valid JSON") from None
                return answer(self.schemas, content, [unquote(name) for name in found.groups()])
        raise RefusedError(404, 404, "HTTP 404 Not Found")


def main(directory: Path) -> None:
    """Serve until a signal."""
    settings = json.loads((directory / "settings.json").read_text(encoding="utf-8"))
    _Handler.schemas = Schemas(directory / "schemas.jsonl", settings["compatibility"])
    if settings["user_info"] is not None:
        _Handler.authorization = f"Basic {base64.b64encode(settings['user_info'].encode()).decode()}"
    with ThreadingHTTPServer((LOOPBACK, settings["port"]), _Handler) as server:
        server.daemon_threads = True
        if settings["certificate"] is not None:
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            context.load_cert_chain(settings["certificate"])
            server.socket = context.wrap_socket(server.socket, server_side=True)
        print(f"serves on {LOOPBACK}:{settings['port']}", flush=True)
        server.serve_forever()


if __name__ == "__main__":
    main(Path(sys.argv[1]))
