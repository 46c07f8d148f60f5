"""Adapters from simple functions to process functions, for functions with keyed state, two inputs or `on_error`.

They run in the operators of process functions (`process.py`, `two_inputs.py`), so they need no loops of their own.
"""

from __future__ import annotations

from typing import Any

from penstock.engine.runtime.operators.emitted import flattened
from penstock.engine.runtime.operators.function import UserFunction

_CHECKPOINT_METHODS = (
    "initialize_state",
    "snapshot_state",
    "notify_checkpoint_complete",
    "notify_checkpoint_aborted",
)


class FunctionAdapter:
    """Adapts a user's object: it has the object's life cycle, and the object's methods for checkpoints.

    Errors name the adapted object.
    """

    def __init__(self, function: Any) -> None:
        self.adapted = function

    def __getattr__(self, name: str) -> Any:
        # Only if the object has them: these methods tell whether it keeps operator state.
        if name in _CHECKPOINT_METHODS:
            return getattr(self.adapted, name)
        raise AttributeError(name)

    def open(self, runtime_context: Any) -> None:
        """Call the object's `open`, if there is one."""
        opener = getattr(self.adapted, "open", None)
        if opener is not None:
            opener(runtime_context)

    def close(self) -> None:
        """Call the object's `close`, if there is one."""
        closer = getattr(self.adapted, "close", None)
        if closer is not None:
            closer()


class FunctionOfFunction(FunctionAdapter):
    """Adapts a UserFunction, which may be of an adapter itself: `adapted` is the user's object."""

    def __init__(self, function: UserFunction) -> None:
        super().__init__(function.users_object)
        self._function = function

    def __getstate__(self) -> dict[str, Any]:
        # Pickle only one of the two references to the function: with both, a worker would get two functions.
        return {name: value for name, value in vars(self).items() if name != "adapted"}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state, adapted=state["_function"].users_object)

    def as_function(self, method: str, named: UserFunction) -> UserFunction:
        """Return the function that calls `method` of this object. Errors name it as they name `named`."""
        result = UserFunction.of_object(self, method)
        result.method = named.method
        return result


class RecordAdapter(FunctionOfFunction):
    """Adapts a map, flat_map or filter function, so that it may have keyed state, or be guarded by `on_error`."""

    @classmethod
    def adapted_function(cls, function: UserFunction) -> UserFunction:
        """Return the process function, which errors name as they name `function`."""
        return cls(function).as_function("process_element", function)

    def open(self, runtime_context: Any) -> None:
        if not self._function.is_plain:
            super().open(runtime_context)
        self._call = self._function.call

    def close(self) -> None:
        if not self._function.is_plain:
            super().close()


class MapAdapter(RecordAdapter):
    """Emits the result."""

    def process_element(self, value: Any, ctx: Any) -> Any:
        return (self._call(value),)


class FlatMapAdapter(RecordAdapter):
    """Emits the results."""

    def process_element(self, value: Any, ctx: Any) -> Any:
        return flattened(self._call(value))


class FilterAdapter(RecordAdapter):
    """Emits the value if the result is true."""

    def process_element(self, value: Any, ctx: Any) -> Any:
        return (value,) if self._call(value) else None


class TwoInputAdapter(FunctionAdapter):
    """Adapts a function with a method for each of two connected streams. If both have keys, it has keyed state."""

    methods: tuple[str, str]
    """The methods of the function for the first and the second input."""

    def open(self, runtime_context: Any) -> None:
        super().open(runtime_context)
        self._first, self._second = (getattr(self.adapted, method) for method in self.methods)


class CoMap(TwoInputAdapter):
    """Emits the result of `map1` or `map2`, unless it is None. Source: PyFlink, ConnectedStreams.map."""

    methods = ("map1", "map2")

    def process_element1(self, value: Any, ctx: Any) -> Any:
        result = self._first(value)
        return () if result is None else (result,)

    def process_element2(self, value: Any, ctx: Any) -> Any:
        result = self._second(value)
        return () if result is None else (result,)


class CoFlatMap(TwoInputAdapter):
    """Emits the results of `flat_map1` or `flat_map2`."""

    methods = ("flat_map1", "flat_map2")

    def process_element1(self, value: Any, ctx: Any) -> Any:
        return flattened(self._first(value))

    def process_element2(self, value: Any, ctx: Any) -> Any:
        return flattened(self._second(value))
