"""When the archive of the planner's classes is made."""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path

import pytest

from penstock.table.planner.preparation import Launch, prepare_in_background


def test_what_has_failed_is_tried_again_after_a_day(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Making it may take too long on a busy machine: then no later start would have an archive."""
    tries = tmp_path / "tries"
    program = tmp_path / "program"
    program.write_text(f"#!/bin/sh\necho $5 >> {tries}\n")
    program.chmod(0o700)
    monkeypatch.setattr(sys, "executable", str(program))
    one = Launch(("java",), tmp_path / "classes-1.jsa")
    failed = tmp_path / "classes-1.refused"
    failed.write_text("it took too long")
    prepare_in_background(one, tmp_path, {})
    day_ago = time.time() - 86_401
    os.utime(failed, (day_ago, day_ago))
    prepare_in_background(one, tmp_path, {})
    for _ in range(1_000):
        if tries.exists() and tries.read_text():
            break
        time.sleep(0.01)
    # The jars that the program has: the process would otherwise fetch them where the program found others.
    assert tries.read_text() == f"{tmp_path}\n"
