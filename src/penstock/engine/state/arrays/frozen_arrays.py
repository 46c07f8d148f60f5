"""The rows of one or several tables of arrays at one moment, sorted by key group for a snapshot.

A snapshot file is sorted by key group, the rows of a table are not. All rows are looked at once for each span of key
groups, whose rows are then in memory a second time: a small part of the table.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy

from penstock.engine.state.arrays.frozen_rows import Copied, FrozenRows
from penstock.engine.state.arrays.integer_groups import groups_of_integers
from penstock.engine.state.arrays.row_keys import Integers
from penstock.engine.state.arrays.stored_columns import Piece, joined_pieces, packed
from penstock.engine.state.key_groups import KeyGroups
from penstock.engine.state.tables import FrozenTable, Pieces

SPAN_ROWS_MIN = 1 << 16
"""Rows of a span: about as many, or a part of all."""
_SPANS_MAX = 32
PIECE_ROWS = 1 << 15
_WithGroups = tuple[Any, Piece]
"""The key groups of entries, and these."""


class FrozenArrays:
    """`removed`: entries that are gone since the last snapshot, and their tables with them."""

    def __init__(
        self,
        frozen: Sequence[FrozenRows],
        *,
        full: bool,
        has_starts: bool,
        removed: Sequence[Piece] = (),
    ) -> None:
        self._frozen = list(frozen)
        self._full = full
        self._has_starts = has_starts
        self._removed = joined_pieces(removed)
        self._key_groups: KeyGroups | None = None
        self._span = range(0)
        self._spans: list[range] = []
        self._keeps = False
        """Whether all groups may be read again."""
        self._late: list[_WithGroups] = []
        """Rows that the task has handed over, with their key groups."""
        self._sorted: list[tuple[Piece, list[int]]] = []
        """The entries of the span."""

    def table(self) -> FrozenTable:
        """Return it as what snapshots write."""
        return FrozenTable(
            self._pieces,
            self._full,
            self._has_starts,
            self._release,
            of_group=self._of_group,
            prepare=self._prepare,
            unit="array",
            pack=_packed,
            keep_groups=self._keep_groups,
        )

    def _keep_groups(self) -> None:
        self._keeps = True
        for rows in self._frozen:
            rows.keeps = True

    def _release(self) -> None:
        for rows in self._frozen:
            rows.release()
        self._sorted, self._late = [], []

    def _pieces(self) -> Pieces:
        """Yield all entries, in any order."""
        yield from self._removed
        for rows in self._frozen:
            for block in rows.steps():
                yield from (piece for _, piece in rows.take_block(block))
                yield from (piece for _, piece in rows.take_handed_over())

    def _prepare(self, key_groups: KeyGroups) -> Iterator[None]:
        """Find the key groups of all rows, and how many groups are in memory at the same time."""
        self._key_groups = key_groups
        for rows in self._frozen:
            for block in rows.steps():
                rows.find_groups(block, self._groups_of)
                yield
        count = key_groups.max_parallelism
        total = sum(rows.wanted for rows in self._frozen)
        spans = min(-(-total // SPAN_ROWS_MIN), _SPANS_MAX, count) or 1
        self._spans = [range(count * number // spans, count * (number + 1) // spans) for number in range(spans)]
        self._late = [(self._groups_of(piece.keys.keys), piece) for piece in self._removed]

    def _groups_of(self, keys: Integers | list[Any]) -> Any:
        assert self._key_groups is not None
        if isinstance(keys, list):
            return numpy.array([self._key_groups[key] for key in keys], numpy.int64)
        return groups_of_integers(keys, self._key_groups.max_parallelism)

    def _of_group(self, group: int) -> Pieces:
        """Yield the entries of a key group. Called for groups in ascending order. Empty pieces are steps."""
        if group not in self._span:
            self._span = next(span for span in self._spans if group in span)
            self._sorted = []
            found: list[_WithGroups] = []
            for rows in self._frozen:
                for block in rows.steps():
                    found += map(self._with_groups, rows.take_block(block, self._span))
                    yield [], []
                self._late += map(self._with_groups, rows.take_handed_over())
            late = list(self._late_of_span())
            # A slice that was dropped may be there again: what is removed comes first.
            late.sort(key=lambda one: one[1].values.columns is not None)
            for alike in _by_signature([*late, *found]):
                yield [], []
                self._sorted.append(_sorted(alike, self._span))
        place = group - self._span.start
        for piece, bounds in self._sorted:
            for start in range(bounds[place], bounds[place + 1], PIECE_ROWS):
                yield piece.at(slice(start, min(start + PIECE_ROWS, bounds[place + 1])))

    def _with_groups(self, copied: Copied) -> _WithGroups:
        groups, piece = copied
        return self._groups_of(piece.keys.keys) if groups is None else groups, piece

    def _late_of_span(self) -> Iterator[_WithGroups]:
        """Yield what was handed over of this span, and keep what belongs to later ones."""
        kept = []
        for groups, piece in self._late:
            inside = numpy.flatnonzero((groups >= self._span.start) & (groups < self._span.stop))
            if len(inside):
                yield groups[inside], piece.at(inside)
            if self._keeps:
                kept.append((groups, piece))
                continue
            rest = numpy.flatnonzero(groups >= self._span.stop)
            if len(rest):
                kept.append((groups[rest], piece.at(rest)))
        self._late = kept


def _by_signature(found: Sequence[_WithGroups]) -> Iterator[list[_WithGroups]]:
    alike: dict[tuple[Any, ...], list[_WithGroups]] = {}
    for one in found:
        if len(one[1]):
            alike.setdefault(one[1].signature(), []).append(one)
    yield from alike.values()


def _sorted(alike: list[_WithGroups], span: range) -> tuple[Piece, list[int]]:
    """Return pieces as one, sorted by key group, and where each group of the span begins there."""
    (piece,) = joined_pieces([piece for _, piece in alike])
    groups = numpy.concatenate([groups for groups, _ in alike]).astype(numpy.uint16)
    order = numpy.argsort(groups, kind="stable")
    bounds = numpy.searchsorted(groups[order], numpy.arange(span.start, span.stop + 1))
    return piece.at(order), bounds.tolist()


def _packed(entry_keys: Any, values: Any) -> Iterator[tuple[Any, ...]]:
    if len(entry_keys):
        yield (packed(Piece(entry_keys, values)),)
