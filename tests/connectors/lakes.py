"""Tables of Delta Lake and Iceberg, which the libraries themselves read."""

from __future__ import annotations

import itertools
import os
import pickle
from abc import ABC, abstractmethod
from pathlib import Path
from typing import Any

from penstock.api.sink import Committer, Sink, SinkWriter
from penstock.common.typeinfo import Types
from penstock.connectors.tables.record_schema import RecordType
from penstock.datastream.connectors.delta import DeltaSink
from penstock.datastream.connectors.iceberg import IcebergSink
from penstock.testing.conformance.sink import SimpleSinkContext

NUMBERS = Types.ROW_NAMED(["id", "name"], [Types.LONG(), Types.STRING()])
_attempts = itertools.count(1)


class Lake(ABC):
    """Tables of one kind, below a folder."""

    def __init__(self, folder: Path, bucket: str = "") -> None:
        self.folder = folder
        self.bucket = bucket

    @abstractmethod
    def sink(self, record_type: RecordType = NUMBERS, *partitions: str) -> Sink[Any]: ...

    @abstractmethod
    def rows(self) -> list[dict[str, Any]]: ...

    @abstractmethod
    def compact(self) -> None:
        """Replace all files by others."""

    @abstractmethod
    def versions(self) -> int: ...


class DeltaLake(Lake):
    @property
    def uri(self) -> str:
        return f"{self.bucket}/tables/numbers" if self.bucket else str(self.folder / "a table")

    def sink(self, record_type: RecordType = NUMBERS, *partitions: str) -> DeltaSink:
        return DeltaSink(table=self.uri, record_type=record_type, partition_columns=partitions)

    def table(self) -> Any:
        from deltalake import DeltaTable

        return DeltaTable(self.uri)

    def rows(self) -> list[dict[str, Any]]:
        from deltalake import DeltaTable

        if not DeltaTable.is_deltatable(self.uri):
            return []
        return in_order(self.table().to_pyarrow_table().to_pylist())

    def compact(self) -> None:
        self.table().optimize.compact()
        self.table().vacuum(0, dry_run=False, enforce_retention_duration=False)

    def versions(self) -> int:
        version: int = self.table().version()
        return version


class IcebergLake(Lake):
    def properties(self) -> dict[str, str]:
        return {
            "type": "sql",
            "uri": f"sqlite:///{self.folder}/catalog.db",
            "warehouse": self.bucket or f"file://{self.folder}/tables",
            **({"s3.endpoint": os.environ["AWS_ENDPOINT_URL"]} if self.bucket else {}),
        }

    def sink(self, record_type: RecordType = NUMBERS, *partitions: str) -> IcebergSink:
        return IcebergSink(
            catalog="lake",
            catalog_properties=self.properties(),
            table="air.numbers",
            record_type=record_type,
            partition_columns=partitions,
        )

    def table(self) -> Any:
        from pyiceberg.catalog import load_catalog

        return load_catalog("lake", **self.properties()).load_table("air.numbers")

    def rows(self) -> list[dict[str, Any]]:
        from pyiceberg.exceptions import NoSuchTableError

        try:
            return in_order(self.table().scan().to_arrow().to_pylist())
        except NoSuchTableError:
            return []

    def compact(self) -> None:
        table = self.table()
        table.overwrite(table.scan().to_arrow())

    def versions(self) -> int:
        return len(self.table().snapshots())


def in_order(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return sorted(rows, key=lambda row: row["id"])


def begun(sink: Sink[Any]) -> tuple[SinkWriter[Any], Committer]:
    """As in processes of their own, each with a copy of the sink."""
    sink.validate()
    sink = pickle.loads(pickle.dumps(sink))
    committer = sink.create_committer()
    assert committer is not None
    return sink.create_writer(SimpleSinkContext(attempt=f"job-1-{next(_attempts)}-11")), committer
