"""Accounting: where each report was processed, and the results of the jobs.

The windows' book records a report under the last of its windows (the last to close, and so the last chance to be
accepted), or as late. The aircraft's book records it as followed, late, or without an aircraft. A report without an
entry is lost, one with two entries is duplicated: `check` raises in both cases.

Event time is not part of a checkpoint. So the first reports after a restart may be added to a window that was already
closed: it opens and fires again, with these reports only. It is recorded in addition to its earlier result.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import Any, NamedTuple

from penstock.common.errors import PenstockError
from penstock_examples.flights.job import KNOCK_ON, LATE_FOR_AIRCRAFT, LATE_FOR_WINDOWS, WINDOW, WITHOUT_AIRCRAFT
from penstock_examples.flights.records import AircraftLog, AirportWindow, KnockOn


class AccountingError(PenstockError):
    """Reports are lost or duplicated."""


class Balance(NamedTuple):
    """The totals of one book."""

    read: int
    processed: int
    late: int
    aside: int
    """Reports without an aircraft, which this book does not count."""
    lost: int
    doubled: int


class Ledger:
    """Records the results of the program in the order of their arrival."""

    def __init__(self, read: Iterable[int]) -> None:
        """`read`: ids of the reports that the source was to replay."""
        self._read = set(read)
        self.windows: dict[tuple[str, str, int], AirportWindow] = {}
        self.reopened: list[AirportWindow] = []
        """Earlier results of windows that opened again."""
        self.firings = 0
        self.knock_ons: list[KnockOn] = []
        self.logs: list[AircraftLog] = []
        self._ids: dict[str, list[int]] = {LATE_FOR_WINDOWS: [], LATE_FOR_AIRCRAFT: [], WITHOUT_AIRCRAFT: []}

    def enter(self, name: str, value: Any) -> None:
        """Record one result, with the name of its stream."""
        if name == WINDOW:
            key = value.airport, value.kind, value.start_ms
            before = self.windows.get(key)
            if before is not None and not set(before.first_slide) <= set(value.first_slide):
                self.reopened.append(before)
            # A window that fires again replaces its earlier result.
            self.windows[key] = value
            self.firings += 1
        elif name != KNOCK_ON:
            self._ids[name].append(value.id)
        elif isinstance(value, KnockOn):
            self.knock_ons.append(value)
        else:
            self.logs.append(value)

    def windows_book(self) -> Balance:
        """Return the totals of the windows' book."""
        processed = [id for window in (*self.windows.values(), *self.reopened) for id in window.first_slide]
        return self._balance(processed, self._ids[LATE_FOR_WINDOWS], [])

    def aircraft_book(self) -> Balance:
        """Return the totals of the aircraft's book."""
        processed = [id for log in self.logs for id in log.followed]
        return self._balance(processed, self._ids[LATE_FOR_AIRCRAFT], self._ids[WITHOUT_AIRCRAFT])

    def rows(self) -> list[AirportWindow | KnockOn | AircraftLog]:
        """Return all results in a canonical order: equal runs have equal rows."""
        return [*sorted(self.windows.values()), *sorted(self.knock_ons), *sorted(self.logs)]

    def check(self, restarted: bool = False) -> None:
        """Raise AccountingError unless each report that was read has exactly one entry in each book, with no others.

        Windows may have opened again only in a job that was `restarted`.
        """
        if self.reopened and not restarted:
            raise AccountingError(f"{len(self.reopened)} windows lost their contents and opened again")
        for book, balance in (("windows", self.windows_book()), ("aircraft", self.aircraft_book())):
            if balance.lost or balance.doubled:
                raise AccountingError(
                    f"the book of the {book} does not add up: {balance.lost} lost, {balance.doubled} doubled"
                )
            assert balance.read == balance.processed + balance.late + balance.aside

    def _balance(self, processed: list[int], late: list[int], aside: list[int]) -> Balance:
        entries = Counter(processed)
        entries.update(late)
        entries.update(aside)
        unknown = entries.keys() - self._read
        doubled = sum(count - 1 for count in entries.values()) + len(unknown)
        return Balance(
            read=len(self._read),
            processed=len(processed),
            late=len(late),
            aside=len(aside),
            lost=len(self._read - entries.keys()),
            doubled=doubled,
        )
