"""Which schemas may follow each other in the registry that programs are tried with."""

from __future__ import annotations

import io
import re
from typing import Any

import pytest

fastavro = pytest.importorskip("fastavro")

from penstock.testing.schema_registry.compatibility import incompatibilities  # noqa: E402


def record(*fields: Any, name: str = "R", **more: Any) -> dict[str, Any]:
    return {"type": "record", "name": name, "fields": list(fields), **more}


def field(name: str, kind: Any, **more: Any) -> dict[str, Any]:
    return {"name": name, "type": kind, **more}


A, B = field("a", "int"), field("b", "string", default="")
SYMBOLS = {"type": "enum", "name": "E", "symbols": ["X"]}
LIST = record(field("next", ["null", "R"]))
CASES = [
    # reader, writer, what the one has against the other
    (record(A), record(A, B), None),
    (record(A, B), record(A), None),
    (record(A, field("c", "int")), record(A), "the field /c has no default"),
    (record(field("a", "double")), record(A), None),
    (record(field("a", "int")), record(field("a", "long")), "int at /a/ does not read long"),
    (record(field("x", "int", aliases=["a"])), record(A), None),
    (record(A, name="new.Name", aliases=["R"]), record(A), None),
    (record(A, name="S"), record(A), "S at / is not an alias of R"),
    (["null", "long"], "int", None),
    (["null", "boolean"], "int", "no type of the union at / reads int"),
    ("int", ["null", "int"], "int at / does not read null"),
    ({"type": "array", "items": "long"}, {"type": "array", "items": "int"}, None),
    ({"type": "map", "values": "int"}, {"type": "map", "values": "string"}, "int at /values/ does not read string"),
    (SYMBOLS, {**SYMBOLS, "symbols": ["X", "Y"]}, r"E at / lacks \['Y'\]"),
    ({**SYMBOLS, "default": "X"}, {**SYMBOLS, "symbols": ["X", "Y"]}, None),
    ({"type": "fixed", "name": "F", "size": 2}, {"type": "fixed", "name": "F", "size": 3}, "the size of F"),
    (LIST, LIST, None),
    ({"type": "long", "logicalType": "timestamp-millis"}, "int", None),
]


@pytest.mark.parametrize(("reader", "writer", "told"), CASES)
def test_what_a_schema_has_against_another(reader: Any, writer: Any, told: str | None) -> None:
    """A program would be tried with a registry that lets pass what the real one refuses."""
    found = incompatibilities("BACKWARD", reader, writer, {})
    assert found == incompatibilities("FORWARD", writer, reader, {})
    assert incompatibilities("NONE", reader, writer, {}) == []
    if told is None:
        assert found == []
    else:
        assert len(found) == 1 and re.search(told, found[0])
        assert set(found) <= set(incompatibilities("FULL", reader, writer, {}))


@pytest.mark.parametrize(
    ("reader", "writer", "told", "written"),
    [
        (*CASES[2], {"a": 1}),
        (*CASES[4], {"a": 1}),
        (*CASES[1], {"a": 1}),
        (*CASES[3], {"a": 1}),
        (*CASES[8], 3),
        (*CASES[13], "Y"),
    ],
)
def test_the_reader_of_messages_is_of_the_same_opinion(
    reader: Any, writer: Any, told: str | None, written: Any
) -> None:
    """The registry would refuse what can be read, or let pass what can't."""
    stream = io.BytesIO()
    fastavro.schemaless_writer(stream, fastavro.parse_schema(writer), written)
    stream.seek(0)
    try:
        fastavro.schemaless_reader(stream, fastavro.parse_schema(writer), fastavro.parse_schema(reader))
        assert told is None
    except fastavro.read.SchemaResolutionError:
        assert told is not None
