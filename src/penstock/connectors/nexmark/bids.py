"""The columns of bids. Distributions are those of nexmark/nexmark, BidGenerator."""

from __future__ import annotations

from functools import cached_property

import numpy
import pyarrow

from penstock.connectors.nexmark.auctions import hot_auction, open_auction
from penstock.connectors.nexmark.draws import Ints
from penstock.connectors.nexmark.event_columns import EventColumns
from penstock.connectors.nexmark.numbering import FIRST_ID
from penstock.connectors.nexmark.people import active_person, hot_person
from penstock.connectors.nexmark.prices import prices
from penstock.connectors.nexmark.texts import HOT_CHANNELS

_BYTES_OF_NUMBERS = 32
_AUCTION, _BIDDER, _PRICE, _CHANNEL, _EXTRA = range(5)
"""The draws of bids."""


class Bids(EventColumns):
    """The columns of events that are bids, each computed when it is first needed."""

    @cached_property
    def auction(self) -> Ints:
        draw = self._draws[_AUCTION]
        is_hot = draw.below(self._configuration.hot_auction_ratio) > 0
        others = open_auction(self._configuration, self._events, draw)
        return numpy.where(is_hot, hot_auction(self._events), others) + FIRST_ID

    @cached_property
    def bidder(self) -> Ints:
        """The second of a hundred people is hot, so that hot bidders and hot sellers differ.

        Like the published generator, add the first id twice: no person with an id below 2000 bids.
        """
        draw = self._draws[_BIDDER]
        is_hot = draw.below(self._configuration.hot_bidder_ratio) > 0
        others = active_person(self._configuration, self._events, draw)
        return numpy.where(is_hot, hot_person(self._events) + 1, others) + 2 * FIRST_ID

    @cached_property
    def price(self) -> Ints:
        return prices(self._draws[_PRICE])

    @cached_property
    def channel(self) -> pyarrow.StringArray:
        return self._texts.channels.take(self._channels)

    @cached_property
    def url(self) -> pyarrow.StringArray:
        return self._texts.urls.take(self._channels)

    @cached_property
    def extra(self) -> pyarrow.StringArray:
        average = self._configuration.avg_bid_bytes
        return self._texts.extra(self._draws[_EXTRA], numpy.full(len(self._events), _BYTES_OF_NUMBERS), average)

    @cached_property
    def _channels(self) -> pyarrow.Array:
        """Numbers of channels: every second bid comes from one of the hot ones."""
        draw = self._draws[_CHANNEL]
        is_hot = draw.below(2) > 0
        hot, all_count = len(HOT_CHANNELS), len(self._texts.channels)
        bounds = numpy.where(is_hot, hot, all_count - hot)
        return pyarrow.array((draw.below(bounds) + numpy.where(is_hot, 0, hot)).astype(numpy.int32))
