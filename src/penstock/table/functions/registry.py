"""Functions by name: what each accepts, the type of its result, and what computes it.

A module of functions has one `Family`, and registers its functions by the decorators:

- `values`: a function of Python values, computed for each distinct combination of arguments;
- `kernel`: a function of a `Call`, which has columns.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from penstock.table.functions.arrow_types import arrow_type
from penstock.table.functions.columns import Column, is_constant, per_distinct
from penstock.table.functions.errors import InvalidCallError, InvalidOptionError
from penstock.table.functions.signatures import accepts, calcite_name, has_arity
from penstock.table.logical_types import LogicalType


@dataclass(frozen=True)
class Context:
    """The environment of a call: its rows, its time, its time zone."""

    rows: int = 1
    """How many rows a function without arguments returns."""
    zone: str = "UTC"
    """The session's time zone, by Java's names: `table.local-time-zone`."""
    now_us: int = 0
    """The time of the query's start or of the record, in microseconds since the epoch, UTC."""
    watermark_ms: int | None = None
    """The operator's watermark (milliseconds since the epoch, UTC), or None before the first one."""


class Arguments(NamedTuple):
    """Arguments as the type of a result depends on them. A literal is a constant column."""

    types: Sequence[LogicalType]
    columns: Sequence[Column | None]

    def literal(self, index: int) -> Any:
        """Return the value of a literal, or None for what is not a literal or absent."""
        column = self.columns[index] if index < len(self.columns) else None
        return column.as_py() if column is not None and is_constant(column) else None

    @property
    def nullable(self) -> bool:
        """Whether any argument is nullable."""
        return any(one.nullable for one in self.types)


@dataclass(frozen=True)
class Call:
    """A call of a function on columns."""

    name: str
    columns: Sequence[Column]
    types: Sequence[LogicalType]
    result: LogicalType
    context: Context

    @property
    def arrow_type(self) -> Any:
        """The Arrow type of the result."""
        return arrow_type(self.result)

    def constant(self, index: int, default: Any = None) -> Any:
        """Return the value of a constant argument, or the default if it is absent.

        Raises InvalidCallError if the argument has several values.
        """
        if index >= len(self.columns):
            return default
        if not is_constant(self.columns[index]):
            raise InvalidCallError(f"{self.name}: expected a literal as argument {index + 1}, got a column")
        return self.columns[index].as_py()


Result = LogicalType | Callable[[Arguments], LogicalType]
Kernel = Callable[[Call], Column]


@dataclass(frozen=True)
class Function:
    """A function of SQL."""

    name: str
    signatures: tuple[str, ...]
    result: Result
    kernel: Kernel
    nullable: bool | None = None
    """Whether the result is nullable. None: if an argument is."""

    def result_type(self, arguments: Arguments) -> LogicalType:
        """Return the type of the result. Raises InvalidCallError with Flink's words."""
        types = arguments.types
        if not any(has_arity(one, len(types)) for one in self.signatures):
            shown = ", ".join(f"<{calcite_name(one)}>" for one in types)
            raise InvalidCallError(
                f"No match found for function signature {self.name}({shown}).\n"
                f"Supported signatures are:\n{self._shown()}"
            )
        if not any(accepts(one, types) for one in self.signatures):
            raise InvalidCallError(self.refusal(types))
        if isinstance(self.result, LogicalType):
            return self.result.with_nullability(arguments.nullable if self.nullable is None else self.nullable)
        try:
            result = self.result(arguments)
        except InvalidOptionError:
            raise
        except InvalidCallError as error:
            raise InvalidCallError(f"{self.refusal(types, signatures=False)}\n{error}") from None
        return result if self.nullable is None else result.with_nullability(self.nullable)

    def refusal(self, types: Sequence[LogicalType], *, signatures: bool = True) -> str:
        """Return the message for arguments of types that are not accepted."""
        text = f"Invalid function call:\n{self.name}({', '.join(map(str, types))})"
        if signatures:
            text += f"\nInvalid input arguments. Expected signatures are:\n{self._shown()}"
        return text

    def _shown(self) -> str:
        return "\n".join(f"{self.name}({one})" for one in self.signatures)


@dataclass
class Family:
    """The functions of one module."""

    functions: dict[str, Function] = field(default_factory=dict)

    def values(
        self, name: str, *signatures: str, result: Result, nullable: bool | None = None, nulls: bool = False
    ) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
        """Register a function of Python values. With `nulls` it also sees rows with NULL."""

        def register(function: Callable[..., Any]) -> Callable[..., Any]:
            def kernel(call: Call) -> Column:
                return per_distinct(function, call.columns, call.arrow_type, nulls=nulls)

            self.add(Function(name=name, signatures=signatures, result=result, kernel=kernel, nullable=nullable))
            return function

        return register

    def kernel(
        self, *names: str, signatures: Sequence[str], result: Result, nullable: bool | None = None
    ) -> Callable[[Kernel], Kernel]:
        """Register a function of columns, by one or several names."""

        def register(kernel: Kernel) -> Kernel:
            for name in names:
                self.add(
                    Function(name=name, signatures=tuple(signatures), result=result, kernel=kernel, nullable=nullable)
                )
            return kernel

        return register

    def add(self, function: Function) -> None:
        """Register a function. Raises ValueError if the name is taken."""
        if function.name in self.functions:
            raise ValueError(f"the function {function.name} is registered twice")
        self.functions[function.name] = function
