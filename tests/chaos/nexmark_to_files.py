"""A query of Nexmark as a program that writes its changes into files: what test_nexmark_kills.py starts and kills.

How changes are written and read again is all here: `Changes` and `final_rows`.
"""

from __future__ import annotations

import argparse
import json
from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from benchmarks.nexmark_sql import VIEWS, Query, events_table, insertion

from penstock.common import Encoder
from penstock.common.types import RowKind
from penstock.datastream import StreamExecutionEnvironment
from penstock.datastream.connectors.file_system import FileSink, RollingPolicy
from penstock.table import StreamTableEnvironment
from penstock.table.connector import SinkRequest, TableConnector, TableSink, register_connector

EVENT_RATE = 100
"""Events in a second of their time: windows of ten seconds get some hundreds."""


def options_of_events(events: int, rate: int, *, at_once: bool = False) -> dict[str, str]:
    """Return the options of the table of events. `rate`: how many come in a second; 0: all at once.

    `at_once`: the same events, none of which is waited for.
    """
    options = {"connector": "nexmark", "events.num": str(events)}
    if rate and not at_once:
        options["rate.limited"] = "true"
    event_rate = str(rate or EVENT_RATE)
    return {**options, "first-event.rate": event_rate, "next-event.rate": event_rate}


class Changes(Encoder):
    """Writes a row and its kind, which is the last column, as a line of JSON."""

    def encode(self, value: Any) -> bytes:
        *values, kind = value
        return line_of(str(RowKind(kind)), values).encode()


def line_of(kind: str, values: Iterable[Any]) -> str:
    """Return a change as a line."""
    return json.dumps([kind, *values], default=str) + "\n"


class ChangesInFiles(TableConnector):
    """`'connector' = 'changes'`: files of a folder, by one subtask."""

    def sink(self, request: SinkRequest) -> TableSink:
        builder = FileSink.for_row_format(request.options["path"], Changes())
        sink = builder.with_rolling_policy(RollingPolicy.on_checkpoint_rolling_policy()).build()
        return TableSink(sink, takes_kinds=True, parallelism=1)


def committed(out: Path) -> list[str]:
    """Return the lines of the files that a reader sees, in the order in which they were written."""
    visible = [path for path in out.rglob("*") if path.is_file() and not path.name.startswith((".", "_"))]
    by_time = sorted(visible, key=lambda path: path.stat().st_mtime_ns)
    return [line for path in by_time for line in path.read_text(encoding="utf-8").splitlines()]


def final_rows(lines: Iterable[str], query: Query) -> Counter[str]:
    """Return the rows that changes come to. A row that goes must be there."""
    found: Counter[str] = Counter()
    of_keys: dict[Any, str] = {}
    for line in lines:
        kind, *values = json.loads(line)
        row = json.dumps([values[place] for place in query.compared or range(len(values))])
        if query.key is not None:
            before = of_keys.pop(values[query.key], None)
            if before is not None:
                found[before] -= 1
            if kind not in ("+I", "+U"):
                continue
            of_keys[values[query.key]] = row
        found[row] += 1 if kind in ("+I", "+U") else -1
    assert not -found, f"rows that went, and had not come: {-found}"
    return +found


def main() -> None:
    """Run a query, by the options."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("query")
    parser.add_argument("out", type=Path)
    parser.add_argument("--events", type=int, required=True)
    parser.add_argument("--rate", type=int, required=True)
    arguments = parser.parse_args()
    register_connector("changes", ChangesInFiles())
    env = StreamExecutionEnvironment.get_execution_environment()
    env.set_parallelism(2)
    tables = StreamTableEnvironment.create(env)
    for statement in (
        events_table(options_of_events(arguments.events, arguments.rate)),
        *VIEWS,
        *insertion(arguments.query, {"connector": "changes", "path": str(arguments.out)}),
    ):
        result = tables.execute_sql(statement)
    result.wait()


if __name__ == "__main__":
    main()
