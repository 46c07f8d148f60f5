"""Validation and normalisation of arguments: functions, key selectors, partitioners."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from copy import copy
from typing import Any

from penstock.common.type_hints import from_function
from penstock.common.typeinfo import (
    PickledBytesTypeInfo,
    RowTypeInfo,
    TupleTypeInfo,
    TypeInformation,
)
from penstock.runtime.operators.function import UserFunction


def as_function(func: Any, method: str, interface: type) -> UserFunction:
    """Wrap a callable or an object with `method`. Raises TypeError for anything else, including a class."""
    if isinstance(func, type) and issubclass(func, interface):
        raise TypeError(f"expected an instance, got the class {func.__name__}: create one with {func.__name__}()")
    if not isinstance(func, type) and callable(getattr(func, method, None)):
        return UserFunction(func, method)
    if callable(func):
        return UserFunction(func, method)
    raise TypeError(f"expected a callable or a {interface.__name__}, got {func!r}")


def as_two_functions(func: Any, methods: tuple[str, str], interface: type) -> tuple[UserFunction, UserFunction]:
    """Wrap the two methods of an object, one for each of two connected streams.

    Raises TypeError if it is a class or lacks one of them.
    """
    if isinstance(func, type) and issubclass(func, interface):
        raise TypeError(f"expected an instance, got the class {func.__name__}: create one with {func.__name__}()")
    missing = [method for method in methods if not callable(getattr(func, method, None))]
    if isinstance(func, type) or missing:
        lacks = f", which lacks {' and '.join(missing)}" if missing else ""
        raise TypeError(f"expected a {interface.__name__}, got {func!r}{lacks}")
    return UserFunction.of_object(func, methods[0]), UserFunction.of_object(func, methods[1])


def common_output_type(
    func: Any, methods: tuple[str, str], declared: TypeInformation | None, elements: bool = False
) -> TypeInformation | None:
    """Return the declared type, else the type from the hints of both methods if it is the same."""
    first, second = (output_type_of(func, method, declared, elements) for method in methods)
    return first if first == second else None


def output_type_of(
    func: Any, method: str, declared: TypeInformation | None, elements: bool = False
) -> TypeInformation | None:
    """Return the declared type, else the type from type hints; None if neither exists.

    `elements`: what the function returns are records, each element one.
    """
    if declared is not None:
        if not isinstance(declared, TypeInformation):
            raise TypeError(f"output_type must be a type of Types, e.g. Types.STRING(), got {declared!r}")
        return declared
    target = getattr(func, method, None) if not isinstance(func, type) else None
    return described(from_function(target or func, elements))


def described(type_info: TypeInformation | None) -> TypeInformation | None:
    """`type_info` as one that is known and not declared: values stay what they are, and print as Python does."""
    if type_info is None or not type_info.applies:
        return type_info
    known = copy(type_info)
    known.applies = False
    return known


def projected_type(declared: TypeInformation, positions: Sequence[int]) -> TypeInformation | None:
    """Return the type of some fields of a tuple or row; None if it is not known.

    Raises TypeError if `declared` has no fields, ValueError if it has no field at one of `positions`.
    """
    if isinstance(declared, PickledBytesTypeInfo):
        return None
    if not isinstance(declared, (TupleTypeInfo, RowTypeInfo)):
        raise TypeError(f"project is for streams of tuples or rows, and the type of this one is {declared}")
    types = declared.get_field_types()
    if max(positions) >= len(types):
        raise ValueError(f"{declared} has {len(types)} fields, there is none at position {max(positions)}")
    if isinstance(declared, TupleTypeInfo):
        return TupleTypeInfo([types[position] for position in positions])
    return None


def key_selector_of(
    selector: Any, key_type: TypeInformation | None
) -> tuple[Callable[[Any], Any], TypeInformation | None]:
    """Return a callable that extracts the key, and the key's type if known."""
    if isinstance(selector, type) and hasattr(selector, "get_key"):
        raise TypeError(
            f"expected an instance, got the class {selector.__name__}: create one with {selector.__name__}()"
        )
    select = getattr(selector, "get_key", selector)
    if not callable(select):
        raise TypeError(f"a key selector must be a callable, e.g. lambda value: value[0], got {selector!r}")
    key_type = key_type or from_function(select)
    return select, key_type


def partitioner_of(partitioner: Any) -> Callable[[Any, int], int]:
    """Return a callable (key, number of channels) -> index."""
    partition = getattr(partitioner, "partition", partitioner)
    if isinstance(partitioner, type) or not callable(partition):
        raise TypeError(f"a partitioner must be a callable (key, num_partitions) -> int, got {partitioner!r}")
    return partition  # type: ignore[no-any-return]
