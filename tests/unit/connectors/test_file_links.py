"""Listing of real directories: links that lead in circles, names that are not UTF-8, folders of partitions."""

import logging
import os
import sys

import pytest

from penstock.api.source import Records
from penstock.common.errors import SourceError
from penstock.connectors.files.source import FileSource, StreamFormat
from penstock.connectors.files.source.listing import list_files
from penstock.testing.conformance.source import SourceRun, read_all

BAD_NAME = b"caf\xe9.txt"


def listed(folder, *paths):
    return [file.path.removeprefix(f"{folder}/") for file in list_files([str(folder / path) for path in paths or [""]])]


def written(folder, *names):
    for name in names:
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"{name}\n")


def watching(folder):
    source = FileSource.for_record_stream_format(StreamFormat.text_line_format(), folder)
    return source.monitor_continuously(10_000).build()


def polled(run):
    values = []
    for _ in range(4):
        steps = [reader.poll(10) for reader in run._readers]
        values += [value for step in steps if isinstance(step, Records) for value in step.values]
        run._answer_requests()
    return values


def needs_any_name(folder):
    """Skip where the file system takes UTF-8 only."""
    if sys.platform == "darwin":
        pytest.skip("the file system takes no name that is not UTF-8")
    (folder / "good.txt").write_text("good\n")
    with open(os.fsencode(folder) + b"/" + BAD_NAME, "w") as file:  # noqa: PTH123 - pathlib takes no bytes
        file.write("bad\n")


@pytest.mark.parametrize(
    ("links", "expected"),
    [
        ({"here": "."}, ["a.txt", "sub/b.txt"]),
        ({"sub/up": ".."}, ["a.txt", "sub/b.txt"]),
        ({"sub/up": "..", "sub/deep/top": "../.."}, ["a.txt", "sub/b.txt"]),
        ({"other": "sub", "sub/same": "../other"}, ["a.txt", "sub/b.txt"]),
        ({"0": "sub", "sub0": "sub"}, ["a.txt", "sub/b.txt"]),
        ({"itself": "itself", "nowhere": "gone", "nowhere.txt": "gone.txt"}, ["a.txt", "sub/b.txt"]),
        ({"link.txt": "a.txt"}, ["a.txt", "link.txt", "sub/b.txt"]),
        ({"away": "../outside"}, ["a.txt", "away/c.txt", "sub/b.txt"]),
        ({"away": "../outside", "sub/far": "../../outside"}, ["a.txt", "away/c.txt", "sub/b.txt"]),
    ],
)
def test_each_directory_is_read_once(tmp_path, links, expected):
    """A link to a directory above made 41 records of one line."""
    written(tmp_path, "in/a.txt", "in/sub/b.txt", "outside/c.txt")
    (tmp_path / "in/sub/deep").mkdir()
    for name, target in links.items():
        (tmp_path / "in" / name).symlink_to(target)

    assert listed(tmp_path / "in") == expected


@pytest.mark.parametrize(
    ("pattern", "expected"),
    [
        ("**/*.txt", ["a.txt", "sub/b.txt"]),
        ("*", ["a.txt", "sub/b.txt"]),
        ("*/*", ["here/a.txt", "sub/b.txt"]),
        ("s*/**/*.txt", ["sub/b.txt", "sub/up/a.txt"]),
        ("h*/a.txt", ["here/a.txt"]),
    ],
)
def test_patterns_end_in_circles_of_links(tmp_path, pattern, expected):
    """A pattern would name each file by forty paths."""
    written(tmp_path, "a.txt", "sub/b.txt")
    (tmp_path / "here").symlink_to(".")
    (tmp_path / "sub/up").symlink_to("..")

    assert listed(tmp_path, pattern) == expected


def test_a_file_keeps_its_path_when_links_come(tmp_path):
    """A link such as `current`, which is created again each day, would cause all files to be read again."""
    written(tmp_path, "in/2024/a.txt", "outside/b.txt")
    (tmp_path / "in/linked").symlink_to(tmp_path / "outside")
    run = SourceRun(watching(tmp_path / "in"), 2)
    run.start()
    first = polled(run)
    for name, target in (("0-current", "2024"), ("0-other", "linked")):
        link = tmp_path / "in" / name
        link.symlink_to(target)
        os.utime(link, ns=(1 << 62, 1 << 62), follow_symlinks=False)
    run.discover()

    assert sorted(first) == ["in/2024/a.txt", "outside/b.txt"]
    assert polled(run) == []


def test_a_name_that_is_not_utf8_is_refused_before_the_job_starts(tmp_path):
    """The job would end with a UnicodeDecodeError that names nothing, or leave out a file."""
    needs_any_name(tmp_path)
    source = FileSource.for_record_stream_format(StreamFormat.text_line_format(), tmp_path).build()
    with pytest.raises(SourceError, match=r"caf\\xe9\.txt: its name is not UTF-8"):
        source.validate()
    with pytest.raises(SourceError, match=r"good\.tx does not exist.*good\.txt"):
        list_files([str(tmp_path / "good.tx")])
    os.rename(os.fsencode(tmp_path) + b"/" + BAD_NAME, tmp_path / "_hidden")  # noqa: PTH104 - pathlib takes no bytes

    assert listed(tmp_path) == ["good.txt"]


def test_a_name_that_is_not_utf8_does_not_end_a_job_that_watches(tmp_path, caplog):
    """Unpacking an old archive into the folder would end the job, and each of its restarts."""
    written(tmp_path, "first.txt")
    run = SourceRun(watching(tmp_path), 2)
    run.start()
    assert polled(run) == ["first.txt"]
    needs_any_name(tmp_path)
    with caplog.at_level(logging.WARNING):
        run.discover()
        (message,) = caplog.messages
        assert polled(run) == ["good"]
        caplog.clear()
        written(tmp_path, "later.txt")
        run.discover()

    assert polled(run) == ["later.txt"]
    assert message == f"skipped {tmp_path}/caf\\xe9.txt: its name is not UTF-8. Rename it to have it read"
    assert not caplog.messages, "said once"
    watching(tmp_path).validate()


def test_folders_of_partitions_are_read_whatever_their_column_is_called(tmp_path):
    """A job would read none of the files that a sink with the partition column `_day` has written, and end well."""
    written(tmp_path, "_day=1/a.txt", "_day=1/_tmp/b.txt", "name=x.tmp/c.txt", "_x=1", ".y=1/d.txt", "_SUCCESS")

    assert listed(tmp_path) == ["_day=1/a.txt", "name=x.tmp/c.txt"]
    assert listed(tmp_path, "*/*.txt") == ["_day=1/a.txt", "name=x.tmp/c.txt"]
    source = FileSource.for_record_stream_format(StreamFormat.text_line_format(), tmp_path).build()
    assert read_all(source, 1) == ["_day=1/a.txt", "name=x.tmp/c.txt"]
