"""The columns of people. Distributions are those of nexmark/nexmark, PersonGenerator."""

from __future__ import annotations

from functools import cached_property

import numpy
import pyarrow
from pyarrow import compute

from penstock.connectors.nexmark.configuration import NexmarkConfiguration
from penstock.connectors.nexmark.draws import Draw, Ints
from penstock.connectors.nexmark.event_columns import EventColumns
from penstock.connectors.nexmark.numbering import FIRST_ID, Events

_FIRST_NAMES = ("Peter", "Paul", "Luke", "John", "Saul", "Vicky", "Kate", "Julie", "Sarah", "Deiter", "Walter")
_LAST_NAMES = ("Shultz", "Abrams", "Spencer", "White", "Bartels", "Walton", "Smith", "Jones", "Noris")
_NAMES = pyarrow.array([f"{first} {last}" for first in _FIRST_NAMES for last in _LAST_NAMES])
_CITIES = pyarrow.array(
    ["Phoenix", "Los Angeles", "San Francisco", "Boise", "Portland", "Bend", "Redmond", "Seattle", "Kent", "Cheyenne"]
)
_STATES = pyarrow.array(["AZ", "CA", "ID", "OR", "WA", "WY"])
_LEAD = 10
"""People may be chosen before they exist, up to so many."""
_HOT = 100
"""A hot person is the first, or of bidders the second, of so many consecutive ones."""
_CARD_DIGITS = 19
_NAME, _USER, _DOMAIN, _CARD_START, _CARD_END, _CITY, _EXTRA = range(7)
"""The draws of people."""


class People(EventColumns):
    """The columns of events that are people, each computed when it is first needed."""

    @cached_property
    def id(self) -> Ints:
        return self._events.last_people() + FIRST_ID

    @cached_property
    def name(self) -> pyarrow.StringArray:
        return _NAMES.take(pyarrow.array(self._draws[_NAME].below(len(_NAMES))))

    @cached_property
    def email_address(self) -> pyarrow.StringArray:
        users, domains = self._texts.phrases(self._draws[_USER], 7), self._texts.phrases(self._draws[_DOMAIN], 5)
        addresses = [users, "@", domains, ".com"]
        return compute.binary_join_element_wise(*addresses, "")

    @cached_property
    def credit_card(self) -> pyarrow.StringArray:
        digits = numpy.full((len(self._events), _CARD_DIGITS), ord(" "), numpy.uint8)
        draws = (self._draws[_CARD_START], self._draws[_CARD_END])
        for group in range(4):
            number = draws[group // 2].below(10_000)
            for place in range(4):
                digits[:, group * 5 + place] = number // 10 ** (3 - place) % 10 + ord("0")
        offsets = numpy.arange(len(self._events) + 1, dtype=numpy.int32) * numpy.int32(_CARD_DIGITS)
        return pyarrow.StringArray.from_buffers(
            len(self._events), pyarrow.py_buffer(offsets), pyarrow.py_buffer(digits)
        )

    @cached_property
    def city(self) -> pyarrow.StringArray:
        return _CITIES.take(pyarrow.array(self._draws[_CITY].below(len(_CITIES))))

    @cached_property
    def state(self) -> pyarrow.StringArray:
        draw = self._draws[_CITY]
        draw.below(len(_CITIES))
        return _STATES.take(pyarrow.array(draw.below(len(_STATES))))

    @cached_property
    def extra(self) -> pyarrow.StringArray:
        present = 8 + sum(map(lengths, (self.name, self.email_address, self.credit_card, self.city, self.state)))
        return self._texts.extra(self._draws[_EXTRA], present, self._configuration.avg_person_bytes)


def hot_person(events: Events) -> Ints:
    """Return the first of the last hundred people, counted from 0."""
    return numpy.maximum(events.last_people(), 0) // _HOT * _HOT


def active_person(configuration: NexmarkConfiguration, events: Events, draw: Draw) -> Ints:
    """Return one of the last active people or of the next ten, counted from 0."""
    known = events.last_people() + 1
    active = numpy.minimum(known, configuration.active_people)
    return known - active + draw.below(active + _LEAD)


def lengths(texts: pyarrow.StringArray) -> Ints:
    """Return the lengths of texts in ASCII."""
    found: Ints = compute.binary_length(texts).to_numpy().astype(numpy.int64)
    return found
