"""A table of Iceberg in a catalog, as pyiceberg has it."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from types import ModuleType
from typing import Any

import msgspec
import pyarrow

from penstock.common.doors.extras import ICEBERG, package_of
from penstock.common.errors import ConfigurationError, JobError
from penstock.connectors.tables.record_schema import check_columns, check_partitions

_HIDDEN = "***"
_CREDENTIALS = re.compile(r"(?<=://)[^\s/@]*@")


def pyiceberg() -> ModuleType:
    """The package. Raises ConfigurationError if it is not installed."""
    return package_of(
        ICEBERG, "tables of Iceberg need pyiceberg", "pyiceberg.catalog", "pyiceberg.exceptions", "pyiceberg.transforms"
    )


class IcebergTable(msgspec.Struct, frozen=True):
    """Where it is: a catalog, and a name in it. The properties of the catalog may be secrets: its text has none."""

    name: str
    catalog: str
    properties: dict[str, str]

    def __repr__(self) -> str:
        return f"IcebergTable({self})"

    def __str__(self) -> str:
        return f"the Iceberg table {self.name} of the catalog '{self.catalog}'"

    def reason_of(self, error: BaseException) -> str:
        """What the library says, without what may be a password or a url that has one."""
        text = str(error)
        for name, value in self.properties.items():
            if len(value) > 1 and name not in ("type", "warehouse"):
                text = text.replace(value, _HIDDEN)
        return _CREDENTIALS.sub(f"{_HIDDEN}@", text)

    def load(self) -> Any:
        """The table as it is now. Raises JobError if there is none, or no catalog."""
        try:
            return self._catalog().load_table(self.name)
        except Exception as error:
            raise JobError(f"{self} can't be loaded: {self.reason_of(error)}") from None

    def data_path(self) -> str:
        """Where files of new data are put."""
        table = self.load()
        path: str = table.properties.get("write.data.path") or f"{table.location().rstrip('/')}/data"
        # Paths of this machine, as connectors name them.
        return path.removeprefix("file://") if path.startswith("file:///") else path

    def create(self, schema: pyarrow.Schema, partitions: Sequence[str]) -> None:
        """Create it, unless it is there. Raises ConfigurationError if it can't have these columns."""
        check_partitions(partitions, schema, str(self))
        package = pyiceberg()
        try:
            catalog = self._catalog()
            if catalog.table_exists(self.name):
                return
            catalog.create_namespace_if_not_exists(self.name.rpartition(".")[0])
            with catalog.create_table_transaction(self.name, schema) as creation, creation.update_spec() as spec:
                for name in partitions:
                    spec.add_identity(name)
        except package.exceptions.TableAlreadyExistsError:
            return
        except Exception as error:
            raise ConfigurationError(f"{self} can't be created: {self.reason_of(error)}") from None

    def check(self, schema: pyarrow.Schema, partitions: Sequence[str]) -> None:
        """Raises ConfigurationError if records with these columns can't be added to it."""
        table = self.load()
        columns = table.schema()
        if others := [field for field in table.spec().fields if str(field.transform) != "identity"]:
            raise ConfigurationError(
                f"{self} is partitioned by {[str(field.transform) for field in others]}: penstock writes partitions by "
                "values of columns only"
            )
        found = [columns.find_column_name(field.source_id) for field in table.spec().fields]
        if found != list(partitions):
            raise ConfigurationError(
                f"{self} is partitioned by {found}, and the sink by {list(partitions)}: see its partition_columns"
            )
        wide = {field.name: field.type for field in columns.as_arrow()}
        check_columns(_widened(schema, wide), columns.as_arrow(), str(self))

    def _catalog(self) -> Any:
        return pyiceberg().catalog.load_catalog(self.catalog, **self.properties)


def _widened(schema: pyarrow.Schema, wide: Mapping[str, pyarrow.DataType]) -> pyarrow.Schema:
    """With integers of 32 bits for smaller ones, which Iceberg has not; so Parquet stores them anyway."""
    small = (pyarrow.int8(), pyarrow.int16())
    return pyarrow.schema(
        [
            field.with_type(pyarrow.int32())
            if field.type in small and wide.get(field.name) == pyarrow.int32()
            else field
            for field in schema
        ]
    )
