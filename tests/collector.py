"""An OpenTelemetry collector on the loopback that keeps what it is sent, as OTLP over HTTP has it."""

from __future__ import annotations

import gzip
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest


class Collector:
    """`spans`: as (service, span), in the order of their arrival."""

    def __init__(self, url: str) -> None:
        self.url = url
        self.spans: list[tuple[str, Any]] = []

    def take(self, body: bytes) -> None:
        """One request."""
        request = ExportTraceServiceRequest.FromString(body)
        for resource in request.resource_spans:
            (service,) = [a.value.string_value for a in resource.resource.attributes if a.key == "service.name"]
            self.spans += [(service, span) for scope in resource.scope_spans for span in scope.spans]


@contextmanager
def collector() -> Iterator[Collector]:
    """One that listens until the block ends."""

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            if self.path != "/v1/traces" or self.headers["Content-Type"] != "application/x-protobuf":
                self.send_error(404)
                return
            one.take(gzip.decompress(body) if self.headers["Content-Encoding"] == "gzip" else body)
            self.send_response(200)
            self.send_header("Content-Length", "0")
            self.end_headers()

        def log_message(self, format: str, *args: Any) -> None:
            """Say nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    one = Collector(f"http://127.0.0.1:{server.server_port}")
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield one
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def attributes_of(span: Any) -> dict[str, Any]:
    """By name."""
    return {a.key: getattr(a.value, a.value.WhichOneof("value")) for a in span.attributes}
