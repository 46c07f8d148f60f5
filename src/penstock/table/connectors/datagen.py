"""`'connector' = 'datagen'`: rows of random values and of sequences. Source: Flink docs, "DataGen SQL Connector"."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from penstock.common.config_options import ConfigOption, option
from penstock.common.config_values import DurationType, FloatType, IntegerType, TextType
from penstock.connectors.base.data_generator import DataGeneratorSource
from penstock.connectors.base.generated_fields import FieldGenerator, FieldGenerators, GeneratedFields
from penstock.connectors.base.rate_limiter import RateLimiterStrategy
from penstock.table.connectors.random_values import (
    Converted,
    RandomBytes,
    RandomDecimals,
    RandomLists,
    RandomRows,
    RandomTexts,
    RecentTimes,
    WithNulls,
)
from penstock.table.connectors.table_connector import ScanRequest, TableConnector, TableScan
from penstock.table.connectors.table_options import TableOptions
from penstock.table.functions.arrow_types import arrow_type
from penstock.table.logical_types import (
    APPROXIMATE_NUMERIC,
    BINARY_STRING,
    CHARACTER_STRING,
    DATETIME,
    INTEGER_NUMERIC,
    ROWS,
    LogicalType,
)
from penstock.table.operators.table_columns import TableColumns

_RATE = option("rows-per-second", IntegerType(64, least=1), 10_000)
_ROWS = option("number-of-rows", IntegerType(64, least=1), None)
_PARALLELISM = option("scan.parallelism", IntegerType(least=1), None)
_LENGTH = 100
_ELEMENTS = 3
_RANGES = {
    "TINYINT": (-(1 << 7), (1 << 7) - 1),
    "SMALLINT": (-(1 << 15), (1 << 15) - 1),
    "INT": (-(1 << 31), (1 << 31) - 1),
    "BIGINT": (-(1 << 62), (1 << 62) - 1),
}


class DatagenConnector(TableConnector):
    """Generates rows. The same options give the same rows at any parallelism."""

    def scan(self, request: ScanRequest) -> TableScan:
        declared = {field.name: field for field in _declared(request)}
        known: list[ConfigOption[Any]] = [_RATE, _ROWS, _PARALLELISM]
        for field in declared.values():
            known += _options_below(field)
        options = TableOptions(request.table.identifier, request.options, known)
        columns = TableColumns(request.whole)
        # The shortest sequence ends the table, whether a query reads it or not.
        sequences = {name: bounds for name, field in declared.items() if (bounds := field.sequence(options))}
        generators: dict[str, FieldGenerator] = {}
        for name in request.whole.names:
            field, bounds = declared[name], sequences.get(name)
            generators[name] = _random(field, options) if bounds is None else _sequence(bounds[0], field.logical)
        lengths = [end - start + 1 for start, end in sequences.values()]
        rows = min([*lengths, *([] if options.get(_ROWS) is None else [options.get(_ROWS)])], default=None)
        fields = GeneratedFields(request.whole, generators)
        source: DataGeneratorSource[Any] = DataGeneratorSource(
            fields, rows, RateLimiterStrategy.per_second(options.get(_RATE))
        )
        of_columns = source.on_columns(columns)
        assert of_columns is not None
        return TableScan(of_columns, columns, options.get(_PARALLELISM))


@dataclass(frozen=True)
class _Field:
    """A column, or a part of one. `path`: the beginning of its options."""

    path: str
    name: str
    logical: LogicalType

    @property
    def parts(self) -> list[_Field]:
        """The fields of a row, the elements of a collection, the keys and values of a map."""
        if self.logical.root in ROWS:
            names: Sequence[str] = self.logical.names
        else:
            names = {"ARRAY": ["element"], "MULTISET": ["element"], "MAP": ["key", "value"]}.get(self.logical.root, [])
        return [
            _Field(f"{self.path}.{name}", name, part) for name, part in zip(names, self.logical.children, strict=True)
        ]

    @property
    def options(self) -> dict[str, ConfigOption[Any]]:
        """The options of the field itself."""
        bound: Any = FloatType() if self.logical.root in (*APPROXIMATE_NUMERIC, "DECIMAL") else IntegerType(64)
        types = {
            "kind": (TextType(), "random"),
            "start": (IntegerType(64), None),
            "end": (IntegerType(64), None),
            "min": (bound, None),
            "max": (bound, None),
            "length": (IntegerType(least=1), None),
            "max-past": (DurationType(), 0),
            "null-rate": (FloatType(), 0.0),
        }
        return {name: option(f"{self.path}.{name}", one, default) for name, (one, default) in types.items()}

    def settings(self, options: TableOptions) -> dict[str, Any]:
        """Return the values of the field's options."""
        return {name: options.get(one) for name, one in self.options.items()}

    def sequence(self, options: TableOptions) -> tuple[int, int] | None:
        """Return the first and the last number of a sequence; None for random values. Raises SqlError."""
        settings = self.settings(options)
        if settings["kind"] == "random":
            return None
        if settings["kind"] != "sequence":
            raise options.error(f"{self.path}.kind must be random or sequence, got {settings['kind']!r}")
        start, end = settings["start"], settings["end"]
        if start is None or end is None:
            raise options.error(f"{self.path}.start and .end are needed for a sequence")
        if start > end:
            raise options.error(f"{self.path}.end must not be below {self.path}.start, {start}, got {end}")
        return start, end


OPTIONS: tuple[ConfigOption[Any], ...] = (
    _RATE,
    _ROWS,
    _PARALLELISM,
    *_Field("fields.#", "#", LogicalType("VARCHAR")).options.values(),
)
"""Options of a table, and those of a field with `#` for its name."""


def _declared(request: ScanRequest) -> Iterator[_Field]:
    """Return the columns of the table, also those that are not read: they have options."""
    row = request.table.resolved.schema.physical_row
    for name, kind in zip(row.names, row.children, strict=True):
        yield _Field(f"fields.{name}", name, kind)


def _options_below(field: _Field) -> Iterator[ConfigOption[Any]]:
    yield from field.options.values()
    for part in field.parts:
        yield from _options_below(part)


def _sequence(start: int, kind: LogicalType) -> FieldGenerator:
    made = FieldGenerators.sequence(start)
    return made if kind.root in INTEGER_NUMERIC else Converted(made, arrow_type(kind))


def _random(field: _Field, options: TableOptions) -> FieldGenerator:
    """Return the generator of random values of a column, or of a part of one."""
    settings, kind = field.settings(options), field.logical
    parts = [_random(part, options) for part in field.parts]
    if kind.root in ROWS:
        made: FieldGenerator = RandomRows(arrow_type(kind), parts)
    elif kind.root == "ARRAY":
        made = RandomLists(arrow_type(kind), parts, settings["length"] or _ELEMENTS)
    elif kind.root in ("MAP", "MULTISET"):
        counts = [FieldGenerators.random(1, _ELEMENTS)] if kind.root == "MULTISET" else []
        made = RandomLists(arrow_type(kind), [*parts, *counts], settings["length"] or _ELEMENTS)
    else:
        made = _random_value(field, settings, options)
    return made if not settings["null-rate"] else WithNulls(made, settings["null-rate"])


def _random_value(field: _Field, settings: dict[str, Any], options: TableOptions) -> FieldGenerator:
    kind, root = field.logical, field.logical.root
    low, high = settings["min"], settings["max"]
    if root in CHARACTER_STRING | BINARY_STRING:
        declared = min(kind.length or _LENGTH, _LENGTH)
        length = settings["length"] or (kind.length if root in ("CHAR", "BINARY") else declared)
        return RandomTexts(length) if root in CHARACTER_STRING else RandomBytes(length)
    if root == "BOOLEAN":
        return FieldGenerators.choice([True, False])
    if root in INTEGER_NUMERIC:
        least, most = _RANGES[root]
        return FieldGenerators.random(least if low is None else low, most if high is None else high)
    if root in APPROXIMATE_NUMERIC:
        return FieldGenerators.random(float(0 if low is None else low), float(1e9 if high is None else high))
    if root == "DECIMAL":
        return RandomDecimals(arrow_type(kind), low, high)
    if root in DATETIME:
        return RecentTimes(settings["max-past"], arrow_type(kind))
    raise options.error(f"the column {field.name} has the type {kind}, of which there are no random values")
