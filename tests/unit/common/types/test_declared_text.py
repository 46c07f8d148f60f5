"""The text of values of declared types: what PyFlink's `print` and files show."""

from __future__ import annotations

import datetime
import pickle
from decimal import Decimal
from typing import Any

import pytest

from penstock.common import Encoder, Instant, Row, RowKind, Types
from penstock.common.typeinfo import TypeInformation
from penstock.common.types.declared_text import text_in_files, text_in_print
from penstock.datastream.arguments import described

ROW = Types.ROW_NAMED(["a", "b"], [Types.STRING(), Types.BOOLEAN()])


@pytest.mark.parametrize(
    ("type_info", "value", "text"),
    [
        (Types.STRING(), "hi", "hi"),
        (Types.INT(), None, "null"),
        (Types.BOOLEAN(), True, "true"),
        (Types.DOUBLE(), 2.0, "2.0"),
        (Types.DOUBLE(), 0.1, "0.1"),
        (Types.DOUBLE(), 12345678.9, "1.23456789E7"),
        (Types.DOUBLE(), 1e7, "1.0E7"),
        (Types.DOUBLE(), -0.0001, "-1.0E-4"),
        (Types.DOUBLE(), 0.0, "0.0"),
        (Types.DOUBLE(), float("nan"), "NaN"),
        (Types.DOUBLE(), float("-inf"), "-Infinity"),
        (Types.FLOAT(), 0.10000000149011612, "0.1"),
        (Types.FLOAT(), 16777216.0, "1.6777216E7"),
        (Types.BIG_DEC(), Decimal("1.50"), "1.50"),
        (Types.SQL_DATE(), datetime.date(2020, 1, 2), "2020-01-02"),
        (Types.SQL_TIME(), datetime.time(1, 2, 3), "01:02:03"),
        (Types.SQL_TIMESTAMP(), datetime.datetime(2020, 1, 2, 3, 4, 5), "2020-01-02 03:04:05.0"),
        (Types.SQL_TIMESTAMP(), datetime.datetime(2020, 1, 2, 3, 4, 5, 678000), "2020-01-02 03:04:05.678"),
        (Types.INSTANT(), Instant(1, 500_000_000), "1970-01-01T00:00:01.5Z"),
        (Types.TUPLE([Types.STRING(), Types.INT(), Types.BOOLEAN()]), ("hi", 0, None), "(hi,0,null)"),
        (Types.TUPLE([ROW]), (Row(a="x", b=True),), "(+I[x, true])"),
        (Types.LIST(Types.INT()), [1, 2], "[1, 2]"),
        (Types.MAP(Types.STRING(), Types.DOUBLE()), {"a": 1.0, "b": None}, "{a=1.0, b=null}"),
        (Types.PICKLED_BYTE_ARRAY(), ("hi", True), "('hi', True)"),
        (None, ("hi", None), "('hi', None)"),
    ],
    ids=str,
)
def test_text_is_that_of_java(type_info: TypeInformation | None, value: Any, text: str) -> None:
    """A PyFlink program would print something else, and files be read by nothing that reads Flink's."""
    assert text_in_files(type_info)(value) == text == text_in_print(type_info)(value)


def test_rows_are_printed_by_pyflink_and_written_by_java() -> None:
    """Of the two forms each would be in the other's place."""
    row = Row.of_kind(RowKind.DELETE, "x", True)
    assert text_in_print(ROW)(row) == "-D[x,True]"
    assert text_in_files(ROW)(row) == "-D[x, true]"


def test_types_of_hints_leave_the_text_as_it_is() -> None:
    """Who adds type hints to a function would change what the program prints."""
    known = described(Types.TUPLE([Types.STRING()]))
    assert text_in_print(known)(("a",)) == text_in_files(known)(("a",)) == "('a',)"


def test_rows_of_a_source_are_shown_as_rows_of_their_type() -> None:
    """A PyFlink program that reads Kafka by a JSON or CSV schema would print `Row(a='x', b=True)`."""
    of_source, row = described(ROW), Row(a="x", b=True)
    assert text_in_print(of_source)(row) == "+I[x,True]"
    assert text_in_files(of_source)(row) == "+I[x, true]"
    for text_of in (text_in_print(of_source), text_in_files(of_source)):
        assert text_of({"a": "x"}) == "{'a': 'x'}", "what a source of somebody's gives in the place of a row"


def test_an_encoder_of_text_writes_that_of_the_type() -> None:
    """Files of a typed stream would have Python's text, and an encoder not arrive in a worker."""
    plain = Encoder.simple_string_encoder()
    typed = plain.for_type(Types.TUPLE([Types.STRING(), Types.INT()]))
    for encoder in (typed, pickle.loads(pickle.dumps(typed))):
        assert encoder.encode(("hi", 0)) == b"(hi,0)\n"
    assert plain.encode(("hi", 0)) == b"('hi', 0)\n"
