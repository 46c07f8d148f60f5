"""Let Flink in Java answer Nexmark's queries over our events, and keep how many rows there are and their digests.

python -m benchmarks.nexmark_facts

Writes tests/table/nexmark_facts.json, with which tests compare. Flink reads the events from a file of JSON lines, in
their order. Needs PyFlink's wheel (see benchmarks/peers) and a JDK.
"""

from __future__ import annotations

import argparse
import json
import tempfile
from collections.abc import Sequence
from datetime import datetime
from pathlib import Path
from typing import Any

from benchmarks.nexmark_sql import QUERIES, SIDE_INPUT, SIDE_INPUT_COLUMNS, VIEWS, events_table
from benchmarks.peers.flink_nexmark import run
from penstock.connectors.nexmark.configuration import NexmarkConfiguration
from penstock.connectors.nexmark.generator import NexmarkGenerator

FACTS = Path(__file__).parents[1] / "tests" / "table" / "nexmark_facts.json"
SIZES = {50_000: 1_000, 1_000_000: 10_000}
"""Numbers of events, with their rate: how many there are in a second of their time."""
_BATCH = 50_000
_VERSION = " FOR SYSTEM_TIME AS OF b.seen_at"
"""Flink's own connectors have no table that can be looked up. This one does not change, so a plain join is the same."""
_OPTIONS = {"parallelism.default": "2", "rest.port": "0", "table.local-time-zone": "UTC"}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", nargs="*", default=list(QUERIES), help="queries; the others keep what they have")
    only = parser.parse_args().only
    facts: dict[str, Any] = json.loads(FACTS.read_text(encoding="utf-8")) if FACTS.exists() else {}
    for events, rate in SIZES.items():
        with tempfile.TemporaryDirectory(prefix="nexmark-events-") as temporary:
            file = Path(temporary, "events.json")
            _write(file, events, rate)
            former = facts.get(str(events), {"queries": {}})["queries"]
            found = {**former, **_answers(file, only)}
            facts[str(events)] = {"rate": rate, "queries": {name: found[name] for name in QUERIES if name in found}}
    FACTS.write_text(json.dumps(facts, indent=1) + "\n", encoding="utf-8")


def _answers(file: Path, only: Sequence[str]) -> dict[str, Any]:
    options = {"connector": "filesystem", "path": str(file), "format": "json"}
    options["json.timestamp-format.standard"] = "ISO-8601"
    side_input = file.with_name("side_input.json")
    side_input.write_text("".join(json.dumps(row) + "\n" for row in SIDE_INPUT), encoding="utf-8")
    looked_up = f"""CREATE TABLE side_input ({SIDE_INPUT_COLUMNS})
        WITH ('connector' = 'filesystem', 'path' = '{side_input}', 'format' = 'json')"""
    queries: list[dict[str, Any]] = [
        {
            "name": name,
            "setup": query.in_flink,
            "select": query.sql.replace(_VERSION, ""),
            "compared": query.compared,
            "key": query.key,
        }
        for name, query in QUERIES.items()
        if query.is_deterministic and name in only
    ]
    answers = {}
    for answer in run(_OPTIONS, [events_table(options), *VIEWS, looked_up], queries):
        print(answer, flush=True)
        answers[answer.pop("name")] = answer
    return answers


def _write(file: Path, events: int, rate: int) -> None:
    generator = NexmarkGenerator(NexmarkConfiguration(event_rate=rate))
    with file.open("w", encoding="utf-8") as out:
        for first in range(0, events, _BATCH):
            for row in generator.events(first, min(_BATCH, events - first)).to_pylist():
                out.write(json.dumps(row, default=_text) + "\n")


def _text(value: datetime) -> str:
    return value.isoformat(timespec="milliseconds")


if __name__ == "__main__":
    main()
