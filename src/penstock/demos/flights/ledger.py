"""The books: where each report went, and what the jobs found out.

In the windows' book a report is entered under the last of its windows (the one to close last, so the last chance to be
taken), or as late. In the aircraft's book it is followed, late, or without an aircraft. A report in no place was lost,
one in two places doubled: both must be none, and `check` raises if they are not.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import Any, NamedTuple

from penstock.common.errors import PenstockError
from penstock.demos.flights.job import KNOCK_ON, LATE_FOR_AIRCRAFT, LATE_FOR_WINDOWS, WINDOW, WITHOUT_AIRCRAFT
from penstock.demos.flights.records import AircraftLog, AirportWindow, KnockOn


class AccountingError(PenstockError):
    """Reports are in no place or in two."""


class Balance(NamedTuple):
    """One book, added up."""

    read: int
    taken: int
    late: int
    aside: int
    """Without an aircraft: not for this book."""
    lost: int
    doubled: int


class Ledger:
    """Takes the results of the program in the order in which they come."""

    def __init__(self, read: Iterable[int]) -> None:
        """`read`: ids of the reports that the source was to replay."""
        self._read = set(read)
        self.windows: dict[tuple[str, str, int], AirportWindow] = {}
        self.firings = 0
        self.knock_ons: list[KnockOn] = []
        self.logs: list[AircraftLog] = []
        self._ids: dict[str, list[int]] = {LATE_FOR_WINDOWS: [], LATE_FOR_AIRCRAFT: [], WITHOUT_AIRCRAFT: []}

    def enter(self, name: str, value: Any) -> None:
        """One result, with the name of its stream."""
        if name == WINDOW:
            # A window that fires again replaces what it gave before.
            self.windows[value.airport, value.kind, value.start_ms] = value
            self.firings += 1
        elif name != KNOCK_ON:
            self._ids[name].append(value.id)
        elif isinstance(value, KnockOn):
            self.knock_ons.append(value)
        else:
            self.logs.append(value)

    def windows_book(self) -> Balance:
        """Where the reports are in the windows' book."""
        taken = [id for window in self.windows.values() for id in window.first_slide]
        return self._balance(taken, self._ids[LATE_FOR_WINDOWS], [])

    def aircraft_book(self) -> Balance:
        """Where the reports are in the aircraft's book."""
        taken = [id for log in self.logs for id in log.followed]
        return self._balance(taken, self._ids[LATE_FOR_AIRCRAFT], self._ids[WITHOUT_AIRCRAFT])

    def rows(self) -> list[AirportWindow | KnockOn | AircraftLog]:
        """All results, in an order of their own: equal runs have equal rows."""
        return [*sorted(self.windows.values()), *sorted(self.knock_ons), *sorted(self.logs)]

    def check(self) -> None:
        """Raise AccountingError unless each report that was read is in one place of each book, and no other one is."""
        for book, balance in (("windows", self.windows_book()), ("aircraft", self.aircraft_book())):
            if balance.lost or balance.doubled:
                raise AccountingError(
                    f"the book of the {book} does not add up: {balance.lost} lost, {balance.doubled} doubled"
                )
            assert balance.read == balance.taken + balance.late + balance.aside

    def _balance(self, taken: list[int], late: list[int], aside: list[int]) -> Balance:
        entries = Counter(taken)
        entries.update(late)
        entries.update(aside)
        unknown = entries.keys() - self._read
        doubled = sum(count - 1 for count in entries.values()) + len(unknown)
        return Balance(len(self._read), len(taken), len(late), len(aside), len(self._read - entries.keys()), doubled)
