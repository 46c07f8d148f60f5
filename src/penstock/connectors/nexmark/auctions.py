"""The columns of auctions. Distributions are those of nexmark/nexmark, AuctionGenerator."""

from __future__ import annotations

from functools import cached_property

import numpy
import pyarrow

from penstock.connectors.nexmark.configuration import NexmarkConfiguration
from penstock.connectors.nexmark.draws import Draw, Ints
from penstock.connectors.nexmark.event_columns import EventColumns
from penstock.connectors.nexmark.numbering import FIRST_ID, Events, times_ms
from penstock.connectors.nexmark.people import active_person, hot_person, lengths
from penstock.connectors.nexmark.prices import prices

_CATEGORIES, _FIRST_CATEGORY = 5, 10
_LEAD = 10
"""Auctions may be chosen before they exist, up to so many."""
_HOT = 100
"""A hot auction is the first of so many consecutive ones."""
_BYTES_OF_NUMBERS = 48
_SELLER, _CATEGORY, _FIRST_PRICE, _RESERVE, _EXPIRES, _ITEM, _DESCRIPTION, _EXTRA = range(8)
"""The draws of auctions."""


class Auctions(EventColumns):
    """The columns of events that are auctions, each computed when it is first needed."""

    @cached_property
    def id(self) -> Ints:
        return self._events.last_auctions() + FIRST_ID

    @cached_property
    def item_name(self) -> pyarrow.StringArray:
        return self._texts.phrases(self._draws[_ITEM], 20)

    @cached_property
    def description(self) -> pyarrow.StringArray:
        return self._texts.phrases(self._draws[_DESCRIPTION], 100)

    @cached_property
    def initial_bid(self) -> Ints:
        return prices(self._draws[_FIRST_PRICE])

    @cached_property
    def reserve(self) -> Ints:
        return self.initial_bid + prices(self._draws[_RESERVE])

    @cached_property
    def expires(self) -> Ints:
        """The time, on average, at which all auctions that are in flight now have successors."""
        configuration = self._configuration
        # Without auctions there is no time to compute.
        auctions = max(configuration.auction_proportion, 1)
        ahead = configuration.in_flight_auctions * configuration.epoch_events // auctions
        horizon_ms = times_ms(configuration, self._events.numbers + ahead) - self._events.times_ms
        length_ms = self._draws[_EXPIRES].below(numpy.maximum(horizon_ms * 2, 1)) + 1
        return self._events.times_ms + length_ms

    @cached_property
    def seller(self) -> Ints:
        draw = self._draws[_SELLER]
        is_hot = draw.below(self._configuration.hot_seller_ratio) > 0
        others = active_person(self._configuration, self._events, draw)
        return numpy.where(is_hot, hot_person(self._events), others) + FIRST_ID

    @cached_property
    def category(self) -> Ints:
        return self._draws[_CATEGORY].below(_CATEGORIES) + _FIRST_CATEGORY

    @cached_property
    def extra(self) -> pyarrow.StringArray:
        present = _BYTES_OF_NUMBERS + lengths(self.item_name) + lengths(self.description)
        return self._texts.extra(self._draws[_EXTRA], present, self._configuration.avg_auction_bytes)


def hot_auction(events: Events) -> Ints:
    """Return the first of the last hundred auctions, counted from 0."""
    return numpy.maximum(events.last_auctions(), 0) // _HOT * _HOT


def open_auction(configuration: NexmarkConfiguration, events: Events, draw: Draw) -> Ints:
    """Return one of the auctions in flight or of the next ten, counted from 0."""
    last = events.last_auctions()
    first = numpy.maximum(last - configuration.in_flight_auctions, 0)
    return first + draw.below(last - first + 1 + _LEAD)
