"""Derive from an event's number its id, kind and time, and the people and auctions before it: without chance.

Event k, from 0, has the number 1 + k and the id 2 + k, as the first event of the published table has. In groups of
`out_of_order_group_size` numbers, each event has the number of another one. Its id divided by the epoch's length gives
the epoch and the place in it: first come the people, then the auctions, then the bids. Source: nexmark/nexmark,
GeneratorConfig, PersonGenerator and AuctionGenerator, with one event generator.
"""

from __future__ import annotations

import numpy
from numpy.typing import NDArray

from penstock.connectors.nexmark.configuration import NexmarkConfiguration

Ints = NDArray[numpy.int64]
PERSON, AUCTION, BID = range(3)
"""The kinds of events: values of `event_type`."""
FIRST_ID = 1000
"""Id of the first person and of the first auction."""
_FIRST_EVENT_NUMBER = _FIRST_EVENT_ID = 1
_SHUFFLE = 953


class Events:
    """Numbered events, as arrays of one length: `numbers` (adjusted), `ids`, `epochs`, `places`, `times_ms`."""

    def __init__(self, configuration: NexmarkConfiguration, numbers: Ints) -> None:
        self._configuration = configuration
        self.numbers = numbers
        self.ids = numbers + _FIRST_EVENT_ID
        self.epochs = self.ids // configuration.epoch_events
        self.places = self.ids - self.epochs * configuration.epoch_events
        self.times_ms = times_ms(configuration, numbers)

    def __len__(self) -> int:
        return len(self.numbers)

    def last_people(self) -> Ints:
        """Return the last person up to each event, itself included, counted from 0; -1 if there are no people."""
        people = self._configuration.person_proportion
        last: Ints = self.epochs * people + numpy.minimum(self.places, people - 1)
        return last

    def last_auctions(self) -> Ints:
        """Return the last auction up to each event, itself included, counted from 0; -1 before the first one."""
        auctions = self._configuration.auction_proportion
        places = self.places - self._configuration.person_proportion
        last: Ints = self.epochs * auctions + numpy.clip(places, -1, auctions - 1)
        return last


def events_at(configuration: NexmarkConfiguration, positions: Ints) -> Events:
    """Return the events at positions of the whole input, from 0."""
    numbers = positions + _FIRST_EVENT_NUMBER
    group = configuration.out_of_order_group_size
    if group > 1:
        numbers = numbers // group * group + numbers * _SHUFFLE % group
    return Events(configuration, numbers)


def kinds_of(configuration: NexmarkConfiguration, events: Events) -> NDArray[numpy.int32]:
    """Return the kind of each event."""
    counts = (configuration.person_proportion, configuration.auction_proportion, configuration.bid_proportion)
    kinds: NDArray[numpy.int32] = numpy.repeat(numpy.arange(3, dtype=numpy.int32), counts)[events.places]
    return kinds


def times_ms(configuration: NexmarkConfiguration, numbers: Ints) -> Ints:
    """Return the event time of numbers (ms since the epoch): microseconds are truncated first, then milliseconds."""
    return (numbers * configuration.event_delay_us).astype(numpy.int64) // 1000 + configuration.base_time_ms
