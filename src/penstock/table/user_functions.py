"""The classes of users' functions of tables: what users implement, and a function with its types."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any, Self

if TYPE_CHECKING:
    from penstock.api.metrics import MetricGroup
    from penstock.table.logical_types import LogicalType


class FunctionContext:
    """The argument of `open`: facts about the task."""

    def __init__(self, runtime_context: Any) -> None:
        self._context = runtime_context

    def get_metric_group(self) -> MetricGroup:
        """Return the metrics of the operator."""
        return self._context.get_metrics_group()  # type: ignore[no-any-return]

    def get_job_parameter(self, key: str, default_value: str) -> str:
        """Return a value of the global job parameters."""
        return self._context.get_job_parameter(key, default_value)  # type: ignore[no-any-return]

    def get_task_name(self) -> str:
        """Return the name of the task."""
        return self._context.get_task_name()  # type: ignore[no-any-return]

    def get_task_name_with_subtasks(self) -> str:
        """Return the name of the task with the number of the subtask."""
        return self._context.get_task_name_with_subtasks()  # type: ignore[no-any-return]

    def get_number_of_parallel_subtasks(self) -> int:
        """Return the parallelism of the task."""
        return self._context.get_number_of_parallel_subtasks()  # type: ignore[no-any-return]

    def get_max_number_of_parallel_subtasks(self) -> int:
        """Return the number of key groups."""
        return self._context.get_max_number_of_parallel_subtasks()  # type: ignore[no-any-return]

    def get_index_of_this_subtask(self) -> int:
        """Return the number of the subtask, from 0."""
        return self._context.get_index_of_this_subtask()  # type: ignore[no-any-return]

    def get_attempt_number(self) -> int:
        """Return the number of the attempt, from 0."""
        return self._context.get_attempt_number()  # type: ignore[no-any-return]


class UserDefinedFunction:
    """Base of functions with a life cycle."""

    def open(self, function_context: FunctionContext) -> None:
        """Prepare the function. Called in each subtask before the first `eval`."""

    def close(self) -> None:
        """Release what `open` has taken. Called at the end of a subtask."""

    def is_deterministic(self) -> bool:
        """Return whether equal arguments always give equal results. Default: True."""
        return True


class ScalarFunction(UserDefinedFunction):
    """A function of the values of a row. Implement `eval`."""

    def eval(self, *args: Any) -> Any:
        """Return the result for these arguments; None is NULL."""
        raise NotImplementedError


class TableFunction(UserDefinedFunction):
    """A function whose result is any number of rows. Implement `eval`."""

    def eval(self, *args: Any) -> Iterable[Any] | None:
        """Yield rows."""
        raise NotImplementedError


class FunctionDefinition:
    """A function with its types."""

    is_table_function = False

    def __init__(self, func: Any, input_types: Any, *, deterministic: bool | None, name: str | None) -> None:
        if isinstance(func, type):
            raise TypeError(f"expected a function or an object, got the class {func.__name__}: write {func.__name__}()")
        if not isinstance(func, UserDefinedFunction) and not callable(func):
            raise TypeError(f"expected a function or an object with eval, got {func!r}")
        self.func = func
        self.name: str = name or getattr(func, "__name__", None) or type(func).__name__
        declared = func.is_deterministic() if isinstance(func, UserDefinedFunction) else None
        if deterministic is not None and declared is not None and deterministic != declared:
            raise ValueError(f"deterministic={deterministic} contradicts is_deterministic() of {self.name}: {declared}")
        self.deterministic: bool = next((one for one in (deterministic, declared) if one is not None), True)
        self.input_types = None if input_types is None else types_of(input_types)
        """Declared types of arguments, or None for any."""
        self.takes_row = False
        self.aliases: tuple[str, ...] = ()
        self.__name__ = self.name
        self.__doc__ = getattr(func, "__doc__", None)

    def alias(self, *alias_names: str) -> Self:
        """Return the function with names for the columns of its result."""
        return self._changed(aliases=alias_names)

    def taking_rows(self) -> Self:
        """Return the function as it gets whole rows. Not in PyFlink."""
        return self._changed(takes_row=True)

    def _changed(self, **attributes: Any) -> Self:
        made = type(self).__new__(type(self))
        made.__dict__.update(self.__dict__, **attributes)
        return made

    @property
    def planned_type(self) -> LogicalType:
        """The type of the result, a ROW of a table function."""
        raise NotImplementedError

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.name}>"


def types_of(declared: Any) -> tuple[LogicalType, ...]:
    """Return one type, or several. Raises TypeError or ValueError for what is not a type."""
    from penstock.table.declared_types import logical_type
    from penstock.table.types import DataType

    if isinstance(declared, (DataType, str)) or not isinstance(declared, Sequence):
        declared = [declared]
    return tuple(map(logical_type, declared))
