"""Parameters of statements that are arrays in PostgreSQL's binary form."""

from __future__ import annotations

from functools import cache
from typing import Any, NamedTuple

from penstock.connectors.postgres.connection import psycopg


class EncodedArray(NamedTuple):
    """A parameter in binary form, whose type the statement declares."""

    data: bytes


@cache
def array_dumper() -> type[Any]:
    """Return the dumper of EncodedArray, for the adapters of a connection."""
    package = psycopg()

    class ArrayDumper(package.adapt.Dumper):  # type: ignore[misc, name-defined]
        format = package.pq.Format.BINARY

        def dump(self, obj: EncodedArray) -> bytes:
            return obj.data

    return ArrayDumper
