"""Generate events as columns: any range of them, by arithmetic on whole arrays, without Python code per event."""

from __future__ import annotations

from collections.abc import Mapping

import numpy
import pyarrow

from penstock.connectors.nexmark.auctions import Auctions
from penstock.connectors.nexmark.bids import Bids
from penstock.connectors.nexmark.configuration import NexmarkConfiguration
from penstock.connectors.nexmark.numbering import AUCTION, BID, PERSON, Events, Ints, events_at, kinds_of
from penstock.connectors.nexmark.people import People
from penstock.connectors.nexmark.placement import Placement
from penstock.connectors.nexmark.schema import EVENT_TIME, EVENT_TYPE, event_schema, unknown_column
from penstock.connectors.nexmark.texts import texts_of

EVENTS_MAX = 1 << 20
"""Events of a batch, at most: offsets of texts have 32 bits."""
_KINDS: Mapping[str, tuple[int, type[People] | type[Auctions] | type[Bids]]] = {
    "person": (PERSON, People),
    "auction": (AUCTION, Auctions),
    "bid": (BID, Bids),
}
_PROPERTIES = {
    "emailAddress": "email_address",
    "creditCard": "credit_card",
    "itemName": "item_name",
    "initialBid": "initial_bid",
    "dateTime": "date_time",
}
"""Names of properties, where those of columns are written otherwise."""
_PER_MS = {"ms": 1, "us": 1_000, "ns": 1_000_000}


class NexmarkGenerator:
    """The events of a configuration, range by range: event k is the same in any batch that has it.

    Kinds, ids of people and auctions, hot people and auctions, and times are those of the published generator with
    equal settings. What is random there, and differs in each of its runs, is random here with the same distributions,
    and depends on the seed and the event's id alone. `schema`: columns, fields of structs and units of times to
    generate, some or all (the default) of `event_schema()`; only these are computed. Source: github nexmark/nexmark,
    NexmarkGenerator. Raise ValueError for a column that events do not have.
    """

    def __init__(self, configuration: NexmarkConfiguration, schema: pyarrow.Schema | None = None) -> None:
        self.configuration = configuration
        self.schema = event_schema() if schema is None else schema
        if (unknown := unknown_column(self.schema)) is not None:
            raise ValueError(
                f"Nexmark's events have no column {unknown!r} of the type {self.schema.field(unknown).type}: their "
                f"columns are {', '.join(f'{field.name}: {field.type}' for field in event_schema())}"
            )

    def events(self, first: int, count: int) -> pyarrow.RecordBatch:
        """Return the events `first`, from 0, to `first + count - 1`."""
        return self.events_at(numpy.arange(first, first + count, dtype=numpy.int64))

    def events_at(self, positions: Ints) -> pyarrow.RecordBatch:
        """Return the events at these positions, from 0. Raise ValueError for more than `EVENTS_MAX`."""
        return self.timed_events_at(positions)[0]

    def timed_events_at(self, positions: Ints) -> tuple[pyarrow.RecordBatch, Ints]:
        """Return events and their times (ms since the epoch)."""
        if len(positions) > EVENTS_MAX:
            raise ValueError(f"a batch has at most {EVENTS_MAX:,} events, got {len(positions):,}")
        events = events_at(self.configuration, positions)
        kinds = kinds_of(self.configuration, events)
        columns = [self._column(field, events, kinds) for field in self.schema]
        return pyarrow.RecordBatch.from_arrays(columns, schema=self.schema), events.times_ms

    def _column(self, field: pyarrow.Field, events: Events, kinds: numpy.ndarray) -> pyarrow.Array:
        if field.name == EVENT_TYPE:
            return pyarrow.array(kinds)
        if field.name == EVENT_TIME:
            return Placement.of_all(len(events)).numbers(_in_unit(events.times_ms, field.type), field.type)
        kind, columns = _KINDS[field.name]
        placement = Placement(kinds == kind)
        mine = Events(self.configuration, events.numbers[placement.rows])
        of_kind = columns(self.configuration, mine, texts_of(self.configuration.seed))
        return placement.struct(field.type, [_placed(placement, of_kind, part) for part in field.type])


def _placed(placement: Placement, columns: People | Auctions | Bids, field: pyarrow.Field) -> pyarrow.Array:
    values = getattr(columns, _PROPERTIES.get(field.name, field.name))
    if isinstance(values, pyarrow.Array):
        return placement.texts(values)
    return placement.numbers(_in_unit(values, field.type), field.type)


def _in_unit(values: Ints, kind: pyarrow.DataType) -> Ints:
    return values * _PER_MS[kind.unit] if pyarrow.types.is_timestamp(kind) and kind.unit != "ms" else values
