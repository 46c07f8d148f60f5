"""`'connector' = 'nexmark'`: its options are Nexmark's, its columns those of the events."""

from __future__ import annotations

from typing import Any

import pytest

from penstock.connectors.nexmark.configuration import NexmarkConfiguration
from penstock.connectors.nexmark.schema import EVENT_ROW
from penstock.table.connectors.nexmark_table import NexmarkTable
from penstock.table.planner.data_types import read_data_type
from penstock.table.planner.errors import SqlError
from penstock.table.planner.nodes.tables import ContextResolvedTable, ResolvedTable, TableColumn, TableSchema

COLUMNS = {"event_type": "INT", "bid": "ROW<`price` BIGINT, `auction` BIGINT, `dateTime` TIMESTAMP(3)>"}


def nexmark(columns: dict[str, str] | None = None, **options: str) -> NexmarkTable:
    """The table with these columns, and with these options: `_` is `.`, `__` is `-`."""
    given = {name.replace("__", "-").replace("_", "."): value for name, value in options.items()}
    physical = [TableColumn(name=name, data_type=read_data_type(kind)) for name, kind in (columns or COLUMNS).items()]
    computed = TableColumn(name="at", kind="COMPUTED")
    table = ResolvedTable(schema=TableSchema(columns=(*physical, computed)), options={"connector": "nexmark", **given})
    return NexmarkTable.of(ContextResolvedTable(identifier="`c`.`d`.`events`", resolved_table=table))


def test_the_defaults_are_those_of_the_generator() -> None:
    """The same table would have other events than the same source."""
    assert nexmark() == NexmarkTable(NexmarkConfiguration())
    assert nexmark(max__emit__speed="true", keep__alive="FALSE", stop__at="-1") == nexmark()


def test_options_are_settings_of_the_generator() -> None:
    """A benchmark would run with other proportions or sizes."""
    found = nexmark(
        first__event_rate="500", next__event_rate="500", events_num="1000", person_proportion="2",
        auction_proportion="3", bid_proportion="5", person_avg__size="1 kb", auction_avg__size="300b",
        bid_avg__size="50", bid_hot__ratio_auctions="7", bid_hot__ratio_bidders="8", auction_hot__ratio_sellers="9",
        seed="11", base__time="1000", rate_shape="sine", rate_period="10 min",
    )  # fmt: skip
    assert found.configuration == NexmarkConfiguration(
        seed=11, event_rate=500, base_time_ms=1000, person_proportion=2, auction_proportion=3, bid_proportion=5,
        avg_person_bytes=1024, avg_auction_bytes=300, avg_bid_bytes=50, hot_auction_ratio=7, hot_bidder_ratio=8,
        hot_seller_ratio=9,
    )  # fmt: skip
    assert (found.event_count, found.rate) == (1000, None)
    assert found.source().describe() == "1,000 events, seed 11"


@pytest.mark.parametrize("limited", [{"rate_limited": "true"}, {"max__emit__speed": "false"}])
def test_a_rate(limited: dict[str, str]) -> None:
    """Latency would be measured at full speed."""
    assert nexmark(first__event_rate="50", next__event_rate="50", **limited).rate == 50


def test_all_columns_of_the_events() -> None:
    """A column of the published table would be refused."""
    columns = {}
    for name, kind in zip(EVENT_ROW.get_field_names(), EVENT_ROW.get_field_types(), strict=True):
        columns[name] = _sql_type(kind)
    assert nexmark(columns) == nexmark()


def _sql_type(kind: Any) -> str:
    """The type of a column in SQL, of the type that the source declares."""
    if hasattr(kind, "get_field_names"):
        pairs = zip(kind.get_field_names(), kind.get_field_types(), strict=True)
        return f"ROW<{', '.join(f'`{name}` {_sql_type(one)}' for name, one in pairs)}>"
    arrow = str(kind.to_arrow())
    return {"int32": "INT", "int64": "BIGINT", "string": "STRING", "large_string": "STRING"}.get(arrow, "TIMESTAMP(3)")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (
            {"event__rates": "5"},
            r"connector 'nexmark' has no option 'event-rates'\. It has auction\.avg-size, ",
        ),
        ({"events_num": "many"}, r"`events` can't be used: the value of 'events\.num' must be a whole number"),
        ({"events_num": "-1"}, "of 0 or more"),
        ({"person_avg__size": "big"}, r"'person\.avg-size' must be a size"),
        ({"person_avg__size": "1 mb"}, "avg_person_bytes must be an int from 0 to 65,536"),
        ({"rate_shape": "TRIANGLE"}, "must be one of SQUARE, SINE"),
        ({"first__event_rate": "5"}, r"first-event\.rate \(5\) and next-event\.rate \(10000\) must be equal"),
        ({"keep__alive": "true"}, r"keep-alive is not supported: events\.num ends"),
        ({"stop__at": "7"}, "stop-at is not supported"),
        ({"person_proportion": "0", "auction_proportion": "0", "bid_proportion": "0"}, "all proportions are 0"),
    ],
)
def test_options_that_are_refused(options: dict[str, str], message: str) -> None:
    """A misspelled option would do nothing."""
    with pytest.raises(SqlError, match=message):
        nexmark(**options)


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        ({"price": "BIGINT"}, "the column price has the type BIGINT; Nexmark's events have no such column"),
        ({"event_type": "BIGINT"}, "the column event_type has the type BIGINT; Nexmark's events have the type INT"),
        ({"bid": "ROW<`price` INT>"}, r"bid has the type ROW<`price` INT>; .* the type ROW<`auction` BIGINT"),
        ({"bid": "ROW<`cost` BIGINT>"}, "the column bid"),
        ({"dateTime": "TIMESTAMP(6)"}, r"the type TIMESTAMP\(3\)"),
    ],
)
def test_columns_that_events_do_not_have(columns: dict[str, str], message: str) -> None:
    """A query would fail at its first event, or read NULL."""
    with pytest.raises(SqlError, match=message):
        nexmark(columns)


def test_metadata() -> None:
    """A column of metadata would be NULL."""
    schema = TableSchema(columns=(TableColumn(name="t", kind="METADATA", data_type=read_data_type("INT")),))
    table = ResolvedTable(schema=schema, options={"connector": "nexmark"})
    with pytest.raises(SqlError, match="the column t is metadata, which Nexmark's events do not have"):
        NexmarkTable.of(ContextResolvedTable(identifier="t", resolved_table=table))


def test_watermark_options_belong_to_all_sources() -> None:
    """A table could not have an idle timeout."""
    assert nexmark(scan_watermark_idle__timeout="1 s") == nexmark()
