"""What a registry, or a proxy before it, answers: of what is no answer of a registry no message is to blame."""

from __future__ import annotations

import http.server
import threading
from collections.abc import Iterator

import pytest

from penstock.connectors.kafka.schema_registry.client import SchemaRegistryClient
from penstock.connectors.kafka.schema_registry.requests import SchemaRegistryError


class Answers(http.server.BaseHTTPRequestHandler):
    status, body = 200, b""

    def do_GET(self) -> None:
        self.send_response(self.status)
        self.send_header("Content-Length", str(len(self.body)))
        self.end_headers()
        self.wfile.write(self.body)

    def log_message(self, *_: object) -> None:
        """Nothing."""


@pytest.fixture
def url() -> Iterator[str]:
    server = http.server.HTTPServer(("127.0.0.1", 0), Answers)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    thread.join()
    server.server_close()


@pytest.mark.parametrize(
    ("status", "body"),
    [
        (403, b'{"error_code": "forbidden", "message": "no"}'),
        (403, b'{"error_code": null}'),
        (403, b"[]"),
        (200, b'{"status": "starting"}'),
        (200, b"[]"),
        (200, b'{"schema": {"type": "int"}}'),
    ],
)
def test_an_answer_of_something_else_is_an_error_of_the_registry(
    url: str, status: int, body: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Good messages would be taken for poison, and left out where the source skips such."""
    monkeypatch.setattr(Answers, "status", status)
    monkeypatch.setattr(Answers, "body", body)
    with pytest.raises(SchemaRegistryError):
        SchemaRegistryClient(url).parsed(7)
