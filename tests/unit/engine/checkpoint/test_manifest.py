"""Manifests: they are read as written, changes are detected, and files are found from other jobs."""

from __future__ import annotations

import json
import zlib
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.unit.engine.checkpoint.manifests import MANIFESTS, manifest_of

from penstock.common.errors import DamagedCheckpointError
from penstock.engine.checkpoint.manifest import (
    VERSION,
    Manifest,
    OperatorPart,
    SubtaskPart,
    SubtaskReport,
    decode,
    encode,
    is_relative,
    packed,
    unpacked,
    with_absolute_paths,
)
from penstock.engine.state.handles import KeyedFile, OperatorState, Section, SnapshotFigures, TableInFile

WHOLE = encode(manifest_of(3, ["shared/3-a", "chk-3/3-b"], commits={"sink": [packed((0, ["row"]))]}))


@settings(max_examples=40)
@given(MANIFESTS)
def test_whatever_a_manifest_holds_comes_back(manifest: Manifest) -> None:
    """A job with an unusual name, or a state of an unusual size, could not be restored from its checkpoints."""
    assert decode(encode(manifest), "here") == manifest


@given(position=st.integers(0, len(WHOLE) - 1), value=st.integers(0, 255))
def test_no_byte_can_be_changed_unnoticed(position: int, value: int) -> None:
    """A damaged disk would move a source's position, or leave out what is to be committed."""
    changed = WHOLE[:position] + bytes([value]) + WHOLE[position + 1 :]
    if changed == WHOLE:
        assert decode(changed, "here").checkpoint_id == 3
    else:
        with pytest.raises(DamagedCheckpointError, match="the manifest here is damaged"):
            decode(changed, "here")


@pytest.mark.parametrize("place", [b'"job_name": "', b'"checksum": "'])
def test_a_text_that_is_no_utf_8_is_damage(place: bytes) -> None:
    """A job would not fall back to the checkpoint before, but fail with an error that does not name a checkpoint."""
    with pytest.raises(DamagedCheckpointError, match="the manifest here is damaged"):
        decode(WHOLE.replace(place, place + b"\x80"), "here")


@given(positions=st.lists(st.integers(0, len(WHOLE) * 8 - 1), min_size=2, max_size=6, unique=True))
def test_no_bits_can_be_changed_unnoticed(positions: list[int]) -> None:
    """A damaged disk would leave a manifest that names other state."""
    changed = bytearray(WHOLE)
    for bit in positions:
        changed[bit // 8] ^= 1 << bit % 8
    with pytest.raises(DamagedCheckpointError, match="the manifest here is damaged"):
        decode(bytes(changed), "here")


@pytest.mark.parametrize("number", [b"%d" % (VERSION + 1), b"99"])
def test_a_damaged_version_does_not_make_it_a_manifest_of_a_newer_penstock(number: bytes) -> None:
    """A user would search for a newer penstock, and a job would not fall back to the checkpoint before."""
    for field, was in ((b"version", VERSION), (b"oldest_reader", 5)):
        changed = WHOLE.replace(b'"%s": %d' % (field, was), b'"%s": %s' % (field, number))
        assert changed != WHOLE
        with pytest.raises(DamagedCheckpointError, match="checksum"):
            decode(changed, "here")


@pytest.mark.parametrize("version", [b"0", b"1"])
def test_a_damaged_version_does_not_switch_the_checksum_off(version: bytes) -> None:
    """Files would be read by the rules of another version."""
    changed = WHOLE.replace(b'"version": %d' % VERSION, b'"version": ' + version)
    assert changed != WHOLE
    with pytest.raises(DamagedCheckpointError, match="checksum"):
        decode(changed, "here")


@given(st.integers(0, len(WHOLE) - 1))
def test_a_truncated_manifest_is_damaged(length: int) -> None:
    """An interrupted copy would be read as a checkpoint with less state."""
    with pytest.raises(DamagedCheckpointError, match="the manifest here is damaged"):
        decode(WHOLE[:length], "here")


@pytest.mark.parametrize("more", [b" ", b"\n", b"{}", b"x", WHOLE])
def test_more_than_a_manifest_is_damaged(more: bytes) -> None:
    """Two manifests that were written over each other would be read as the first one."""
    with pytest.raises(DamagedCheckpointError):
        decode(WHOLE + more, "here")


@pytest.mark.parametrize("data", [b"", b"null", b"[]", b"{}", b'{"version": "2"}', b"\xff\xfe"])
def test_what_is_no_manifest_at_all_is_damaged(data: bytes) -> None:
    """A user who names a wrong file would see a traceback of the JSON library."""
    with pytest.raises(DamagedCheckpointError, match="the manifest here is damaged"):
        decode(data, "here")


def test_a_manifest_without_checksum_is_of_the_first_version() -> None:
    """Snapshots of the first penstock could not be restored; or a checksum that is lost would not be missed."""
    fields: dict[str, Any] = json.loads(WHOLE)
    since_the_second = {name: fields.pop(name) for name in ("checksum", "oldest_reader", "epoch")}
    fields["version"] = 1
    assert decode(json.dumps(fields).encode(), "here").version == 1
    for name, value in since_the_second.items():
        with pytest.raises(DamagedCheckpointError, match="does not end with its checksum"):
            decode(json.dumps(fields | {name: value}).encode(), "here")
    fields["version"] = VERSION
    with pytest.raises(DamagedCheckpointError, match="does not end with its checksum"):
        decode(json.dumps(fields).encode(), "here")


def test_a_field_that_a_newer_penstock_has_added_is_skipped() -> None:
    """After a rollback of penstock no job could be restored, though nothing that it needs has changed."""
    blank = (
        WHOLE.replace(b'"epoch": 0', b'"epoch": 0, "of_the_future": [1, 2]')[: -len('"12345678"\n}')] + b'"00000000"\n}'
    )
    signed = blank.replace(b'"00000000"', b'"%08x"' % zlib.crc32(blank))
    assert decode(signed, "here") == decode(WHOLE, "here")
    with pytest.raises(DamagedCheckpointError, match="checksum"):
        decode(blank, "here")


@given(
    st.recursive(st.integers() | st.text() | st.none() | st.binary(), lambda inner: st.lists(inner) | st.tuples(inner))
)
def test_any_value_of_a_source_or_sink_comes_back(value: Any) -> None:
    """A position, or what is to be committed, would be restored as something else."""
    assert unpacked(packed(value)) == value
    assert packed(value).isascii()


# Files.


@settings(max_examples=40)
@given(MANIFESTS)
def test_a_manifest_from_elsewhere_names_files_that_are_found(manifest: Manifest) -> None:
    """A job that starts from a checkpoint of another one would look for its files in its own directory."""
    there = with_absolute_paths(manifest, "/checkpoints/old")
    assert not any(is_relative(path) for path in there.files())
    assert there.files() == {f"/checkpoints/old/{path}" if is_relative(path) else path for path in manifest.files()}
    assert with_absolute_paths(there, "/somewhere/else") == there, "a path that is absolute stays"
    assert there.has_store_files() == manifest.has_store_files()
    assert (there.enumerators, there.commits, there.subtasks) == (
        manifest.enumerators,
        manifest.commits,
        manifest.subtasks,
    )


@pytest.mark.parametrize(
    ("path", "relative"),
    [("shared/a", True), ("a", True), ("/a/b", False), ("s3://bucket/a", False), ("file:/a", False), ("c:/a", True)],
)
def test_which_paths_are_the_jobs_own(path: str, relative: bool) -> None:
    """A job would delete files of another job in its sweeps, or leave its own forever."""
    assert is_relative(path) == relative


def test_a_manifest_of_a_terabyte_has_less_than_a_megabyte() -> None:
    """Each checkpoint of a large job would write, and its record keep, tens of megabytes of offsets and checksums."""
    subtasks = [SubtaskPart(subtask, state_of_16_gigabytes(subtask)) for subtask in range(64)]
    files = [file for part in subtasks for file in part.state.keyed]
    assert sum(file.bytes for file in files) > 1 << 40
    operator = OperatorPart("uid-of-an-operator", "balances", 64, 32_768, subtasks)
    figures = SnapshotFigures(12.5, 2.5, 1000.5, 0, 100 << 20, 16 << 30, 35.25)
    reports = [SubtaskReport("balances", subtask, False, figures) for subtask in range(64)]
    manifest = manifest_of(12_000, operators=[operator], subtasks=reports)
    stored = encode(manifest)
    assert len(stored) < 1_000_000
    assert decode(stored, "here") == manifest


def state_of_16_gigabytes(subtask: int) -> OperatorState:
    """A RocksDB of four levels with files of 64 to 256 MB, and twenty checkpoints of changes since."""
    tables = [TableInFile(name, True, "value of Pickled", "key") for name in ("balance", "(timers) event time")]
    changed = [msgspec.structs.replace(table, full=False) for table in tables]
    keyed = []
    for number, megabytes in enumerate([64] * 4 + [128] * 20 + [256] * 52):
        name = f"{100_000 * (1 + subtask % 8) + number:06d}.sst"
        size = megabytes << 20
        path = f"shared/{11_900 + number}-12-{subtask}-0-0-{name}"
        footer = Section(0, size, 28 * megabytes, zlib.crc32(name.encode()))
        crc = zlib.crc32(path.encode())
        keyed.append(KeyedFile(path, size, tables, store_file=name, crc=crc, footer=footer))
    for number in range(20):
        path = f"shared/{11_980 + number}-12-{subtask}-0-0-keyed"
        # 512 key groups, whose sections are listed in the file.
        footer = Section(0, 100 << 20, 14_000, zlib.crc32(path.encode()))
        keyed.append(KeyedFile(path, 100 << 20, tables if number == 0 else changed, crc=number, footer=footer))
    return OperatorState(keyed)


def test_state_of_a_store_is_recognized() -> None:
    """A job with state on the heap would start from files that only RocksDB can read, and fail on a worker."""
    assert not manifest_of(1, ["a"]).has_store_files()
    state = OperatorState([KeyedFile("a", 1, [], [], store_file="000007.sst")])
    operator = manifest_of(1).operators[0]
    part = msgspec.structs.replace(operator.subtasks[0], state=state)
    stored = manifest_of(1, operators=[msgspec.structs.replace(operator, subtasks=[part])])
    assert stored.has_store_files()
    assert stored.operator("op") == stored.operators[0] and stored.operator("other") is None
