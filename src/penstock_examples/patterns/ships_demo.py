"""Ships that go dark, as a job, with a map: `python -m penstock_examples.patterns.ships_demo [FILE]`.

FILE: AIS reports as CSV, with the columns MMSI, BaseDateTime, LAT and LON; without it a fleet of 400 ships is made, of
which 15 go dark. Writes dark-ships.svg.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Sequence
from pathlib import Path

from penstock.common import Duration, WatermarkStrategy
from penstock.datastream import StreamExecutionEnvironment
from penstock_examples.patterns.dark_ships import SILENCE, Position, gone_dark
from penstock_examples.patterns.fleet import Fleet, read_positions
from penstock_examples.patterns.ships_map import svg


def find(positions: Sequence[Position], env: StreamExecutionEnvironment) -> list[Position]:
    """Return the last positions of ships before they went dark, by time.

    At the end of the reports all ships are silent: what was seen within the last ten minutes does not count.
    """
    by_time = WatermarkStrategy.for_bounded_out_of_orderness(Duration.of_minutes(2))
    stream = env.from_collection(list(positions)).assign_timestamps_and_watermarks(
        by_time.with_timestamp_assigner(lambda position, _: position.time_ms)
    )
    until = max(one.time_ms for one in positions) - SILENCE.to_millis()
    with gone_dark(stream).execute_and_collect("ships that go dark") as dark:
        return sorted((one for one in dark if one.time_ms <= until), key=lambda one: (one.time_ms, one.ship))


def main() -> None:
    """Run the demo."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("file", nargs="?", type=Path, help="AIS reports as CSV; .gz: compressed")
    parser.add_argument("--map", type=Path, default=Path("dark-ships.svg"), help="the map to write")
    arguments = parser.parse_args()
    positions = read_positions(arguments.file) if arguments.file else Fleet().positions()
    ships = len({one.ship for one in positions})
    print(f"{len(positions):,} reports of {ships:,} ships. Starting Spark and the job ...", flush=True)
    began = time.monotonic()
    dark = find(positions, StreamExecutionEnvironment.get_execution_environment().set_parallelism(2))
    for one in dark[:20]:
        at = time.strftime("%H:%M", time.gmtime(one.time_ms / 1000))
        print(f"{at}  ship {one.ship} goes dark at {one.latitude:.3f}, {one.longitude:.3f}")
    if len(dark) > 20:
        print(f"... and {len(dark) - 20:,} more")
    seen = {one.ship: one for one in sorted(positions, key=lambda one: one.time_ms)}
    arguments.map.write_text(svg(list(seen.values()), dark), encoding="utf-8")
    print(f"{len(dark):,} times a ship went dark, in {time.monotonic() - began:.0f} s. The map: {arguments.map}")
    if not arguments.file:
        expected = sorted(Fleet().dark)
        found = sorted(one.ship for one in dark)
        print("All of the ships that were silent were found, and no other." if found == expected else "This is wrong.")


if __name__ == "__main__":
    main()
