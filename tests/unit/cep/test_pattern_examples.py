"""The programs of `penstock_examples.patterns` find what they say."""

from __future__ import annotations

import gzip
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tests.table.in_process import InProcess

from penstock.common import WatermarkStrategy
from penstock.datastream import DataStream, StreamExecutionEnvironment
from penstock.testing import TwoInputHarness
from penstock_examples.patterns import (
    card_fraud,
    changing_rules,
    dark_ships,
    failed_logins,
    fraud_demo,
    impossible_travel,
    insider,
    later_departures,
    long_rides,
    order_timeouts,
    ships_demo,
    temperature_alerts,
)
from penstock_examples.patterns.fleet import START_MS, Fleet, read_positions
from penstock_examples.patterns.ships_map import svg

MINUTE = 60


def results(program: Callable[[Any], Any], *events: tuple[int, Any]) -> list[Any]:
    """What a program finds in events, each with its time in seconds."""
    env = StreamExecutionEnvironment(executor=InProcess())
    env.set_parallelism(2)
    strategy = WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner(lambda pair, _: pair[0] * 1000)
    timed = env.from_collection(list(events)).set_parallelism(1).assign_timestamps_and_watermarks(strategy)
    stream: DataStream[Any] = timed.set_parallelism(1).map(lambda pair: pair[1]).set_parallelism(1)
    with program(stream).execute_and_collect() as found:
        return sorted(found)


def test_failed_logins() -> None:
    """A user who mistypes the password once would be warned of."""
    login = failed_logins.Login
    found = results(
        failed_logins.warnings,
        (1, login("ann", "a", False)),
        (2, login("bob", "b", False)),
        (3, login("ann", "c", False)),
        (5, login("bob", "d", True)),
        (6, login("bob", "e", False)),
        (20, login("bob", "f", False)),
    )
    assert found == [("ann", "a", "c")]


def test_long_rides() -> None:
    """A ride that goes on for hours would not be noticed."""
    ride = long_rides.Ride
    events = [(0, ride(1, True)), (10, ride(2, True)), (60 * MINUTE, ride(1, False)), (130 * MINUTE, ride(2, False))]
    assert results(long_rides.long_rides, *events) == [2]


def test_order_timeouts() -> None:
    """An order that nobody pays would stay open."""
    event = order_timeouts.OrderEvent
    events = [
        (0, event("x", "create")),
        (1, event("y", "create")),
        (2, event("x", "change")),
        (3, event("x", "pay")),
        (20 * MINUTE, event("y", "pay")),
    ]
    assert results(order_timeouts.paid, *events) == ["x"]
    assert results(lambda s: order_timeouts.paid(s).get_side_output(order_timeouts.UNPAID), *events) == ["y"]


def test_temperature_alerts() -> None:
    """A rack would burn, or each warm day would be an alert."""
    degrees = [(1, 90.0), (2, 101.0), (3, 103.0), (4, 105.0), (5, 107.0), (30, 100.0), (31, 100.0)]
    events = [(time, temperature_alerts.Temperature(7, value)) for time, value in degrees]
    assert results(temperature_alerts.warnings, *events) == [(7, 100.0), (7, 102.0), (7, 106.0)]
    assert results(lambda s: temperature_alerts.alerts(temperature_alerts.warnings(s)), *events) == [7]


def test_impossible_travel() -> None:
    """A stolen password would be used from another continent."""
    logon = impossible_travel.Logon
    events = [
        (0, logon("ann", 52.5, 13.4)),
        (60, logon("ann", 52.4, 13.0)),
        (120, logon("ann", 48.1, 11.6)),
        (30 * MINUTE, logon("ann", 40.7, -74.0)),
    ]
    assert results(impossible_travel.travels, *events) == [("ann", 488), ("ann", 506)]


def test_card_fraud() -> None:
    """A thief would test a card, and then empty it."""
    pay = card_fraud.Payment
    events = [(0, pay("x", 1.0)), (1, pay("y", 2.0)), (2, pay("x", 600.0)), (3, pay("y", 9.0)), (4, pay("y", 600.0))]
    assert results(card_fraud.frauds, *events) == [("x", 600.0)]


def test_insider() -> None:
    """A user with new rights would take the data along."""
    kinds = [*insider.STEPS[:1], "lunch", *insider.STEPS[1:]]
    events = [(n, insider.Action("ann", kind)) for n, kind in enumerate(kinds)]
    events += [(n, insider.Action("bob", kind)) for n, kind in enumerate(reversed(kinds))]
    assert results(insider.suspects, *sorted(events)) == ["ann"]


def test_later_departures() -> None:
    """An aircraft whose delays add up would not be exchanged."""
    delays = [("n1", -1.0), ("n1", 5.0), ("n2", 9.0), ("n1", 7.0), ("n2", 8.0), ("n1", 30.0), ("n1", 40.0), ("n2", 9.0)]
    events = [(60 * n, later_departures.Departure(tail, delay)) for n, (tail, delay) in enumerate(delays)]
    assert results(later_departures.worse_each_time, *events) == [("n1", [5.0, 7.0, 30.0])]


def test_dark_ships() -> None:
    """A ship that turns its transmitter off would not be seen."""
    seen = [(0, 1, 50.0, 1.0), (0, 2, 0.0, 0.0), (300, 1, 51.0, 1.0), (301, 2, 0.5, 0.0)]
    seen += [(899, 1, 52.0, 1.0), (1400, 1, 53.0, 2.0)]
    events = [(time, dark_ships.Position(ship, time * 1000, *place)) for time, ship, *place in seen]
    found = results(dark_ships.gone_dark, *events)
    assert [(one.ship, one.latitude) for one in found] == [(1, 53.0), (2, 0.5)]


def test_a_fleet_and_its_map() -> None:
    """The demo would find ships that are not silent, or draw them elsewhere."""
    fleet = Fleet(ships=30, dark_ships=4)
    positions = fleet.positions()
    env = StreamExecutionEnvironment(executor=InProcess()).set_parallelism(2)
    dark = ships_demo.find(positions, env)
    assert sorted(one.ship for one in dark) == sorted(fleet.dark)
    assert all(one.time_ms // 60_000 - START_MS // 60_000 == fleet.dark[one.ship].start - 1 for one in dark)
    corners = [dark_ships.Position(1, START_MS, 40.0, -70.0), dark_ships.Position(2, START_MS, 41.0, -68.0)]
    drawn = svg(corners, corners[1:])
    assert 'viewBox="0 0 900 470"' in drawn
    assert 'cx="20.0" cy="450.0" r="2"' in drawn
    assert drawn.count('cx="880.0" cy="20.0"') == 2
    assert "2, last seen 2026-01-01 00:00 UTC" in drawn


def test_reports_of_real_ships(tmp_path: Path) -> None:
    """A compressed file of AIS reports would not be read, or in local time."""
    text = "MMSI,BaseDateTime,LAT,LON,SOG\n7,2022-01-03T00:00:01,41.5,-70.25,3.0\n"
    (tmp_path / "plain.csv").write_text(text, encoding="utf-8")
    with gzip.open(tmp_path / "packed.csv.gz", "wt", encoding="utf-8") as packed:
        packed.write(text)
    expected = [dark_ships.Position(7, 1_641_168_001_000, 41.5, -70.25)]
    assert read_positions(tmp_path / "plain.csv") == read_positions(tmp_path / "packed.csv.gz") == expected


def test_the_demo_of_changing_rules() -> None:
    """A rule of the demo would not do what its line says."""
    with TwoInputHarness(lambda payments, rules: changing_rules.alerts(payments, rules)) as one:
        alerts = []
        for turn, (_, rule) in enumerate(fraud_demo.rules()):
            one.push2(rule)
            for number in range(2 * fraud_demo.EVERY):
                one.push1(fraud_demo.payment(2 * turn * fraud_demo.EVERY + number), 10_000 * turn + number)
            one.watermark1(10_000 * turn + 5_000)
            alerts.append([alert.partition(": ")[2] for alert in one.outputs()[sum(map(len, alerts)) :]])
        assert alerts == [
            ["bursts 1, 4 small"],
            ["bursts 2, 2 small", "bursts 2, 4 small"],
            ["bursts 2, 2 small", "bursts 2, 4 small"],
            ["bursts 2, 2 small", "thefts 1, 1 small", "bursts 2, 4 small", "thefts 1, 1 small"],
            ["thefts 1, 1 small", "thefts 1, 1 small"],
        ]
        assert len(one.side_outputs(changing_rules.REJECTED)) == 1


def test_changing_rules() -> None:
    """A rule that is too strict would stay so until the job is stopped."""
    with TwoInputHarness(lambda payments, rules: changing_rules.alerts(payments, rules)) as one:
        pay = card_fraud.Payment
        one.push2(changing_rules.rule("bursts", 1, changing_rules.bursts(3)))
        for time, amount in enumerate([1.0, 2.0, 50.0]):
            one.push1(pay("x", amount), time)
        one.watermark1(10)
        assert one.outputs() == []
        one.push2(changing_rules.rule("bursts", 2, changing_rules.bursts(2)))
        one.push2("bursts of 3")
        for time, amount in enumerate([1.0, 2.0, 50.0]):
            one.push1(pay("y", amount), 20 + time)
        one.watermark1(30)
        assert one.outputs() == ["y: bursts 2, 2 small"]
        assert len(one.side_outputs(changing_rules.REJECTED)) == 1
