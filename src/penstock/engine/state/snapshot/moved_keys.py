"""Detect keys that belong to another key group since their class changed: their state would not be found.

The canonical bytes of a key determine its group (`engine/state/keys.py`). They change if a NamedTuple or frozen
dataclass gains or loses a field, or if a member of an IntEnum gets another value. Source: Flink docs, "State Schema
Evolution" (the schema of keys cannot be changed).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from penstock.common.errors import CheckpointError
from penstock.engine.state.arrays.stored_columns import ArrayKeys
from penstock.engine.state.handles import Section
from penstock.engine.state.key_groups import KeyGroups
from penstock.engine.state.keys import PLAIN
from penstock.engine.state.tables import EntryKeys, Table

_is_plain = PLAIN.issuperset
_PLAIN_KEYS = -1
"""In place of a key group: the count of keys whose bytes do not depend on a class."""


class MovedKeys:
    """Finds moved keys among restored entries, by the key groups in which they were stored.

    `owned`: the key groups of the subtask that stored them; None: not known.
    """

    def __init__(self, max_parallelism: int, tables: Mapping[str, Table], owned: range | None = None) -> None:
        self._key_groups = KeyGroups(max_parallelism)
        self._owned = owned
        self._tables = tables
        self._counted: Counter[int] = Counter()
        self._suspect: list[Any] = []

    def check_owner(self, sections: Iterable[Section]) -> None:
        """Raise CheckpointError if a file has key groups of other subtasks than the one that wrote it."""
        if self._owned is not None:
            check_owner(sections, self._owned)

    def check(self, table: str, entry_keys: EntryKeys, group: int) -> None:
        """Raise CheckpointError unless the keys of all these entries belong to the group."""
        for key in self._with_classes(table, entry_keys):
            if self._key_groups[key] != group:
                raise moved_key_error(table, key)

    def count(self, table: str, entry_keys: EntryKeys) -> None:
        """Count keys by group where the stored group of each key is unknown."""
        found = self._with_classes(table, entry_keys)
        self._suspect += found[:1]
        self._counted.update(map(self._key_groups.__getitem__, found))
        self._counted[_PLAIN_KEYS] += len(entry_keys) - len(found)

    def check_counted(self, table: str, sections: Iterable[Section], groups: range) -> None:
        """Raise CheckpointError if more counted keys belong to a group than the sections hold of that group."""
        left = Counter(dict.fromkeys(groups, 0))
        for section in sections:
            if section.group in groups:
                left[section.group] += section.length
        plain = self._counted.pop(_PLAIN_KEYS, 0)
        counted, self._counted = self._counted, Counter()
        suspect, self._suspect = self._suspect, []
        if suspect and (counted - left or (not plain and counted != left)):
            raise moved_key_error(table, suspect[0])

    def _with_classes(self, table: str, entry_keys: EntryKeys) -> list[Any]:
        """Return the keys whose bytes depend on a user's class. Most states have no such keys."""
        if isinstance(entry_keys, ArrayKeys):
            if not isinstance(entry_keys.keys, list):
                return []
            keys: Sequence[Any] = entry_keys.keys
        else:
            keys = [entry_key[0] for entry_key in entry_keys] if self._tables[table].is_namespaced else entry_keys
        if _is_plain(map(type, keys)):
            return []
        return [
            key for key in keys if type(key) not in PLAIN and not (type(key) is tuple and _is_plain(map(type, key)))
        ]


def check_owner(sections: Iterable[Section], owned: range) -> None:
    """Raise CheckpointError if a file has other key groups than these: its subtask received keys of others.

    Older versions sent keys to subtasks by the maximum parallelism of the sender.
    """
    if any(section.group not in owned for section in sections):
        raise CheckpointError(
            "the state has keys of other subtasks, which would no longer be found: an older version of penstock wrote "
            "it in a job whose operators differ in their maximum parallelism. That version can restore it, with the "
            "same parallelism. Here, give the operator a new uid, which starts without that state, and allow state "
            "that is not restored"
        )


def moved_key_error(table: str, key: Any) -> CheckpointError:
    """Return the error for a key that now belongs to another key group."""
    return CheckpointError(
        f"the state '{table}' has entries of {key!r:.200} that would no longer be found: since they were stored, the "
        "class of keys or windows has gained or lost fields, or its members have changed values. Restore that class, "
        "or write the state with new keys first (penstock.state_processor)"
    )
