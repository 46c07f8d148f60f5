"""Names under which penstock's values are stored, so that snapshots do not contain its module paths.

A value whose class is declared with `stored_as` is pickled as a call of `value(name, version, *fields)`. Name, version
and fields are the format, independent of the name and module of the class. The only path of penstock in such a pickle
is `penstock.common.stored.value`, which therefore must not move. docs/internals/formats.md lists the names and says how
a format may change. Values of users' classes are pickled by the path of their class.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable
from typing import Any, TypeVar

import msgspec

from penstock.common.errors import CheckpointError

T = TypeVar("T")

MODULES = {
    "barrier": "penstock.engine.runtime.network.buffer",
    "batch-to-send": "penstock.connectors.base.log_writer",
    "checkpoint-options": "penstock.engine.runtime.checkpoint_options",
    "class": "penstock.common.values.stored_class",
    "count-window": "penstock.api.windows.window",
    "dict-key": "penstock.engine.state.container_keys",
    "end-of-data": "penstock.engine.runtime.network.buffer",
    "end-of-input": "penstock.engine.runtime.network.buffer",
    "file-enumerator": "penstock.connectors.files.source.enumerator",
    "file-in-progress": "penstock.connectors.files.sink.renamed_files",
    "file-split": "penstock.connectors.files.split",
    "file-to-compact": "penstock.connectors.files.sink.compaction",
    "frame-batch-file": "penstock.hosts.spark.frames.batch_files",
    "frame-batches": "penstock.hosts.spark.frames.streaming_source",
    "float-key": "penstock.common.values.exact_floats",
    "global-window": "penstock.api.windows.window",
    "http-batches-of-writer": "penstock.connectors.http.sink.writer",
    "http-dead-letters-of-writer": "penstock.connectors.http.sink.writer",
    "hybrid-enumerator": "penstock.connectors.hybrid.split",
    "hybrid-split": "penstock.connectors.hybrid.split",
    "kafka-enumerator": "penstock.connectors.kafka.source.enumerator",
    "kafka-split": "penstock.connectors.kafka.topic_partition",
    "kafka-topic-partition": "penstock.connectors.kafka.topic_partition",
    "kafka-transaction": "penstock.connectors.kafka.sink.transactions",
    "kafka-transactions-of-writer": "penstock.connectors.kafka.sink.transactions",
    "latency-marker": "penstock.engine.runtime.network.buffer",
    "list-changes": "penstock.engine.state.collections",
    "list-key": "penstock.engine.state.container_keys",
    "map-changes": "penstock.engine.state.collections",
    "nexmark-split": "penstock.connectors.nexmark.split",
    "part-in-progress": "penstock.connectors.files.sink.part",
    "pending-file": "penstock.connectors.files.sink.renamed_files",
    "pending-upload": "penstock.connectors.files.sink.uploads",
    "postgres-changes-split": "penstock.connectors.postgres.changes.split",
    "postgres-rows-read": "penstock.connectors.postgres.changes.split",
    "postgres-split": "penstock.connectors.base.key_range",
    "postgres-transaction": "penstock.connectors.postgres.sink.transactions",
    "postgres-transactions-of-writer": "penstock.connectors.postgres.sink.transactions",
    "postgres-watched-table": "penstock.connectors.postgres.changes.watched_tables",
    "redis-enumerator": "penstock.connectors.redis.source.enumerator",
    "redis-stream-split": "penstock.connectors.redis.source.split",
    "redis-transaction": "penstock.connectors.redis.sink.transaction_log",
    "redis-transactions-of-writer": "penstock.connectors.redis.sink.transaction_log",
    "prepared-transaction": "penstock.connectors.base.two_phase_commit_sink",
    "range-split": "penstock.connectors.base.ranges",
    "server-sent-events-split": "penstock.connectors.http.events",
    "socket-split": "penstock.connectors.socket",
    "table-file": "penstock.connectors.tables.writer",
    "time-window": "penstock.api.windows.window",
    "upload-in-progress": "penstock.connectors.files.sink.uploads",
    "watermark": "penstock.engine.runtime.network.buffer",
    "watermark-status": "penstock.engine.runtime.network.buffer",
}
"""Name -> the module that declares it now. Importing the module fills `_TYPES`."""


class _StoredType(msgspec.Struct, frozen=True):
    kind: type[Any]
    version: int
    restore: Callable[..., Any]


_TYPES: dict[str, _StoredType] = {}
_NAMES: dict[type, str] = {}


def stored_as(
    name: str,
    version: int = 1,
    fields: Callable[[Any], tuple[Any, ...]] | None = None,
    restored_by: Callable[..., Any] | None = None,
) -> Callable[[type[T]], type[T]]:
    """Declare a class whose instances are stored as `name`, `version` and fields, and restored by calling the class.

    `fields` returns the fields; default: those of a msgspec struct, in order. A field with a default may be added at
    the end. For any other change, increase `version` and give the class a static method `of_version(version, *fields)`,
    which returns an instance from the fields of an earlier version. `restored_by` is called instead of the class.
    Instances of subclasses are pickled as usual.
    """

    def declare(kind: type[T]) -> type[T]:
        fields_of: Callable[[Any], tuple[Any, ...]] = fields or msgspec.structs.astuple
        usual = kind.__reduce__

        def reduce(self: Any) -> Any:
            return (value, (name, version, *fields_of(self))) if type(self) is kind else usual(self)

        kind.__reduce__ = reduce  # type: ignore[method-assign]
        _TYPES[name] = _StoredType(kind, version, restored_by or kind)
        _NAMES[kind] = name
        return kind

    return declare


def value(name: str, version: int, *fields: Any) -> Any:
    """Return the stored value. Raises CheckpointError if a newer version of penstock has stored it."""
    stored = _TYPES.get(name) or _declared(name)
    if version == stored.version:
        return stored.restore(*fields)
    if version > stored.version:
        raise CheckpointError(
            f"the snapshot holds a '{name}' of version {version}, this version of penstock reads up to "
            f"{stored.version}: it was written by a newer one"
        )
    return stored.kind.of_version(version, *fields)


def stored_name_of(kind: type) -> str | None:
    """Return the name under which values of this class are stored, or None if it is not declared."""
    return _NAMES.get(kind)


def type_stored_as(name: str) -> type[Any]:
    """Return the class whose values are stored under this name. Raises CheckpointError if the name is unknown."""
    return (_TYPES.get(name) or _declared(name)).kind


def _declared(name: str) -> _StoredType:
    if name not in MODULES:
        raise CheckpointError(
            f"the snapshot holds a '{name}', which this version of penstock does not know: it was written by a newer "
            "one"
        )
    importlib.import_module(MODULES[name])
    return _TYPES[name]
