"""The options of traces. Source: Flink docs, "Trace Reporters", OpenTelemetry."""

from __future__ import annotations

from penstock.common.config_options import ConfigOptions

_key = ConfigOptions.key
_OTEL = "traces.reporter.otel."

REPORTERS = (
    _key("traces.reporters")
    .string_type()
    .default_value("")
    .with_description("otel: each checkpoint and each start of a job's tasks is sent as an OpenTelemetry span.")
)
OTEL_ENDPOINT = (
    _key(_OTEL + "exporter.endpoint")
    .string_type()
    .default_value("http://127.0.0.1:4318")
    .with_description("Where spans are sent to by OTLP over HTTP: the address of a collector, without /v1/traces.")
)
OTEL_SERVICE_NAME = (
    _key(_OTEL + "service.name").string_type().default_value("penstock").with_description("service.name of the spans.")
)
