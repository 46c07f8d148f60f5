"""Which commands are sent for a record."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import Any

from penstock.common.types.record_fields import fields_of

Command = tuple[bytes, ...]
"""A command's name and arguments, as the server is sent them."""
_ARGUMENTS_MAX = 7000
"""As many as a script of Redis may pass to a command, with some to spare."""


class Commands(ABC):
    """Makes commands of records."""

    @abstractmethod
    def of(self, record: Any) -> Sequence[Sequence[Any]]:
        """The commands for a record, each a name and arguments: str, bytes, int, float or bool (1 or 0)."""

    def of_all(self, records: list[Any]) -> list[Command]:
        """Those for records, in order. Raises TypeError or ValueError, which names the record."""
        return [encoded(command, record) for record in records for command in self.of(record)]


class UserCommands(Commands):
    """A user's function: a tuple is a command, a list has several, None is none."""

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
                "the function makes a command of a record, a tuple such as ('SET', key, value), or a list of them, got "
                f"{made!r}"
            )
        return made


class HashUpsert(Commands):
    """HSET of fields, in the hash whose key a function makes of the record. A field that is None is deleted."""

    def __init__(self, key_selector: Callable[[Any], str], fields: tuple[str, ...]) -> None:
        self._key_selector = key_selector
        self._fields = fields

    def of(self, record: Any) -> Sequence[Sequence[Any]]:
        key = self._key_selector(record)
        fields = list(zip(self._fields, fields_of(record, self._fields), strict=True))
        pairs = [part for pair in fields if pair[1] is not None for part in pair]
        gone = [name for name, value in fields if value is None]
        commands: list[tuple[Any, ...]] = []
        if pairs:
            commands.append(("HSET", key, *pairs))
        if gone:
            commands.append(("HDEL", key, *gone))
        return commands


class StreamAppend(Commands):
    """XADD of fields to a stream, or to the one that a function names. A field that is None is left out.

    `max_length`: the stream keeps about so many entries.
    """

    def __init__(self, stream: str | Callable[[Any], str], fields: tuple[str, ...], max_length: int | None) -> None:
        self._stream = stream
        self._fields = fields
        self._trimming = () if max_length is None else ("MAXLEN", "~", max_length)

    def of(self, record: Any) -> Sequence[Sequence[Any]]:
        stream = self._stream if isinstance(self._stream, str) else self._stream(record)
        pairs = zip(self._fields, fields_of(record, self._fields), strict=True)
        given = [part for pair in pairs if pair[1] is not None for part in pair]
        if not given:
            raise ValueError(f"an entry of a stream has one field at least; all of {record!r} are None")
        return (("XADD", stream, *self._trimming, "*", *given),)


def encoded(command: Sequence[Any], record: Any) -> Command:
    """A command as the server is sent it. Raises TypeError or ValueError, which names the record."""
    if not isinstance(command, (tuple, list)) or not command:
        raise TypeError(f"a command is a tuple such as ('SET', key, value), got {command!r} for {record!r}")
    if len(command) > _ARGUMENTS_MAX:
        raise ValueError(f"a command has at most {_ARGUMENTS_MAX} arguments, got {len(command)} for {record!r}")
    try:
        return tuple([_ENCODED[type(part)](part) for part in command])
    except KeyError:
        wrong = next(part for part in command if type(part) not in _ENCODED)
        raise TypeError(
            f"Redis has texts, bytes and numbers, got {wrong!r} of type {type(wrong).__name__} in a command for "
            f"{record!r}: make a text of it"
        ) from None


_ENCODED: dict[type, Callable[[Any], bytes]] = {
    str: str.encode,
    bytes: bytes,
    int: lambda number: b"%d" % number,
    bool: lambda truth: b"1" if truth else b"0",
    float: lambda number: repr(number).encode(),
}


def shown(command: Sequence[bytes]) -> str:
    """A command for an error, shortened."""
    parts = [part[:60].decode(errors="backslashreplace") + ("…" if len(part) > 60 else "") for part in command[:8]]
    return " ".join(parts) + (" …" if len(command) > 8 else "")
