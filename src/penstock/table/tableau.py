"""The table that `TableResult.print` prints. Source: Flink's TableauStyle, whose widths and texts these are."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from penstock.common.types import Row
from penstock.table.logical_types import LogicalType
from penstock.table.printed_text import printed_text_of

_WIDTH_MAX = 30
_NULL = "<NULL>"
_WIDTHS = {"BOOLEAN": 5, "TINYINT": 4, "SMALLINT": 6, "INT": 11, "BIGINT": 20, "DATE": 10}


class Tableau:
    """Prints rows while they come. Columns of a changelog have the width of their type; others that of their texts."""

    def __init__(
        self, names: Sequence[str], types: Sequence[LogicalType], *, is_changelog: bool, zone: str = "UTC"
    ) -> None:
        self._names = list(names)
        self._types = list(types)
        self._texts = [printed_text_of(one, zone) for one in types]
        self._is_changelog = is_changelog

    def print(self, rows: Iterable[Row]) -> None:
        """Print all rows, and how many there are; of EXPLAIN and SHOW CREATE the text alone."""
        if self._is_changelog:
            count = self._print_with(self._widths(), (self._cells(row) for row in rows))
        else:
            all_cells = [self._cells(row) for row in rows]
            if self._names == ["result"] and len(all_cells) == 1 and "\n" in all_cells[0][0]:
                # A plan, or a statement: to be read, or pasted. Flink prints plans so, and its client statements.
                print(all_cells[0][0].rstrip())
                return
            widths = [len(name) for name in self._names]
            for cells in all_cells:
                widths = [max(width, len(cell)) for width, cell in zip(widths, cells, strict=True)]
            count = self._print_with(widths, all_cells)
        shown = "Empty set" if not count else "1 row in set" if count == 1 else f"{count} rows in set"
        print(shown)

    def _print_with(self, widths: Sequence[int], all_cells: Iterable[Sequence[str]]) -> int:
        line = "+" + "+".join("-" * (width + 2) for width in widths) + "+"
        count = 0
        for cells in all_cells:
            if not count:
                names = ["op", *self._names] if self._is_changelog else self._names
                print(f"{line}\n{_row(names, widths)}\n{line}")
            print(_row(cells, widths))
            count += 1
        if count:
            print(line)
        return count

    def _cells(self, row: Row) -> list[str]:
        cells = [_NULL if value is None else text(value) for text, value in zip(self._texts, row, strict=True)]
        if self._is_changelog:
            return [str(row.get_row_kind()), *cells]
        return cells

    def _widths(self) -> list[int]:
        widths = [max(len(name), _width(one), len(_NULL)) for name, one in zip(self._names, self._types, strict=True)]
        return [2, *widths]


def _row(cells: Sequence[str], widths: Sequence[int]) -> str:
    return "| " + " | ".join(_fitted(cell, width) for cell, width in zip(cells, widths, strict=True)) + " |"


def _fitted(cell: str, width: int) -> str:
    if len(cell) > width:
        return cell[: max(0, width - 3)] + "..."
    return cell.rjust(width)


def _width(one: LogicalType) -> int:
    if one.root in _WIDTHS:
        return _WIDTHS[one.root]
    if one.root in ("CHAR", "VARCHAR"):
        return min(one.length, _WIDTH_MAX)
    if one.root == "DECIMAL":
        return one.precision + 2
    if one.root == "TIME":
        return 8 if not one.precision else one.precision + 9
    if one.root in ("TIMESTAMP", "TIMESTAMP_LTZ"):
        return 19 if not one.precision else one.precision + 20
    return _WIDTH_MAX
