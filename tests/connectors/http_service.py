"""A server of HTTP on the loopback, whose answers a test gives."""

from __future__ import annotations

import contextlib
import json
import ssl
import threading
import time
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from types import TracebackType
from typing import Any, NamedTuple, Self

LOOPBACK = "127.0.0.1"


class Asked(NamedTuple):
    """A request as it came."""

    headers: dict[str, str]
    body: bytes
    at_s: float

    @property
    def key(self) -> str:
        return self.headers["Idempotency-Key"]


Answer = Callable[[BaseHTTPRequestHandler], None]


def status(code: int, **headers: str) -> Answer:
    """An answer without content; `_` in names of headers are `-`."""

    def answer(handler: BaseHTTPRequestHandler) -> None:
        handler.send_response(code)
        for name, value in headers.items():
            handler.send_header(name.replace("_", "-"), value)
        handler.send_header("Content-Length", "2")
        handler.end_headers()
        handler.wfile.write(b"so")

    return answer


def cut(handler: BaseHTTPRequestHandler) -> None:
    """Ends the connection in the place of an answer."""
    handler.close_connection = True


def slow(seconds: float) -> Answer:
    def answer(handler: BaseHTTPRequestHandler) -> None:
        time.sleep(seconds)
        cut(handler)

    return answer


def dripping(handler: BaseHTTPRequestHandler) -> None:
    """Send the body of an answer slowly, for longer than a client would wait."""
    handler.send_response(200)
    handler.send_header("Content-Length", "1000000")
    handler.end_headers()
    with contextlib.suppress(OSError):
        while True:
            handler.wfile.write(b"x")
            time.sleep(0.02)


def events(text: str, then: threading.Event | None = None) -> Answer:
    """A stream of events, which ends at once, or when a test says so."""

    def answer(handler: BaseHTTPRequestHandler) -> None:
        handler.send_response(200)
        handler.send_header("Content-Type", "text/event-stream; charset=utf-8")
        handler.send_header("Transfer-Encoding", "chunked")
        handler.end_headers()
        for line in text.encode().splitlines(keepends=True):
            handler.wfile.write(b"%x\r\n%s\r\n" % (len(line), line))
        handler.wfile.flush()
        if then is not None:
            then.wait(60)
        handler.close_connection = True

    return answer


class HttpService:
    """Sends the answers in order, then always `usual`, and records the requests. `certificate`: makes it use TLS."""

    def __init__(self, *answers: Answer, usual: Answer | None = None, certificate: Path | None = None) -> None:
        self.answers = list(answers)
        self.usual = usual or status(200)
        self.asked: list[Asked] = []
        self.connections = 0
        self._lock = threading.Lock()
        service = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def setup(self) -> None:
                super().setup()
                service.connections += 1

            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"]))
                service.answer(self, body)

            def do_GET(self) -> None:
                service.answer(self, b"")

            def log_message(self, format: str, *args: Any) -> None:
                """Nothing."""

        self._server = ThreadingHTTPServer((LOOPBACK, 0), Handler)
        self._server.daemon_threads = True
        self.port = self._server.server_port
        if certificate is not None:
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            context.load_cert_chain(certificate)
            self._server.socket = context.wrap_socket(self._server.socket, server_side=True)
        self.url = f"http{'s' * (certificate is not None)}://{LOOPBACK}:{self.port}"
        self._thread = threading.Thread(target=lambda: self._server.serve_forever(0.05), daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._server.shutdown()
        self._server.server_close()

    def answer(self, handler: BaseHTTPRequestHandler, body: bytes) -> None:
        with self._lock:
            self.asked.append(Asked(dict(handler.headers.items()), body, time.monotonic()))
            answer = self.answers.pop(0) if self.answers else self.usual
        answer(handler)

    @property
    def records(self) -> list[Any]:
        """All that came, those that were refused included."""
        return [record for asked in self.asked for record in json.loads(asked.body)]
