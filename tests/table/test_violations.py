"""Jobs whose input has a poison record, or whose rows violate a constraint: the error names the record or the row."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest
from tests.table.listed_tables import Tables, inserts
from tests.table.table_tests import SMALL, need_planner


@pytest.fixture(scope="module", autouse=True)
def planner() -> None:
    need_planner()


FORMATS = {
    "json": (['{"n": 1, "s": "a"}', '{"n": 2, "s": "b"}', '{"n": "x", "s": "c"}', '{"n": 4, "s": "d"}'], "JSON"),
    "csv": (["1,a", "2,b", "x,c", "4,d"], "CSV"),
}


def job_over(folder: Path, name: str, option: str = "") -> Tables:
    """Return an environment with the table `t` of a folder of two files, of which one has a poison record."""
    lines, _ = FORMATS[name]
    (folder / f"a.{name}").write_text("\n".join(lines) + "\n")
    (folder / f"b.{name}").write_text(lines[0] + "\n")
    tables = Tables(circumstances=SMALL)
    options = f"'connector' = 'filesystem', 'path' = '{folder}', 'format' = '{name}'{option}"
    tables.environment.execute_sql(f"CREATE TABLE t (n INT, s STRING) WITH ({options})")
    return tables


@pytest.mark.parametrize("name", FORMATS)
def test_a_poison_record_fails_the_job_and_is_named(name: str, tmp_path: Path) -> None:
    """Of many files and lines nobody would find the one, nor the option that leaves it out."""
    with pytest.raises(Exception, match=rf"(?s)a\.{name}, line 3 .*'?n'?.*{name}\.ignore-parse-errors") as raised:
        job_over(tmp_path, name).insert("o", "n INT, s STRING", "SELECT n, s FROM t")
    assert "x" in str(raised.value)


@pytest.mark.parametrize("name", FORMATS)
def test_a_poison_record_is_left_out_by_the_option_of_the_format(name: str, tmp_path: Path) -> None:
    """The records around it, in its chunk and in others, would be left out as well. As in Flink its field is NULL."""
    tables = job_over(tmp_path, name, f", '{name}.ignore-parse-errors' = 'true'")
    found = tables.insert("o", "n INT, s STRING", "SELECT n, s FROM t")
    assert Counter(found) == Counter(inserts([(1, "a"), (1, "a"), (2, "b"), (None, "c"), (4, "d")]))


def test_a_missing_field_is_named_if_the_format_asks_for_it(tmp_path: Path) -> None:
    """NULL would take the place of a value that was forgotten."""
    (tmp_path / "a.json").write_text('{"n": 1, "s": "a"}\n{"n": 2}\n')
    for option, is_lenient in (("false", True), ("true", False)):
        tables = Tables(circumstances=SMALL)
        options = f"'connector' = 'filesystem', 'path' = '{tmp_path}', 'format' = 'json'"
        options += f", 'json.fail-on-missing-field' = '{option}'"
        tables.environment.execute_sql(f"CREATE TABLE t (n INT, s STRING) WITH ({options})")
        if is_lenient:
            assert sorted(tables.insert("o", "n INT, s STRING", "SELECT n, s FROM t")) == inserts([(1, "a"), (2, None)])
        else:
            with pytest.raises(Exception, match=r"(?s)a\.json, line 2 .*'s'"):
                tables.insert("o", "n INT, s STRING", "SELECT n, s FROM t")


ROWS = [(id, "abcdef"[: id % 7], id * 100 + 0.5) for id in range(12)]
VIOLATIONS = {
    "null": ("id INT, s STRING NOT NULL", "SELECT id, CASE WHEN id = 7 THEN NULL ELSE s END FROM t",
             r"Column 's' is NOT NULL.*`o`.*row \{'id': 7, 's': None\}", {}),
    "length": ("id INT, s VARCHAR(4)", "SELECT id, s FROM t",
               r"Column 's' is VARCHAR\(4\).*of length 5.*`o`.*row \{'id': 5, 's': 'abcde'\}",
               {"table.exec.sink.type-length-enforcer": "ERROR"}),
    "precision": ("id INT, p DECIMAL(5, 2) NOT NULL", "SELECT id, CAST(x AS DECIMAL(5, 2)) FROM t WHERE id > 8",
                  r"Column 'p' is NOT NULL.*`o`.*row \{'id': 10, 'p': None\}", {}),
}  # fmt: skip


@pytest.mark.parametrize("name", VIOLATIONS)
def test_a_violated_constraint_names_its_row(name: str) -> None:
    """A user would know that a row was wrong, and not which one. A number that is too large for its type is NULL."""
    columns, query, message, options = VIOLATIONS[name]
    tables = Tables(options, circumstances=SMALL)
    tables.create("t", "id INT, s VARCHAR(4), x DOUBLE", inserts(ROWS))
    with pytest.raises(Exception, match=message):
        tables.insert("o", columns, query)
