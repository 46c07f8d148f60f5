"""What users pass for a function, key selector or partitioner, checked and brought into one form."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from penstock.common.type_hints import from_function
from penstock.common.typeinfo import ListTypeInfo, MapTypeInfo, TypeInformation
from penstock.runtime.operators.function import UserFunction


def as_function(func: Any, method: str, interface: type) -> UserFunction:
    """A callable or an object with `method`. Raises TypeError for anything else, a class among them."""
    if isinstance(func, type) and issubclass(func, interface):
        raise TypeError(
            f"expected an instance, got the class {func.__name__}: write {func.__name__}() with parentheses"
        )
    if not isinstance(func, type) and callable(getattr(func, method, None)):
        return UserFunction(func, method)
    if callable(func):
        return UserFunction(func, method)
    raise TypeError(f"expected a callable or a {interface.__name__}, got {func!r}")


def output_type_of(
    func: Any, method: str, declared: TypeInformation | None, elements: bool = False
) -> TypeInformation | None:
    """The declared type, else the one that type hints give; None if nothing is known."""
    if declared is not None:
        if not isinstance(declared, TypeInformation):
            raise TypeError(f"output_type must be a type of Types, e.g. Types.STRING(), not {declared!r}")
        return declared
    target = getattr(func, method, None) if not isinstance(func, type) else None
    return from_function(target or func)


def key_selector_of(
    selector: Any, key_type: TypeInformation | None
) -> tuple[Callable[[Any], Any], TypeInformation | None]:
    """A callable that gives the key, and the key's type if known."""
    if isinstance(selector, type) and hasattr(selector, "get_key"):
        raise TypeError(f"expected an instance, got the class {selector.__name__}: write {selector.__name__}()")
    select = getattr(selector, "get_key", selector)
    if not callable(select):
        raise TypeError(f"a key selector is a callable, e.g. lambda value: value[0], not {selector!r}")
    key_type = key_type or from_function(select)
    if isinstance(key_type, (ListTypeInfo, MapTypeInfo)):
        raise ValueError(f"{key_type} can't be the type of a key: a key must not change. Use a tuple")
    return select, key_type


def partitioner_of(partitioner: Any) -> Callable[[Any, int], int]:
    """A callable (key, number of channels) -> index."""
    partition = getattr(partitioner, "partition", partitioner)
    if isinstance(partitioner, type) or not callable(partition):
        raise TypeError(f"a partitioner is a callable (key, num_partitions) -> int, not {partitioner!r}")
    return partition  # type: ignore[no-any-return]
