"""Check whether data of one Avro schema can be read with another. Source: Avro specification, "Schema Resolution"."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from penstock.connectors.formats.avro_schema import fastavro

_WIDER = {
    "int": {"long", "float", "double"},
    "long": {"float", "double"},
    "float": {"double"},
    "string": {"bytes"},
    "bytes": {"string"},
}
_LEVELS = {"NONE": (False, False), "BACKWARD": (True, False), "FORWARD": (False, True), "FULL": (True, True)}
"""Level -> whether the new schema must read data of the old one, and the old one data of the new."""
LEVELS = frozenset(_LEVELS)


def incompatibilities(level: str, new: Any, old: Any, references: Mapping[str, Any]) -> list[str]:
    """Return the objections of a level of compatibility to a schema that follows an old one; [] if none."""
    new_reads_old, old_reads_new = _LEVELS[level]
    found = _unreadable(new, old, references) if new_reads_old else []
    return found + (_unreadable(old, new, references) if old_reads_new else [])


def _unreadable(reader: Any, writer: Any, references: Mapping[str, Any]) -> list[str]:
    of_reader, of_writer = dict(references), dict(references)
    package = fastavro()
    parsed = package.parse_schema(reader, of_reader), package.parse_schema(writer, of_writer)
    return _Resolution(of_reader, of_writer).faults(*parsed, "/")


class _Resolution:
    def __init__(self, of_reader: Mapping[str, Any], of_writer: Mapping[str, Any]) -> None:
        """`of_reader`, `of_writer`: the named types of both schemas."""
        self._of_reader = of_reader
        self._of_writer = of_writer
        self._seen: set[tuple[str, str]] = set()

    def faults(self, reader: Any, writer: Any, at: str) -> list[str]:
        reader, writer = _plain(reader, self._of_reader), _plain(writer, self._of_writer)
        if isinstance(writer, list):
            return [fault for branch in writer for fault in self.faults(reader, branch, at)]
        if isinstance(reader, list):
            if any(not self.faults(branch, writer, at) for branch in reader):
                return []
            return [f"no type of the union at {at} reads {_kind(writer)}"]
        kinds = _kind(reader), _kind(writer)
        if kinds[0] != kinds[1]:
            wider = _WIDER.get(kinds[1], set())
            return [] if kinds[0] in wider else [f"{kinds[0]} at {at} does not read {kinds[1]}"]
        if kinds[0] == "array":
            return self.faults(reader["items"], writer["items"], f"{at}items/")
        if kinds[0] == "map":
            return self.faults(reader["values"], writer["values"], f"{at}values/")
        if kinds[0] in ("record", "error", "enum", "fixed"):
            return self._of_names(reader, writer, at)
        return []

    def _of_names(self, reader: Any, writer: Any, at: str) -> list[str]:
        names = reader["name"], writer["name"]
        known_as = {_bare(names[0]), *map(_bare, reader.get("aliases", ()))}
        if _bare(names[1]) not in known_as:
            return [f"{names[0]} at {at} is not an alias of {names[1]}"]
        if reader["type"] == "fixed":
            return [] if reader["size"] == writer["size"] else [f"the size of {names[0]} at {at} differs"]
        if reader["type"] == "enum":
            missing = [symbol for symbol in writer["symbols"] if symbol not in reader["symbols"]]
            return [f"{names[0]} at {at} lacks {missing}"] if missing and "default" not in reader else []
        if names in self._seen:
            return []
        self._seen.add(names)
        written = {field["name"]: field for field in writer["fields"]}
        found: list[str] = []
        for field in reader["fields"]:
            name = field["name"]
            of_writer = next((written[one] for one in (name, *field.get("aliases", ())) if one in written), None)
            if of_writer is not None:
                found += self.faults(field["type"], of_writer["type"], f"{at}{name}/")
            elif "default" not in field:
                found.append(f"the field {at}{name} has no default, and is missing in the other schema")
        return found


def _plain(schema: Any, named: Mapping[str, Any]) -> Any:
    """Return the schema with named types replaced by their definitions."""
    while True:
        if isinstance(schema, str) and schema in named:
            schema = named[schema]
        elif isinstance(schema, dict) and isinstance(schema["type"], (dict, list)):
            schema = schema["type"]
        else:
            return schema


def _kind(schema: Any) -> str:
    kind: str = schema["type"] if isinstance(schema, dict) else schema
    return kind


def _bare(name: str) -> str:
    return name.rpartition(".")[2]
