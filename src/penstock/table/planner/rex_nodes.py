"""Expressions of plans, by the names of Calcite: references to columns, literals, calls.

Frozen and comparable, so that equal subtrees can be found and computed once.
"""

from __future__ import annotations

import re

from msgspec import Struct, field

from penstock.table.planner.data_types import DataType

JsonValue = bool | int | float | str | None
"""How JSON has a value: numbers and booleans as such, decimals, times and others as text."""

_INTERNAL_NAME = re.compile(r"\$(.+)\$(\d+)")


class RexNode(Struct, frozen=True, kw_only=True, tag_field="kind", rename="camel", forbid_unknown_fields=True):
    """An expression."""


class RexInputRef(RexNode, frozen=True, kw_only=True, tag="INPUT_REF"):
    """A column of the input. With two inputs, the columns of the second follow those of the first."""

    index: int = field(name="inputIndex")
    type: DataType


class SargBound(Struct, frozen=True, rename="camel", forbid_unknown_fields=True):
    """An end of a range: its value as a literal has it, CLOSED if the value belongs to the range, else OPEN."""

    value: JsonValue
    bound_type: str


class SargRange(Struct, frozen=True, forbid_unknown_fields=True):
    """A range; None: no bound on that side."""

    lower: SargBound | None = None
    upper: SargBound | None = None


class Sarg(Struct, frozen=True, rename="camel", forbid_unknown_fields=True):
    """A set of values: the search argument of `SEARCH`, for IN, BETWEEN and comparisons with literals."""

    ranges: tuple[SargRange, ...]
    null_as: str | None = None
    """What NULL gives: TRUE, FALSE or UNKNOWN. None: UNKNOWN."""


class RexLiteral(RexNode, frozen=True, kw_only=True, tag="LITERAL"):
    """A value of the query: as JSON has it, as a name of an enumeration (`symbol`), or as a set of values."""

    value: JsonValue = None
    sarg: Sarg | None = None
    symbol: str | None = None
    type: DataType


class RexFieldAccess(RexNode, frozen=True, kw_only=True, tag="FIELD_ACCESS"):
    """A field of a row."""

    name: str
    expr: AnyRexNode


class RexCorrelVariable(RexNode, frozen=True, kw_only=True, tag="CORREL_VARIABLE"):
    """The row of the left side, in the function call of a lateral join."""

    correl: str
    type: DataType


class PatternFieldRef(RexNode, frozen=True, kw_only=True, tag="PATTERN_INPUT_REF"):
    """A column of the rows that a variable of MATCH_RECOGNIZE has matched; the variable `*`: any row of the match."""

    alpha: str
    """The variable."""
    index: int = field(name="inputIndex")
    type: DataType


class RexCall(RexNode, frozen=True, kw_only=True, tag="CALL"):
    """A call of a function: of Flink's, by `internal_name`, of the catalog, or of the system."""

    operands: tuple[AnyRexNode, ...] = ()
    type: DataType
    internal_name: str | None = None
    catalog_name: str | None = None
    system_name: str | None = None
    sql_kind: str | None = None
    syntax: str = "FUNCTION"

    @property
    def name(self) -> str:
        """The name by which `table.functions` has the function, or the name of a user's function."""
        if self.internal_name is not None:
            match = _INTERNAL_NAME.fullmatch(self.internal_name)
            return match[1] if match else self.internal_name
        return self.catalog_name or self.system_name or self.sql_kind or ""

    @property
    def is_built_in(self) -> bool:
        """Whether the function is one of Flink's."""
        return self.internal_name is not None


AnyRexNode = RexInputRef | RexLiteral | RexFieldAccess | RexCorrelVariable | PatternFieldRef | RexCall
