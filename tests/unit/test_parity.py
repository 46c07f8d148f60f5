"""PyFlink's public names: each is there by its path, or left out with a reason, and the page says which."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests import parity

DOCS = Path(__file__).parents[2] / "docs"
PAGES = {parity.STREAMS: DOCS / "pyflink-parity.md", parity.TABLES: DOCS / "pyflink-table-parity.md"}
FOR_NAMES_OF_EARLIER_VERSIONS = {
    "pyflink.table",
    "pyflink.table.udf AsyncScalarFunction",
    *(f"pyflink.table TableEnvironment.create_java_{one}" for one in ("function", "temporary_function")),
    "pyflink.table TableEnvironment.create_java_temporary_system_function",
}
"""Reasons that programs get, for names that are not in the list, or have a reason at the door."""
EACH = pytest.mark.parametrize("of", PAGES, ids=["streams", "tables"])


@EACH
def test_every_name_of_pyflink_is_there_or_left_out_with_a_reason(of: parity.Surface) -> None:
    """A PyFlink program would end in an ImportError that nobody has seen coming."""
    why = {key: one for key, one in parity.reasons(of).items() if key != "pyflink.table"}
    unexplained = [
        f"{name}: {missing}"
        for name in parity.surface(of)
        if (missing := parity.missing_in(name)) is not None and parity.reason_for(name, why) is None
    ]
    assert not unexplained


@EACH
def test_no_reason_is_left_over(of: parity.Surface) -> None:
    """The page would say that something is missing which has been there for a long time."""
    why = parity.reasons(of)
    needed = {parity.reason_for(name, why) for name in parity.surface(of) if parity.missing_in(name) is not None}
    assert set(why) - needed - FOR_NAMES_OF_EARLIER_VERSIONS == set()


@EACH
def test_the_page_is_up_to_date(of: parity.Surface) -> None:
    """Readers would decide by a list that is not true any more. `make parity` writes it."""
    assert PAGES[of].read_text(encoding="utf-8") == parity.page(of)


def test_a_surface_is_read_from_source(tmp_path: Path) -> None:
    """Names of a new PyFlink would be missed, or those of its inside be taken for public ones."""
    module = tmp_path / "pyflink" / "common" / "things.py"
    module.parent.mkdir(parents=True)
    module.write_text(
        "__all__ = ['Thing', 'other']\nLIMIT = 3\n_HIDDEN = 4\ndef run(a, *, b=1): pass\n"
        "class Thing:\n  def __init__(self, size): pass\n  @staticmethod\n  def of(size): pass\n"
        "  def _hidden(self): pass\n  def get_java_thing(self): pass\n  class Inner: pass\n"
    )
    assert [str(name) for name in parity.surface_of(tmp_path)] == [
        "pyflink.common.things LIMIT",
        "pyflink.common.things Thing",
        "pyflink.common.things Thing.Inner",
        "pyflink.common.things Thing.__init__(size)",
        "pyflink.common.things Thing.of(size)",
        "pyflink.common.things other",
        "pyflink.common.things run(a, b)",
    ]


@pytest.mark.parametrize(
    ("name", "missing"),
    [
        (parity.Name("pyflink.common", "Row"), None),
        (parity.Name("pyflink.common", "Row.as_dict", ("recursive",)), None),
        (parity.Name("pyflink.common", "Row.as_dict", ("deep",)), "parameters deep"),
        (parity.Name("pyflink.common", "Rows"), "the name"),
        (parity.Name("pyflink.table", "Module"), "the name"),
    ],
)
def test_what_a_name_lacks(name: parity.Name, missing: str | None) -> None:
    """A method without one of its parameters would count as there."""
    assert parity.missing_in(name) == missing
