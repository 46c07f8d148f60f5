"""What a misspelled name in a statement may mean."""

from __future__ import annotations

from collections.abc import Collection

import pytest

from penstock.table.planner.near_names import COLUMN, FUNCTION, TABLE, with_near_names

NAMES = {
    TABLE: lambda: ["orders", "lines", "t"],
    COLUMN: lambda: ["price", "customer", "prize"],
    FUNCTION: lambda: ["upper", "lower"],
}


@pytest.mark.parametrize(
    ("message", "told"),
    [
        ("Object 'ordrs' not found (line 1, column 2)\n  1 | x", "Object 'ordrs' not found; did you mean 'orders'?"),
        ("Object 'x' not found within 'orders' (line 1, column 2)", "Object 'x' not found within 'orders' (line 1"),
        ("Cannot find table '`c`.`d`.`Orders`' in any of [c].", "in any of [c]; did you mean 'orders'?"),
        ("Table with identifier 'c.d.ordrs' does not exist.", "does not exist; did you mean 'orders'?"),
        ("Views or tables with the identifier 'c.d.ordrs' doesn't exist", "exist; did you mean 'orders'?"),
        ("Column 'prise' not found in table 'o' (line 3, column 4)", "'o'; did you mean 'prize' or 'price'? (line 3"),
        ("No match found for function signature UPER(<ROW(INT)>)", "(<ROW(INT)>); did you mean 'UPPER'?"),
        ("No match found for function signature uper(<INT>)", "; did you mean 'upper'?"),
        ("No match found for function signature Upper()\nSupported", "signature Upper()\nSupported"),
        ("Column 'price' not found in table 'o' (line 3, column 4)", "'price' not found in table 'o' (line 3"),
    ],
)
def test_an_unknown_name_tells_what_it_may_mean(message: str, told: str) -> None:
    """The user would compare the statement with all names by eye."""
    assert told in with_near_names(message, NAMES)


def test_other_errors_ask_for_no_names() -> None:
    """Each error would take as many requests as there are tables, and an answer may not be added twice."""

    def asked() -> Collection[str]:
        raise AssertionError("no names are needed")

    names = dict.fromkeys((TABLE, COLUMN, FUNCTION), asked)
    for message in ("SQL parse failed.", "Column 'A' not found in any table; did you mean 'a'? (line 1, column 1)"):
        assert with_near_names(message, names) == message
    assert with_near_names("Object 'zzz' not found\n  1 | orders", NAMES) == "Object 'zzz' not found\n  1 | orders"
