"""From paths to files, listed once or periodically."""

import logging
import pickle

import pytest

from penstock.api.source import Boundedness, Records
from penstock.common.errors import ProgramError, SourceError
from penstock.common.time import Duration
from penstock.connectors.files.source import FileEnumeratorProvider, FileSource, StreamFormat
from penstock.connectors.files.source.listing import list_files
from penstock.connectors.files.split import FoundFile, cut
from penstock.testing.conformance.source import SourceRun, read_all

FILES = ["a.txt", "b.csv", "sub/c.txt", "sub/deep/d.txt", "sub/a[1].txt"]
PASSED_OVER = [".hidden", "_SUCCESS", "e.txt.inprogress", "f.tmp", ".git/g.txt", "sub/_tmp/h.txt"]


@pytest.fixture
def tree(tmp_path):
    for name in FILES + PASSED_OVER:
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"{name}\n")
    return tmp_path


def listed(tree, *paths):
    return [file.path.removeprefix(f"{tree}/") for file in list_files([str(tree / path) for path in paths])]


@pytest.mark.parametrize(
    ("paths", "expected"),
    [
        ([""], sorted(FILES)),
        (["sub", "sub/deep", "a.txt"], ["a.txt", "sub/a[1].txt", "sub/c.txt", "sub/deep/d.txt"]),
        (["*.txt"], ["a.txt"]),
        (["**/*.txt"], ["a.txt", "sub/a[1].txt", "sub/c.txt", "sub/deep/d.txt"]),
        (["sub/?.txt"], ["sub/c.txt"]),
        (["[a-b].*"], ["a.txt", "b.csv"]),
        (["[!a].*"], ["b.csv"]),
        (["s*/d*"], ["sub/deep/d.txt"]),
        (["sub/a[1].txt"], ["sub/a[1].txt"]),
        ([".hidden", "f.tmp"], [".hidden", "f.tmp"]),
    ],
)
def test_paths(tree, paths, expected):
    """Unfinished files would be read, or input files omitted."""
    assert listed(tree, *paths) == expected


def test_urls_name_the_same_files(tree):
    """A path converted to a URL would be read twice, or under a name that can't be opened."""
    assert [file.path for file in list_files([f"file://{tree}/sub"])] == [
        f"file://{tree}/sub/{name}" for name in ("a[1].txt", "c.txt", "deep/d.txt")
    ]
    assert [file.path for file in list_files([f"file://{tree}/*.csv"])] == [f"file://{tree}/b.csv"]
    source = FileSource.for_record_stream_format(StreamFormat.text_line_format(), f"file://{tree}/a.txt").build()
    assert read_all(source, 1) == ["a.txt"]


@pytest.mark.parametrize(
    ("path", "words"),
    [
        ("a.text", "does not exist. Did you mean a.txt in"),
        ("sup/c.txt", "Did you mean sub in"),
        ("zzzzzzz", "contains .git, .hidden, _SUCCESS, a.txt, b.csv and 3 more"),
        ("*.json", "matches no file. .* contains a.txt"),
        ("nowhere/*.txt", "nowhere does not exist"),
        ("[z-a].txt", r"'\[z-a\]\.txt' in the path is not a valid pattern: bad character range z-a"),
    ],
)
def test_a_missing_path_is_told_with_what_is_there(tree, path, words):
    """Users would have to find a misspelt path by comparing letters."""
    source = FileSource.for_record_stream_format(StreamFormat.text_line_format(), tree / path).build()
    with pytest.raises(SourceError, match=words):
        source.validate()


def test_an_unknown_scheme_is_told(tmp_path):
    """An unsupported scheme would fail as a missing file in every task."""
    source = FileSource.for_record_stream_format(StreamFormat.text_line_format(), "gopher://host/file").build()
    with pytest.raises(ProgramError, match="gopher"):
        source.validate()


def test_cutting_leaves_no_tiny_rest():
    """A split of a few bytes would cost as much to assign as one of 64 MiB."""
    assert [(s.start, s.end) for s in cut(FoundFile("f", 250), 100)] == [(0, 100), (100, 250)]
    assert [(s.start, s.end) for s in cut(FoundFile("f", 251), 100)] == [(0, 100), (100, 200), (200, 251)]


def watching(tree):
    builder = FileSource.for_record_stream_format(StreamFormat.text_line_format(), tree)
    return builder.monitor_continuously(Duration.of_seconds(10)).build()


def polled(run):
    steps = [reader.poll(10) for reader in run._readers]
    return [value for step in steps if isinstance(step, Records) for value in step.values]


def test_watching_a_directory(tmp_path):
    """New files would be missed, or old ones read again after a restart."""
    (tmp_path / "b.txt").write_text("b\n")
    source = pickle.loads(pickle.dumps(watching(tmp_path)))
    assert source.get_boundedness() is Boundedness.CONTINUOUS_UNBOUNDED
    run = SourceRun(source, 2)
    run.start()
    assert polled(run) == ["b"]
    (tmp_path / "a.txt").write_text("a\n")
    (tmp_path / "c.txt.inprogress").write_text("half")
    (tmp_path / "b.txt").write_text("b changed\n")
    assert run.discover() == 10_000
    assert polled(run) == ["a"]
    state = pickle.loads(pickle.dumps(run.snapshot()))
    (tmp_path / "c.txt.inprogress").rename(tmp_path / "c.txt")
    resumed = SourceRun(source, 2)
    resumed.restore(state)
    resumed.discover()
    assert polled(resumed) == ["half"]


def test_watching_goes_on_when_the_directory_was_away(tmp_path):
    """A job that watches a directory would end when the directory is replaced, or its store restarts."""
    directory = tmp_path / "in"
    directory.mkdir()
    (directory / "a.txt").write_text("a\n")
    run = SourceRun(watching(directory), 2)
    run.start()
    assert polled(run) == ["a"]
    directory.rename(tmp_path / "away")
    assert run.discover() == 10_000
    (tmp_path / "away").rename(directory)
    (directory / "b.txt").write_text("b\n")
    run.discover()
    assert polled(run) == ["b"]


def test_a_bounded_source_without_files_is_told(tmp_path, caplog):
    """A job that reads a folder in which there is nothing would end as if it had read all."""
    run = SourceRun(FileSource.for_record_stream_format(StreamFormat.text_line_format(), tmp_path).build(), 2)
    with caplog.at_level(logging.WARNING):
        run.start()
    assert caplog.messages == [f"no file matches, so the source has no records: {tmp_path}"]


def test_a_pattern_that_matches_nothing_yet_is_told(tmp_path, caplog):
    """A job with a misspelt pattern would run for ever, and say nothing."""
    run = SourceRun(watching(tmp_path / "*.txt"), 2)
    with caplog.at_level(logging.WARNING):
        run.start()
        run.discover()
    assert caplog.messages == [f"no file matches yet, the source checks again every 10000 ms: {tmp_path}/*.txt"]
    (tmp_path / "a.txt").write_text("a\n")
    run.discover()
    assert polled(run) == ["a"]


def test_watching_may_begin_with_nothing(tmp_path):
    """A directory that is empty at the start could not be monitored."""
    watching(tmp_path).validate()
    with pytest.raises(SourceError, match="does not exist"):
        watching(tmp_path / "missing").validate()


def test_files_are_not_cut_where_the_program_says_so(tmp_path):
    """Programs that need the order within a file would get its parts from several subtasks."""
    (tmp_path / "a.txt").write_text("".join(f"{n}\n" for n in range(100)))
    builder = FileSource.for_record_stream_format(StreamFormat.text_line_format(), tmp_path).set_split_size(10)
    builder.set_file_enumerator(FileEnumeratorProvider.default_non_splittable_file_enumerator())
    assert read_all(builder.build(), 4) == [str(n) for n in range(100)]


def test_a_list_is_no_path():
    """Python's own word names no path, and not what was given."""
    with pytest.raises(TypeError, match=r"a path must be a str or a pathlib.Path, got \['/tmp'\]"):
        FileSource.for_record_stream_format(StreamFormat.text_line_format(), ["/tmp"])
