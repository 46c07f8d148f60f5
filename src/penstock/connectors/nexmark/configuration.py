"""The settings of the generator. Names and defaults are those of the public benchmark (github nexmark/nexmark)."""

from __future__ import annotations

import dataclasses
import math

from penstock.common.types.whole_numbers import as_int

_BYTES_MAX = 65_536
_COUNT_MAX = 1_000_000
_MINIMA = {
    "seed": (0, 2**63 - 1),
    "base_time_ms": (0, 2**52),
    "person_proportion": (0, _COUNT_MAX),
    "auction_proportion": (0, _COUNT_MAX),
    "bid_proportion": (0, _COUNT_MAX),
    "avg_person_bytes": (0, _BYTES_MAX),
    "avg_auction_bytes": (0, _BYTES_MAX),
    "avg_bid_bytes": (0, _BYTES_MAX),
    "hot_auction_ratio": (1, _COUNT_MAX),
    "hot_bidder_ratio": (1, _COUNT_MAX),
    "hot_seller_ratio": (1, _COUNT_MAX),
    "in_flight_auctions": (0, _COUNT_MAX),
    "active_people": (0, _COUNT_MAX),
    "out_of_order_group_size": (1, _COUNT_MAX),
}


@dataclasses.dataclass(frozen=True, kw_only=True)
class NexmarkConfiguration:
    """Settings of Nexmark's generator.

    `seed`: other seeds have other names, prices, choices of auctions and people, and so on; kinds, ids of new people
    and auctions, and times stay. `event_rate`: events per second of event time. `base_time_ms`: time of event number 0
    (ms since the epoch; the first event has number 1). `*_proportion`: of so many people, auctions and bids an epoch
    consists, in this order. `avg_*_bytes`: average size of an event, reached by its text `extra`. `hot_*_ratio`: all
    but one of so many bids are for a hot auction or by a hot bidder, and all but one of so many auctions by a hot
    seller. `in_flight_auctions`: the others are for one of the last so many auctions. `active_people`: by one of the
    last so many people. `out_of_order_group_size`: so many consecutive events are in pseudo-random order; 1: all are
    in order.

    Raise ValueError for a value out of range.
    """

    seed: int = 0
    event_rate: float = 10_000
    base_time_ms: int = 1_436_918_400_000
    person_proportion: int = 1
    auction_proportion: int = 3
    bid_proportion: int = 46
    avg_person_bytes: int = 200
    avg_auction_bytes: int = 500
    avg_bid_bytes: int = 100
    hot_auction_ratio: int = 2
    hot_bidder_ratio: int = 4
    hot_seller_ratio: int = 4
    in_flight_auctions: int = 100
    active_people: int = 1000
    out_of_order_group_size: int = 1

    def __post_init__(self) -> None:
        for name, (least, most) in _MINIMA.items():
            value = getattr(self, name)
            number = as_int(value)
            if number is None or not least <= number <= most:
                raise ValueError(f"{name} must be an int from {least:,} to {most:,}, got {value!r}")
            object.__setattr__(self, name, number)
        if not (self.event_rate > 0 and math.isfinite(self.event_rate)):
            raise ValueError(f"event_rate must be a number of events per second above 0, got {self.event_rate!r}")
        if self.epoch_events == 0:
            raise ValueError("all proportions are 0: at least one of person, auction and bid must be above 0")

    @property
    def epoch_events(self) -> int:
        """Return the number of events after which the kinds repeat."""
        return self.person_proportion + self.auction_proportion + self.bid_proportion

    @property
    def event_delay_us(self) -> float:
        """Return the event time between two events (microseconds)."""
        return 1_000_000.0 / self.event_rate
