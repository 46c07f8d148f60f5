"""What lines of CSV look like, for reading and writing them."""

from __future__ import annotations

import msgspec
import pyarrow
from pyarrow import types as arrow


class CsvForm(msgspec.Struct, frozen=True):
    """The characters of lines. `elements`: between elements of arrays and fields of rows in a field.

    `null`: the text of NULL; None: there is none, and NULL is written as an empty field. `scientific`: whether
    decimals may have exponents.
    """

    delimiter: str = ","
    quote: str | None = '"'
    escape: str | None = None
    comments: bool = False
    elements: str = ";"
    null: str | None = None
    scientific: bool = True

    @property
    def written_null(self) -> str:
        """What stands for NULL in a line."""
        return self.null or ""


def check_type(field: pyarrow.Field) -> None:
    """Raise ValueError for a column whose type CSV does not have."""
    kind = field.type
    if arrow.is_map(kind) or arrow.is_duration(kind):
        raise ValueError(f"the format csv has no values of the type {kind}, which the column {field.name} has")
    for index in range(kind.num_fields):
        check_type(kind.field(index))
