"""Validation and normalization of arguments: functions, key selectors, partitioners."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from copy import copy
from typing import Any

from penstock.api.functions.basic import AggregateFunction, KeySelector, Partitioner
from penstock.api.functions.failed_record import OnError
from penstock.api.functions.process import KeyedProcessFunction
from penstock.api.output_tag import OutputTag
from penstock.common.functions.arity import accepts_arguments
from penstock.common.functions.field_key import FieldKey
from penstock.common.functions.field_timestamp import FieldTimestamp
from penstock.common.functions.result_kinds import check_declared_kind
from penstock.common.typeinfo import (
    BasicTypeInfo,
    PickledBytesTypeInfo,
    RowTypeInfo,
    TupleTypeInfo,
    TypeInformation,
)
from penstock.common.types.type_hints import from_function
from penstock.common.types.whole_numbers import as_int
from penstock.common.watermark_strategy import WatermarkStrategy
from penstock.engine.plan.call_capture import captured_call, current_api_call
from penstock.engine.runtime.operators.function import UserFunction


def as_function(func: Any, method: str, interface: type) -> UserFunction:
    """Wrap a callable or an object with `method`.

    Raises TypeError for anything else, including a class, and for a function with other parameters.
    """
    if isinstance(func, type) and issubclass(func, interface):
        raise class_given(func)
    if not callable(func) and (isinstance(func, type) or not callable(getattr(func, method, None))):
        raise TypeError(f"expected a callable or a {interface.__name__}, got {func!r}")
    function = UserFunction(func, method)
    check_parameters(function.call, getattr(interface, method), function.method)
    check_methods(func, interface)
    return function


def as_two_functions(func: Any, methods: tuple[str, str], interface: type) -> tuple[UserFunction, UserFunction]:
    """Wrap the two methods of an object, one for each of two connected streams.

    Raises TypeError if it is a class or lacks one of them.
    """
    if isinstance(func, type) and issubclass(func, interface):
        raise class_given(func)
    missing = [method for method in methods if not callable(getattr(func, method, None))]
    if isinstance(func, type) or missing:
        lacks = f", which lacks {' and '.join(missing)}" if missing else ""
        raise TypeError(f"expected a {interface.__name__}, got {func!r}{lacks}")
    functions = UserFunction.of_object(func, methods[0]), UserFunction.of_object(func, methods[1])
    for function, method in zip(functions, methods, strict=True):
        check_parameters(function.call, getattr(interface, method), function.method)
    check_methods(func, interface)
    return functions


def checked_on_error(on_error: Any) -> OnError:
    """Return the argument of this name. Raises TypeError or ValueError if it is neither a policy nor an OutputTag."""
    if isinstance(on_error, str) and on_error not in ("fail", "skip"):
        raise ValueError(f"on_error must be 'fail', 'skip' or an OutputTag, got {on_error!r}")
    if not isinstance(on_error, str | OutputTag):
        raise TypeError(f"on_error must be 'fail', 'skip' or an OutputTag, got {on_error!r}")
    return on_error  # type: ignore[return-value]  # checked above


def class_given(kind: type) -> TypeError:
    """Return the error for a class in place of an instance."""
    return TypeError(f"expected an instance, got the class {kind.__name__}: create one with {kind.__name__}()")


def check_needs_no_key(func: Any) -> None:
    """Raise TypeError for a KeyedProcessFunction on a stream without a key."""
    if isinstance(func, KeyedProcessFunction):
        raise TypeError(
            f"{type(func).__name__} is a KeyedProcessFunction, and this stream has no key: call key_by before process. "
            "A function without keyed state and timers can be a ProcessFunction"
        )


def check_methods(func: Any, interface: type) -> None:
    """Raise TypeError if a method of a user's Function class has other parameters than its `interface`.

    Otherwise some errors would appear late: for `on_timer` when the first timer fires, for `merge` when windows merge.
    """
    if isinstance(func, interface):
        for method, declared in inspect.getmembers(interface, inspect.isfunction):
            if not method.startswith("_"):
                check_parameters(getattr(func, method), declared, f"{type(func).__name__}.{method}")


def check_aggregate(function: Any, merges: bool = False) -> None:
    """Raise TypeError unless `function` has the methods of an AggregateFunction; `merges`: also `merge`."""
    if isinstance(function, type):
        raise class_given(function)
    methods = ["create_accumulator", "add", "get_result", *(["merge"] if merges else [])]
    missing = [method for method in methods if not callable(getattr(function, method, None))]
    if missing:
        raise TypeError(f"expected an AggregateFunction, got {function!r}, which lacks {', '.join(missing)}")
    for method in methods:
        name = f"{type(function).__name__}.{method}"
        check_parameters(getattr(function, method), getattr(AggregateFunction, method), name)


def check_parameters(call: Any, declared: Callable[..., Any], name: str) -> None:
    """Raise TypeError if `call` does not accept the arguments of a method of an interface, or returns another kind.

    The kind differs if it is an async or a generator function, and the method is not. The error calls it `name`.
    """
    check_declared_kind(call, declared, name)
    _, *parameters = inspect.signature(declared).parameters
    if accepts_arguments(call, len(parameters)):
        return
    given = "1 argument" if len(parameters) == 1 else f"{len(parameters)} arguments"
    own = inspect.signature(call, follow_wrapped=False)
    yielded = ". Yield results: there is no Collector" if list(own.parameters)[-1:] == ["out"] else ""
    call_name = current_api_call().name
    raise TypeError(f"{call_name}: {name} is called with {given} ({', '.join(parameters)}), and takes {own}{yielded}")


def common_output_type(
    func: Any, methods: tuple[str, str], declared: TypeInformation | None, elements: bool = False
) -> TypeInformation | None:
    """Return the declared type, else the type from the hints of both methods if they agree, else None."""
    first, second = (output_type_of(func, method, declared, elements) for method in methods)
    return first if first == second else None


def output_type_of(
    func: Any, method: str, declared: TypeInformation | None, elements: bool = False
) -> TypeInformation | None:
    """Return the declared type, else the type from type hints, else None.

    `elements`: each element of the function's result is a record.
    """
    if declared is not None:
        if not isinstance(declared, TypeInformation):
            raise TypeError(f"output_type must be a type of Types, e.g. Types.STRING(), got {declared!r}")
        return declared
    target = getattr(func, method, None) if not isinstance(func, type) else None
    return described(from_function(target or func, elements))


def described(type_info: TypeInformation | None) -> TypeInformation | None:
    """Return `type_info` as a known type that is not declared: it does not convert values or change their text."""
    if type_info is None or not type_info.applies:
        return type_info
    known = copy(type_info)
    known.applies = False
    return known


def projected_type(declared: TypeInformation, positions: Sequence[int]) -> TypeInformation | None:
    """Return the type of some fields of a tuple or row, or None if it is unknown.

    Raises TypeError if `declared` has no fields, ValueError if it has no field at one of `positions`.
    """
    if isinstance(declared, PickledBytesTypeInfo):
        return None
    if not isinstance(declared, (TupleTypeInfo, RowTypeInfo)):
        raise TypeError(f"project is for streams of tuples or rows, but the type of this stream is {declared}")
    types = declared.get_field_types()
    if max(positions) >= len(types):
        raise ValueError(f"{declared} has {len(types)} fields, but not one at position {max(positions)}")
    if isinstance(declared, TupleTypeInfo):
        return TupleTypeInfo([types[position] for position in positions])
    return None


def field_of(position: Any, declared: TypeInformation | None) -> int | str:
    """Return the position or name of a field. Raises TypeError for anything else, ValueError if `declared` lacks it.

    A known type that is not declared refuses nothing, because it does not convert values.
    """
    field = position if isinstance(position, str) else as_int(position)
    if field is None:
        raise TypeError(f"a field must be given by position or name, got {position!r}")
    return _found_in(declared, field)


def field_name_of(field: Any, record_type: TypeInformation | None) -> str | None:
    """Return the name of a field of a Row that is given by name or position; None for anything else."""
    if isinstance(field, str):
        return field
    position = as_int(field)
    names = record_type.get_field_names() if isinstance(record_type, RowTypeInfo) else []
    return names[position] if position is not None and 0 <= position < len(names) else None


def check_time_field(strategy: WatermarkStrategy, declared: TypeInformation | None) -> None:
    """Raise ValueError if event time is a field by name, which records of the type `declared` do not have."""
    if isinstance(strategy.timestamp_assigner, FieldTimestamp):
        field_of(strategy.timestamp_assigner.field, declared)


def _found_in(declared: TypeInformation | None, position: int | str) -> int | str:
    if isinstance(position, int) and position < 0:
        raise ValueError(f"the position of a field must be 0 or more, got {position}")
    if declared is None or not declared.applies:
        return position
    names: Sequence[str] = declared.get_field_names() if isinstance(declared, RowTypeInfo) else ()
    if isinstance(declared, (TupleTypeInfo, RowTypeInfo)):
        count = len(declared.get_field_types())
    elif isinstance(declared, BasicTypeInfo):
        count = 1
    else:
        return position
    if position not in names if isinstance(position, str) else position >= count:
        raise ValueError(f"there is no field {position!r} in {declared}")
    return position


def key_selector_of(
    selector: Any, key_type: TypeInformation | None, record_type: TypeInformation | None = None
) -> tuple[Callable[[Any], Any], TypeInformation | None]:
    """Return a callable that extracts the key, and the key's type or None.

    A str names a field of the records; a tuple or list of them names several. Raises ValueError if `record_type`, the
    declared type of the records, lacks one.
    """
    if names := _field_names(selector):
        for name in names:
            field_of(name, record_type)
        return FieldKey(names), key_type
    if isinstance(selector, type) and hasattr(selector, "get_key"):
        raise class_given(selector)
    select = getattr(selector, "get_key", selector)
    if not callable(select):
        raise TypeError(
            f"a key selector must be a callable, e.g. lambda value: value[0], or the name of a field, or several: "
            f'key_by("a", "b"), got {selector!r}'
        )
    check_parameters(select, KeySelector.get_key, "the key selector")
    key_type = key_type or from_function(select)
    return captured_call(select), key_type


def _field_names(selector: Any) -> tuple[str, ...]:
    """Return the names of the fields that a selector lists, or ()."""
    names = (selector,) if isinstance(selector, str) else selector
    return tuple(names) if isinstance(names, (tuple, list)) and all(isinstance(name, str) for name in names) else ()


def key_of(
    selector: Any, more: Sequence[Any], *, key_type: TypeInformation | None, record_type: TypeInformation | None
) -> tuple[Callable[[Any], Any], TypeInformation | None]:
    """Return what `key_selector_of` returns, for the arguments of `key_by`: a selector and its type, or fields."""
    names = _field_names(selector)
    if not names:
        if len(more) > 1:
            raise TypeError("key_by takes a key selector and a type, or names of fields")
        return key_selector_of(selector, more[0] if more else key_type)
    if more and isinstance(more[-1], TypeInformation):
        *more, key_type = more
    for field in more:
        if not isinstance(field, str):
            raise TypeError(f"expected names of fields after {selector!r}, got {field!r}")
    select = FieldKey((*names, *more))
    for field in select.fields:
        field_of(field, record_type)
    return select, key_type or select.key_type(record_type)


def common_key_type(first: TypeInformation | None, second: TypeInformation | None) -> TypeInformation | None:
    """Return the type of the keys of both streams, or None. Raises ValueError if two different ones are declared."""
    if first is not None and second is not None and first != second:
        raise ValueError(f"both streams must have keys of one type, got {first} and {second}")
    return first or second


def checked_count(what: str, value: object, least: int) -> int:
    """Return `value` as an int. Raises ValueError unless it is a whole number of `least` or more."""
    number = as_int(value)
    if number is None or number < least:
        raise ValueError(f"{what} must be an int of {least} or more, got {value!r}")
    return number


def check_output_tag(output_tag: Any) -> None:
    """Raise TypeError if it is not an OutputTag."""
    if not isinstance(output_tag, OutputTag):
        raise TypeError(f"expected an OutputTag such as OutputTag('late'), got {output_tag!r}")


def partitioner_of(partitioner: Any) -> Callable[[Any, int], int]:
    """Return a callable (key, number of channels) -> index."""
    partition = getattr(partitioner, "partition", partitioner)
    if isinstance(partitioner, type) or not callable(partition):
        raise TypeError(f"a partitioner must be a callable (key, num_partitions) -> int, got {partitioner!r}")
    check_parameters(partition, Partitioner.partition, "the partitioner")
    return captured_call(partition)
