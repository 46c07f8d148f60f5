"""Takes the picture of a running job for the README: what `penstock top` shows of manual/pictured_job.py.

python -m manual.picture_of_top docs/images/running-job.svg
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from rich.console import Console
from rich.text import Text

_JOB = Path(__file__).with_name("pictured_job.py")
_COMMAND = [sys.executable, "-m", "penstock.service.cli.main"]
_RUNNING_S = 20.0
_DEADLINE_S = 300.0
_WIDTH = 100
# rich names a font on another host, which a page without a network would wait for.
_FONT_FACES = re.compile(r"@font-face \{[^}]*\}\s*")


def screen_of_the_job() -> str:
    """Run the job until it has had time to settle; return what the command prints, with its colours."""
    environment = {**os.environ, "COLUMNS": str(_WIDTH), "FORCE_COLOR": "1", "TTY_COMPATIBLE": "1"}
    with tempfile.TemporaryDirectory() as folder:
        settings = ["-D", f"execution.checkpointing.dir={folder}"]
        job = subprocess.Popen([*_COMMAND, "run", "-q", *settings, str(_JOB)], cwd=folder)
        try:
            return _screen(environment)
        finally:
            job.terminate()
            job.wait()


def _screen(environment: dict[str, str]) -> str:
    deadline = time.monotonic() + _DEADLINE_S
    while time.monotonic() < deadline:
        top = subprocess.run(
            [*_COMMAND, "top", "orders", "--once"], env=environment, capture_output=True, text=True, check=False
        )
        running = re.search(r"running for (?:(\d+) min )?([\d.]+) s", top.stdout)
        if running and 60 * int(running[1] or 0) + float(running[2]) >= _RUNNING_S and "checkpoint" in top.stdout:
            return top.stdout
        time.sleep(1)
    raise SystemExit(f"the job did not run within {_DEADLINE_S:.0f} s: {top.stderr}")


def picture(screen: str) -> str:
    """A screen as a drawing that needs no font from elsewhere."""
    text = Text.from_ansi(screen.rstrip())
    width = max(line.cell_len for line in text.split())
    with Path(os.devnull).open("w", encoding="utf-8") as nowhere:
        console = Console(record=True, width=width, file=nowhere, force_terminal=True)
        console.print(text, no_wrap=True, overflow="ignore", crop=False)
    return _FONT_FACES.sub("", console.export_svg(title="penstock top", unique_id="top")).replace("Fira Code, ", "")


if __name__ == "__main__":
    Path(sys.argv[1]).write_text(picture(screen_of_the_job()), encoding="utf-8")
