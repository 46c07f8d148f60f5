"""`'connector' = 'nexmark'`: the events of the Nexmark benchmark as a table.

Options have the names and the defaults of the public benchmark (github nexmark/nexmark, NexmarkSourceOptions), and
`seed` and `base-time` in addition: the same options give the same events. Nexmark's table begins at the present.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import Any

from penstock.common.config_options import ConfigOption, option
from penstock.common.config_values import BooleanType, DurationType, EnumType, IntegerType, MemorySizeType
from penstock.connectors.base.rate_limiter import RateLimiterStrategy
from penstock.connectors.nexmark.configuration import NexmarkConfiguration
from penstock.connectors.nexmark.source import NexmarkSource
from penstock.table.connectors.table_options import TableOptions
from penstock.table.logical_types import LogicalType, parse
from penstock.table.planner.nodes.tables import ContextResolvedTable

_STRINGS = "name STRING, `emailAddress` STRING, `creditCard` STRING, city STRING, state STRING"
_EVENT = parse(
    "ROW<event_type INT, "
    f"person ROW<id BIGINT, {_STRINGS}, `dateTime` TIMESTAMP(3), extra STRING>, "
    "auction ROW<id BIGINT, `itemName` STRING, description STRING, `initialBid` BIGINT, reserve BIGINT, "
    "`dateTime` TIMESTAMP(3), expires TIMESTAMP(3), seller BIGINT, category BIGINT, extra STRING>, "
    "bid ROW<auction BIGINT, bidder BIGINT, price BIGINT, channel STRING, url STRING, `dateTime` TIMESTAMP(3), "
    "extra STRING>, `dateTime` TIMESTAMP(3)>"
)
"""The columns of an event. A table may have some of them, and rows with some of their fields, in any order."""
_DEFAULTS = NexmarkConfiguration()


class RateShape(Enum):
    """How the rate changes between its two values, by Nexmark's names. Here both values are equal."""

    SQUARE = "SQUARE"
    SINE = "SINE"


_FIRST_RATE = option("first-event.rate", IntegerType(least=1), int(_DEFAULTS.event_rate))
_NEXT_RATE = option("next-event.rate", IntegerType(least=1), int(_DEFAULTS.event_rate))
_EVENTS = option("events.num", IntegerType(64, least=0), 0)
_RATE_LIMITED = option("rate.limited", BooleanType(), False)
_MAX_EMIT_SPEED = option("max-emit-speed", BooleanType(), True)
_KEEP_ALIVE = option("keep-alive", BooleanType(), False)
_STOP_AT = option("stop-at", IntegerType(64), -1)
_RATE_SHAPE = option("rate.shape", EnumType(RateShape), RateShape.SQUARE)
_RATE_PERIOD = option("rate.period", DurationType(), 600_000)

_SETTINGS: dict[str, ConfigOption[int]] = {
    "person_proportion": option("person.proportion", IntegerType(least=0), _DEFAULTS.person_proportion),
    "auction_proportion": option("auction.proportion", IntegerType(least=0), _DEFAULTS.auction_proportion),
    "bid_proportion": option("bid.proportion", IntegerType(least=0), _DEFAULTS.bid_proportion),
    "avg_person_bytes": option("person.avg-size", MemorySizeType(), _DEFAULTS.avg_person_bytes),
    "avg_auction_bytes": option("auction.avg-size", MemorySizeType(), _DEFAULTS.avg_auction_bytes),
    "avg_bid_bytes": option("bid.avg-size", MemorySizeType(), _DEFAULTS.avg_bid_bytes),
    "hot_auction_ratio": option("bid.hot-ratio.auctions", IntegerType(least=1), _DEFAULTS.hot_auction_ratio),
    "hot_bidder_ratio": option("bid.hot-ratio.bidders", IntegerType(least=1), _DEFAULTS.hot_bidder_ratio),
    "hot_seller_ratio": option("auction.hot-ratio.sellers", IntegerType(least=1), _DEFAULTS.hot_seller_ratio),
    "seed": option("seed", IntegerType(64, least=0), _DEFAULTS.seed),
    "base_time_ms": option("base-time", IntegerType(64, least=0), _DEFAULTS.base_time_ms),
}
"""Options by the settings of the generator that they are."""

OPTIONS: tuple[ConfigOption[Any], ...] = (
    *(_FIRST_RATE, _NEXT_RATE, _EVENTS, _RATE_LIMITED, _MAX_EMIT_SPEED, _KEEP_ALIVE, _STOP_AT, _RATE_SHAPE),
    *(_RATE_PERIOD, *_SETTINGS.values()),
)


@dataclass(frozen=True)
class NexmarkTable:
    """A table of Nexmark's events.

    `event_count`: None: it has no end. `rate`: events per second of processing time; None: as fast as possible.
    """

    configuration: NexmarkConfiguration
    event_count: int | None = None
    rate: int | None = None

    @staticmethod
    def of(table: ContextResolvedTable) -> NexmarkTable:
        """Return the table that a plan describes.

        Raises SqlError for a column that events do not have, and for an option that is not known, has a wrong value, or
        that the generator does not have: a rate that changes, an end that does not end the source.
        """
        resolved = table.resolved
        options = TableOptions(table.identifier, resolved.options, OPTIONS)
        for column in resolved.schema.columns:
            if column.kind == "PHYSICAL" and column.data_type is not None:
                _check_column(options, column.name, column.data_type.logical)
            elif column.kind == "METADATA":
                raise options.error(f"the column {column.name} is metadata, which Nexmark's events do not have")
        rate, next_rate = options.get(_FIRST_RATE), options.get(_NEXT_RATE)
        if rate != next_rate:
            raise options.error(f"first-event.rate ({rate}) and next-event.rate ({next_rate}) must be equal")
        for refused, default in ((_KEEP_ALIVE, False), (_STOP_AT, -1)):
            if options.get(refused) != default:
                raise options.error(f"{refused.key} is not supported: events.num ends the source")
        settings: dict[str, Any] = {name: options.get(one) for name, one in _SETTINGS.items()}
        try:
            configuration = NexmarkConfiguration(event_rate=rate, **settings)
        except ValueError as error:
            raise options.error(str(error)) from None
        is_limited = options.get(_RATE_LIMITED) or not options.get(_MAX_EMIT_SPEED)
        return NexmarkTable(configuration, options.get(_EVENTS) or None, rate if is_limited else None)

    def source(self) -> NexmarkSource:
        """Return the source of the events."""
        limit = RateLimiterStrategy.no_op() if self.rate is None else RateLimiterStrategy.per_second(self.rate)
        return NexmarkSource(self.configuration, self.event_count, limit)


def _check_column(options: TableOptions, name: str, logical: LogicalType) -> None:
    expected = dict(zip(_EVENT.names, _EVENT.children, strict=True)).get(name)
    if expected is None or not _is_part(logical, expected):
        known = "no such column" if expected is None else f"the type {expected}"
        raise options.error(f"the column {name} has the type {logical}; Nexmark's events have {known}")


def _is_part(found: LogicalType, known: LogicalType) -> bool:
    """Return whether a column has the type, or is a row with some of the fields."""
    if found.root != "ROW" or known.root != "ROW":
        return found.with_nullability(True) == known
    fields = dict(zip(known.names, known.children, strict=True))
    return all(
        name in fields and _is_part(one, fields[name]) for name, one in zip(found.names, found.children, strict=True)
    )
