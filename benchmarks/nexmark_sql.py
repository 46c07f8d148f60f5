"""Nexmark's queries q0 to q22 in Flink's SQL, in our words: what they ask for is that of github nexmark/nexmark.

Flink refuses q6 (OVER on retractions). q10 writes partitions of files, q13 looks up the table `side_input`, and q14
calls a function of the user, which is Java's in Flink and Python's in penstock.
"""

from __future__ import annotations

from typing import NamedTuple

EVENT_COLUMNS = """event_type INT,
    person ROW<id BIGINT, name STRING, `emailAddress` STRING, `creditCard` STRING, city STRING, state STRING,
        `dateTime` TIMESTAMP(3), extra STRING>,
    auction ROW<id BIGINT, `itemName` STRING, description STRING, `initialBid` BIGINT, reserve BIGINT,
        `dateTime` TIMESTAMP(3), expires TIMESTAMP(3), seller BIGINT, category BIGINT, extra STRING>,
    bid ROW<auction BIGINT, bidder BIGINT, price BIGINT, channel STRING, url STRING, `dateTime` TIMESTAMP(3),
        extra STRING>"""
TIME = """`dateTime` AS CASE event_type WHEN 0 THEN person.`dateTime` WHEN 1 THEN auction.`dateTime`
        ELSE bid.`dateTime` END,
    WATERMARK FOR `dateTime` AS `dateTime` - INTERVAL '4' SECOND"""


def events_table(options: dict[str, str]) -> str:
    """Return the statement that creates the table of events with these options."""
    shown = ", ".join(f"'{key}' = '{value}'" for key, value in options.items())
    return f"CREATE TABLE events ({EVENT_COLUMNS},\n    {TIME})\nWITH ({shown})"


VIEWS = (
    """CREATE VIEW person AS SELECT person.id, person.name, person.`emailAddress`, person.`creditCard`, person.city,
    person.state, `dateTime`, person.extra FROM events WHERE event_type = 0""",
    """CREATE VIEW auction AS SELECT auction.id, auction.`itemName`, auction.description, auction.`initialBid`,
    auction.reserve, `dateTime`, auction.expires, auction.seller, auction.category, auction.extra FROM events
    WHERE event_type = 1""",
    """CREATE VIEW bid AS SELECT bid.auction, bid.bidder, bid.price, bid.channel, bid.url, `dateTime`, bid.extra
    FROM events WHERE event_type = 2""",
    "CREATE VIEW bid_now AS SELECT *, PROCTIME() AS seen_at FROM bid",
)


class Query(NamedTuple):
    """A query and the columns of its sink. `is_deterministic`: whether its rows follow from the events alone.

    `compared`: the places of the columns that do not depend on the order of rows with equal ranks; empty: all columns.
    """

    columns: str
    sql: str
    is_deterministic: bool = True
    compared: tuple[int, ...] = ()
    key: int | None = None
    """The column that is the key of the result, if its changes have no rows before updates (UPDATE_BEFORE)."""
    setup: tuple[str, ...] = ()
    """Statements before it. `in_flink`: those in Flink."""
    in_flink: tuple[str, ...] = ()
    partitions: tuple[str, ...] = ()
    """The columns by which a sink in files is partitioned."""


_CLASSES = {"": "", "low_": "price < 10000", "mid_": "price >= 10000 AND price < 1000000", "high_": "price >= 1000000"}
_COUNTED = {"bids": "*", "bidders": "DISTINCT bidder", "auctions": "DISTINCT auction"}


def _counts(*counted: str) -> str:
    """Return counts of these, of all bids and of each class of prices."""
    return ",\n    ".join(
        f"COUNT({_COUNTED[one]}){f' FILTER (WHERE {condition})' if condition else ''} AS {prefix}{one}"
        for one in counted
        for prefix, condition in _CLASSES.items()
    )


def _count_columns(*counted: str) -> str:
    return ", ".join(f"{prefix}{one} BIGINT" for one in counted for prefix in _CLASSES)


_DAY = "DATE_FORMAT(`dateTime`, 'yyyy-MM-dd')"
_HOT = """(SELECT auction, COUNT(*) AS bids, window_start AS s, window_end AS e
    FROM TABLE(HOP(TABLE bid, DESCRIPTOR(`dateTime`), INTERVAL '2' SECOND, INTERVAL '10' SECOND))
    GROUP BY auction, window_start, window_end)"""
_TUMBLE = "TABLE(TUMBLE(TABLE {}, DESCRIPTOR({}), INTERVAL '10' SECOND))"
_CHANNEL = "REGEXP_EXTRACT(url, '(&|^)channel_id=([^&]*)', 2)"
_BID = "auction BIGINT, bidder BIGINT, price BIGINT"

QUERIES: dict[str, Query] = {
    "q0": Query(
        f"{_BID}, `dateTime` TIMESTAMP(3), extra STRING", "SELECT auction, bidder, price, `dateTime`, extra FROM bid"
    ),
    "q1": Query(
        "auction BIGINT, bidder BIGINT, price DECIMAL(23, 3), `dateTime` TIMESTAMP(3), extra STRING",
        "SELECT auction, bidder, 0.908 * price AS price, `dateTime`, extra FROM bid",
    ),
    "q2": Query("auction BIGINT, price BIGINT", "SELECT auction, price FROM bid WHERE MOD(auction, 123) = 0"),
    "q3": Query(
        "name STRING, city STRING, state STRING, id BIGINT",
        """SELECT p.name, p.city, p.state, a.id FROM auction a JOIN person p ON a.seller = p.id
WHERE a.category = 10 AND (p.state = 'OR' OR p.state = 'ID' OR p.state = 'CA')""",
    ),
    "q4": Query(
        "category BIGINT, price BIGINT",
        """SELECT category, AVG(final) FROM (
    SELECT MAX(b.price) AS final, a.category FROM auction a, bid b
    WHERE a.id = b.auction AND b.`dateTime` BETWEEN a.`dateTime` AND a.expires GROUP BY a.id, a.category)
GROUP BY category""",
    ),
    "q5": Query(
        "auction BIGINT, bids BIGINT",
        f"""SELECT hot.auction, hot.bids FROM {_HOT} hot
JOIN (SELECT MAX(bids) AS most, s, e FROM {_HOT} GROUP BY s, e) best
ON hot.s = best.s AND hot.e = best.e AND hot.bids >= best.most""",
    ),
    "q7": Query(
        "auction BIGINT, price BIGINT, bidder BIGINT, `dateTime` TIMESTAMP(3), extra STRING",
        f"""SELECT b.auction, b.price, b.bidder, b.`dateTime`, b.extra FROM bid b
JOIN (SELECT MAX(price) AS highest, window_end AS e FROM {_TUMBLE.format("bid", "`dateTime`")}
    GROUP BY window_start, window_end) w
ON b.price = w.highest WHERE b.`dateTime` BETWEEN w.e - INTERVAL '10' SECOND AND w.e""",
    ),
    "q8": Query(
        "id BIGINT, name STRING, s TIMESTAMP(3)",
        f"""SELECT p.id, p.name, p.s FROM (
    SELECT id, name, window_start AS s, window_end AS e FROM {_TUMBLE.format("person", "`dateTime`")}
    GROUP BY id, name, window_start, window_end) p
JOIN (SELECT seller, window_start AS s, window_end AS e FROM {_TUMBLE.format("auction", "`dateTime`")}
    GROUP BY seller, window_start, window_end) a
ON p.id = a.seller AND p.s = a.s AND p.e = a.e""",
    ),
    "q9": Query(
        """id BIGINT, `itemName` STRING, description STRING, `initialBid` BIGINT, reserve BIGINT,
    `dateTime` TIMESTAMP(3), expires TIMESTAMP(3), seller BIGINT, category BIGINT, extra STRING, auction BIGINT,
    bidder BIGINT, price BIGINT, bid_time TIMESTAMP(3), bid_extra STRING""",
        """SELECT id, `itemName`, description, `initialBid`, reserve, `dateTime`, expires, seller, category, extra,
    auction, bidder, price, bid_time, bid_extra
FROM (SELECT a.*, b.auction, b.bidder, b.price, b.`dateTime` AS bid_time, b.extra AS bid_extra,
        ROW_NUMBER() OVER (PARTITION BY a.id ORDER BY b.price DESC, b.`dateTime` ASC) AS place
    FROM auction a, bid b WHERE a.id = b.auction AND b.`dateTime` BETWEEN a.`dateTime` AND a.expires)
WHERE place <= 1""",
        compared=(0, 12, 13),
        key=0,
    ),
    "q10": Query(
        f"{_BID}, `dateTime` TIMESTAMP(3), extra STRING, dt STRING, hm STRING",
        f"""SELECT auction, bidder, price, `dateTime`, extra, {_DAY} AS dt, DATE_FORMAT(`dateTime`, 'HH:mm') AS hm
FROM bid""",
        partitions=("dt", "hm"),
    ),
    "q11": Query(
        "bidder BIGINT, bids BIGINT, s TIMESTAMP(3), e TIMESTAMP(3)",
        """SELECT bidder, COUNT(*) AS bids, SESSION_START(`dateTime`, INTERVAL '10' SECOND) AS s,
    SESSION_END(`dateTime`, INTERVAL '10' SECOND) AS e
FROM bid GROUP BY bidder, SESSION(`dateTime`, INTERVAL '10' SECOND)""",
    ),
    "q12": Query(
        "bidder BIGINT, bids BIGINT, s TIMESTAMP(3), e TIMESTAMP(3)",
        f"""SELECT bidder, COUNT(*) AS bids, window_start AS s, window_end AS e
FROM {_TUMBLE.format("bid_now", "seen_at")} GROUP BY bidder, window_start, window_end""",
        is_deterministic=False,
    ),
    "q13": Query(
        f"{_BID}, `dateTime` TIMESTAMP(3), `value` STRING",
        """SELECT b.auction, b.bidder, b.price, b.`dateTime`, s.`value` FROM bid_now b
JOIN side_input FOR SYSTEM_TIME AS OF b.seen_at AS s ON MOD(b.auction, 10000) = s.key""",
    ),
    "q14": Query(
        """auction BIGINT, bidder BIGINT, price DECIMAL(23, 3), time_of_day STRING, `dateTime` TIMESTAMP(3),
    extra STRING, c_counts BIGINT""",
        """SELECT auction, bidder, 0.908 * price AS price,
    CASE WHEN HOUR(`dateTime`) BETWEEN 8 AND 18 THEN 'day' WHEN HOUR(`dateTime`) BETWEEN 7 AND 19 THEN 'other'
        ELSE 'night' END AS time_of_day,
    `dateTime`, extra, count_char(extra, 'c') AS c_counts
FROM bid WHERE 0.908 * price > 1000000 AND 0.908 * price < 50000000""",
        setup=(
            "CREATE TEMPORARY FUNCTION count_char AS 'penstock.table.connectors.nexmark_functions.count_char' "
            "LANGUAGE PYTHON",
        ),
        in_flink=("CREATE TEMPORARY FUNCTION count_char AS 'FlinkNexmark$CountChar'",),
    ),
    "q15": Query(
        f"`day` STRING, {_count_columns('bids', 'bidders', 'auctions')}",
        f"SELECT {_DAY} AS `day`,\n    {_counts('bids', 'bidders', 'auctions')}\nFROM bid GROUP BY {_DAY}",
    ),
    "q16": Query(
        f"channel STRING, `day` STRING, `minute` STRING, {_count_columns('bids', 'bidders', 'auctions')}",
        f"""SELECT channel, {_DAY} AS `day`, MAX(DATE_FORMAT(`dateTime`, 'HH:mm')) AS `minute`,
    {_counts("bids", "bidders", "auctions")}
FROM bid GROUP BY channel, {_DAY}""",
    ),
    "q17": Query(
        f"""auction BIGINT, `day` STRING, {_count_columns("bids")}, lowest BIGINT, highest BIGINT, mean BIGINT,
    total BIGINT""",
        f"""SELECT auction, {_DAY} AS `day`, {_counts("bids")},
    MIN(price) AS lowest, MAX(price) AS highest, AVG(price) AS mean, SUM(price) AS total
FROM bid GROUP BY auction, {_DAY}""",
    ),
    "q18": Query(
        f"{_BID}, channel STRING, url STRING, `dateTime` TIMESTAMP(3), extra STRING",
        """SELECT auction, bidder, price, channel, url, `dateTime`, extra
FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY bidder, auction ORDER BY `dateTime` DESC) AS place FROM bid)
WHERE place <= 1""",
        compared=(0, 1, 5),
    ),
    "q19": Query(
        f"{_BID}, channel STRING, url STRING, `dateTime` TIMESTAMP(3), extra STRING, place BIGINT",
        """SELECT * FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY auction ORDER BY price DESC) AS place FROM bid)
WHERE place <= 10""",
        compared=(0, 2, 7),
    ),
    "q20": Query(
        f"""{_BID}, channel STRING, url STRING, bid_time TIMESTAMP(3), bid_extra STRING, `itemName` STRING,
    description STRING, `initialBid` BIGINT, reserve BIGINT, auction_time TIMESTAMP(3), expires TIMESTAMP(3),
    seller BIGINT, category BIGINT, auction_extra STRING""",
        """SELECT auction, bidder, price, channel, url, b.`dateTime`, b.extra, `itemName`, description, `initialBid`,
    reserve, a.`dateTime`, expires, seller, category, a.extra
FROM bid b JOIN auction a ON b.auction = a.id WHERE a.category = 10""",
    ),
    "q21": Query(
        f"{_BID}, channel STRING, channel_id STRING",
        f"""SELECT auction, bidder, price, channel,
    CASE WHEN LOWER(channel) = 'apple' THEN '0' WHEN LOWER(channel) = 'google' THEN '1'
        WHEN LOWER(channel) = 'facebook' THEN '2' WHEN LOWER(channel) = 'baidu' THEN '3' ELSE {_CHANNEL} END
FROM bid
WHERE {_CHANNEL} IS NOT NULL OR LOWER(channel) IN ('apple', 'google', 'facebook', 'baidu')""",
    ),
    "q22": Query(
        f"{_BID}, channel STRING, dir1 STRING, dir2 STRING, dir3 STRING",
        """SELECT auction, bidder, price, channel, SPLIT_INDEX(url, '/', 3), SPLIT_INDEX(url, '/', 4),
    SPLIT_INDEX(url, '/', 5)
FROM bid""",
    ),
}

MEASURED = tuple(name for name in QUERIES if name not in ("q10", "q13"))
"""The queries that need no files and no other table."""
SIDE_INPUT_COLUMNS = "key BIGINT, `value` STRING"
SIDE_INPUT = [{"key": key, "value": f"value of {key}"} for key in range(10_000)]
"""The rows of the table that q13 looks up."""


def insertion(name: str, options: dict[str, str] | None = None) -> tuple[str, str]:
    """Return the statements that create the sink of a query, and write into it. `Query.setup` comes before them."""
    query = QUERIES[name]
    shown = ", ".join(f"'{key}' = '{value}'" for key, value in (options or {"connector": "blackhole"}).items())
    return f"CREATE TABLE {name} ({query.columns}) WITH ({shown})", f"INSERT INTO {name} {query.sql}"
