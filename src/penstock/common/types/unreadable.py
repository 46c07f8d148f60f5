"""A value that nothing can read: put into a field, it shows whether a function uses that field."""

from __future__ import annotations

from typing import Any, NoReturn

from penstock.common.types.replaced_field import with_field


class ReadError(Exception):
    """A function has read the value."""


def _refuse(*_: Any) -> NoReturn:
    raise ReadError


class _Unreadable:
    """Raises ReadError whatever is done with it. Only its identity and its type can be seen."""

    __slots__ = ()
    # Operations that `object` does not define, such as +, raise TypeError anyway.
    __getattribute__ = __eq__ = __ne__ = __hash__ = __bool__ = _refuse
    __repr__ = __str__ = __format__ = __reduce_ex__ = _refuse


_UNREADABLE = _Unreadable()


def is_unread(record: Any, field: int | str, function: Any, result: Any) -> bool:
    """Return whether `function` gives `result` for `record` without reading `field`, whatever value the field has.

    False also if the field cannot have any value, or the function is not the same for each call.
    """
    try:
        return bool(function(with_field(record, field, _UNREADABLE)) == result)
    except Exception:
        return False
