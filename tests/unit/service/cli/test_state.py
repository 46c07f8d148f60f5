"""`penstock state`, on snapshots without a job."""

from __future__ import annotations

import json
import sys
import types
from pathlib import Path
from typing import Any

import pytest
from tests.unit.state_processor.conftest import Snapshots, write_snapshot
from typer.testing import CliRunner

from penstock.api.state.descriptors import ValueStateDescriptor
from penstock.common.typeinfo import Types
from penstock.common.types import Row
from penstock.service.cli.main import app
from penstock.state_processor import SavepointWriter


@pytest.fixture
def snapshots(tmp_path: Path) -> Snapshots:
    return Snapshots(write_snapshot(tmp_path / "sp", True), write_snapshot(tmp_path / "job", False))


def told(*arguments: Any) -> str:
    result = CliRunner().invoke(app, ["state", *map(str, arguments)])
    assert result.exit_code == 0, result.output
    return result.stdout


def refused(*arguments: Any) -> str:
    result = CliRunner().invoke(app, ["state", *map(str, arguments)])
    assert result.exit_code == 1
    return result.stderr


@pytest.mark.parametrize("kind", ["savepoint", "checkpoint"])
def test_what_is_in_it(snapshots: Snapshots, kind: str) -> None:
    """Before a job starts from a savepoint, its operators and states could not be listed."""
    lines = told("ls", getattr(snapshots, kind)).splitlines()
    assert lines[0].startswith(f"{kind} 3 of job counting (0123456789abcdef), 2023-11-1")
    assert "count  Count, parallelism 2 of 128" in lines
    (line,) = [line for line in lines if line.startswith("  names ")]
    assert line.split("  ")[1:3] == ["names", ""] and "list of ListTypeInfo<String>" in line and "100 entries" in line
    assert any("rules" in line and "operator state, broadcast" in line and "2 items" in line for line in lines)


def test_entries_a_line_each(snapshots: Snapshots) -> None:
    """State could not be searched with standard command-line tools."""
    lines = told("show", snapshots.savepoint, "count", "count", "--limit", 1000).splitlines()
    assert len(lines) == 100 and "7  49" in lines
    assert told("show", snapshots.savepoint, "count", "rules") == "('limit', 5)\n('on', True)\n"
    result = CliRunner().invoke(app, ["state", "show", str(snapshots.savepoint), "count", "count", "--limit", "3"])
    assert len(result.stdout.splitlines()) == 3
    assert "'count' has more entries: --limit 30" in result.stderr


def test_one_key_in_all_states(snapshots: Snapshots, tmp_path: Path) -> None:
    """A question about one customer would require paging through the state of all."""
    lines = told("show", snapshots.checkpoint, "count", "--key", "7").splitlines()
    assert lines[:4] == ["(timers) event time:", "  7  7  None", "count:", "  7  49"]
    rows = [json.loads(line) for line in told("show", snapshots.savepoint, "count", "--key", 7, "--json").splitlines()]
    assert {"state": "count", "key": 7, "value": 49} in rows
    window = {"class": "TimeWindow", "start": 0, "end": 10}
    assert {"state": "window/seen", "key": 7, "namespace": window, "value": 7} in rows
    entries = {"7": "text", (1, "a"): "pair", Row(id=5): "row", "a b": "blank"}
    path = (
        SavepointWriter.new_savepoint().with_keyed_state("op", ValueStateDescriptor("s"), entries).write(tmp_path / "k")
    )
    assert told("show", path, "op", "--key", "7") == "'7'  'text'\n"
    assert told("show", path, "op", "--key", "(1, 'a')") == "(1, 'a')  'pair'\n"
    assert told("show", path, "op", "--key", "Row(id=5)") == "Row(id=5)  'row'\n"
    assert told("show", path, "op", "--key", "a b") == "'a b'  'blank'\n"
    assert "no state of operator 'op' has an entry for the key 8" in refused("show", path, "op", "--key", "8")


def test_values_of_any_class(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """State of a job whose code is not installed would end in a traceback."""
    module = types.ModuleType("the_job")
    monkeypatch.setitem(sys.modules, "the_job", module)
    exec("class Cart:\n    def __init__(self, items): self.items, self.note = items, 'a\\nb'\n", vars(module))
    cart = module.Cart([(1, b"x"), {2: float("nan")}])  # type: ignore[attr-defined]
    writer = SavepointWriter.new_savepoint().with_keyed_state("op", ValueStateDescriptor("cart"), {"k": cart})
    writer.with_keyed_state("op", ValueStateDescriptor("big", Types.BIG_INT()), {"k": 2**70})
    path = writer.write(tmp_path / "sp")
    monkeypatch.delitem(sys.modules, "the_job")
    assert told("show", path, "op", "cart") == "'k'  Cart(items=[(1, b'x'), {2: nan}], note='a\\nb')\n"
    assert json.loads(told("show", path, "op", "cart", "--json"))["value"] == {
        "class": "the_job.Cart",
        "items": [[1, "eA=="], [[2, "nan"]]],
        "note": "a\nb",
    }
    assert json.loads(told("show", path, "op", "big", "--json"))["value"] == 2**70


def test_what_is_not_there_is_answered_with_what_is(snapshots: Snapshots, tmp_path: Path) -> None:
    """A typing error would end in a traceback, or in empty output."""
    assert "there is no checkpoint at" in refused("ls", tmp_path / "nowhere")
    assert f"contains checkpoints of a job: {snapshots.checkpoint}" in refused("ls", snapshots.checkpoint.parent)
    assert "has no operator 'x'. It has 'numbers'" in refused("show", snapshots.savepoint, "x")
    assert "has no state 'x'. It has '(timers) event time', 'count'" in refused(
        "show", snapshots.savepoint, "count", "x"
    )
    assert "has no keyed state. It has '(source)" in refused("show", snapshots.savepoint, "numbers", "--key", "1")
