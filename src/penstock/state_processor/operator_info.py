"""Contents of a snapshot: operators and their states, with sizes."""

from __future__ import annotations

from typing import NamedTuple

from penstock.engine.checkpoint.manifest import OperatorPart
from penstock.engine.snapshots.keyed_table import TIMERS, KeyedTable, tables_of
from penstock.engine.snapshots.operator_lists import lists_of
from penstock.engine.snapshots.snapshot_files import SnapshotFiles


class KeyedStateInfo(NamedTuple):
    """A keyed state. `type` is its kind and type (value of Long); "" for penstock's internal state."""

    name: str
    type: str
    entries: int
    bytes: int


class ListStateInfo(NamedTuple):
    """An operator state. `redistribution` is split, union or broadcast."""

    name: str
    redistribution: str
    items: int
    bytes: int


class OperatorInfo(NamedTuple):
    """An operator with state. `uid` is the program's, or derived from the operator's position in the program."""

    uid: str
    name: str
    parallelism: int
    max_parallelism: int
    keyed_states: list[KeyedStateInfo]
    list_states: list[ListStateInfo]


def info_of(files: SnapshotFiles, part: OperatorPart) -> OperatorInfo:
    """Return the contents of an operator. Reads all keyed state of a checkpoint."""
    keyed = []
    for name, schema in tables_of(part).items():
        size = KeyedTable(files, part, name, allow_missing_classes=True).size()
        keyed.append(KeyedStateInfo(name, f"timers in {TIMERS[name]}" if name in TIMERS else schema, *size))
    lists = [
        ListStateInfo(one.name, one.redistribution.value, one.items_count, one.bytes) for one in lists_of(part).values()
    ]
    return OperatorInfo(
        uid=part.state_id,
        name=part.name,
        parallelism=part.parallelism,
        max_parallelism=part.max_parallelism,
        keyed_states=keyed,
        list_states=lists,
    )
