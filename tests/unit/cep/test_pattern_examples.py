"""The programs of `penstock_examples.patterns` find what they say."""

from __future__ import annotations

from collections.abc import Callable
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
    impossible_travel,
    insider,
    later_departures,
    long_rides,
    order_timeouts,
    temperature_alerts,
)

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
    delays = [("n1", 5.0), ("n2", 9.0), ("n1", 7.0), ("n2", 8.0), ("n1", 30.0), ("n1", 40.0), ("n2", 9.0)]
    events = [(60 * n, later_departures.Departure(tail, delay)) for n, (tail, delay) in enumerate(delays)]
    assert results(later_departures.worse_each_time, *events) == [("n1", [5.0, 7.0, 30.0])]


def test_dark_ships() -> None:
    """A ship that turns its transmitter off would not be seen."""
    at = dark_ships.Position
    events = [(0, at(1, 50.0, 1.0)), (0, at(2, 0.0, 0.0)), (300, at(1, 51.0, 1.0)), (301, at(2, 0.5, 0.0))]
    events += [(899, at(1, 52.0, 1.0)), (1400, at(1, 53.0, 1.0))]
    found = results(dark_ships.gone_dark, *events)
    assert found == [(1, 53.0, 1.0), (2, 0.5, 0.0)]
    drawn = dark_ships.svg(found)
    assert drawn.count("<circle") == 2
    assert 'cx="400.0" cy="198.9"' in drawn


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
