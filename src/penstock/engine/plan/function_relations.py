"""Functions that DataFrames call on their columns: one by one, or for the rows of each key (`relations.py`).

The operators of such functions run inside Spark's own Python workers, on batches, without a task: see
`runtime/columns/detached_chain.py`. What they need of a task decides which ones do not:

* `open`, `initialize_state` and side outputs belong to a task, and so do metrics.
* Batches have the values of columns, so types are those that Spark exchanges with Python without a loss.
* Results of functions of rows are of a declared type, to which they are converted where they leave a chain, too; those
  of a `reduce` are of the type of its records.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from penstock.common.typeinfo import RowTypeInfo
from penstock.engine.plan.relations import COMPARED, KEYS, passes_partitions, reason_of_fields
from penstock.engine.plan.transformations import Relation
from penstock.engine.runtime.operators.group_calls import REDUCE
from penstock.engine.runtime.operators.operator import Operator


@dataclass(frozen=True)
class Called(Relation):
    """The results of functions, which `operator` calls."""

    operator: Operator

    calls = True

    def reason_for_operators(self) -> str | None:
        """Return what of a task it needs, or which column Spark does not exchange with Python."""
        if self.operator.captured is None:
            return "its function cannot be pickled"
        if any(place.function.has_life_cycle for place in self.operator.function_places()):
            return "its function has a life cycle"
        return next(filter(None, map(reason_of_columns, (self.received, self.given))), None)

    @property
    def received(self) -> Any:
        """The type of the rows that it gets."""
        return self.inputs[0].output_type

    @property
    def given(self) -> Any:
        """The type of its results."""
        raise NotImplementedError


@dataclass(frozen=True)
class ColumnFunction(Called):
    """The results of a function of batches."""

    is_work = False
    keeps_order = True

    @property
    def given(self) -> Any:
        """The type of its results."""
        columns = self.operator.columns_given
        return None if columns is None else columns.row_type

    @property
    def has_partitions(self) -> bool:
        """Whether its input has them."""
        return passes_partitions(self)


@dataclass(frozen=True)
class GroupFunction(Called):
    """The results of a function of the rows of each key. `ends`: it is called at the end, after which there is no time.

    `how`: what the function is for the rows of a key, see `GroupOperator`.
    """

    how: str
    key_fields: tuple[str, ...]
    given_type: Any
    ends: bool

    depends_on_order = True

    @property
    def given(self) -> Any:
        """The type of its results."""
        return self.given_type

    def reason_for_operators(self) -> str | None:
        """Return what is wrong with the key, or with the function."""
        reason = reason_of_fields(self.received, self.key_fields, KEYS)
        if reason is None and self.how != REDUCE and not getattr(self.given, "applies", False):
            reason = "its results have no declared type"
        return reason or super().reason_for_operators()

    def is_timed(self, are_timed: Sequence[bool]) -> bool:
        """Return whether its results come with the end of time."""
        return self.ends or are_timed[0]


def reason_of_columns(row_type: Any) -> str | None:
    """Return which column of rows of this type Spark does not exchange with Python without a loss; None if none."""
    if not isinstance(row_type, RowTypeInfo) or row_type.record_class is not None:
        return "its rows have no declared type"
    return reason_of_fields(row_type, row_type.get_field_names(), COMPARED, of="its column")
