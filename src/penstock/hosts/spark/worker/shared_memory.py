"""Memory that the workers of one machine share: files in memory or on local disk, mapped by their owner and receivers.

A file is a page with its header, the words of the pool and the data of the pool. Its name is its nonce. Its owner
removes it at its end. What a killed owner left is removed by the next worker that creates one, never what a running one
may need: to remove the file of another machine, on a directory of the network, could end its workers by a signal.
"""

from __future__ import annotations

import contextlib
import ctypes
import logging
import mmap
import os
import re
import secrets
import stat
import struct
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from penstock.engine.runtime.network.claims import ClaimSettings, Offer, Pool
from penstock.hosts.live_process import is_alive, start_mark_of

_log = logging.getLogger(__name__)

MEMORY = Path("/dev/shm")
"""Where Linux keeps files in memory."""
_PAGE = mmap.PAGESIZE
_WORD = 8
_BOOT = Path("/proc/sys/kernel/random/boot_id")
_NAMESPACE = Path("/proc/self/ns/pid")
_UNFINISHED_S = 60.0
"""A file without a header is older than this if its owner was killed."""
_UNSEEN_S = 3600.0
"""Files of other containers are kept for this time. All receivers of a job that runs have opened them by then."""
_READABLE, _WRITABLE = 0x100, 0x200
"""Flags of PyMemoryView_FromMemory."""
_FIELDS = struct.Struct("<Q16sQQQ")


class Header(NamedTuple):
    """The beginning of a file: its nonce, and the process that owns it."""

    nonce: int
    boot: bytes
    """The boot of its machine."""
    namespace: int
    """The namespace of its process id: each container has one."""
    pid: int
    mark: int
    """When the process has started; 0: unknown."""

    @classmethod
    def read(cls, file: int) -> Header | None:
        """Return the header of an open file; None if the file is shorter."""
        found = os.pread(file, _FIELDS.size, 0)
        return cls(*_FIELDS.unpack(found)) if len(found) == _FIELDS.size else None

    def packed(self) -> bytes:
        """Return the bytes to write."""
        return _FIELDS.pack(*self)

    def is_left(self, here: Header, age_s: float) -> bool:
        """Return whether the owner is gone, as far as a process with the header `here` can see."""
        if self.boot != here.boot:
            # Of the time before this machine has started; or of another machine, which runs.
            return age_s > time.clock_gettime(time.CLOCK_BOOTTIME)
        if self.namespace != here.namespace:
            return age_s > _UNSEEN_S
        return not is_alive(self.pid, str(self.mark or ""))


class FileMemory:
    """Pools of one worker in files. `settings.directory`: where; None: in memory if there is room, else on local disk.

    Only Linux has what this needs: elsewhere `create` returns None.
    """

    def __init__(self, settings: ClaimSettings) -> None:
        self._folders = [place / f"penstock-{os.geteuid()}" for place in _places(settings)]
        self._boot = _boot()
        self._created: list[Path] = []

    def create(self, words: int, data_bytes: int) -> tuple[Offer, Pool] | None:
        """Return a new pool, with all of its space reserved; None if no place has enough."""
        if self._boot is None:
            return None
        reasons = []
        for place, folder in enumerate(self._folders):
            try:
                nonce = secrets.randbits(63) + 1
                return Offer(place, nonce), self._create(folder, _header(nonce, self._boot), words, data_bytes)
            except OSError as error:
                reasons.append(f"{folder.parent}: {error.strerror or error}")
        _log.warning("large rows travel through Spark, since no memory can be shared (%s)", "; ".join(reasons))
        return None

    def open(self, offer: Offer, words: int, data_bytes: int) -> Pool | None:
        """Return the pool of another worker; None if it is not there, or is one of another machine."""
        if self._boot is None or not 0 <= offer.place < len(self._folders):
            return None
        path = self._folders[offer.place] / _name(offer.nonce)
        with contextlib.suppress(OSError):
            _check_folder(path.parent)
            with _opened(path, os.O_RDWR | os.O_NOFOLLOW) as file:
                header = Header.read(file)
                expected = _sizes(words, data_bytes)
                is_offered = header is not None and (header.nonce, header.boot) == (offer.nonce, self._boot)
                if is_offered and os.fstat(file).st_size == sum(expected):
                    return _mapped(file, expected, words, writes=False)
        return None

    def close(self) -> None:
        """Remove the files of this worker. Those who have mapped them keep their memory."""
        for path in self._created:
            # Someone may have removed or replaced the folder, or made it read-only.
            with contextlib.suppress(OSError):
                path.unlink()

    def _create(self, folder: Path, header: Header, words: int, data_bytes: int) -> Pool:
        folder.mkdir(mode=0o700, exist_ok=True)
        _check_folder(folder)
        _remove_left(folder, header)
        sizes = _sizes(words, data_bytes)
        _check_room(folder, 2 * sum(sizes))
        path = folder / _name(header.nonce)
        with _opened(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW) as file:
            self._created.append(path)
            try:
                os.pwrite(file, header.packed(), 0)
                # Without reserved space a write to the mapped file could end the process: SIGBUS.
                os.posix_fallocate(file, 0, sum(sizes))
                return _mapped(file, sizes, words, writes=True)
            except OSError:
                self.close()
                self._created.clear()
                raise


def _places(settings: ClaimSettings) -> list[Path]:
    if settings.directory is not None:
        return [Path(settings.directory)]
    try:
        return [MEMORY, Path(tempfile.gettempdir())]
    except OSError:
        # There is no temporary directory to which this user may write.
        return [MEMORY]


def _header(nonce: int, boot: bytes) -> Header:
    pid = os.getpid()
    mark = int(start_mark_of(pid) or 0)
    return Header(nonce=nonce, boot=boot, namespace=_NAMESPACE.stat().st_ino, pid=pid, mark=mark)


def _sizes(words: int, data_bytes: int) -> tuple[int, int, int]:
    return _PAGE, -(-words * _WORD // _PAGE) * _PAGE, -(-data_bytes // _PAGE) * _PAGE


def _name(nonce: int) -> str:
    return f"{nonce:016x}"


_IS_OURS = re.compile(r"[0-9a-f]{16}")


def _boot() -> bytes | None:
    """Return what this boot of this machine has alone; None: not on Linux."""
    try:
        return bytes.fromhex(_BOOT.read_text().strip().replace("-", ""))
    except (OSError, ValueError):
        return None


@contextlib.contextmanager
def _opened(path: Path, flags: int) -> Iterator[int]:
    file = os.open(path, flags | os.O_CLOEXEC, 0o600)
    try:
        yield file
    finally:
        # A mapping needs no descriptor, and a worker may map the pools of many others.
        os.close(file)


def _check_folder(folder: Path) -> None:
    """Raise PermissionError unless the folder belongs to this user, and others have no access."""
    found = os.lstat(folder)
    if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.geteuid() or found.st_mode & 0o077:
        raise PermissionError(f"{folder} is not a directory of this user alone")


def _check_room(folder: Path, needed: int) -> None:
    found = os.statvfs(folder)
    # A file system in memory without a limit has no blocks to count.
    if found.f_blocks and found.f_bavail * found.f_frsize < needed:
        raise OSError(f"less than {needed:,} bytes are free")


def _remove_left(folder: Path, here: Header) -> None:
    """Remove files whose owners were killed. Files that are still mapped keep their memory until the end of all."""
    for path in folder.iterdir():
        if not _IS_OURS.fullmatch(path.name):
            continue
        with contextlib.suppress(OSError):
            with _opened(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK) as file:
                header = Header.read(file)
                found = os.fstat(file)
            age_s = time.time() - found.st_mtime
            if header is None:
                is_left = not found.st_size and age_s > _UNFINISHED_S
            else:
                is_left = _name(header.nonce) == path.name and header.is_left(here, age_s)
            if is_left:
                path.unlink(missing_ok=True)


def _mapped(file: int, sizes: tuple[int, int, int], words: int, *, writes: bool) -> Pool:
    """Map a file. Only its owner, which `writes`, may change the data."""
    header, control, data = sizes
    words_view = _map(file, header, control, writable=True).cast("Q")[:words]
    return Pool(words_view, _map(file, header + control, data, writable=writes))


def _map(file: int, offset: int, size: int, *, writable: bool) -> memoryview:
    """Return a mapping that lasts as long as the process. Raises OSError.

    Until Python 3.13 `mmap.mmap` keeps a descriptor of the file open.
    """
    libc = ctypes.CDLL(None, use_errno=True)
    libc.mmap.restype = ctypes.c_void_p
    protection = mmap.PROT_READ | (mmap.PROT_WRITE if writable else 0)
    arguments = None, ctypes.c_size_t(size), protection, mmap.MAP_SHARED, file, ctypes.c_long(offset)
    address = libc.mmap(*arguments)
    if address in (None, ctypes.c_void_p(-1).value):
        error = ctypes.get_errno()
        raise OSError(error, os.strerror(error))
    # A prototype: `ctypes.pythonapi` has one function for all libraries, which declare its arguments in different ways.
    prototype = ctypes.PYFUNCTYPE(ctypes.py_object, ctypes.c_void_p, ctypes.c_ssize_t, ctypes.c_int)
    view = prototype(("PyMemoryView_FromMemory", ctypes.pythonapi))
    mapped: memoryview = view(address, size, _WRITABLE if writable else _READABLE)
    return mapped
