"""Manifests for tests: with one operator that has some files, or arbitrary."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import msgspec
from hypothesis import strategies as st

from penstock.engine.checkpoint.manifest import Manifest, OperatorPart, SubtaskPart, SubtaskReport
from penstock.engine.state.handles import (
    KeyedFile,
    ListInFile,
    ListsFile,
    OperatorState,
    Redistribution,
    Section,
    SnapshotFigures,
    TableInFile,
)


def state_of(files: Iterable[str]) -> OperatorState:
    """The state of an operator that consists of these files."""
    return OperatorState([KeyedFile(path, 1, [], []) for path in files])


def manifest_of(number: int, files: Iterable[str] = (), **fields: Any) -> Manifest:
    """A checkpoint whose only operator has these files."""
    part = OperatorPart("op", "an operator", 1, 128, [SubtaskPart(0, state_of(files))])
    return msgspec.structs.replace(Manifest("job", "a job", number, 0, 0, 0, [part], []), **fields)


TEXTS = st.text(max_size=8) | st.sampled_from(['"checksum": "', '"checksum": "00000000"', "\\", "\x00", "ä→𝄞"])
COUNTS = st.integers(0, 2**53)
PATHS = st.sampled_from(["shared/1-a", "chk-2/2-b", "/absolute/c", "s3://bucket/d", "e f/g"])
SECTIONS = st.lists(st.builds(Section, COUNTS, COUNTS, COUNTS, st.integers(0, 2**32 - 1)), max_size=2)
TABLES = st.lists(st.builds(TableInFile, TEXTS, st.booleans(), TEXTS), min_size=1, max_size=2)
KEYED = st.builds(
    KeyedFile,
    PATHS,
    COUNTS,
    TABLES,
    SECTIONS,
    st.booleans(),
    st.sampled_from(["", "000007.sst"]),
    st.none() | COUNTS,
    SECTIONS,
)
LISTS = st.builds(ListInFile, TEXTS, st.sampled_from(Redistribution), SECTIONS, TEXTS, st.none() | KEYED)
LISTS_FILES = st.builds(ListsFile, PATHS | st.just(""), COUNTS, st.lists(LISTS, max_size=2), st.none() | COUNTS)
STATES = st.builds(OperatorState, st.lists(KEYED, max_size=2), st.none() | LISTS_FILES)
OPERATORS = st.lists(
    st.builds(OperatorPart, TEXTS, TEXTS, COUNTS, COUNTS, st.lists(st.builds(SubtaskPart, COUNTS, STATES), max_size=2)),
    max_size=2,
)
FIGURES = st.builds(SnapshotFigures, st.floats(0, 1e9), st.floats(0, 1e9), st.floats(0, 1e9), COUNTS, COUNTS, COUNTS)
REPORTS = st.lists(st.builds(SubtaskReport, TEXTS, COUNTS, st.booleans(), FIGURES), max_size=2)
MANIFESTS = st.builds(
    Manifest,
    job_id=TEXTS,
    job_name=TEXTS,
    checkpoint_id=COUNTS,
    attempt=COUNTS,
    triggered_ms=COUNTS,
    completed_ms=COUNTS,
    operators=OPERATORS,
    subtasks=REPORTS,
    enumerators=st.dictionaries(TEXTS, TEXTS, max_size=2),
    commits=st.dictionaries(TEXTS, st.lists(TEXTS, max_size=2), max_size=2),
    version=st.just(2),
    savepoint=st.booleans(),
    oldest_reader=st.just(2),
    epoch=COUNTS,
    checksum=st.just("00000000"),
)
"""Manifests of the present version, with anything in them."""
