"""The names of modules and classes in the pickles of a snapshot."""

from __future__ import annotations

import base64
import io
import pickletools
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
from tests.data.formats.program import stores_of

from penstock.engine.checkpoint.manifest import Manifest
from penstock.engine.checkpoint.storage import SavepointStorage, files_directory, read_manifest
from penstock.engine.state.backends.rocksdb.store_files import contents_of
from penstock.engine.state.handles import KeyedFile, OperatorState, store_files_of
from penstock.engine.state.snapshot.storage import sections_of

_STRINGS = {"SHORT_BINUNICODE", "BINUNICODE", "BINUNICODE8", "UNICODE"}
_MEMOIZED = {"BINGET", "LONG_BINGET", "GET"}


def globals_of(data: bytes) -> set[str]:
    """`module.qualname` of all globals in pickles that follow one another."""
    found = set()
    stream = io.BytesIO(data)
    while stream.tell() < len(data):
        memo: dict[int, Any] = {}
        texts: list[Any] = []
        for code, argument, _ in pickletools.genops(stream):
            if code.name in _STRINGS:
                texts.append(argument)
            elif code.name == "MEMOIZE":
                memo[len(memo)] = texts[-1] if texts else None
                continue
            elif code.name in _MEMOIZED:
                texts.append(memo.get(int(argument)))
                continue
            elif code.name == "STACK_GLOBAL":
                found.add(f"{texts[-2]}.{texts[-1]}")
                texts.append(None)
            elif code.name == "GLOBAL":
                found.add(argument.replace(" ", "."))
                texts.append(None)
            else:
                assert code.name not in ("EXT1", "EXT2", "EXT4", "INST", "PERSID", "BINPERSID"), code.name
                texts.append(None)
    return found


def pickles_of(snapshot: Path) -> Iterator[tuple[str, bytes]]:
    """Where each pickle of a savepoint or checkpoint lies, and the pickle."""
    manifest = read_manifest(str(snapshot))
    files = SavepointStorage(files_directory(str(snapshot), manifest))
    yield from pickles_of_manifest(manifest)
    for operator in manifest.operators:
        for part in operator.subtasks:
            for where, data in _of_state(files, part.state):
                yield f"{operator.state_id}, {where}", data


def pickles_of_manifest(manifest: Manifest) -> Iterator[tuple[str, bytes]]:
    """The pickles that stand in a manifest itself."""
    for state_id, text in manifest.enumerators.items():
        yield f"{state_id}, enumerator", base64.b64decode(text)
    for state_id, texts in manifest.commits.items():
        for text in texts:
            yield f"{state_id}, commits", base64.b64decode(text)


def _of_state(files: SavepointStorage, state: OperatorState) -> Iterator[tuple[str, bytes]]:
    if database := store_files_of(state.keyed):
        store = stores_of("rocksdb").open(contents_of(files, database))
        for _, data in store.view().items(b""):
            yield "RocksDB", data
        store.close()
    for file in state.keyed:
        if file.store_file:
            continue
        if file.columns:
            yield from _of_columns(files, file)
        else:
            for section in sections_of(files.read, file):
                yield file.path, files.read(file.path, section.offset, section.length)
    if state.lists is not None:
        for one in state.lists.lists:
            if one.columns is not None:
                yield from _of_columns(files, one.columns)
                continue
            for item in one.items:
                yield one.name, files.read(state.lists.path, item.offset, item.length)


def _of_columns(files: SavepointStorage, file: KeyedFile) -> Iterator[tuple[str, bytes]]:
    table = pq.read_table(io.BytesIO(files.read(file.path, 0, file.bytes)))
    for field in table.schema:
        metadata = field.metadata or {}
        for key, value in metadata.items():
            if key == b"penstock.type" and not value.startswith(b"["):
                yield f"{file.path}, type of {field.name}", base64.b64decode(value)
        if b"penstock.type" not in metadata and str(field.type) == "large_binary":
            for value in table.column(field.name).to_pylist():
                yield f"{file.path}, {field.name}", value
