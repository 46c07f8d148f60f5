"""Answers of a registry, or of a proxy before it. An invalid answer is not a fault of a message."""

from __future__ import annotations

import http.server
import threading
from collections.abc import Iterator

import pytest

from penstock.connectors.formats.avro_schema import AvroSchema
from penstock.connectors.kafka.schema_registry.client import SchemaRegistryClient
from penstock.connectors.kafka.schema_registry.requests import SchemaRegistryError


class Answers(http.server.BaseHTTPRequestHandler):
    status, body = 200, b""

    first: tuple[tuple[int, bytes], ...] = ()
    """Earlier answers."""
    asked = 0

    def do_GET(self) -> None:
        answers = (*self.first, (self.status, self.body))
        self.status, self.body = answers[min(Answers.asked, len(answers) - 1)]
        Answers.asked += 1
        self.send_response(self.status)
        self.send_header("Content-Length", str(len(self.body)))
        self.end_headers()
        self.wfile.write(self.body)

    def do_POST(self) -> None:
        self.do_GET()

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


NO_SCHEMA, NO_SUBJECT = (
    (404, b'{"error_code": 40403, "message": "no"}'),
    (404, b'{"error_code": 40401, "message": "no"}'),
)


def answers(monkeypatch: pytest.MonkeyPatch, *each: tuple[int, bytes]) -> None:
    """The answers of the registry, in turn; the last one from then on."""
    monkeypatch.setattr(Answers, "first", each[:-1])
    monkeypatch.setattr(Answers, "status", each[-1][0])
    monkeypatch.setattr(Answers, "body", each[-1][1])
    monkeypatch.setattr(Answers, "asked", 0)


def test_a_schema_that_another_server_has_just_registered_comes_a_moment_later(
    url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first messages with a new schema would be taken for poison, and be lost where the source skips such."""
    answers(monkeypatch, NO_SCHEMA, NO_SCHEMA, (200, b'{"schema": "\\"int\\""}'))
    assert SchemaRegistryClient(url).parsed(7) == "int"


def test_a_subject_that_another_server_has_just_registered_comes_a_moment_later(
    url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A job would fail that is started right behind the one that registers its schema."""
    answers(monkeypatch, NO_SUBJECT, NO_SCHEMA, (200, b'{"id": 12}'))
    client = SchemaRegistryClient(url, {"auto.register.schemas": "false"})
    assert client.id_for("records", AvroSchema("int")) == 12


def test_an_id_that_is_not_known_is_waited_for_once(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A topic with a million messages of something else would be read at one in two seconds."""
    answers(monkeypatch, NO_SCHEMA)
    client = SchemaRegistryClient(url)
    for asked in (4, 5, 6):
        with pytest.raises(ValueError, match="has no schema with the id 7"):
            client.parsed(7)
        assert Answers.asked == asked
