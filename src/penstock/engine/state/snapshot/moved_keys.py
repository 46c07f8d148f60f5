"""Keys whose class has changed so that they belong elsewhere: their state would not be found, or not by its subtask.

A key's group follows from its canonical bytes (`engine/state/keys.py`): a field that a NamedTuple or frozen dataclass
has gained or lost, or another value of an IntEnum's member, changes these. Source: Flink docs, "State Schema Evolution"
(the schema of keys can't be changed).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any

from penstock.common.errors import CheckpointError
from penstock.engine.state.handles import Section
from penstock.engine.state.key_groups import KeyGroups
from penstock.engine.state.keys import PLAIN
from penstock.engine.state.tables import EntryKeys, Table

_is_plain = PLAIN.issuperset
_PLAIN_KEYS = -1
"""In place of a key group: keys that are where they were."""


class MovedKeys:
    """Finds such keys among entries that are restored, by the key groups in which they were stored."""

    def __init__(self, max_parallelism: int, tables: Mapping[str, Table]) -> None:
        self._key_groups = KeyGroups(max_parallelism)
        self._tables = tables
        self._counted: Counter[int] = Counter()
        self._suspect: list[Any] = []

    def check(self, table: str, entry_keys: EntryKeys, group: int) -> None:
        """Raises CheckpointError unless the keys of all these entries belong to the group."""
        for key in self._with_classes(table, entry_keys):
            if self._key_groups[key] != group:
                raise moved(table, key)

    def count(self, table: str, entry_keys: EntryKeys) -> None:
        """Note keys whose groups are not known one by one."""
        found = self._with_classes(table, entry_keys)
        self._suspect += found[:1]
        self._counted.update(map(self._key_groups.__getitem__, found))
        self._counted[_PLAIN_KEYS] += len(entry_keys) - len(found)

    def check_counted(self, table: str, sections: Iterable[Section], groups: range) -> None:
        """Raises CheckpointError if more of the keys that were noted are of a group than the sections have of it."""
        left = Counter(dict.fromkeys(groups, 0))
        for section in sections:
            if section.group in groups:
                left[section.group] += section.length
        plain = self._counted.pop(_PLAIN_KEYS, 0)
        counted, self._counted = self._counted, Counter()
        suspect, self._suspect = self._suspect, []
        if suspect and (counted - left or (not plain and counted != left)):
            raise moved(table, suspect[0])

    def _with_classes(self, table: str, entry_keys: EntryKeys) -> list[Any]:
        """The keys whose bytes depend on a class of the user's. Of most states there are none."""
        keys = [entry_key[0] for entry_key in entry_keys] if self._tables[table].is_namespaced else entry_keys
        if _is_plain(map(type, keys)):
            return []
        return [
            key for key in keys if type(key) not in PLAIN and not (type(key) is tuple and _is_plain(map(type, key)))
        ]


def moved(table: str, key: Any) -> CheckpointError:
    """Return the error for a key that belongs elsewhere by now."""
    return CheckpointError(
        f"the state '{table}' has entries of {key!r:.200}, which would not be found any more: the class of keys, or of "
        "windows, has other fields than when they were stored, or members of other values. Leave that class as it "
        "was, or write the state with new keys first (penstock.state_processor)"
    )
