"""All options of connectors and formats, by name, for the reference."""

from __future__ import annotations

from typing import Any

from penstock.common.config_options import ConfigOption
from penstock.table.connectors import filesystem, jdbc, kafka_options
from penstock.table.connectors.formats.message_format import format_class, format_names


def connector_options() -> dict[str, tuple[ConfigOption[Any], ...]]:
    """Return the options of connectors that have a fixed list of them, by the name of the connector."""
    return {
        "kafka": kafka_options.OF_KAFKA,
        "upsert-kafka": kafka_options.OF_UPSERTS,
        "filesystem": filesystem.OPTIONS,
        "jdbc": jdbc.OPTIONS,
    }


def format_options() -> dict[str, tuple[ConfigOption[Any], ...]]:
    """Return the options of formats, without the name of the format in front, by that name."""
    found = {}
    for name in format_names():
        one = format_class(name)
        assert one is not None
        found[name] = one.options
    return found
