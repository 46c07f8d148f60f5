"""The books: where each report went, and what the jobs found out.

In the windows' book a report is entered under the last of its windows (the one to close last, so the last chance to be
taken), or as late. In the aircraft's book it is followed, late, or without an aircraft. A report in no place was lost,
one in two places doubled: both must be none, and `check` raises if they are not.

Event time is not part of a checkpoint. So the first reports after a restart may be let into a window that had been
closed for them: it opens and fires once more, with these alone. It is then entered beside what it was before.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import Any, NamedTuple

from penstock.common.errors import PenstockError
from penstock_examples.flights.job import KNOCK_ON, LATE_FOR_AIRCRAFT, LATE_FOR_WINDOWS, WINDOW, WITHOUT_AIRCRAFT
from penstock_examples.flights.records import AircraftLog, AirportWindow, KnockOn


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
        self.reopened: list[AirportWindow] = []
        """What windows were before they opened once more."""
        self.firings = 0
        self.knock_ons: list[KnockOn] = []
        self.logs: list[AircraftLog] = []
        self._ids: dict[str, list[int]] = {LATE_FOR_WINDOWS: [], LATE_FOR_AIRCRAFT: [], WITHOUT_AIRCRAFT: []}

    def enter(self, name: str, value: Any) -> None:
        """One result, with the name of its stream."""
        if name == WINDOW:
            key = value.airport, value.kind, value.start_ms
            before = self.windows.get(key)
            if before is not None and not set(before.first_slide) <= set(value.first_slide):
                self.reopened.append(before)
            # A window that fires again replaces what it gave before.
            self.windows[key] = value
            self.firings += 1
        elif name != KNOCK_ON:
            self._ids[name].append(value.id)
        elif isinstance(value, KnockOn):
            self.knock_ons.append(value)
        else:
            self.logs.append(value)

    def windows_book(self) -> Balance:
        """Where the reports are in the windows' book."""
        taken = [id for window in (*self.windows.values(), *self.reopened) for id in window.first_slide]
        return self._balance(taken, self._ids[LATE_FOR_WINDOWS], [])

    def aircraft_book(self) -> Balance:
        """Where the reports are in the aircraft's book."""
        taken = [id for log in self.logs for id in log.followed]
        return self._balance(taken, self._ids[LATE_FOR_AIRCRAFT], self._ids[WITHOUT_AIRCRAFT])

    def rows(self) -> list[AirportWindow | KnockOn | AircraftLog]:
        """All results, in an order of their own: equal runs have equal rows."""
        return [*sorted(self.windows.values()), *sorted(self.knock_ons), *sorted(self.logs)]

    def check(self, restarted: bool = False) -> None:
        """Raise AccountingError unless each report that was read is in one place of each book, and no other one is.

        Only in a job that was `restarted` may windows have opened once more.
        """
        if self.reopened and not restarted:
            raise AccountingError(f"{len(self.reopened)} windows lost what they had, and opened once more")
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
