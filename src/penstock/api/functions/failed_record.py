"""What happens to a record on which a function fails."""

from __future__ import annotations

from typing import Any, Literal

import msgspec

from penstock.api.output_tag import OutputTag

OnError = Literal["fail", "skip"] | OutputTag[Any]
"""The argument `on_error` of map, flat_map, filter and process.

* "fail" (default): the job fails, and restarts by its restart strategy.
* "skip": the record is skipped, and counted in the operator's metric `numRecordsInErrors`. Each subtask logs its first.
* an OutputTag: the same, and the side output of this tag gets a FailedRecord.
"""


class FailedRecord(msgspec.Struct, frozen=True):
    """A record on which a function failed, in the side output of `on_error`.

    `record` is None if a timer failed. `error` is the exception in one line, `traceback` begins with the user's code.
    `timestamp` (ms) and `key` are None for a stream without them.
    """

    record: Any
    error: str
    traceback: str
    timestamp: int | None = None
    key: Any = None
