"""Memory that workers of one machine share, in files: between processes, without room, left by killed workers."""

from __future__ import annotations

import ctypes
import logging
import os
import shutil
import signal
import stat
import subprocess
import sys
import textwrap
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from penstock.common.configuration import Configuration
from penstock.common.errors import ConfigurationError
from penstock.engine.runtime.network.claims import ClaimReceiver, ClaimSender, ClaimSettings, Offer
from penstock.hosts.spark.driver.pipelined_run import claim_settings
from penstock.hosts.spark.worker import shared_memory
from penstock.hosts.spark.worker.shared_memory import FileMemory, Header

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="only Linux has what shared memory needs")
WORDS, DATA = 100, 10_000


def memory(folder: Path) -> FileMemory:
    return FileMemory(ClaimSettings(directory=str(folder)))


def files(folder: Path) -> list[Path]:
    return list((folder / f"penstock-{os.geteuid()}").iterdir())


def descriptors() -> int:
    return len(list(Path("/proc/self/fd").iterdir()))


def test_two_mappings_are_one_memory_that_only_its_owner_writes(tmp_path: Path) -> None:
    """A receiver would see other bytes than its sender has written, or could change them."""
    owner, other = memory(tmp_path), memory(tmp_path)
    before = descriptors()
    created = owner.create(WORDS, DATA)
    assert created is not None
    offer, pool = created
    opened = other.open(offer, WORDS, DATA)
    assert opened is not None
    assert descriptors() == before, "a mapping keeps no descriptor"
    pool.data[5_000:5_003] = b"abc"
    opened.words[WORDS - 1] = 1 << 63
    assert (bytes(opened.data[4_999:5_004]), pool.words[WORDS - 1]) == (b"\0abc\0", 1 << 63)
    assert opened.data.readonly and not any(pool.words[:-1])
    (path,) = files(tmp_path)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600 and stat.S_IMODE(path.parent.stat().st_mode) == 0o700
    owner.close()
    assert files(tmp_path) == []
    pool.data[0] = 7
    assert opened.data[0] == 7, "who has mapped it keeps it"
    assert other.open(offer, WORDS, DATA) is None


def test_what_is_not_the_offered_pool_is_not_opened(tmp_path: Path) -> None:
    """A worker would read a file of another machine, of another size, or one that a link leads to."""
    owner, other = memory(tmp_path), memory(tmp_path)
    created = owner.create(WORDS, DATA)
    assert created is not None
    offer, _ = created
    assert other.open(Offer(0, offer.nonce + 1), WORDS, DATA) is None
    assert other.open(Offer(5, offer.nonce), WORDS, DATA) is None
    assert other.open(offer, WORDS, 10 * DATA) is None
    (path,) = files(tmp_path)
    content = path.read_bytes()
    linked = path.with_name(f"{offer.nonce + 2:016x}")
    linked.symlink_to(path)
    assert other.open(Offer(0, offer.nonce + 2), WORDS, DATA) is None
    path.write_bytes(content[:8] + bytes(16) + content[24:])
    assert other.open(offer, WORDS, DATA) is None, "of another boot, so of another machine"
    path.write_bytes(content)
    path.parent.chmod(0o777)
    assert other.open(offer, WORDS, DATA) is None, "others may write there"


def test_a_folder_of_someone_else_is_not_used(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """Another user would prepare the folder, and read the records of the job."""
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / f"penstock-{os.geteuid()}").symlink_to(tmp_path / "elsewhere")
    with caplog.at_level(logging.WARNING):
        assert memory(tmp_path).create(WORDS, DATA) is None
    assert "not a directory of this user alone" in caplog.text
    assert list((tmp_path / "elsewhere").iterdir()) == []


def test_files_of_killed_workers_are_removed_and_those_of_running_ones_kept(tmp_path: Path) -> None:
    """Memory would be full of what killed workers have left, or a running one would lose its own."""
    program = textwrap.dedent(
        f"""
        import os, signal
        from penstock.engine.runtime.network.claims import ClaimSettings
        from penstock.hosts.spark.worker.shared_memory import FileMemory
        assert FileMemory(ClaimSettings(directory={str(tmp_path)!r})).create({WORDS}, {DATA}) is not None
        os.kill(os.getpid(), signal.SIGKILL)
        """
    )
    assert subprocess.run([sys.executable, "-c", program], check=False).returncode == -signal.SIGKILL
    (left,) = files(tmp_path)
    running = memory(tmp_path)
    assert running.create(WORDS, DATA) is not None
    (own,) = files(tmp_path)
    assert own != left
    unfinished = own.with_name("0" * 16)
    unfinished.touch()
    assert memory(tmp_path).create(WORDS, DATA) is not None
    assert unfinished in files(tmp_path), "its owner may be about to write its header"
    os.utime(unfinished, (0, 0))
    assert memory(tmp_path).create(WORDS, DATA) is not None
    assert own in files(tmp_path) and unfinished not in files(tmp_path)


def left_by(folder: Path, *, age_s: float, **fields: Any) -> Path:
    """The file of an owner that has ended, with other fields in its header; the folder has no other file."""
    program = textwrap.dedent(
        f"""
        from penstock.engine.runtime.network.claims import ClaimSettings
        from penstock.hosts.spark.worker.shared_memory import FileMemory
        assert FileMemory(ClaimSettings(directory={str(folder)!r})).create({WORDS}, {DATA}) is not None
        """
    )
    subprocess.run([sys.executable, "-c", program], check=True)
    (path,) = files(folder)
    with path.open("r+b") as file:
        header = Header.read(file.fileno())
        assert header is not None
        file.seek(0)
        file.write(header._replace(**fields).packed())
    os.utime(path, (time.time() - age_s,) * 2)
    return path


@pytest.mark.parametrize(
    ("fields", "age_s", "is_kept"),
    [
        pytest.param({"boot": b"x" * 16}, 0, True, id="another machine runs, on a directory of the network"),
        pytest.param({"boot": b"x" * 16}, 1e9, False, id="before this machine has started"),
        pytest.param({"namespace": 7}, 60, True, id="a container runs, whose processes can't be seen"),
        pytest.param({"namespace": 7}, 7_200, False, id="a container that nobody removes"),
        pytest.param({}, 0, False, id="killed"),
    ],
)
def test_only_what_nobody_can_use_is_removed(
    tmp_path: Path, fields: dict[str, Any], age_s: float, is_kept: bool
) -> None:
    """Workers in two containers would remove each other's files before anyone has opened them.

    On a directory of the network, the worker of another machine would end by a signal: its memory is gone.
    """
    path = left_by(tmp_path, age_s=age_s, **fields)
    assert memory(tmp_path).create(WORDS, DATA) is not None
    assert path.exists() == is_kept


def test_files_of_others_in_the_folder_stay(tmp_path: Path) -> None:
    """A user's own files in a directory of this name would be lost, or fail the job."""
    assert memory(tmp_path).create(WORDS, DATA) is not None
    (own,) = files(tmp_path)
    others = [own.with_name("results.csv"), own.with_name("f" * 16), own.with_name("empty"), own.with_name("nested")]
    others[0].write_bytes(b"my results " * 100)
    others[1].write_bytes(b"\x01" * 100)
    others[2].touch()
    others[3].mkdir()
    for path in others:
        os.utime(path, (0, 0))
    assert memory(tmp_path).create(WORDS, DATA) is not None
    assert all(path.exists() for path in others)


def test_a_cut_file_is_not_opened(tmp_path: Path) -> None:
    """A worker would fail by a file that someone has truncated."""
    owner = memory(tmp_path)
    created = owner.create(WORDS, DATA)
    assert created is not None
    os.truncate(files(tmp_path)[0], 7)
    assert memory(tmp_path).open(created[0], WORDS, DATA) is None


def test_python_functions_stay_as_other_libraries_have_declared_them(tmp_path: Path) -> None:
    """A library that calls the same function of the interpreter would fail: its argument types were replaced."""
    shared = ctypes.pythonapi.PyMemoryView_FromMemory
    before = shared.argtypes, shared.restype
    assert memory(tmp_path).create(WORDS, DATA) is not None
    assert (shared.argtypes, shared.restype) == before


def test_a_file_whose_memory_cant_be_mapped_is_removed(tmp_path: Path) -> None:
    """Each worker with too little address space would keep the space of a file that nobody uses."""
    program = textwrap.dedent(
        f"""
        import resource
        from penstock.engine.runtime.network.claims import ClaimSettings
        from penstock.hosts.spark.worker.shared_memory import FileMemory
        memory = FileMemory(ClaimSettings(directory={str(tmp_path)!r}))
        resource.setrlimit(resource.RLIMIT_AS, (1 << 30, 1 << 30))
        assert memory.create({WORDS}, 1 << 30) is None
        """
    )
    subprocess.run([sys.executable, "-c", program], check=True)
    assert files(tmp_path) == []


def test_a_machine_without_a_temporary_directory_runs_jobs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Jobs would fail for want of a directory that they do not need."""

    def none() -> str:
        raise FileNotFoundError("No usable temporary directory found")

    monkeypatch.setattr("tempfile.gettempdir", none)
    monkeypatch.setattr(shared_memory, "MEMORY", tmp_path)
    assert FileMemory(ClaimSettings()).create(WORDS, DATA) is not None


def test_without_room_there_is_a_warning_and_no_memory(tmp_path: Path) -> None:
    """A write to memory without space behind it would end the worker by a signal."""
    program = textwrap.dedent(
        f"""
        import logging, resource
        from penstock.engine.runtime.network.claims import ClaimSettings
        from penstock.hosts.spark.worker.shared_memory import FileMemory
        logging.basicConfig()
        resource.setrlimit(resource.RLIMIT_FSIZE, (50_000, 50_000))
        memory = FileMemory(ClaimSettings(directory={str(tmp_path)!r}))
        assert memory.create({WORDS}, 1_000_000) is None
        assert memory.create({WORDS}, {DATA}) is not None
        """
    )
    ended = subprocess.run([sys.executable, "-c", program], check=True, capture_output=True, text=True)
    assert len(files(tmp_path)) == 1
    assert "large rows travel through Spark" in ended.stderr and "File too large" in ended.stderr


def test_where_memory_is_too_small_the_disk_is_used(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A container with 64 MB of shared memory would fill it, and fail other programs."""
    small, disk = tmp_path / "small", tmp_path / "disk"
    small.mkdir()
    disk.mkdir()
    monkeypatch.setattr(shared_memory, "MEMORY", small)
    monkeypatch.setattr("tempfile.tempdir", str(disk))
    created = FileMemory(ClaimSettings()).create(WORDS, DATA)
    assert created is not None and created[0].place == 0 and len(files(small)) == 1
    room = os.statvfs
    full = SimpleNamespace(f_blocks=9, f_bavail=5, f_frsize=4096)
    monkeypatch.setattr("os.statvfs", lambda path: full if small in path.parents else room(path))
    created = FileMemory(ClaimSettings()).create(WORDS, DATA)
    assert created is not None and created[0].place == 1 and len(files(disk)) == 1


@pytest.mark.parametrize("size", [1 << 50, 1 << 63])
def test_a_directory_on_disk_is_not_filled(
    tmp_path: Path, size: int, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Spark would fail: it has its local files on the same disk."""
    asked: list[int] = []
    monkeypatch.setattr("os.posix_fallocate", lambda file, start, size: asked.append(size))
    with caplog.at_level(logging.WARNING):
        assert memory(tmp_path).create(WORDS, size) is None
    assert "bytes are free" in caplog.text and not asked


def test_two_processes_pass_payloads_on(tmp_path: Path) -> None:
    """What one process frees would be overwritten while the other one still reads it."""
    settings = ClaimSettings(blocks=6, block_bytes=4096, row_bytes_min=0, directory=str(tmp_path))
    there, back = os.pipe(), os.pipe()
    child = os.fork()
    if not child:
        code = 1
        try:
            receiving = ClaimReceiver(0, attempt=1, receivers=1, settings=settings, memory=FileMemory(settings))
            with os.fdopen(there[0], "rb") as rows, os.fdopen(back[1], "wb", buffering=0) as answers:
                os.close(there[1])
                while length := rows.read(4):
                    for payload in receiving.incoming([rows.read(int.from_bytes(length, "big"))]):
                        assert payload == payload[-1:] * len(payload)
                        answers.write(payload[-1:])
            code = 0
        finally:
            os._exit(code)
    os.close(there[0])
    os.close(back[1])
    sending = ClaimSender(0, attempt=1, receivers=1, settings=settings, memory=FileMemory(settings))
    expected = b""
    claims = 0
    with os.fdopen(there[1], "wb", buffering=0) as out:
        for turn in range(5_000):
            payload = bytes([1 + turn % 250]) * (100 + turn * 7919 % 12_000)
            expected += payload[-1:]
            for _, row in sending.outgoing([(0, payload)]):
                claims += len(row) < len(payload)
                out.write(len(row).to_bytes(4, "big") + row)
    with os.fdopen(back[0], "rb") as answers:
        assert answers.read() == expected
    assert os.waitpid(child, 0)[1] == 0
    assert claims > 1_000


@pytest.mark.parametrize("is_replaced", [False, True])
def test_a_folder_that_someone_removes_ends_no_worker(tmp_path: Path, is_replaced: bool) -> None:
    """A worker would fail at its end, or by a signal when it writes, because someone has tidied up."""
    owner, other = memory(tmp_path), memory(tmp_path)
    created = owner.create(WORDS, DATA)
    assert created is not None
    (file,) = files(tmp_path)
    shutil.rmtree(file.parent)
    if is_replaced:
        file.parent.write_text("a file")
    assert other.open(created[0], WORDS, DATA) is None, "its rows travel through Spark"
    created[1].data[:5] = b"hello"
    assert (memory(tmp_path).create(WORDS, DATA) is None) is is_replaced
    owner.close()


def test_memory_without_a_limit_has_room(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A file system in memory of any size counts no blocks, and would be taken for a full one."""
    monkeypatch.setattr("os.statvfs", lambda path: SimpleNamespace(f_blocks=0, f_bavail=0, f_frsize=4096))
    assert memory(tmp_path).create(WORDS, DATA) is not None


@pytest.mark.parametrize(
    ("name", "value", "error"),
    [
        ("size", "10 kb", "must be 0, or at least 65,536 bytes, got 10,240"),
        ("size", "1", "must be 0, or at least 65,536 bytes, got 1$"),
        ("directory", "", "must be an absolute path, since each worker has a working directory of its own, got ''"),
        ("directory", "shared", "must be an absolute path, .* got 'shared'"),
    ],
)
def test_settings_that_would_share_nothing_are_refused(name: str, value: str, error: str) -> None:
    """The user would believe that memory is shared, and measure Spark."""
    configuration = Configuration()
    configuration.set_string(f"penstock.network.shared-memory.{name}", value)
    with pytest.raises(ConfigurationError, match=f"^penstock.network.shared-memory.{name} {error}"):
        claim_settings(configuration)


def test_settings_of_shared_memory() -> None:
    """The size would be another one, or memory be shared although the user has turned it off."""
    configuration = Configuration()
    assert claim_settings(configuration) == ClaimSettings(blocks=128)
    configuration.set_string("penstock.network.shared-memory.size", "64 kb")
    configuration.set_string("penstock.network.shared-memory.directory", "/shared")
    assert claim_settings(configuration) == ClaimSettings(blocks=1, directory="/shared")
    configuration.set_string("penstock.network.shared-memory.size", "0")
    assert claim_settings(configuration) is None
