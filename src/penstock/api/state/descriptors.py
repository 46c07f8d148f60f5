"""Descriptors: name and type of a state, with which a function gets it. Without a type, values are pickled.

Source: Flink docs, "Working with State", State Descriptors.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from penstock.api.state.ttl import StateTtlConfig
from penstock.common.functions.result_kinds import check_result_kind
from penstock.common.typeinfo import ListTypeInfo, MapTypeInfo, TypeInformation, Types

WINDOW_PREFIX = "window/"
RESERVED_PREFIXES = (WINDOW_PREFIX, "(")
"""Names of states of windows and of built-in operators start like this."""
_AGGREGATE_METHODS = ("create_accumulator", "add", "get_result", "merge")


class StateDescriptor:
    """Name and type of a state. Raises ValueError if the name is empty or reserved, TypeError if it is not a str."""

    def __init__(self, name: str, type_info: TypeInformation) -> None:
        if not isinstance(name, str):
            raise TypeError(f"the name of a state must be a str, got {name!r}")
        if not name:
            raise ValueError("the name of a state must not be empty")
        if name.startswith(RESERVED_PREFIXES):
            raise ValueError(
                f"names that start with {' or '.join(RESERVED_PREFIXES)} are reserved for internal states, got {name!r}"
            )
        self.name = name
        self.type_info = type_info
        self._ttl_config: StateTtlConfig | None = None
        self._queryable_state_name: str | None = None

    def get_name(self) -> str:
        """Return the name. It is unique among the states of the function and finds the state after a restore."""
        return self.name

    def enable_time_to_live(self, ttl_config: StateTtlConfig) -> None:
        """Let stored values expire. Raises TypeError if `ttl_config` is not a StateTtlConfig."""
        if not isinstance(ttl_config, StateTtlConfig):
            raise TypeError(f"expected a StateTtlConfig, got {ttl_config!r}")
        self._ttl_config = ttl_config

    @property
    def ttl_config(self) -> StateTtlConfig | None:
        """When stored values expire; None if they do not."""
        config = self._ttl_config
        return config if config is not None and config.is_enabled() else None

    def set_queryable(self, queryable_state_name: str) -> None:
        """Let the state be queried from outside by this name, which must be unique in the job.

        Answers come from the last completed checkpoint. Raises TypeError if the name is not a str, ValueError if it is
        empty or the state already has such a name. Source: Flink docs, "Queryable State".
        """
        if not isinstance(queryable_state_name, str):
            raise TypeError(f"the name of a queryable state must be a str, got {queryable_state_name!r}")
        if not queryable_state_name:
            raise ValueError("the name of a queryable state must not be empty")
        if self._queryable_state_name is not None:
            raise ValueError(f"the state '{self.name}' is already queryable as '{self._queryable_state_name}'")
        self._queryable_state_name = queryable_state_name

    def is_queryable(self) -> bool:
        """Return whether `set_queryable` was called."""
        return self._queryable_state_name is not None

    def get_queryable_state_name(self) -> str | None:
        """Return the name set by `set_queryable`, or None: queries then name the operator and the state."""
        return self._queryable_state_name

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.name!r}, {self.type_info!r})"


class ValueStateDescriptor(StateDescriptor):
    """Describes a ValueState."""

    def __init__(self, name: str, value_type_info: TypeInformation | None = None) -> None:
        super().__init__(name, _type_or_pickled(value_type_info))


class ListStateDescriptor(StateDescriptor):
    """Describes a ListState. `elem_type_info` is the type of one element."""

    def __init__(self, name: str, elem_type_info: TypeInformation | None = None) -> None:
        self.elem_type_info = _type_or_pickled(elem_type_info)
        super().__init__(name, ListTypeInfo(self.elem_type_info))


class MapStateDescriptor(StateDescriptor):
    """Describes a MapState or broadcast state."""

    def __init__(
        self,
        name: str,
        key_type_info: TypeInformation | None = None,
        value_type_info: TypeInformation | None = None,
    ) -> None:
        self.key_type_info = _type_or_pickled(key_type_info)
        self.value_type_info = _type_or_pickled(value_type_info)
        super().__init__(name, MapTypeInfo(self.key_type_info, self.value_type_info))


class _ReduceCallable:
    """Wraps a plain callable as a ReduceFunction."""

    def __init__(self, reduce: Callable[[Any, Any], Any]) -> None:
        self.reduce = reduce


class ReducingStateDescriptor(StateDescriptor):
    """Describes a ReducingState. `reduce_function` is a ReduceFunction or a callable of two values.

    Raises TypeError if it is neither.
    """

    def __init__(self, name: str, reduce_function: Any, type_info: TypeInformation | None = None) -> None:
        super().__init__(name, _type_or_pickled(type_info))
        # Recognized by its methods: any object with a `reduce` is accepted. `open` distinguishes our functions from
        # callables that happen to have a `reduce`, such as numpy's ufuncs.
        has_reduce = callable(getattr(reduce_function, "reduce", None)) and not isinstance(reduce_function, type)
        if has_reduce and (hasattr(reduce_function, "open") or not callable(reduce_function)):
            self._reduce_function = reduce_function
        elif callable(reduce_function) and not hasattr(reduce_function, "open"):
            self._reduce_function = _ReduceCallable(reduce_function)
        else:
            raise TypeError(
                f"expected a ReduceFunction (an instance) or a function of two values, got {reduce_function!r}"
            )

        check_result_kind(self._reduce_function.reduce, "the reduce function")

    def get_reduce_function(self) -> Any:
        """Return an object whose `reduce(value1, value2)` combines two values."""
        return self._reduce_function


class AggregatingStateDescriptor(StateDescriptor):
    """Describes an AggregatingState. `state_type_info` is the type of the accumulator.

    Raises TypeError if `agg_function` is not an AggregateFunction.
    """

    def __init__(self, name: str, agg_function: Any, state_type_info: TypeInformation | None = None) -> None:
        super().__init__(name, _type_or_pickled(state_type_info))
        if isinstance(agg_function, type):
            raise TypeError(f"expected an AggregateFunction, got the class {agg_function.__name__}: pass an instance")
        missing = [method for method in _AGGREGATE_METHODS if not callable(getattr(agg_function, method, None))]
        if missing:
            raise TypeError(f"expected an AggregateFunction, got {agg_function!r}, which lacks {', '.join(missing)}")
        for method in _AGGREGATE_METHODS:
            check_result_kind(getattr(agg_function, method), f"{type(agg_function).__name__}.{method}")
        self._agg_function = agg_function

    def get_agg_function(self) -> Any:
        """Return the aggregate function."""
        return self._agg_function


def _type_or_pickled(type_info: TypeInformation | None) -> TypeInformation:
    if type_info is None:
        return Types.PICKLED_BYTE_ARRAY()
    if isinstance(type_info, TypeInformation):
        return type_info
    raise TypeError(f"the type of a state must be a TypeInformation such as Types.LONG(), got {type_info!r}")
