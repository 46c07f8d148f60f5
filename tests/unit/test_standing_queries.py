"""Standing queries: what may be asked, and that answers are those of a plain evaluation."""

from __future__ import annotations

from collections import defaultdict
from functools import cache
from typing import Any

import pytest

from penstock.testing import OneInputHarness, TwoInputHarness
from penstock_examples.flights.flights import read_reports
from penstock_examples.flights.records import HOUR_MS, MINUTE_MS, Report
from penstock_examples.standing_queries.answering import FAILURES, PANES, QUERIES, AnswerQueries, ParseQueries
from penstock_examples.standing_queries.expressions import ExpressionError, compiled
from penstock_examples.standing_queries.queries import Answer, Failure, Query, QueryError, Removal, parsed

NAMES = frozenset({"delay", "airport"})
LONG = Query("long", "delay is not None and delay > 60 and kind == 'departure'", minutes=180, every=60)
ALL = Query("all", value="delay if delay is not None else 0", minutes=45)


@pytest.mark.parametrize(
    ("text", "delay", "expected"),
    [
        ("delay > 60 and airport in ('JFK', 'LGA')", 61, True),
        ("not 0 < delay <= 60", 60, False),
        ("abs(delay) * 2 - 1", -3, 5),
        ("max(delay, 10) / 4 % 2 // 1", 3, 0.0),
        ("'late' if delay > 15 else 'in time'", 3, "in time"),
        ("delay is None or airport not in ('EWR',) or -delay == 1", None, True),
        ("len(airport) == 3", 0, True),
    ],
)
def test_expressions_give_what_python_gives(text: str, delay: Any, expected: Any) -> None:
    """Analysts would get other figures than they asked for."""
    assert compiled(text, NAMES)({"delay": delay, "airport": "JFK"}) == expected


@pytest.mark.parametrize(
    "text",
    [
        "__import__('os').system('true')",
        "airport.__class__",
        "airport[0]",
        "(lambda: 1)()",
        "[x for x in (1, 2)]",
        "9 ** 9 ** 9",
        "1 << 99999999",
        "f'{delay}'",
        "(delay := 1)",
        "open('x')",
        "max(*(1, 2))",
        "min(1, key=len)",
        "b'x'",
        "secret",
        "1 +",
        "(" * 250 + "1" + ")" * 250,
        "1+" * 300 + "1",
        "",
    ],
    ids=lambda text: text[:20],
)
def test_what_is_no_expression_of_the_language_is_refused(text: str) -> None:
    """Whoever may ask could run code in the cluster, or use up its memory."""
    with pytest.raises(ExpressionError):
        compiled(text, NAMES)


@pytest.mark.parametrize("text", ["airport * 999999999", "'%999999999d' % delay", "airport + airport", "1 / 0"])
def test_what_does_not_fit_a_record_fails_by_itself(text: str) -> None:
    """A text of a gigabyte would be made for each record."""
    with pytest.raises((TypeError, ZeroDivisionError)):
        compiled(text, NAMES)({"delay": 1, "airport": "JFK"})


def test_what_analysts_send() -> None:
    """A misspelt query would be answered by something else, or end the job."""
    assert parsed('{"add": "a", "where": "delay > 1", "minutes": 120, "every": 60}') == Query(
        "a", "delay > 1", "delay", 120, 60
    )
    assert parsed('{"remove": "a"}') == Removal("a")
    for line in ['{"add": "a", "minute": 5}', "{}", '{"add": "a", "remove": "b"}', "[]", '{"add": "a", "minutes": 0}']:
        with pytest.raises(QueryError):
            parsed(line)
    with OneInputHarness(ParseQueries()) as harness:
        harness.push('{"add": "a", "where": "x.y"}')
        assert harness.outputs() == []
        assert [failure.reason for failure in harness.side_outputs(FAILURES)] == [
            "'x.y' may not be used in an expression"
        ]


def asking() -> TwoInputHarness:
    return TwoInputHarness(
        lambda reports, queries: (
            reports.key_by(lambda report: report.airport).connect(queries.broadcast(QUERIES)).process(AnswerQueries())
        )
    )


@cache
def flights() -> list[Report]:
    return read_reports().slice(0, 3_000)


def expected(query: Query, matches: Any, value: Any) -> list[Answer]:
    windows: dict[tuple[str, int], list[float]] = defaultdict(list)
    for report in filter(matches, flights()):
        last = report.scheduled_ms - report.scheduled_ms % query.pane_ms + query.pane_ms
        for end in range(last, last + query.length_ms, query.pane_ms):
            windows[report.airport, end].append(value(report))
    return sorted(
        Answer(query.name, airport, end - query.length_ms, end, len(values), sum(values), min(values), max(values))
        for (airport, end), values in windows.items()
    )


def test_answers_are_those_of_a_plain_evaluation() -> None:
    """Windows of different lengths over one state would mix up their panes."""
    with asking() as harness:
        harness.push2(LONG)
        harness.push2(ALL)
        for report in flights():
            harness.push1(report, report.scheduled_ms)
        harness.watermark(max(report.scheduled_ms for report in flights()) + 12 * HOUR_MS)
        answers = sorted(harness.outputs())
        assert not [key for airport in ("JFK", "ORD") for key in harness.state(PANES, airport) or {}]
    assert [answer for answer in answers if answer.query == "all"] == expected(
        ALL, lambda report: True, lambda report: report.delay or 0
    )
    assert [answer for answer in answers if answer.query == "long"] == expected(
        LONG, lambda r: r.delay is not None and r.delay > 60 and r.kind == "departure", lambda report: report.delay
    )


def report(delay: int | None, minute: int, airport: str = "JFK") -> Report:
    return Report(1, "departure", "departed", airport, "AA1", None, minute * MINUTE_MS, minute * MINUTE_MS, delay)


def test_a_query_that_fails_does_not_fail_another_one() -> None:
    """One analyst's mistake would end the answers of all."""
    with asking() as harness:
        harness.push2(Query("careless", "delay > 5"))
        harness.push2(Query("careful", "delay is not None"))
        for delay, airport in [(7, "JFK"), (None, "JFK"), (9, "JFK"), (9, "LGA")]:
            harness.push1(report(delay, 1, airport), MINUTE_MS)
        harness.watermark(2 * HOUR_MS)
        (failure,) = harness.side_outputs(FAILURES)
        assert failure == Failure(
            "careless", "JFK", "TypeError: '>' not supported between instances of 'NoneType' and 'int'"
        )
        assert sorted((a.query, a.airport, a.count) for a in harness.outputs()) == [
            ("careful", "JFK", 2),
            ("careful", "LGA", 1),
            ("careless", "LGA", 1),
        ]


def test_queries_come_and_go() -> None:
    """A query that was removed would be answered on, or a new one of its name begin with the old one's figures."""
    with asking() as harness:
        harness.push1(report(1, 1), MINUTE_MS)
        harness.push2(Query("q"))
        harness.push1(report(2, 2), 2 * MINUTE_MS)
        harness.push2(Query("q", "delay > 0"))
        harness.push1(report(3, 3), 3 * MINUTE_MS)
        harness.watermark(HOUR_MS)
        assert [(answer.count, answer.total) for answer in harness.outputs()] == [(1, 3)]
        harness.clear_outputs()
        harness.push1(report(4, 61), 61 * MINUTE_MS)
        harness.push2(Removal("q"))
        harness.push2(Removal("unknown"))
        harness.watermark(3 * HOUR_MS)
        assert harness.outputs() == []
        assert not harness.state(PANES, "JFK")
