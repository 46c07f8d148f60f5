"""Types of SQL: reading and writing the text that plans have, and the type that several have in common."""

from __future__ import annotations

import pytest

from penstock.table.functions.common_types import common_type
from penstock.table.logical_types import TypeSyntaxError, parse


@pytest.mark.parametrize(
    "text",
    [
        "DECIMAL(10, 2) NOT NULL",
        "TIMESTAMP_LTZ(3)",
        "VARCHAR(5)",
        "ROW<`a` INT NOT NULL, `b c` MAP<STRING, ARRAY<BYTES>>> NOT NULL",
        "INTERVAL DAY(2) TO SECOND(6)",
        "STRUCTURED<'a.B', `x` TIME(0)>",
    ],
)
def test_a_type_is_written_as_it_was_read(text: str) -> None:
    """Plans name types in Flink's text; errors would show users something else."""
    assert str(parse(text)) == text


@pytest.mark.parametrize(
    ("text", "canonical"),
    [
        ("timestamp(3) with local time zone", "TIMESTAMP_LTZ(3)"),
        ("VARCHAR(2147483647)", "STRING"),
        ("INT ARRAY NOT NULL", "ARRAY<INT> NOT NULL"),
        ("ROW(a INTEGER 'the first', b NUMERIC(3))", "ROW<`a` INT, `b` DECIMAL(3, 0)>"),
        ("CHARACTER VARYING(3)", "VARCHAR(3)"),
    ],
)
def test_a_type_has_several_spellings(text: str, canonical: str) -> None:
    """A table that is declared by the standard's spelling would be refused."""
    assert str(parse(text)) == canonical


@pytest.mark.parametrize("text", ["INTEGERS", "ARRAY<INT", "DECIMAL(1,)", "INT INT", ""])
def test_what_is_no_type_is_refused(text: str) -> None:
    """A misspelt type would become another one, and rows be read wrong."""
    with pytest.raises(TypeSyntaxError, match="position"):
        parse(text)


@pytest.mark.parametrize(
    ("types", "expected"),
    [
        (["INT NOT NULL", "BIGINT"], "BIGINT"),
        (["INT", "DECIMAL(5, 2)"], "DECIMAL(12, 2)"),
        (["CHAR(3) NOT NULL", "CHAR(3) NOT NULL"], "CHAR(3) NOT NULL"),
        (["CHAR(3)", "VARCHAR(2)"], "VARCHAR(3)"),
        (["FLOAT", "DECIMAL(3, 1)"], "DOUBLE"),
        (["DATE", "TIMESTAMP(3)"], "TIMESTAMP(3)"),
        (["ROW<a INT>", "ROW<b BIGINT>"], "ROW<`a` BIGINT>"),
    ],
)
def test_types_have_a_common_one(types: list[str], expected: str) -> None:
    """The branches of a CASE of two types would not come out as one."""
    assert str(common_type([parse(one) for one in types])) == expected


def test_text_and_numbers_have_no_common_type() -> None:
    """A number would silently become text in a CASE with both."""
    assert common_type([parse("STRING"), parse("INT")]) is None
