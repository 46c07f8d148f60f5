"""What `udf` and `udtf` make: functions with their types, which expressions call."""

from __future__ import annotations

from typing import Any

from penstock.table.expression import Expression
from penstock.table.expressions import call
from penstock.table.logical_types import LogicalType, row_of
from penstock.table.user_functions import FunctionDefinition, types_of


class UserDefinedFunctionWrapper(FunctionDefinition):
    """A function that is an expression when it is called with expressions."""

    def __call__(self, *args: Any) -> Expression:
        """Return the call with these arguments: expressions, or values."""
        return call(self, *args)


class UserDefinedScalarFunctionWrapper(UserDefinedFunctionWrapper):
    """What `udf` makes."""

    def __init__(
        self, func: Any, input_types: Any, result_type: Any, *, func_type: str, deterministic: bool | None, name: Any
    ) -> None:
        super().__init__(func, input_types, deterministic=deterministic, name=name)
        if result_type is None:
            raise ValueError(f"the function {self.name} needs a result_type, such as DataTypes.BIGINT() or 'BIGINT'")
        (self.result_type,) = types_of([result_type])
        self.func_type = func_type

    @property
    def planned_type(self) -> LogicalType:
        """The type of the result."""
        return self.result_type


class UserDefinedTableFunctionWrapper(UserDefinedFunctionWrapper):
    """What `udtf` makes."""

    is_table_function = True

    def __init__(
        self, func: Any, input_types: Any, result_types: Any, *, deterministic: bool | None, name: Any
    ) -> None:
        super().__init__(func, input_types, deterministic=deterministic, name=name)
        if result_types is None:
            raise ValueError(f"the table function {self.name} needs result_types, such as [DataTypes.STRING()]")
        types = types_of(result_types)
        if len(types) == 1 and types[0].root == "ROW" and not isinstance(result_types, (list, tuple)):
            self.result_type = types[0]
        else:
            self.result_type = row_of(**{f"f{place}": one for place, one in enumerate(types)})

    @property
    def planned_type(self) -> LogicalType:
        """The type of the result."""
        return self.result_type
