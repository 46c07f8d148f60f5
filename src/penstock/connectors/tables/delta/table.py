"""A table of Delta Lake, as deltalake (delta-rs) has it."""

from __future__ import annotations

import itertools
import re
from collections.abc import Sequence
from types import ModuleType
from typing import Any

import msgspec
import pyarrow

from penstock.common.doors.extras import DELTA, package_of
from penstock.common.errors import ConfigurationError, JobError
from penstock.connectors.tables.record_schema import check_columns, check_partitions

_COLOURS = re.compile(r"\x1b\[[0-9;]*m")
_CAUSE = "↳"
_NOT_WRITTEN = ("delta.generationExpression", "delta.identity.start", "delta.invariants")


def deltalake() -> ModuleType:
    """The package. Raises ConfigurationError if it is not installed."""
    return package_of(
        DELTA, "tables of Delta Lake need deltalake", "deltalake", "deltalake.exceptions", "deltalake.transaction"
    )


def reason_of(error: BaseException) -> str:
    """What the library says, with its causes, which are a line with an arrow each; behind them may be a stack."""
    first, *others = _COLOURS.sub("", str(error)).splitlines() or [""]
    causes = itertools.takewhile(lambda line: line.startswith(_CAUSE), map(str.strip, others))
    return ": ".join([first, *(line.removeprefix(_CAUSE).strip() for line in causes)])


class DeltaLakeTable(msgspec.Struct, frozen=True):
    """Where it is. `storage_options`, which may be secrets, are not in its text."""

    uri: str
    storage_options: dict[str, str]

    def __repr__(self) -> str:
        return f"DeltaLakeTable({self})"

    def __str__(self) -> str:
        return f"the Delta table {self.uri}"

    def load(self) -> Any:
        """The table as it is now. Raises JobError if there is none."""
        package = deltalake()
        try:
            return package.DeltaTable(self.uri, storage_options=self.storage_options or None)
        except Exception as error:
            raise JobError(f"{self} can't be loaded: {reason_of(error)}") from None

    def create(self, schema: pyarrow.Schema, partitions: Sequence[str]) -> None:
        """Create it, unless it is there. Raises ConfigurationError if it can't have these columns."""
        package = deltalake()
        check_partitions(partitions, schema, str(self))
        nanoseconds = [
            field.name for field in schema if pyarrow.types.is_timestamp(field.type) and field.type.unit == "ns"
        ]
        if nanoseconds:
            raise ConfigurationError(f"{self} has timestamps in microseconds: declare {nanoseconds} so")
        try:
            if package.DeltaTable.is_deltatable(self.uri, self.storage_options or None):
                return
            columns = package.Schema.from_arrow(schema)
            package.DeltaTable.create(
                self.uri,
                columns,
                mode="ignore",
                partition_by=list(partitions) or None,
                storage_options=self.storage_options or None,
            )
        except Exception as error:
            raise ConfigurationError(f"{self} can't be created: {reason_of(error)}") from None

    def check(self, schema: pyarrow.Schema, partitions: Sequence[str]) -> None:
        """Raises ConfigurationError if records with these columns can't be added to it."""
        table = self.load()
        found = table.metadata()
        if list(found.partition_columns) != list(partitions):
            raise ConfigurationError(
                f"{self} is partitioned by {list(found.partition_columns)}, and the sink by {list(partitions)}: "
                "see its partition_columns"
            )
        settings = found.configuration
        if settings.get("delta.columnMapping.mode", "none") != "none":
            raise ConfigurationError(
                f"{self} has other names in its files (delta.columnMapping.mode), which penstock does not write"
            )
        demands = sorted(name for name in settings if name.startswith("delta.constraints."))
        demands += [field.name for field in table.schema().fields if set(_NOT_WRITTEN) & set(field.metadata)]
        if demands:
            raise ConfigurationError(
                f"{self} has constraints, or columns that are computed, which penstock does not check: {demands}"
            )
        check_columns(self._as_stored(schema), pyarrow.schema(table.schema().to_arrow()), str(self))

    def _as_stored(self, schema: pyarrow.Schema) -> pyarrow.Schema:
        """As Delta has these columns: its integers have signs."""
        try:
            return pyarrow.schema(deltalake().Schema.from_arrow(schema).to_arrow())
        except Exception as error:
            raise ConfigurationError(f"{self} can't have columns like these: {reason_of(error)}") from None
