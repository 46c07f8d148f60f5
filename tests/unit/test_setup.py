"""`make setup`, with a Python that installs nothing."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
# What `python -m venv` makes is a python that "installs" until it is interrupted, with what Python writes then.
# The sleep is ended by hand: what a script starts in the background ignores the interrupt, and keeps the pipes open.
PIP = """#!/bin/sh
trap 'echo "ERROR: Operation cancelled by user" >&2; kill $!; exit 1' INT
sleep 60 &
echo installing
wait
"""
PYTHON = f"""#!/bin/sh
mkdir -p .venv/bin
cat > .venv/bin/python << 'END'
{PIP}
END
chmod +x .venv/bin/python
"""


@pytest.mark.skipif(shutil.which("make") is None, reason="needs make")
def test_an_interrupted_setup_says_what_is_left(tmp_path: Path) -> None:
    """A traceback looks like a fault of the machine; and nobody knows whether to remove .venv by hand."""
    for name in ("Makefile", "pyproject.toml"):
        shutil.copy(ROOT / name, tmp_path / name)
    python = tmp_path / "python"
    python.write_text(PYTHON)
    python.chmod(0o755)
    process = subprocess.Popen(
        ["make", "setup", f"PYTHON={python}"], cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        start_new_session=True,
        # What a shell starts in the background ignores it.
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL) and None,
    )  # fmt: skip
    assert process.stdout is not None
    while "installing" not in (line := process.stdout.readline()):
        assert line, process.communicate()
    os.killpg(process.pid, signal.SIGINT)
    _, error = process.communicate(timeout=60)

    assert process.returncode != 0
    assert "Interrupted. What was installed stays in .venv; make setup goes on from there." in error
    assert "Traceback" not in error
    assert not (tmp_path / ".venv" / ".ready").exists()
