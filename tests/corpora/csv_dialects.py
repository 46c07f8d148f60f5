"""Files of CSV in the dialect that DuckDB finds in each: read by it and by penstock, all values as texts."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

from tests.corpora.case import NotComparedError, records
from tests.corpora.duckdb_reference import connection

from penstock.datastream.connectors.file_system import StreamFormat

_NONE = ("", "\0", "(empty)")


class _Dialect(NamedTuple):
    delimiter: str
    quote: str
    escape: str
    comment: str
    skipped: int
    has_header: bool
    names: list[str]


def sniffed(path: Path) -> tuple[Callable[[], Any], Callable[[], Any]]:
    """What reads a file by penstock, and by DuckDB."""
    found: list[_Dialect] = []

    def dialect() -> _Dialect:
        if not found:
            found.append(_sniff(path))
        return found[0]

    return lambda: _ours(path, dialect()), lambda: _reference(path, dialect())


def _sniff(path: Path) -> _Dialect:
    with connection() as database:
        try:
            row = database.execute(
                'SELECT "Delimiter", "Quote", "Escape", "Comment", "SkipRows", "HasHeader", "Columns" '
                "FROM sniff_csv(?, sample_size = -1, all_varchar = true, max_line_size = 10000000)",
                [str(path)],
            ).fetchone()
        except Exception as error:
            raise NotComparedError(f"DuckDB finds no dialect: {str(error)[:200]}") from None
    assert row is not None
    delimiter, quote, escape, comment, skipped, has_header, columns = row
    names = [column["name"] for column in columns]
    return _Dialect(
        delimiter, *("" if one in _NONE else one for one in (quote, escape, comment)), skipped, has_header, names
    )


def _ours(path: Path, dialect: _Dialect) -> list[list[str]]:
    if dialect.skipped or len(dialect.delimiter) != 1 or dialect.comment not in ("", "#"):
        raise NotComparedError(f"{dialect._replace(names=[])}")
    file_format = StreamFormat.csv_format(
        [f"column{place}" for place in range(len(dialect.names))],
        header=False,
        skip_first_data_row=dialect.has_header,
        delimiter=dialect.delimiter,
        quote_char=dialect.quote or None,
        escape_char=dialect.escape if dialect.escape != dialect.quote and dialect.escape else None,
        comments=dialect.comment == "#",
    )
    return _without_empty([list(record.values()) for record in records(file_format, path)])


def _without_empty(rows: list[list[str]]) -> list[list[str]]:
    """Without rows of one empty field: an empty line is such a row for DuckDB, and no record for penstock."""
    return [row for row in rows if row != [""]]


def _reference(path: Path, dialect: _Dialect) -> list[list[str]]:
    columns = ", ".join(f"'column{place}': 'VARCHAR'" for place in range(len(dialect.names)))
    options = {
        "delim": dialect.delimiter, "quote": dialect.quote, "escape": dialect.escape, "comment": dialect.comment
    }  # fmt: skip
    settings = ", ".join(f"{name} = '{value.replace(chr(39), chr(39) * 2)}'" for name, value in options.items())
    with connection() as database:
        rows = database.execute(
            f"SELECT * FROM read_csv(?, auto_detect = false, columns = {{{columns}}}, header = {dialect.has_header}, "
            f"{settings}, max_line_size = 10000000, strict_mode = true, parallel = false, "
            "hive_partitioning = false)",
            [str(path)],
        ).fetchall()
    # An empty text and NULL are one in a file of CSV.
    return _without_empty([["" if value is None else value for value in row] for row in rows])
