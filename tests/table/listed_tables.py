"""A connector whose tables are lists of rows in this process, and statements over them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any, ClassVar

import numpy
import pyarrow as pa
from tests.table.halves_source import HalvesSource
from tests.table.in_process import InProcess

from penstock.common.config_options import option
from penstock.common.config_values import TextType
from penstock.common.types import Row, RowKind
from penstock.datastream import StreamExecutionEnvironment
from penstock.engine.jobmaster.results.result_sinks import ResultSink
from penstock.hosts.simulator import Circumstances
from penstock.table import StreamTableEnvironment
from penstock.table.connectors.batch_source import BatchSource
from penstock.table.connectors.lookup import CACHE_OPTIONS, Found, LookupRequest, TableLookup, cache_of
from penstock.table.connectors.table_connector import (
    ScanRequest,
    SinkRequest,
    TableConnector,
    TableScan,
    TableSink,
    register_connector,
)
from penstock.table.connectors.table_options import TableOptions
from penstock.table.operators.table_columns import KIND, TableColumns

Change = tuple[str, tuple[Any, ...]]
"""+I, -U, +U or -D, and the values of a row."""
_OPTIONS = [*CACHE_OPTIONS, option("changelog-mode", TextType(), "I")]
_KINDS = {str(kind): kind.value for kind in RowKind}


class Listed(TableConnector):
    """Tables of `'connector' = 'listed'`, by name."""

    def __init__(self) -> None:
        self.sources: dict[str, Sequence[Change]] = {}
        self.halves: dict[str, int] = {}
        """How many rows of a table come before a pause of 20 s, and each at its time."""
        self.sinks: dict[str, list[Change]] = {}

    def scan(self, request: ScanRequest) -> TableScan:
        """Read the rows of a table, in order."""
        resolved = request.table.resolved_table
        assert resolved is not None
        names = [column.name for column in resolved.schema.columns if column.kind == "PHYSICAL"]
        changes = self.sources[_name(request.table.identifier)]
        arrays = [pa.array([row[names.index(field.name)] for _, row in changes], field.type) for field in request.whole]
        kinds = pa.array([_KINDS[kind] for kind, _ in changes], pa.uint8())
        schema = pa.schema([*request.whole, pa.field(KIND, pa.uint8())])
        table = pa.Table.from_arrays([*arrays, kinds], schema=schema)
        first = self.halves.get(_name(request.table.identifier))
        source = BatchSource(table) if first is None else HalvesSource(table, first, is_paced=True)
        return TableScan(source, TableColumns(schema), parallelism=1)

    def lookup(self, request: LookupRequest) -> TableLookup:
        """Look up the rows of a table."""
        resolved = request.table.resolved_table
        assert resolved is not None
        names = [column.name for column in resolved.schema.columns if column.kind == "PHYSICAL"]
        rows = [dict(zip(names, row, strict=True)) for _, row in self.sources[_name(request.table.identifier)]]
        ListedLookup.calls.clear()
        return ListedLookup(rows, request)

    def sink(self, request: SinkRequest) -> TableSink:
        """Remember the changes."""
        received = self.sinks.setdefault(_name(request.table.identifier), [])
        return TableSink(results=_Received(received), parallelism=1)


class ListedLookup(TableLookup):
    """Looks up dicts in a list."""

    calls: ClassVar[list[list[dict[str, Any]]]] = []
    """The keys that were looked up, by call."""

    def __init__(self, rows: Sequence[dict[str, Any]], request: LookupRequest) -> None:
        self._rows = rows
        self._keys = request.keys.names
        self._keys_schema = request.keys.schema
        self._schema = request.columns.schema
        self.cache = cache_of(TableOptions(request.table.identifier, request.options, _OPTIONS), loads=True)

    def load(self) -> tuple[pa.RecordBatch, pa.RecordBatch]:
        """Return the keys and the columns of all rows; between halves of a stream the table loses its first row."""
        self.calls.append([{"all": True}])
        rows = self._rows[1:] if HalvesSource.is_second else self._rows
        return pa.RecordBatch.from_pylist(rows, schema=self._keys_schema), pa.RecordBatch.from_pylist(
            rows, schema=self._schema
        )

    def find(self, keys: pa.RecordBatch) -> Found:
        """Return the rows that have these keys."""
        self.calls.append(keys.to_pylist())
        found = [
            (place, row)
            for place, key in enumerate(zip(*(column.to_pylist() for column in keys.columns), strict=True))
            for row in self._rows
            if tuple(row[name] for name in self._keys) == key
        ]
        rows = pa.RecordBatch.from_pylist([row for _, row in found], schema=self._schema)
        return Found(numpy.array([place for place, _ in found], numpy.int64), rows)


class _Received(ResultSink):
    exactly_once = True

    def __init__(self, received: list[Change]) -> None:
        self._received = received

    def accept(self, subtask: int, values: list[Row]) -> None:
        self._received += [(str(row.get_row_kind()), tuple(row)) for row in values]


class Tables:
    """A table environment over listed tables. `options`: of the planner."""

    def __init__(
        self,
        options: dict[str, str] | None = None,
        *,
        parallelism: int = 2,
        seed: int = 1,
        circumstances: Circumstances | None = None,
        executor: Any = None,
    ) -> None:
        self.listed = Listed()
        register_connector("listed", self.listed)
        self.executor: Any = executor or InProcess(seed, circumstances)
        env = StreamExecutionEnvironment(executor=self.executor)
        env.set_parallelism(parallelism)
        self.environment = StreamTableEnvironment.create(env)
        for key, value in (options or {}).items():
            self.environment.get_config().set(key, value)

    def create(
        self, name: str, columns: str, changes: Sequence[Change] = (), changelog: str = "I", options: str = ""
    ) -> None:
        """Create a table with these rows. `options`: more of them, each behind a comma."""
        options = f"'connector' = 'listed', 'changelog-mode' = '{changelog}'{options}"
        self.environment.execute_sql(f"CREATE TABLE {name} ({columns}) WITH ({options})")
        self.listed.sources[name] = changes

    def insert(self, sink: str, columns: str, query: str) -> list[Change]:
        """Create a sink, run an insertion into it to its end, and return what it got."""
        self.environment.execute_sql(f"CREATE TABLE {sink} ({columns}) WITH ('connector' = 'listed')")
        self.environment.execute_sql(f"INSERT INTO {sink} {query}")
        if self.executor.error is not None:
            raise self.executor.error
        return self.listed.sinks.get(sink, [])


def inserts(rows: Sequence[tuple[Any, ...]]) -> list[Change]:
    """Return the insertions of rows."""
    return [("+I", row) for row in rows]


def table_of(changes: Sequence[Change]) -> Counter[tuple[Any, ...]]:
    """Return the rows of the table that a complete changelog makes. A row that goes must be there."""
    found: Counter[tuple[Any, ...]] = Counter()
    for kind, row in changes:
        found[row] += 1 if kind in ("+I", "+U") else -1
        assert found[row] >= 0, f"{kind}{row}, and there is no such row"
    return +found


def _name(identifier: str) -> str:
    return identifier.rpartition(".")[2].strip("`")
