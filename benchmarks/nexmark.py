"""What an event of Nexmark's generator costs: CPU time per event, for all columns, bids, and numbers of bids.

python -m benchmarks.nexmark --events 1000000
"""

from __future__ import annotations

import argparse
import time

import pyarrow

from penstock.connectors.nexmark.schema import event_schema
from penstock.datastream.connectors.nexmark import NexmarkConfiguration, NexmarkGenerator


def schemas() -> dict[str, pyarrow.Schema]:
    """Return the columns to measure, by name."""
    whole = event_schema()
    numbers = pyarrow.struct([(name, pyarrow.int64()) for name in ("auction", "bidder", "price")])
    return {
        "all columns": whole,
        "bids": pyarrow.schema([whole.field("event_type"), whole.field("bid")]),
        "numbers of bids": pyarrow.schema([whole.field("event_type"), pyarrow.field("bid", numbers)]),
    }


def ns_per_event(schema: pyarrow.Schema, events: int, batch: int) -> float:
    """Return the CPU time of an event (ns). The texts of the seed are made before."""
    generator = NexmarkGenerator(NexmarkConfiguration(), schema)
    generator.events(0, 1000)
    start = time.process_time_ns()
    for first in range(0, events, batch):
        generator.events(first, min(batch, events - first))
    return (time.process_time_ns() - start) / events


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--events", type=int, nargs="+", default=[10_000, 1_000_000, 10_000_000])
    parser.add_argument("--batch", type=int, default=32_768, help="events of a batch")
    arguments = parser.parse_args()
    for events in arguments.events:
        for name, schema in schemas().items():
            cost = ns_per_event(schema, events, arguments.batch)
            print(f"{events:>12,} events, {name:15}: {cost:6.0f} ns of CPU an event")


if __name__ == "__main__":
    main()
