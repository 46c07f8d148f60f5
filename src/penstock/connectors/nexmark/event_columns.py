"""The base of the columns of a kind of event."""

from __future__ import annotations

from penstock.connectors.nexmark.configuration import NexmarkConfiguration
from penstock.connectors.nexmark.draws import Draws, Ints
from penstock.connectors.nexmark.numbering import Events
from penstock.connectors.nexmark.texts import Texts


class EventColumns:
    """Columns of some events of one kind. A subclass has a property for each."""

    def __init__(self, configuration: NexmarkConfiguration, events: Events, texts: Texts) -> None:
        self._configuration = configuration
        self._events = events
        self._texts = texts
        self._draws = Draws(configuration.seed, events.ids)

    @property
    def date_time(self) -> Ints:
        return self._events.times_ms
