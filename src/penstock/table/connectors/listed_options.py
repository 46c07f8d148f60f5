"""All options of connectors and formats, by name, for the reference."""

from __future__ import annotations

from typing import Any

from penstock.common.config_options import ConfigOption
from penstock.table.connectors import datagen, filesystem, jdbc, kafka_options, nexmark_table, print_connector
from penstock.table.connectors.formats.message_format import format_class, format_names


def connector_options() -> dict[str, tuple[ConfigOption[Any], ...]]:
    """Return the options of connectors by their name. Those of fields, of `datagen`, have `#` for the field's name."""
    return {
        "blackhole": (),
        "datagen": datagen.OPTIONS,
        "kafka": kafka_options.OF_KAFKA,
        "upsert-kafka": kafka_options.OF_UPSERTS,
        "filesystem": filesystem.OPTIONS,
        "jdbc": jdbc.OPTIONS,
        "nexmark": nexmark_table.OPTIONS,
        "print": print_connector.OPTIONS,
    }


def format_options() -> dict[str, tuple[ConfigOption[Any], ...]]:
    """Return the options of formats, without the name of the format in front, by that name."""
    found = {}
    for name in format_names():
        one = format_class(name)
        assert one is not None
        found[name] = one.options
    return found
