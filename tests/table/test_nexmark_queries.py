"""Queries in the manner of Nexmark's, over generated events, against plain Python over the same events."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Sequence
from datetime import datetime, timedelta
from decimal import Decimal
from typing import Any

import pytest
from tests.table.listed_tables import Tables, inserts, table_of

from penstock.connectors.nexmark.configuration import NexmarkConfiguration
from penstock.connectors.nexmark.generator import NexmarkGenerator
from penstock.table.planner.errors import PlannerError
from penstock.table.planner.planner import shared_process

EVENTS = 3_000
RATE = 100
TABLES = (
    f"""CREATE TABLE events (event_type INT,
        person ROW<id BIGINT, name STRING, city STRING, state STRING, `dateTime` TIMESTAMP(3)>,
        auction ROW<id BIGINT, `initialBid` BIGINT, seller BIGINT, category BIGINT, `dateTime` TIMESTAMP(3),
            expires TIMESTAMP(3)>,
        bid ROW<auction BIGINT, bidder BIGINT, price BIGINT, channel STRING, `dateTime` TIMESTAMP(3)>,
        at_time AS CASE WHEN event_type = 0 THEN person.`dateTime` WHEN event_type = 1 THEN auction.`dateTime`
            ELSE bid.`dateTime` END,
        WATERMARK FOR at_time AS at_time - INTERVAL '4' SECOND)
        WITH ('connector' = 'nexmark', 'events.num' = '{EVENTS}', 'first-event.rate' = '{RATE}',
            'next-event.rate' = '{RATE}')""",
    "CREATE VIEW persons AS SELECT person.id, person.name, person.city, person.state, at_time FROM events "
    "WHERE event_type = 0",
    "CREATE VIEW auctions AS SELECT auction.id, auction.seller, auction.category, auction.expires, at_time "
    "FROM events WHERE event_type = 1",
    "CREATE VIEW bids AS SELECT bid.auction, bid.bidder, bid.price, bid.channel, at_time FROM events "
    "WHERE event_type = 2",
)
Rows = Sequence[dict[str, Any]]


@pytest.fixture(scope="module")
def events() -> tuple[Rows, Rows, Rows]:
    """The people, auctions and bids."""
    try:
        shared_process()
    except PlannerError as error:
        pytest.skip(f"Flink's planner can't be had here: {error}")
    rows = NexmarkGenerator(NexmarkConfiguration(event_rate=RATE)).events(0, EVENTS).to_pylist()
    return tuple([row[name] for row in rows if row[name] is not None] for name in ("person", "auction", "bid"))  # type: ignore[return-value]


def tables() -> Tables:
    """Return an environment with the events and their views."""
    one = Tables()
    for statement in TABLES:
        one.environment.execute_sql(statement)
    return one


def test_bids_are_converted_and_filtered(events: tuple[Rows, Rows, Rows]) -> None:
    """Nexmark's q1 and q2: arithmetic with decimals, and a condition."""
    found = tables().insert(
        "o",
        "auction BIGINT, price DECIMAL(23, 3), ts TIMESTAMP(3)",
        "SELECT auction, 0.908 * price, at_time FROM bids WHERE MOD(auction, 3) = 0",
    )
    expected = [
        (bid["auction"], Decimal("0.908") * bid["price"], bid["dateTime"])
        for bid in events[2]
        if bid["auction"] % 3 == 0
    ]
    assert expected
    assert Counter(found) == Counter(inserts(expected))


def test_sellers_are_joined_with_their_auctions(events: tuple[Rows, Rows, Rows]) -> None:
    """Nexmark's q3: a join of two filtered streams."""
    found = tables().insert(
        "o",
        "name STRING, state STRING, id BIGINT",
        "SELECT P.name, P.state, A.id FROM auctions A JOIN persons P ON A.seller = P.id WHERE A.category = 10",
    )
    of_people = {person["id"]: person for person in events[0]}
    expected = [
        (of_people[one["seller"]]["name"], of_people[one["seller"]]["state"], one["id"])
        for one in events[1]
        if one["category"] == 10 and one["seller"] in of_people
    ]
    assert expected
    assert Counter(found) == Counter(inserts(expected))


def test_the_average_of_winning_bids(events: tuple[Rows, Rows, Rows]) -> None:
    """Nexmark's q4: an aggregate of an aggregate of a join, whose changes retract each other."""
    found = tables().insert(
        "o",
        "category BIGINT, price BIGINT",
        """SELECT category, AVG(final) FROM (SELECT MAX(B.price) AS final, A.category FROM auctions A JOIN bids B
            ON A.id = B.auction AND B.at_time BETWEEN A.at_time AND A.expires GROUP BY A.id, A.category)
            GROUP BY category""",
    )
    finals: dict[Any, int] = {}
    of_auctions = {one["id"]: one for one in events[1]}
    for bid in events[2]:
        auction = of_auctions.get(bid["auction"])
        if auction is not None and auction["dateTime"] <= bid["dateTime"] <= auction["expires"]:
            key = (auction["category"], auction["id"])
            finals[key] = max(finals.get(key, 0), bid["price"])
    by_category: dict[Any, list[int]] = defaultdict(list)
    for (category, _), price in finals.items():
        by_category[category].append(price)
    assert finals
    assert table_of(found) == Counter((category, sum(of) // len(of)) for category, of in by_category.items())


def window(at: datetime, seconds: int) -> datetime:
    """Return the start of the window of a time."""
    return at - timedelta(seconds=at.timestamp() % seconds)


def test_hot_auctions_of_sliding_windows(events: tuple[Rows, Rows, Rows]) -> None:
    """Nexmark's q5: windows of windows, joined by their bounds."""
    hop = "TABLE(HOP(TABLE bids, DESCRIPTOR(at_time), INTERVAL '2' SECOND, INTERVAL '10' SECOND))"
    counts = f"SELECT auction, COUNT(*) AS n, window_start AS s, window_end AS e FROM {hop} GROUP BY auction, "
    counts += "window_start, window_end"
    found = tables().insert(
        "o",
        "auction BIGINT, n BIGINT",
        f"""SELECT A.auction, A.n FROM ({counts}) AS A JOIN
            (SELECT MAX(n) AS most, s, e FROM ({counts}) GROUP BY s, e) AS B
            ON A.s = B.s AND A.e = B.e AND A.n >= B.most""",
    )
    of_windows: dict[datetime, Counter[int]] = defaultdict(Counter)
    for bid in events[2]:
        last = window(bid["dateTime"], 2)
        for slide in range(5):
            of_windows[last - timedelta(seconds=2 * slide)][bid["auction"]] += 1
    expected = [(auction, n) for of in of_windows.values() for auction, n in of.items() if n == max(of.values())]
    assert expected
    assert Counter(found) == Counter(inserts(expected))


def test_the_last_bid_of_each_bidder(events: tuple[Rows, Rows, Rows]) -> None:
    """Nexmark's q18: the last row of each key by event time."""
    found = tables().insert(
        "o",
        "bidder BIGINT, ts TIMESTAMP(3)",
        """SELECT bidder, at_time FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY bidder ORDER BY at_time DESC) AS r
            FROM bids) WHERE r <= 1""",
    )
    last: dict[int, datetime] = {}
    for bid in events[2]:
        last[bid["bidder"]] = max(last.get(bid["bidder"], datetime.min), bid["dateTime"])
    assert table_of(found) == Counter(last.items())


def test_the_highest_bids_of_each_auction(events: tuple[Rows, Rows, Rows]) -> None:
    """Nexmark's q19: the first rows of each key, with their numbers."""
    found = tables().insert(
        "o",
        "auction BIGINT, price BIGINT, r BIGINT",
        """SELECT auction, price, r FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY auction ORDER BY price DESC) AS r
            FROM bids) WHERE r <= 10""",
    )
    prices: dict[int, list[int]] = defaultdict(list)
    for bid in events[2]:
        prices[bid["auction"]].append(bid["price"])
    expected = [
        (auction, price, place + 1)
        for auction, of in prices.items()
        for place, price in enumerate(sorted(of, reverse=True)[:10])
    ]
    assert table_of(found) == Counter(expected)


def test_characters_are_counted_by_a_function_in_python(events: tuple[Rows, Rows, Rows]) -> None:
    """Nexmark's q14: a function in Java there, whose twin is in Python."""
    one = tables()
    one.environment.execute_sql(
        "CREATE FUNCTION count_char AS 'penstock.table.connectors.nexmark_functions.count_char' LANGUAGE PYTHON"
    )
    found = one.insert(
        "o",
        "auction BIGINT, kind STRING, c BIGINT",
        """SELECT auction, CASE WHEN HOUR(at_time) >= 8 AND HOUR(at_time) <= 18 THEN 'day' ELSE 'other' END,
            count_char(channel, 'a') FROM bids WHERE 0.908 * price > 1000000 AND 0.908 * price < 50000000""",
    )
    expected = [
        (bid["auction"], "day" if 8 <= bid["dateTime"].hour <= 18 else "other", bid["channel"].count("a"))
        for bid in events[2]
        if 1_000_000 < Decimal("0.908") * bid["price"] < 50_000_000
    ]
    assert expected
    assert Counter(found) == Counter(inserts(expected))
