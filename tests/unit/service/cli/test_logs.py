"""`penstock logs`."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import IO, Any

import pytest
from typer.testing import CliRunner

from penstock.hosts.logs.folders import LockedFolder
from penstock.hosts.logs.settings import LoggedJob, LogSettings
from penstock.service.cli.logs import show
from penstock.service.cli.main import app

ID = "0123456789abcdef0123456789abcdef"


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Of a job that has ended."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    held(tmp_path / "penstock" / "logs" / ID).release()
    return tmp_path / "penstock" / "logs" / ID


def held(folder: Path) -> LockedFolder:
    return LockedFolder(LogSettings(LoggedJob(ID, "flights", 0), str(folder), 20, 1000, 1, 20), starts_run=True)


def at(second: int, text: str) -> str:
    return f"2013-01-01 05:15:{second:02},000 {text}\n"


def test_all_files_by_time(folder: Path) -> None:
    """What happened first is asked first, and each process has a file of its own."""
    (folder / "driver.log").write_text(at(1, "starts") + at(4, "failed\nTraceback\n  line 7") + at(6, "ended"))
    (folder / "level-0-slot-0.log.1").write_text(at(2, "old"))
    (folder / "level-0-slot-0.log").write_text(at(3, "odd") + at(5, "again"))
    done = CliRunner().invoke(app, ["logs", "flights"])

    assert done.stderr == f"logs in {folder}\n"
    assert done.stdout.splitlines() == [
        "driver: 2013-01-01 05:15:01,000 starts",
        "level-0-slot-0: 2013-01-01 05:15:02,000 old",
        "level-0-slot-0: 2013-01-01 05:15:03,000 odd",
        "driver: 2013-01-01 05:15:04,000 failed",
        "Traceback",
        "  line 7",
        "level-0-slot-0: 2013-01-01 05:15:05,000 again",
        "driver: 2013-01-01 05:15:06,000 ended",
    ]


def test_the_place(folder: Path) -> None:
    """Scripts need the folder, and people the one of the last run."""
    assert CliRunner().invoke(app, ["logs", "--path"]).stdout == f"{folder}\n"
    assert CliRunner().invoke(app, ["logs", "--path", ID[:6]]).stdout == f"{folder}\n"
    unknown = CliRunner().invoke(app, ["logs", "unknown"])
    assert unknown.exit_code == 1
    assert f"Jobs with logs:\n  {ID}  flights" in unknown.stderr


def test_no_logs_at_all(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing printed could mean nothing logged."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    done = CliRunner().invoke(app, ["logs"])

    assert (done.exit_code, done.stderr) == (1, "there are no logs of any job on this machine\n")


def test_follow_until_the_job_has_ended(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Lines of the last moment, and of files that begin or are rotated meanwhile, would be missing."""
    running = held(folder)
    (folder / "driver.log").write_text(at(1, "starts"))
    seen = threading.Thread(target=show, args=(folder, True))
    seen.start()
    (folder / "level-0-slot-0.log").write_text(at(2, "first"))
    (folder / "driver.log").rename(folder / "driver.log.1")
    (folder / "driver.log").write_text(at(3, "ended"))
    running.release()
    seen.join(30)

    assert not seen.is_alive()
    printed = capsys.readouterr().out
    assert [printed.count(word) for word in ("starts", "first", "ended")] == [1, 1, 1]


def test_a_rotation_amid_the_look(
    folder: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Between the names of the files and their opening a file gets another name: all of its lines would be missing."""
    (folder / "driver.log").write_text(at(1, "starts"))
    opens = Path.open

    def rotates_first(path: Path, *args: Any, **kwargs: Any) -> IO[Any]:
        if path.name == "driver.log" and not (folder / "driver.log.1").exists():
            path.rename(folder / "driver.log.1")
            path.write_text(at(2, "goes on"))
        return opens(path, *args, **kwargs)

    monkeypatch.setattr(Path, "open", rotates_first)
    show(folder)

    assert capsys.readouterr().out == f"driver: {at(1, 'starts')}driver: {at(2, 'goes on')}"
