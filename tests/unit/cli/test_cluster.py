"""`penstock cluster`, without Spark."""

from __future__ import annotations

from pathlib import Path

import pytest
from typer.testing import CliRunner

from penstock.cli.main import app


@pytest.mark.parametrize("more", [[], ["--foreground"]])
def test_a_folder_that_can_not_be_written_to_is_told_before_spark_starts(tmp_path: Path, more: list[str]) -> None:
    """A user would read where in penstock it has failed, and not what to change."""
    (tmp_path / "file").write_text("in the way")
    result = CliRunner().invoke(app, ["cluster", "start", "--dir", str(tmp_path / "file" / "jobs"), *more])

    assert result.exit_code == 2
    assert "Invalid value for --dir" in result.output
    assert "Not a directory" in result.output
