"""Folders of a table whose files do not have the columns by which it is partitioned: their names are the only place."""

from __future__ import annotations

from typing import Any

from penstock.connectors.files.sink.bucket import BucketAssigner, BucketContext
from penstock.connectors.files.sink.partitions import folder_of, partition_values
from penstock.connectors.formats.columns import Columns
from penstock.connectors.tables.record_schema import RecordType, schema_of, without

_KNOWN_MAX = 1_000


class DeltaFolders(BucketAssigner):
    """Assigns folders by values of the columns' types. With one `2.0` among integers no one reads it."""

    def __init__(self, columns: tuple[str, ...], record_type: RecordType) -> None:
        self._columns = columns
        self._record_type = record_type
        # Made by the worker: whether the records have these columns is said at submission, of the table.
        self._typed: Columns | None = None
        self._known: dict[Any, str] = {}

    def get_bucket_id(self, element: Any, context: BucketContext) -> str:
        """Return `column=value/…`. Raises TypeError for a record without names, or a value of another type."""
        values = tuple(partition_values(element, self._columns))
        # 1, 1.0 and True are one key.
        key = (values, tuple(map(type, values)))
        folder = self._known.get(key)
        if folder is None:
            if len(self._known) >= _KNOWN_MAX:
                self._known.clear()
            folder = self._known[key] = self._folder_of(dict(zip(self._columns, values, strict=True)))
        return folder

    def _folder_of(self, values: dict[str, Any]) -> str:
        if self._typed is None:
            others = [name for name in schema_of(self._record_type).names if name not in self._columns]
            self._typed = Columns(without(self._record_type, others))
        names = self._typed.names
        batch = self._typed.batch([[values[name]] for name in names])
        own = {name: column[0].as_py() for name, column in zip(names, batch.columns, strict=True)}
        return "/".join(folder_of(name, own[name]) for name in self._columns)

    def __getstate__(self) -> dict[str, Any]:
        return {**vars(self), "_typed": None, "_known": {}}
