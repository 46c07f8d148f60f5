"""Convert values for fastavro by a schema: records become dicts on all levels, by name or by position.

A Row without field names, a Row with generated names (f0, f1 …), a list and a tuple are records by position. Source:
Flink's AvroRowSerializationSchema, which takes the fields of all rows by position.
"""

from __future__ import annotations

import contextlib
from collections.abc import Collection, Mapping, Sequence
from typing import Any

from penstock.common.types import Row
from penstock.connectors.formats.avro_defaults import default_of, named_types
from penstock.connectors.formats.avro_singles import PRIMITIVE, Make, single_maker
from penstock.connectors.formats.avro_unions import RecordBranch, is_unnamed, of_entries, of_items, union_maker

_RECORDS = ("record", "error")


def maker_of(schema: Any, logical_readers: Any) -> Make:
    """Return the converter of values of a schema that fastavro has parsed.

    It raises ValueError for a record of another length. `logical_readers`: fastavro's functions that make values of
    logical types, also for defaults.
    """
    return _Makers(named_types(schema), logical_readers).of(schema) or (lambda value: value)


class _Makers:
    """The converters of one schema. Records are stored by their full names, because a record may contain itself."""

    def __init__(self, named: dict[str, Any], logical_readers: Any) -> None:
        self._records: dict[str, RecordBranch] = {}
        self._named = named
        self._logical_readers = logical_readers

    def of(self, schema: Any) -> Make | None:
        """Return the converter of a type, or None if values need no conversion."""
        if isinstance(schema, str):
            record = self._records.get(schema)
            return PRIMITIVE.get(schema) if record is None else record.make
        if isinstance(schema, list):
            return self._of_union(schema)
        kind = schema["type"]
        if kind in _RECORDS:
            return self._of_record(schema).make
        if kind == "array":
            return of_items(self.of(schema["items"]))
        if kind == "map":
            return of_entries(self.of(schema["values"]))
        return single_maker(kind, schema.get("logicalType")) if isinstance(kind, str) else self.of(kind)

    def _of_union(self, branches: list[Any]) -> Make:
        records: list[RecordBranch] = []
        parts: dict[str, Make | None] = {"array": None, "map": None}
        for branch in map(_without_type, branches):
            if isinstance(branch, str):
                if branch in self._records:
                    records.append(self._records[branch])
            elif branch["type"] in _RECORDS:
                records.append(self._of_record(branch))
            elif branch["type"] in parts:
                parts[branch["type"]] = self.of(branch)
        return union_maker(branches, records, parts["array"], parts["map"])

    def _of_record(self, schema: Any) -> RecordBranch:
        names = [field["name"] for field in schema["fields"]]
        branch = RecordBranch(schema["name"], frozenset(names), lambda value: make(value))
        self._records[branch.name] = branch
        makers = {field["name"]: self.of(field["type"]) for field in schema["fields"]}
        defaults = self._defaults(schema)

        def make(value: Any) -> Any:
            fields = _fields(value, names)
            if fields is None:
                return value
            if defaults and len(fields) < len(names):
                fields = {**defaults, **fields}
            return {
                name: field if (of_field := makers.get(name)) is None else of_field(field)
                for name, field in fields.items()
            }

        return branch

    def _defaults(self, schema: Any) -> dict[str, Any]:
        """Return the defaults of a record's fields as values. fastavro would write the JSON, or fail."""
        found = {}
        for field in schema["fields"]:
            if "default" in field:
                # fastavro refuses a default of a wrong type if it is needed.
                with contextlib.suppress(ValueError):
                    found[field["name"]] = default_of(field, self._named, self._logical_readers)
        return found


def _without_type(branch: Any) -> Any:
    """Return the inner type of a branch such as `{"type": {"type": "record", …}}`."""
    while isinstance(branch, dict) and isinstance(branch["type"], (dict, list)):
        branch = branch["type"]
    return branch


def _fields(value: Any, names: list[str]) -> Mapping[str, Any] | None:
    """Return the fields of a record by name, or None if it is not a record."""
    if isinstance(value, Mapping):
        # A missing field has its default. If the value also has an unknown name, that name is probably misspelled.
        if not value.keys() >= set(names) and (unknown := [name for name in value if name not in names]):
            raise ValueError(_no_field(value, names, value, unknown))
        return value
    if not isinstance(value, (Row, tuple, list)):
        return None
    field_names = getattr(value, "_fields", None)
    if field_names is not None and not is_unnamed(field_names):
        if not set(field_names) >= set(names):
            raise ValueError(_no_field(value, names, field_names, field_names))
        return dict(zip(field_names, value, strict=True))
    if len(value) != len(names):
        raise ValueError(f"{value!r:.200} has {len(value)} values, expected {len(names)}: {', '.join(names)}")
    return dict(zip(names, value, strict=True))


def _no_field(value: Any, names: list[str], available: Collection[str], found: Sequence[str]) -> str:
    missing = ", ".join(name for name in names if name not in available)
    return f"{value!r:.200} lacks {missing}: expected the fields {', '.join(names)}, got {', '.join(found)}"
