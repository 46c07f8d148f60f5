"""A disk that is full is told by the file that was written, and what to do: a limit of the process plays it."""

from __future__ import annotations

import errno
import os
import subprocess
import sys
from pathlib import Path

import pytest

from penstock.common.errors.disk_errors import advice_on, naming_file

LIMITED = """
import os, resource, sys
from pathlib import Path
from penstock.common.errors import PenstockError
place = sys.argv[1]
resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, 100_000))
try:
{body}
except (OSError, PenstockError) as error:
    print(f"{{type(error).__name__}}: {{error}}")
"""
STATE_FILE = """
    from penstock.engine.checkpoint.storage import DirectoryStorage
    file = DirectoryStorage(place).create("chk-1-state", shared=True)
    for _ in range(100):
        file.write(b"x" * 10_000)
    file.close()
"""
ROCKSDB = """
    from penstock.engine.stores.rocksdb import RocksStore
    store = RocksStore(place, 8 << 20, {})
    store.write([(b"%d" % n, os.urandom(10_000)) for n in range(100)])
    store.link()
"""
JOB_STORE = """
    from penstock.service.dispatcher.atomic_files import write_atomically
    write_atomically(Path(place) / "state", b"x" * 1_000_000)
"""
FILE_SINK = """
    from penstock.testing.conformance.sink import SimpleSinkContext, check_sink
    from penstock.common.serialization import Encoder
    from penstock.datastream.connectors.file_system import FileSink
    sink = FileSink.for_row_format(place, Encoder.simple_string_encoder()).build()
    writer = sink.create_writer(SimpleSinkContext())
    for _ in range(100):
        writer.write("x" * 10_000, None)
    writer.flush(False)
"""
RESTORED_FILE_SINK = """
    from penstock.testing.conformance.sink import SimpleSinkContext
    from penstock.common.serialization import Encoder
    from penstock.datastream.connectors.file_system import FileSink
    sink = FileSink.for_row_format(place, Encoder.simple_string_encoder()).build()
    writer = sink.create_writer(SimpleSinkContext())
    for _ in range(9):
        writer.write("x" * 10_000, None)
    writer.flush(False)
    assert writer.prepare_commit() == []
    state = writer.snapshot_state(1)
    resource.setrlimit(resource.RLIMIT_FSIZE, (50_000, 100_000))
    sink.restore_writer(SimpleSinkContext(attempt="another", is_restored=True), state)
"""


@pytest.mark.parametrize(
    ("body", "told"),
    [
        (STATE_FILE, "OSError: [Errno 27] {reason}: '{place}/"),
        (ROCKSDB, "JobError: state can't be written to RocksDB in {place}/"),
        (JOB_STORE, "OSError: [Errno 27] File too large: '{place}/.state'"),
        (FILE_SINK, "OSError: [Errno 27] {reason}: '{place}'"),
        (RESTORED_FILE_SINK, "OSError: [Errno 27] {reason}: '{place}'"),
    ],
    ids=["state file", "rocksdb", "job store", "file sink", "restored file sink"],
)
def test_what_can_not_be_written_is_named(body: str, told: str, tmp_path: Path) -> None:
    """A machine has several disks: "no space left on device" sends its operator to look at each."""
    program = LIMITED.format(body=body.strip("\n"))
    run = subprocess.run([sys.executable, "-c", program, str(tmp_path)], capture_output=True, text=True, timeout=100)
    reason = "Error writing bytes to file. Detail: [errno 27] File too large"
    assert told.format(place=tmp_path, reason=reason) in run.stdout, run.stdout + run.stderr


def test_only_a_disk_s_errors_are_given_a_name() -> None:
    """A function of the user's that has lost its connection would seem to have failed at a file of the sink's."""
    with pytest.raises(OSError, match="'/data/out'") as told, naming_file("/data/out"):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
    assert told.value.errno == errno.ENOSPC
    with pytest.raises(ConnectionResetError) as passed, naming_file("/data/out"):
        raise ConnectionResetError(errno.ECONNRESET, "reset")
    assert passed.value.filename is None
    with pytest.raises(OSError, match="'/own'"), naming_file("/data/out"):
        raise OSError(errno.ENOSPC, "full", "/own")


def test_a_full_disk_is_not_a_matter_of_rights() -> None:
    """The user would look at the rights of a folder that are as they should be."""
    assert advice_on(OSError(errno.ENOSPC, "full"), "May it be written to?") == "Free some space there"
    assert advice_on(OSError(errno.EACCES, "denied"), "May it be written to?") == "May it be written to?"
