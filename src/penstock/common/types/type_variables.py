"""Type variables of what sources, formats and schemas yield, for type checkers.

A class that does not name its type has the default, so that `class MySchema(DeserializationSchema)` checks with
`--strict`, too. Python has defaults of type variables from 3.13 on; a type checker knows them from `typing_extensions`,
which is not imported at run time.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from typing_extensions import TypeVar

    from penstock.common.types import Row

    Record = TypeVar("Record", default=Any)
    RowRecord = TypeVar("RowRecord", default=Row)
else:
    from typing import TypeVar

    Record = TypeVar("Record")
    RowRecord = TypeVar("RowRecord")

Other = TypeVar("Other")
"""The type that a method gives a builder, in place of its own."""
