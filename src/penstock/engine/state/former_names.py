"""Where classes that snapshots of manifest version 1 name by their paths are now.

Version 1 had paths of penstock's modules in its pickles. Since version 2 values are stored by name (common/stored.py),
so no entry will ever be added.
"""

from __future__ import annotations

from typing import Any

from penstock.common.stored import type_stored_as
from penstock.common.types import restored_row

_STORED_AS = {
    ("penstock.connectors.file_sink.part", "PendingFile"): "pending-file",
    ("penstock.connectors.file_system.enumerator", "FileEnumeratorState"): "file-enumerator",
    ("penstock.connectors.file_system.split", "FileSplit"): "file-split",
    ("penstock.connectors.ranges", "RangeSplit"): "range-split",
    ("penstock.connectors.socket_text.reader", "SocketSplit"): "socket-split",
    ("penstock.connectors.two_phase_commit_sink", "Prepared"): "prepared-transaction",
    ("penstock.connectors.write_ahead_sink", "Batch"): "batch-to-send",
    ("penstock.runtime.windows.window", "CountWindow"): "count-window",
    ("penstock.runtime.windows.window", "GlobalWindow"): "global-window",
    ("penstock.runtime.windows.window", "TimeWindow"): "time-window",
}


def found_by_former_name(module: str, name: str) -> Any:
    """The class or function that once had this name; None: the name was never another one's."""
    stored_as = _STORED_AS.get((module, name))
    if stored_as is not None:
        return type_stored_as(stored_as)
    return restored_row if (module, name) == ("penstock.common.types", "_restore") else None
