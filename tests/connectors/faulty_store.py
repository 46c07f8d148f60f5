"""A server of S3's protocol in front of one that works: some requests fail, as those of an object store do."""

from __future__ import annotations

import contextlib
import http.client
import sys
import threading
import time
from collections import Counter
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from random import Random
from typing import Any
from urllib.parse import urlsplit

_ERROR = "<?xml version='1.0'?><Error><Code>{code}</Code><Message>a fault of the test</Message></Error>"
_ANSWERS = {"error": (500, "InternalError"), "busy": (503, "SlowDown"), "refused": (403, "AccessDenied")}
_SLOW_S = 0.3
_NOT_PASSED_ON = {"connection", "transfer-encoding", "keep-alive", "expect"}


class FaultyStore:
    """What befalls requests: one of `faults`, by `random`, with the given probability.

    error, busy: answered with 500 and with 503 SlowDown, and not passed on. refused: answered with 403, as where keys
    have expired, which clients do not try again. lost: done, and the connection is closed
    without an answer. cut: done, and the answer ends in its midst. late: done after a while. silent: not answered for
    `silence_s` seconds, then closed.
    """

    def __init__(self, server: str, random: Random, probability: float, faults: list[str]) -> None:
        self.server = urlsplit(server)
        self.probability = probability
        self.silence_s = 4.0
        self.tried: Counter[str] = Counter()
        self._random = random
        self._faults = faults
        self._lock = threading.Lock()

    def draw(self, method: str) -> str:
        """The fault of the next request; empty: none."""
        with self._lock:
            if self._random.random() >= self.probability:
                return ""
            fault = self._random.choice(self._faults)
            self.tried[fault] += 1
            return fault

    @contextlib.contextmanager
    def serving(self) -> Iterator[str]:
        """Its address."""

        class Handler(_Handler):
            store = self

        server = _Server(("127.0.0.1", 0), Handler)
        thread = threading.Thread(target=server.serve_forever, args=(0.05,))
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_address[1]}"
        finally:
            server.shutdown()
            server.server_close()
            thread.join()


class _Server(ThreadingHTTPServer):
    daemon_threads = True

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A client that was killed, or whose answer was cut, is not an error."""
        if not isinstance(sys.exc_info()[1], ConnectionError):
            super().handle_error(request, client_address)


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    store: FaultyStore

    def setup(self) -> None:
        super().setup()
        self._upstream = http.client.HTTPConnection(str(self.store.server.hostname), self.store.server.port)

    def finish(self) -> None:
        self._upstream.close()
        with contextlib.suppress(OSError):
            super().finish()

    def answer(self) -> None:
        body = self._body()
        fault = self.store.draw(self.command)
        if fault in _ANSWERS:
            status, code = _ANSWERS[fault]
            data = b"" if self.command == "HEAD" else _ERROR.format(code=code).encode()
            self._send(status, {"Content-Type": "application/xml"}, len(data), data)
            return
        if fault == "silent":
            time.sleep(self.store.silence_s)
            self.close_connection = True
            return
        if fault == "late":
            time.sleep(_SLOW_S)
        headers = {name: value for name, value in self.headers.items() if name.lower() not in _NOT_PASSED_ON}
        headers["Content-Length"] = str(len(body))
        self._upstream.request(self.command, self.path, body, headers)
        answer = self._upstream.getresponse()
        content = answer.read()
        if fault == "lost":
            self.close_connection = True
            return
        size = int(answer.headers.get("Content-Length", len(content))) if self.command == "HEAD" else len(content)
        if fault == "cut":
            self.close_connection = True
            content = content[: len(content) // 2]
        self._send(answer.status, dict(answer.headers.items()), size, content)

    def __getattr__(self, name: str) -> Any:
        # A method for each verb, by the name that the base class looks for.
        if name.startswith("do_"):
            return self.answer
        raise AttributeError(name)

    def log_message(self, format: str, *args: Any) -> None:
        """Nothing."""

    def _send(self, status: int, headers: dict[str, str], size: int, content: bytes) -> None:
        with contextlib.suppress(OSError):
            self.send_response_only(status)
            for name, value in headers.items():
                if name.lower() not in (*_NOT_PASSED_ON, "content-length"):
                    self.send_header(name, value)
            self.send_header("Content-Length", str(size))
            self.end_headers()
            self.wfile.write(content)
            self.wfile.flush()

    def _body(self) -> bytes:
        if self.headers.get("Transfer-Encoding", "").lower() != "chunked":
            return self.rfile.read(int(self.headers.get("Content-Length", 0)))
        parts = []
        while size := int(self.rfile.readline().split(b";")[0], 16):
            parts.append(self.rfile.read(size))
            self.rfile.readline()
        while self.rfile.readline().strip():
            pass
        return b"".join(parts)
