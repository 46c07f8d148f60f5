"""`FunctionCatalog`: the functions of a program that SQL calls, by the names that plans have."""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from typing import TYPE_CHECKING, Any, NamedTuple

from penstock.table.composing.sql_text import path_parts, quoted
from penstock.table.operators.rows.python_calls import PythonCall
from penstock.table.planner.errors import SqlError
from penstock.table.user_functions import FunctionDefinition

if TYPE_CHECKING:
    from penstock.table.planner.function_statements import DescribeFunction, FunctionStatement
    from penstock.table.planner.planner import Planner


class _Known(NamedTuple):
    function: FunctionDefinition
    is_temporary: bool


class FunctionCatalog:
    """Registers functions with the planner. `planner`: returns it, and starts it if it does not run."""

    def __init__(self, planner: Callable[[], Planner], current: Callable[[], tuple[str, str]]) -> None:
        self._planner = planner
        self._current = current
        self.calls: dict[str, PythonCall] = {}
        """By the names of plans, in lower case."""
        self._known: dict[str, _Known] = {}
        """Functions that were created, as in `calls`."""
        self._inline: dict[tuple[Any, ...], str] = {}
        self._pending: list[Callable[[Planner], None]] = []
        self._kept: list[FunctionDefinition] = []

    def execute(self, statement: FunctionStatement) -> bool:
        """Execute a statement about functions. False: it is about none of these, and the planner's. Raises SqlError."""
        path, is_system = statement.path, statement.is_system
        is_known = self._key(path, is_system) in self.calls
        if statement.verb == "DROP":
            return is_known and self.drop(path, is_system=is_system)
        if statement.verb == "ALTER":
            if statement.is_temporary:
                kind = "system" if is_system else "catalog"
                raise SqlError(f"Alter temporary {kind} function is not supported. Drop it, and create it again")
            if not is_known and not statement.has_if:
                raise SqlError(f"Function {path} does not exist")
        if statement.verb == "CREATE" or is_known:
            self.create(
                path,
                function_at(statement.target),
                is_system=is_system,
                is_temporary=statement.is_temporary,
                ignore_if_exists=statement.verb == "CREATE" and statement.has_if,
                replace=statement.replaces or statement.verb == "ALTER",
            )
        return True

    def describe(self, statement: DescribeFunction) -> list[tuple[str, str]]:
        """Return what DESCRIBE FUNCTION says of a function, by Flink's names; nothing for other functions."""
        keys = [(is_system, self._key(statement.path, is_system)) for is_system in (True, False)]
        found = next(((is_system, self._known[key]) for is_system, key in keys if key in self._known), None)
        if found is None:
            return []
        is_system, one = found
        rows = [
            ("is system function", str(is_system).lower()),
            ("is temporary", str(one.is_temporary).lower()),
            ("class name", f"{one.function.func.__module__}.{one.function.name}"),
            ("function language", "PYTHON"),
        ]
        if statement.is_extended:
            types = one.function.input_types
            taken = "..." if types is None else ", ".join(map(str, types))
            rows += [
                ("kind", "TABLE" if one.function.is_table_function else "SCALAR"),
                ("is deterministic", str(one.function.deterministic).lower()),
                ("signature", f"{path_parts(statement.path)[-1]}({taken})"),
            ]
        return rows

    def create(
        self,
        path: str,
        function: Any,
        *,
        is_system: bool,
        is_temporary: bool = True,
        ignore_if_exists: bool = False,
        replace: bool = False,
    ) -> None:
        """Make a function known. Raises SqlError if there is one, TypeError for what is not a function."""
        wrapper = _checked(function)
        key = self._key(path, is_system)
        if key in self.calls and replace:
            self.drop(path, is_system=is_system)
        elif key in self.calls and ignore_if_exists:
            return
        # Names of the system are not paths.
        self._register(self._planner(), path_parts(path)[-1] if is_system else path, wrapper, is_system=is_system)
        self.calls[key] = _call(wrapper, path_parts(path)[-1], None)
        self._known[key] = _Known(wrapper, is_temporary)

    def drop(self, path: str, *, is_system: bool) -> bool:
        """Forget a function. Return whether there was one."""
        key = self._key(path, is_system)
        found = self.calls.pop(key, None) is not None
        self._known.pop(key, None)
        name = ".".join(map(quoted, path_parts(path)))
        self._planner().execute(f"DROP TEMPORARY {'SYSTEM ' if is_system else ''}FUNCTION IF EXISTS {name}")
        return found

    def inline(self, function: FunctionDefinition, row_names: tuple[str, ...] | None) -> str:
        """Return the quoted name of a function that an expression calls, which the planner learns before it plans.

        `row_names`: the columns, for a function that gets rows.
        """
        key = (id(function.func), str(function.planned_type), function.deterministic, row_names)
        if key not in self._inline:
            # Flink's own functions keep their names.
            name = f"{function.name}${len(self._inline) + 1}"
            self._inline[key] = name
            self._kept.append(function)
            self.calls[name.lower()] = _call(function, function.name, row_names)
            self._pending.append(lambda planner: self._register(planner, name, function, is_system=True))
        return quoted(self._inline[key])

    def flush(self, planner: Planner) -> None:
        """Register what expressions call."""
        while self._pending:
            self._pending[0](planner)
            self._pending.pop(0)

    def _register(self, planner: Planner, name: str, function: FunctionDefinition, *, is_system: bool) -> None:
        planner.create_function(
            name,
            None if function.takes_row else function.input_types,
            function.planned_type,
            deterministic=function.deterministic,
            is_table_function=function.is_table_function,
            is_system=is_system,
        )

    def _key(self, path: str, is_system: bool) -> str:
        parts = path_parts(path)
        if is_system:
            return parts[-1].lower()
        catalog, database = self._current()
        full = [catalog, database][: 3 - len(parts)] + parts
        return ".".join(quoted(part) for part in [*full[:-1], full[-1].lower()]).lower()


def function_at(target: str) -> FunctionDefinition:
    """Return the function that `CREATE FUNCTION ... AS 'module.name' LANGUAGE PYTHON` names. Raises SqlError."""
    module, _, name = target.rpartition(".")
    if not module:
        raise SqlError(f"expected AS 'module.name', got {target!r}")
    try:
        found = getattr(import_module(module), name)
    except (ImportError, AttributeError) as error:
        raise SqlError(f"the function {target!r} can't be imported: {error}") from None
    if not isinstance(found, FunctionDefinition):
        raise SqlError(
            f"{target!r} has no types: decorate the function with @udf(result_type=...) or @udtf(result_types=...)"
        )
    return found


def _checked(function: Any) -> FunctionDefinition:
    if isinstance(function, FunctionDefinition):
        return function
    raise TypeError(f"expected a function made by udf or udtf, got {function!r}: its types have to be declared")


def _call(function: FunctionDefinition, name: str, row_names: tuple[str, ...] | None) -> PythonCall:
    return PythonCall(
        name,
        function.func,
        kind=getattr(function, "func_type", "general"),
        deterministic=function.deterministic,
        row_names=row_names,
    )
