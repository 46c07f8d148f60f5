"""What a cluster keeps of programs that were uploaded."""

from __future__ import annotations

import io
import time
import zipfile
from pathlib import Path

import pytest

from penstock.common.errors import ConfigurationError
from penstock.service.dispatcher.programs import Programs


@pytest.fixture
def programs(tmp_path: Path) -> Programs:
    return Programs(tmp_path / "programs")


def zipped(**files: str) -> io.BytesIO:
    """A zip of Python files, by their names without the ending."""
    content = io.BytesIO()
    with zipfile.ZipFile(content, "w") as archive:
        for name, text in files.items():
            archive.writestr(f"{name}.py", text)
    return content


def test_a_program_is_there_until_it_is_removed(programs: Programs) -> None:
    """It could be uploaded, and never run; or be run when its owner has taken it away."""
    assert programs.all() == []
    program = programs.add("job.py", io.BytesIO(b"print()"))
    assert (program.name, program.entries) == ("job.py", ["job.py"])
    assert programs.find(program.id) == program
    assert programs.all() == [program]
    assert programs.file(program, None).read_bytes() == b"print()"
    programs.remove(program.id)
    assert programs.all() == []
    assert programs.find(program.id) is None
    assert list(programs.directory.iterdir()) == []


def test_two_of_one_name_are_two(programs: Programs) -> None:
    """Who uploads a new version would change what others run."""
    one, other = programs.add("job.py", io.BytesIO(b"1")), programs.add("job.py", io.BytesIO(b"2"))
    assert programs.file(one, None).read_bytes() == b"1"
    assert programs.file(other, None).read_bytes() == b"2"


def test_a_zip_has_a_usual_file_and_others(programs: Programs) -> None:
    """A program of several modules could not be uploaded, or the wrong one of them would run."""
    program = programs.add("jobs.zip", zipped(backfill="b", __main__="m", **{"parts/part": "p"}))
    assert program.entries == ["__main__.py", "backfill.py"]
    assert programs.file(program, None).read_text() == "m"
    assert programs.file(program, "backfill.py").read_text() == "b"
    assert programs.file(program, "parts/part.py").read_text() == "p"


@pytest.mark.parametrize("entry", ["../../secret.py", "/etc/passwd", "parts", "missing.py", "a\0b"])
def test_a_file_that_is_none_of_the_program_is_refused(programs: Programs, entry: str) -> None:
    """Any file of the cluster's user could be run, and its text be read from the error."""
    (programs.directory.parent / "secret.py").write_text("secret")
    program = programs.add("jobs.zip", zipped(**{"__main__": "m", "parts/part": "p"}))
    with pytest.raises(ConfigurationError, match=r"'jobs.zip' has no file '.*' \(entryClass\)"):
        programs.file(program, entry)


@pytest.mark.parametrize(
    "name",
    ["../job.py", "/job.py", ".py", "a/b.py", "job.jar", "job", "", "a\nb.py", "x" * 200 + ".py", "é" * 120 + ".py"],
)
def test_a_name_that_is_no_programs_is_refused(programs: Programs, name: str) -> None:
    """A file could be written anywhere; or a jar be taken, and fail when it is run."""
    with pytest.raises(ConfigurationError, match=r"a program must be a Python file \(NAME.py\) or a zip"):
        programs.add(name, io.BytesIO(b""))
    assert programs.all() == []


def test_what_is_no_program_leaves_nothing(programs: Programs) -> None:
    """Each attempt would cost disk space; or a program be listed that can't be run."""
    with pytest.raises(ConfigurationError, match=r"'a.zip' cannot be unpacked: .*not a zip"):
        programs.add("a.zip", io.BytesIO(b"no zip"))
    with pytest.raises(ConfigurationError, match=r"'a\.zip' has no Python file at its top"):
        programs.add("a.zip", zipped(**{"parts/part": "p"}))
    assert list(programs.directory.iterdir()) == []


def test_a_zip_can_not_write_outside(programs: Programs) -> None:
    """Who uploads could replace a file of the cluster's user."""
    content = io.BytesIO()
    with zipfile.ZipFile(content, "w") as archive:
        archive.writestr("../../outside.py", "x")
        archive.writestr("__main__.py", "m")
    programs.add("a.zip", content)
    assert not list(programs.directory.parent.glob("outside.py"))
    assert not list(programs.directory.glob("outside.py"))


def test_an_id_that_is_a_path_is_not_there(programs: Programs) -> None:
    """A request could remove, or run, folders beside the programs."""
    programs.add("job.py", io.BytesIO(b""))
    for id in ("..", ".", "", "../programs", "00000000-0000-0000-0000-000000000000_job.py"):
        assert programs.find(id) is None


@pytest.mark.parametrize("method", [zipfile.ZIP_DEFLATED, zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA])
def test_a_zip_that_was_damaged_is_told(programs: Programs, method: int) -> None:
    """A user whose upload was cut short, or changed, would be told of a fault of the cluster."""
    content = io.BytesIO()
    with zipfile.ZipFile(content, "w", method) as archive:
        archive.writestr("__main__.py", "print()\n" * 1000)
    damaged = bytearray(content.getvalue())
    damaged[45:70] = b"\xff" * 25
    with pytest.raises(ConfigurationError, match=r"'a\.zip' cannot be unpacked"):
        programs.add("a.zip", io.BytesIO(damaged))
    assert list(programs.directory.iterdir()) == []


@pytest.mark.parametrize("files", [{"a": "", "a.py/b": ""}, {"a" * 300: ""}])
def test_a_zip_with_names_that_can_not_be_is_told(programs: Programs, files: dict[str, str]) -> None:
    """A user would look for the fault in the cluster's disk."""
    with pytest.raises(ConfigurationError, match=r"'a\.zip' cannot be unpacked"):
        programs.add("a.zip", zipped(**files))


def test_a_folder_is_nothing_to_run(programs: Programs) -> None:
    """A program would be listed that fails with an error of a file that nobody has named."""
    with pytest.raises(ConfigurationError, match=r"'a\.zip' has no Python file at its top"):
        programs.add("a.zip", zipped(**{"__main__.py/part": "p"}))


def test_when_a_program_was_uploaded_stays(programs: Programs) -> None:
    """Bytecode that Python keeps beside modules, when they are first run, would make an old program the newest."""
    program = programs.add("jobs.zip", zipped(__main__="m"))
    time.sleep(0.05)
    (programs.directory / program.id / "__pycache__").mkdir()
    assert programs.find(program.id) == program
