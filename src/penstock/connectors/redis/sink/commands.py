"""Convert records to commands."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import Any

from penstock.common.types.record_fields import fields_of

Command = tuple[bytes, ...]
"""A command's name and arguments, encoded for the server."""
_ARGUMENTS_MAX = 7000
"""The number of arguments that a script of Redis may pass to a command, minus a margin."""


class Commands(ABC):
    """Convert records to commands."""

    @abstractmethod
    def of(self, record: Any) -> Sequence[Sequence[Any]]:
        """Return the commands for a record, each a name and arguments: str, bytes, int, float or bool (1 or 0)."""

    def of_all(self, records: list[Any]) -> list[Command]:
        """Return the commands for records, in order. Raise TypeError or ValueError, which names the record."""
        return [encoded(command, record) for record in records for command in self.of(record)]


class UserCommands(Commands):
    """Call a user's function, which returns a command as a tuple, a list of commands, or None."""

    def __init__(self, function: Callable[[Any], Any]) -> None:
        self._function = function

    def of(self, record: Any) -> Sequence[Sequence[Any]]:
        made = self._function(record)
        if isinstance(made, tuple):
            return (made,)
        if made is None:
            return ()
        if not isinstance(made, list):
            raise TypeError(
                "the function must return a command, a tuple such as ('SET', key, value), or a list of them, got "
                f"{made!r}"
            )
        return made


class HashUpsert(Commands):
    """Set fields (HSET) in the hash whose key a function returns for the record. Delete fields that are None."""

    def __init__(self, key_selector: Callable[[Any], str], fields: tuple[str, ...]) -> None:
        self._key_selector = key_selector
        self._fields = fields

    def of(self, record: Any) -> Sequence[Sequence[Any]]:
        key = self._key_selector(record)
        fields = list(zip(self._fields, fields_of(record, self._fields), strict=True))
        pairs = [part for pair in fields if pair[1] is not None for part in pair]
        nulls = [name for name, value in fields if value is None]
        commands: list[tuple[Any, ...]] = []
        if pairs:
            commands.append(("HSET", key, *pairs))
        if nulls:
            commands.append(("HDEL", key, *nulls))
        return commands


class StreamAppend(Commands):
    """Append fields (XADD) to a stream, or to the one that a function names. Omit fields that are None.

    `max_length`: the approximate number of entries that the stream retains.
    """

    def __init__(self, stream: str | Callable[[Any], str], fields: tuple[str, ...], max_length: int | None) -> None:
        self._stream = stream
        self._fields = fields
        self._trimming = () if max_length is None else ("MAXLEN", "~", max_length)

    def of(self, record: Any) -> Sequence[Sequence[Any]]:
        stream = self._stream if isinstance(self._stream, str) else self._stream(record)
        pairs = zip(self._fields, fields_of(record, self._fields), strict=True)
        pairs_set = [part for pair in pairs if pair[1] is not None for part in pair]
        if not pairs_set:
            raise ValueError(f"an entry of a stream needs at least one field, but all fields of {record!r} are None")
        return (("XADD", stream, *self._trimming, "*", *pairs_set),)


def encoded(command: Sequence[Any], record: Any) -> Command:
    """Encode a command for the server. Raise TypeError or ValueError, which names the record."""
    if not isinstance(command, (tuple, list)) or not command:
        raise TypeError(f"a command must be a tuple such as ('SET', key, value), got {command!r} for {record!r}")
    if len(command) > _ARGUMENTS_MAX:
        raise ValueError(f"a command must have at most {_ARGUMENTS_MAX} arguments, got {len(command)} for {record!r}")
    try:
        return tuple([_ENCODED[type(part)](part) for part in command])
    except KeyError:
        wrong = next(part for part in command if type(part) not in _ENCODED)
        raise TypeError(
            f"arguments of commands must be str, bytes or numbers, got {wrong!r} of type {type(wrong).__name__} for "
            f"{record!r}: convert it to a str"
        ) from None


_ENCODED: dict[type, Callable[[Any], bytes]] = {
    str: str.encode,
    bytes: bytes,
    int: lambda number: b"%d" % number,
    bool: lambda truth: b"1" if truth else b"0",
    float: lambda number: repr(number).encode(),
}


def shown(command: Sequence[bytes]) -> str:
    """Return a command for an error, shortened."""
    parts = [part[:60].decode(errors="backslashreplace") + ("…" if len(part) > 60 else "") for part in command[:8]]
    return " ".join(parts) + (" …" if len(command) > 8 else "")
