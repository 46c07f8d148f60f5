"""Restoring: what each subtask restores, at the same and at another parallelism."""

from __future__ import annotations

import msgspec
import pytest

from penstock.common.errors import CheckpointError
from penstock.engine.checkpoint.manifest import (
    Manifest,
    OperatorPart,
    SubtaskPart,
    decode,
    encode,
)
from penstock.engine.checkpoint.plan import CheckpointVertex
from penstock.engine.checkpoint.restore import assign
from penstock.engine.state.handles import (
    KeyedFile,
    ListInFile,
    ListsFile,
    OperatorState,
    Redistribution,
    Section,
)


def manifest(parallelism: int, mode: Redistribution = Redistribution.SPLIT, items: int = 3) -> Manifest:
    """An operator "op" whose subtask i has the keyed file k<i> and a list of some items in l<i>."""
    parts = []
    for subtask in range(parallelism):
        sections = [Section(0, subtask * 100 + n, 1, 0) for n in range(items)]
        lists = ListsFile(f"l{subtask}", items, [ListInFile("list", mode, sections)])
        parts.append(SubtaskPart(subtask, OperatorState([KeyedFile(f"k{subtask}", 1, [], [])], lists)))
    return Manifest("job", "a job", 4, 0, 0, 0, [OperatorPart("op", "an operator", parallelism, 128, parts)], [])


def outline(parallelism: int, state_id: str = "op", max_parallelism: int = 128) -> list[CheckpointVertex]:
    return [CheckpointVertex(5, "vertex", parallelism, max_parallelism, [(state_id, "an operator")], False)]


def restored(now: int, was: Manifest):
    given = assign(was, outline(now), owns_files=True, allow_non_restored=False)
    return [given[5, subtask]["op"] for subtask in range(now)]


def items(operator) -> list[tuple[str, int]]:
    return [(path, section.offset) for path, part in operator.lists for section in part.items]


@pytest.mark.parametrize(
    ("was", "now", "files"),
    [
        (2, 2, [["k0"], ["k1"]]),
        (2, 1, [["k0", "k1"]]),
        (2, 4, [["k0"], ["k0"], ["k1"], ["k1"]]),
        (3, 2, [["k0", "k1"], ["k2", "k1"]]),
    ],
)
def test_keyed_state_goes_to_who_owns_its_key_groups(was, now, files) -> None:
    """A key's state would be restored in no subtask, or every subtask would read all files.

    The first has most of the key groups: others are copied into its store.
    """
    operators = restored(now, manifest(was))
    assert [[chain[0].path for chain in operator.chains] for operator in operators] == files
    assert all(operator.extends_files == (was == now) for operator in operators)


def test_lists_stay_where_they_were() -> None:
    """With the same parallelism splits would wander, and be read in another order."""
    assert [items(o) for o in restored(2, manifest(2))] == [
        [("l0", 0), ("l0", 1), ("l0", 2)],
        [("l1", 100), ("l1", 101), ("l1", 102)],
    ]


@pytest.mark.parametrize("now", [1, 3, 4])
def test_split_lists_are_dealt_out_evenly(now) -> None:
    """One subtask would read all partitions; or a partition would be read twice, or not at all."""
    dealt = [items(operator) for operator in restored(now, manifest(2))]
    assert sorted(item for part in dealt for item in part) == [
        *(("l0", n) for n in range(3)),
        *(("l1", 100 + n) for n in range(3)),
    ]
    assert max(map(len, dealt)) - min(map(len, dealt)) <= 1


def test_union_lists_go_to_all_and_broadcast_lists_from_one() -> None:
    """Broadcast state would exist once per former subtask."""
    assert [len(items(o)) for o in restored(3, manifest(2, Redistribution.UNION))] == [6, 6, 6]
    of_first, of_second = [("l0", 0), ("l0", 1), ("l0", 2)], [("l1", 100), ("l1", 101), ("l1", 102)]
    assert [items(o) for o in restored(3, manifest(2, Redistribution.BROADCAST))] == [of_first, of_second, of_first]
    assert [items(o) for o in restored(2, manifest(2, Redistribution.BROADCAST))] == [of_first, of_second]


def test_an_operator_that_is_gone_is_an_error_unless_allowed() -> None:
    """A renamed uid would lose state without an error."""
    with pytest.raises(CheckpointError, match=r"'an operator' \(op\).*--allow-non-restored-state"):
        assign(manifest(1), outline(1, "other"), owns_files=True, allow_non_restored=False)
    assert assign(manifest(1), outline(1, "other"), owns_files=True, allow_non_restored=True) == {}


def test_another_maximum_parallelism_is_an_error() -> None:
    """Keys would be searched in wrong key groups."""
    with pytest.raises(CheckpointError, match=r"set_max_parallelism\(128\)"):
        assign(manifest(1), outline(1, max_parallelism=256), owns_files=True, allow_non_restored=False)


def test_the_state_of_another_job_is_not_built_upon() -> None:
    """The other job may remove its files."""
    given = assign(manifest(2), outline(2), owns_files=False, allow_non_restored=False)
    assert not given[5, 0]["op"].extends_files


def test_a_manifest_survives_as_json() -> None:
    """A checkpoint could not be read, or a damaged one would be accepted."""
    was = manifest(2)
    assert decode(encode(was), "x") == was
    with pytest.raises(CheckpointError, match="here is damaged"):
        decode(encode(was)[:-20], "here")


def test_a_manifest_that_was_changed_is_refused() -> None:
    """A disk that flips a bit would move a source's position, or leave out what is to be committed."""
    data = encode(manifest(2))
    for position in range(0, len(data), 7):
        flipped = data[:position] + bytes([data[position] ^ 1]) + data[position + 1 :]
        with pytest.raises(CheckpointError, match="here"):
            decode(flipped, "here")


def test_what_a_newer_penstock_wrote_is_read_if_it_says_so() -> None:
    """After a rollback of penstock a job would misread a checkpoint, or refuse a readable one."""
    was = msgspec.structs.replace(manifest(2), version=9)
    assert decode(encode(was), "here") == was
    with pytest.raises(CheckpointError, match=r"here has version 9.*by a newer one"):
        decode(encode(msgspec.structs.replace(was, oldest_reader=9)), "here")


def test_nothing_is_appended_to_files_of_an_older_format() -> None:
    """A chain of files of two formats could be read by no version of penstock."""
    old = msgspec.structs.replace(manifest(2), version=1)
    assert not assign(old, outline(2), owns_files=True, allow_non_restored=False)[5, 0]["op"].extends_files


def test_results_of_a_sink_that_is_gone_are_an_error_unless_allowed() -> None:
    """Rows that a savepoint holds would never be published, since a map was put before their sink."""
    kept = msgspec.structs.replace(manifest(1), commits={"sink": ["packed"]})
    vertices = outline(1, "op")
    with pytest.raises(CheckpointError, match=r"uncommitted results of sinks.*sink.*--allow-non-restored-state"):
        assign(kept, vertices, owns_files=False, allow_non_restored=False)
    assign(kept, vertices, owns_files=False, allow_non_restored=True)
    assign(
        msgspec.structs.replace(kept, commits={"op": ["packed"], "sink": []}),
        vertices,
        owns_files=False,
        allow_non_restored=False,
    )
