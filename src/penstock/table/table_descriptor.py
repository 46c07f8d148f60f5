"""`TableDescriptor`: a table with its connector. Source: PyFlink, pyflink.table.TableDescriptor."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from penstock.common.config_options import ConfigOption
from penstock.table.composing.sql_text import quoted, text_literal
from penstock.table.schema import Schema


class TableDescriptor:
    """A table: `TableDescriptor.for_connector("kafka").schema(...).option("topic", "orders").build()`."""

    def __init__(
        self,
        schema: Schema | None,
        options: Mapping[str, str],
        partition_keys: Sequence[str],
        comment: str | None,
    ) -> None:
        self._schema = schema
        self._options = dict(options)
        self._partition_keys = list(partition_keys)
        self._comment = comment

    @staticmethod
    def for_connector(connector: str) -> TableDescriptor.Builder:
        """Return a builder of a table with this connector."""
        return TableDescriptor.Builder().option("connector", connector)

    def get_schema(self) -> Schema | None:
        """Return the columns."""
        return self._schema

    def get_options(self) -> dict[str, str]:
        """Return the options, the connector among them."""
        return dict(self._options)

    def get_partition_keys(self) -> list[str]:
        """Return the columns by which the table is partitioned."""
        return list(self._partition_keys)

    def get_comment(self) -> str | None:
        """Return the comment."""
        return self._comment

    def sql(self) -> str:
        """Return the text of CREATE TABLE behind the name. Internal to the package."""
        parts = [] if self._schema is None else [f"({self._schema.sql()})"]
        if self._comment is not None:
            parts.append(f"COMMENT {text_literal(self._comment)}")
        if self._partition_keys:
            parts.append(f"PARTITIONED BY ({', '.join(map(quoted, self._partition_keys))})")
        options = (f"{text_literal(key)} = {text_literal(value)}" for key, value in self._options.items())
        return " ".join([*parts, f"WITH ({', '.join(options)})"])

    def __str__(self) -> str:
        # Without the options, some of which may be secrets.
        return f"TableDescriptor{'' if self._schema is None else self._schema} with {', '.join(self._options)}"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, TableDescriptor) and self.sql() == other.sql()

    def __hash__(self) -> int:
        return hash(self.sql())

    class Builder:
        """A table in the making. Each method returns the builder."""

        def __init__(self) -> None:
            self._schema: Schema | None = None
            self._options: dict[str, str] = {}
            self._partition_keys: tuple[str, ...] = ()
            self._comment: str | None = None

        def schema(self, schema: Schema) -> TableDescriptor.Builder:
            """Set the columns."""
            if not isinstance(schema, Schema):
                raise TypeError(f"expected a Schema, got {schema!r}")
            self._schema = schema
            return self

        def option(self, key: str | ConfigOption[Any], value: Any) -> TableDescriptor.Builder:
            """Set an option of the connector."""
            self._options[_key(key)] = _value(value)
            return self

        def format(
            self, format: str | FormatDescriptor, format_option: ConfigOption[Any] | None = None
        ) -> TableDescriptor.Builder:
            """Set the format. `format_option`: that of keys or values; default: `format`."""
            key = "format" if format_option is None else format_option.key
            descriptor = format if isinstance(format, FormatDescriptor) else FormatDescriptor(format, {})
            name = descriptor.get_format()
            prefix = f"{key.removesuffix('format')}{name}."
            self._options[key] = name
            self._options.update({prefix + one: value for one, value in descriptor.get_options().items()})
            return self

        def partitioned_by(self, *partition_keys: str) -> TableDescriptor.Builder:
            """Name the columns by which the table is partitioned."""
            self._partition_keys = partition_keys
            return self

        def comment(self, comment: str) -> TableDescriptor.Builder:
            """Set the comment."""
            self._comment = comment
            return self

        def build(self) -> TableDescriptor:
            """Return the table."""
            return TableDescriptor(self._schema, self._options, self._partition_keys, self._comment)


class FormatDescriptor:
    """A format with its options: `FormatDescriptor.for_format("csv").option("field-delimiter", ";").build()`."""

    def __init__(self, format: str, options: Mapping[str, str]) -> None:
        if not isinstance(format, str):
            raise TypeError(f"expected the name of a format, got {format!r}")
        self._format = format
        self._options = dict(options)

    @staticmethod
    def for_format(format: str) -> FormatDescriptor.Builder:
        """Return a builder of a format."""
        return FormatDescriptor.Builder(format)

    def get_format(self) -> str:
        """Return the name."""
        return self._format

    def get_options(self) -> dict[str, str]:
        """Return the options, without the name before them."""
        return dict(self._options)

    def __str__(self) -> str:
        return f"FormatDescriptor({self._format})"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, FormatDescriptor) and (self._format, self._options) == (other._format, other._options)

    def __hash__(self) -> int:
        return hash((self._format, tuple(sorted(self._options.items()))))

    class Builder:
        """A format in the making."""

        def __init__(self, format: str) -> None:
            self._format = format
            self._options: dict[str, str] = {}

        def option(self, key: str | ConfigOption[Any], value: Any) -> FormatDescriptor.Builder:
            """Set an option, without the format's name before it."""
            self._options[_key(key)] = _value(value)
            return self

        def build(self) -> FormatDescriptor:
            """Return the format."""
            return FormatDescriptor(self._format, self._options)


def _key(key: str | ConfigOption[Any]) -> str:
    return key.key if isinstance(key, ConfigOption) else key


def _value(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)
