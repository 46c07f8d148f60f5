"""Convert values that fastavro reads to Rows, on all levels of a schema.

In a union with a record and a map, or with several records, a dict does not show which of them it is. On request
fastavro returns a pair of the record's name and the record, but not if the writer's schema differs: then the fields
identify the record.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from penstock.common.types import Row, row_factory
from penstock.connectors.formats.row_values import values_getter

Reader = Callable[[Any], Any]


class RowReader:
    """Convert values that fastavro reads with the parsed `schema` and these `options` to Rows.

    `read`: None if the schema contains no record. `is_resolved`: the values may be written with another schema.
    """

    def __init__(self, schema: Any, is_resolved: bool = False) -> None:
        readers = _Readers(names_records=not is_resolved and _has_mixed_union(schema))
        self.read: Reader | None = readers.of(schema)
        self.options: dict[str, Any] = {"return_record_name": True} if readers.names_records else {}


def _has_mixed_union(schema: Any) -> bool:
    """Return whether there is a union of a record and another nested type."""
    if isinstance(schema, list):
        # Any name counts: for an enum the option is not needed, but harmless.
        nested = [branch for branch in schema if _may_be_nested(branch)]
        return len(nested) > 1 or any(map(_has_mixed_union, schema))
    if not isinstance(schema, dict):
        return False
    parts = [field["type"] for field in schema.get("fields", ())]
    return any(map(_has_mixed_union, [schema["type"], schema.get("items"), schema.get("values"), *parts]))


def _may_be_nested(branch: Any) -> bool:
    kind = branch if isinstance(branch, str) else branch["type"]
    return kind not in _SINGLE


_SINGLE = frozenset(("null", "boolean", "int", "long", "float", "double", "bytes", "string", "enum", "fixed"))


class _Readers:
    """Make the readers of a schema. `names_records`: records in unions are pairs."""

    def __init__(self, names_records: bool) -> None:
        self.names_records = names_records
        self._known: dict[str, Reader | None] = {}
        self._fields: dict[str, frozenset[str]] = {}

    def of(self, schema: Any) -> Reader | None:
        if isinstance(schema, str):
            return self._known.get(schema)
        if isinstance(schema, list):
            return self._of_union(schema)
        kind = schema["type"]
        if kind == "record":
            return self._of_record(schema)
        if kind == "array":
            return _of_array(self.of(schema["items"]))
        if kind == "map":
            return _of_map(self.of(schema["values"]))
        return None if isinstance(kind, str) else self.of(kind)

    def _of_union(self, branches: list[Any]) -> Reader | None:
        found = {_name_of(branch): self.of(branch) for branch in branches}
        readers = {name: read for name, read in found.items() if read is not None}
        if not readers:
            return None
        if len(branches) == 2 and "null" in branches and not self.names_records:
            (read,) = readers.values()
            return lambda value: read(value) if isinstance(value, (dict, list)) else value
        fields = {name: self._fields[name] for name in readers if name in self._fields}
        return _of_branches(readers, fields, self.names_records)

    def _of_record(self, schema: Any) -> Reader:
        names = [field["name"] for field in schema["fields"]]
        # A record may contain itself.
        self._known[schema["name"]] = lambda value: read(value)
        self._fields[schema["name"]] = frozenset(names)
        found = enumerate(self.of(field["type"]) for field in schema["fields"])
        readers = [(index, of_field) for index, of_field in found if of_field is not None]
        get, make = values_getter(names), row_factory(names)

        def read_fields(record: dict[str, Any]) -> Row:
            values = list(get(record))
            for index, of_field in readers:
                if values[index] is not None:
                    values[index] = of_field(values[index])
            return make(values)

        # A record needs a reader in either case, because its name may refer to it.
        read: Reader = read_fields if readers else lambda record: make(get(record))
        return read


def _name_of(branch: Any) -> str:
    """Return the full name of a record, else the name of the type."""
    if isinstance(branch, str):
        return branch
    kind = branch["type"]
    if not isinstance(kind, str):
        return _name_of(kind)
    return str(branch["name"]) if kind == "record" else kind


def _of_branches(readers: dict[str, Reader], fields: dict[str, frozenset[str]], has_names: bool) -> Reader:
    """Return a reader of a union.

    `fields`: of the records among the branches, by name. `has_names`: a dict without a name is a map.
    """
    of_array, of_map = readers.get("array"), readers.get("map")

    def of_dict(value: dict[str, Any]) -> Any:
        if not has_names:
            for name, names in fields.items():
                if names == value.keys():
                    return readers[name](value)
        return value if of_map is None else of_map(value)

    def read(value: Any) -> Any:
        if isinstance(value, tuple):
            name, record = value
            return readers[name](record)
        if isinstance(value, dict):
            return of_dict(value)
        return of_array(value) if of_array is not None and isinstance(value, list) else value

    return read


def _of_array(read: Reader | None) -> Reader | None:
    return None if read is None else lambda items: [read(item) for item in items]


def _of_map(read: Reader | None) -> Reader | None:
    return None if read is None else lambda entries: {key: read(item) for key, item in entries.items()}
