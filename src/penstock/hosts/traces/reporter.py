"""Send spans to an OpenTelemetry collector, from a thread of the SDK: `traces.reporters: otel`."""

from __future__ import annotations

import logging
from typing import Any, Protocol

from penstock.common.configuration import Configuration, options
from penstock.common.doors.extras import OTEL
from penstock.common.errors import ConfigurationError
from penstock.hosts.traces.spans import Span

_NS = 1_000_000
_EXPORT_S = 2
"""Timeout of a request to the collector; the end of a job waits for the last one."""
_log = logging.getLogger(__name__)


class TraceReporter(Protocol):
    """Receive the spans of a job."""

    def report(self, span: Span) -> None:
        """Receive a span that has ended. Does not wait."""

    def close(self) -> None:
        """Send the remaining spans."""


def check_traces(configuration: Configuration) -> None:
    """Raise ConfigurationError for an unknown reporter, or one whose extra is missing."""
    reporter = trace_reporter(configuration)
    if reporter is not None:
        reporter.close()


def trace_reporter(configuration: Configuration) -> TraceReporter | None:
    """Return the reporter for a job. Raises what `check_traces` raises."""
    wanted = [name.strip() for name in configuration.get(options.TRACE_REPORTERS).split(",") if name.strip()]
    if not wanted:
        return None
    if wanted != ["otel"]:
        raise ConfigurationError(f"{options.TRACE_REPORTERS.key}: {', '.join(wanted)}. The only reporter is otel")
    endpoint = configuration.get(options.OTEL_ENDPOINT).rstrip("/")
    if not endpoint.startswith(("http://", "https://")):
        raise ConfigurationError(
            f"{options.OTEL_ENDPOINT.key} must be a URL such as http://127.0.0.1:4318, got {endpoint!r}"
        )
    try:
        return OpenTelemetryReporter(endpoint, configuration.get(options.OTEL_SERVICE_NAME))
    except ImportError as error:
        raise ConfigurationError(
            f"{options.TRACE_REPORTERS.key}: otel needs OpenTelemetry's SDK: pip install '{OTEL}' ({error})"
        ) from None


class OpenTelemetryReporter:
    """Send spans by OTLP over HTTP. An unreachable collector loses the spans, and causes one line in the log."""

    def __init__(self, endpoint: str, service: str) -> None:
        from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
        from opentelemetry.sdk.resources import Resource
        from opentelemetry.sdk.trace import TracerProvider
        from opentelemetry.sdk.trace.export import BatchSpanProcessor

        # The SDK would log each failure with a traceback.
        logging.getLogger("opentelemetry").setLevel(logging.CRITICAL)
        self._provider = TracerProvider(resource=Resource.create({"service.name": service}), shutdown_on_exit=False)
        exporter = OTLPSpanExporter(endpoint=f"{endpoint}/v1/traces", timeout=_EXPORT_S)
        self._provider.add_span_processor(BatchSpanProcessor(_warn_once(exporter, endpoint)))
        self._tracer = self._provider.get_tracer("penstock")

    def report(self, span: Span) -> None:
        """Pass a span to the SDK's thread. Spans that do not fit into its queue are lost."""
        from opentelemetry.trace import Status, StatusCode

        otel_span = self._tracer.start_span(span.name, attributes=span.attributes, start_time=span.begin_ms * _NS)
        if span.error:
            otel_span.set_status(Status(StatusCode.ERROR, span.error))
        otel_span.end(span.end_ms * _NS)

    def close(self) -> None:
        """Send the remaining spans, and wait a few seconds at most."""
        self._provider.shutdown()


def _warn_once(exporter: Any, endpoint: str) -> Any:
    """Make the exporter log a warning at its first failure, and return it."""
    from opentelemetry.sdk.trace.export import SpanExportResult

    export, has_warned = exporter.export, False

    def export_and_warn(spans: Any) -> Any:
        nonlocal has_warned
        result = export(spans)
        if result is not SpanExportResult.SUCCESS and not has_warned:
            has_warned = True
            _log.warning("cannot send spans to %s: they are lost until it can be reached", endpoint)
        return result

    exporter.export = export_and_warn
    return exporter
