"""Functions with one method for a record in the place of a process function: what has keyed state, or two inputs.

Their operators are those of process functions (`process.py`, `two_inputs.py`), so they need no loops of their own.
"""

from __future__ import annotations

from typing import Any

from penstock.engine.runtime.operators.emitted import flattened
from penstock.engine.runtime.operators.function import UserFunction

_OF_CHECKPOINTS = ("initialize_state", "snapshot_state", "notify_checkpoint_complete", "notify_checkpoint_aborted")


class StandIn:
    """Stands for a user's object: it has the object's life cycle, and those of its methods that are for checkpoints.

    Errors name the object that it stands for.
    """

    def __init__(self, function: Any) -> None:
        self.stands_for = function

    def __getattr__(self, name: str) -> Any:
        # Only if the object has them: whether it keeps operator state is seen by its methods.
        if name in _OF_CHECKPOINTS:
            return getattr(self.stands_for, name)
        raise AttributeError(name)

    def open(self, runtime_context: Any) -> None:
        """Call the object's `open`, if there is one."""
        opener = getattr(self.stands_for, "open", None)
        if opener is not None:
            opener(runtime_context)

    def close(self) -> None:
        """Call the object's `close`, if there is one."""
        closer = getattr(self.stands_for, "close", None)
        if closer is not None:
            closer()


class InKeyContext(StandIn):
    """A map, flat_map or filter function on a keyed stream: its state is that of the key."""

    method: str
    """Of the function."""

    def __init__(self, function: UserFunction) -> None:
        super().__init__(function.instance)
        self._function = function

    def __getstate__(self) -> dict[str, Any]:
        # What stands for a function refers to it by one way alone: another one would give a worker two of them.
        return {name: value for name, value in vars(self).items() if name != "stands_for"}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state, stands_for=state["_function"].instance)

    def open(self, runtime_context: Any) -> None:
        super().open(runtime_context)
        self._call = self._function.call


class KeyedMap(InKeyContext):
    """Emits the result."""

    method = "map"

    def process_element(self, value: Any, ctx: Any) -> Any:
        return (self._call(value),)


class KeyedFlatMap(InKeyContext):
    """Emits the results."""

    method = "flat_map"

    def process_element(self, value: Any, ctx: Any) -> Any:
        return flattened(self._call(value))


class KeyedFilter(InKeyContext):
    """Emits the value, if the result is true."""

    method = "filter"

    def process_element(self, value: Any, ctx: Any) -> Any:
        return (value,) if self._call(value) else None


class OfTwoInputs(StandIn):
    """A function with a method for each of two connected streams. With keys on both, its state is that of the key."""

    methods: tuple[str, str]
    """Of the function: for the first input, and for the second."""

    def open(self, runtime_context: Any) -> None:
        super().open(runtime_context)
        self._first, self._second = (getattr(self.stands_for, method) for method in self.methods)


class CoMap(OfTwoInputs):
    """Emits the one result of `map1` or `map2`; nothing for None. Source: PyFlink, ConnectedStreams.map."""

    methods = ("map1", "map2")

    def process_element1(self, value: Any, ctx: Any) -> Any:
        result = self._first(value)
        return () if result is None else (result,)

    def process_element2(self, value: Any, ctx: Any) -> Any:
        result = self._second(value)
        return () if result is None else (result,)


class CoFlatMap(OfTwoInputs):
    """Emits the results of `flat_map1` or `flat_map2`."""

    methods = ("flat_map1", "flat_map2")

    def process_element1(self, value: Any, ctx: Any) -> Any:
        return flattened(self._first(value))

    def process_element2(self, value: Any, ctx: Any) -> Any:
        return flattened(self._second(value))
