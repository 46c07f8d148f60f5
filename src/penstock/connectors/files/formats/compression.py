"""Compressed files of text: which codec a file has, by the end of its name, how it is read and written."""

from __future__ import annotations

import bz2
import gzip
import lzma
import zlib
from collections.abc import Callable
from typing import Any, NamedTuple

import pyarrow

from penstock.connectors.files.formats import snappy_blocks
from penstock.connectors.files.formats.deflate_streams import DeflateStreams, GzipStreams
from penstock.connectors.files.formats.xz_streams import XzStreams


class Codec(NamedTuple):
    """One behind the other, the results of `compress` are a file: of gzip, members; of zstd and lz4, frames."""

    suffix: str
    """Of the files that are written."""
    compress: Callable[[bytes], bytes]
    opened: Callable[[Any], Any]
    """From a file that is open to what decompresses it."""


def _by_arrow(name: str) -> Callable[[Any], Any]:
    def opened(file: Any) -> Any:
        if not file.size():
            # pyarrow takes it for the end of the data, whereas an archive has a header at least.
            raise EOFError(f"the file is empty, which is no archive of {name}")
        return pyarrow.CompressedInputStream(file, name)

    return opened


def _frame(name: str) -> Callable[[bytes], bytes]:
    return lambda data: bytes(pyarrow.Codec(name).compress(data, asbytes=True))


# Without the time at which it was compressed: the same records are the same bytes.
CODECS = {
    "gzip": Codec(".gz", lambda data: gzip.compress(data, 6, mtime=0), GzipStreams),
    "zstd": Codec(".zst", _frame("zstd"), _by_arrow("zstd")),
    "snappy": Codec(".snappy", snappy_blocks.compress, snappy_blocks.SnappyBlocks),
    "lz4": Codec(".lz4", _frame("lz4"), _by_arrow("lz4")),
    "bzip2": Codec(".bz2", bz2.compress, _by_arrow("bz2")),
    "xz": Codec(".xz", lzma.compress, XzStreams),
}
"""By the names that a program gives them."""
_OTHER_SUFFIXES = {".gzip": "gzip", ".sz": "snappy"}
# Read only: Java reads one stream of such a file, and a sink writes one for each checkpoint.
_DEFLATE = Codec(".deflate", zlib.compress, DeflateStreams)
_BY_SUFFIX = {codec.suffix: codec for codec in (*CODECS.values(), _DEFLATE)} | {
    suffix: CODECS[name] for suffix, name in _OTHER_SUFFIXES.items()
}


def codec_named(name: str) -> Codec:
    """Raises ValueError for a name that no codec has."""
    if name not in CODECS:
        raise ValueError(f"compression must be one of {', '.join(CODECS)}, got {name!r}")
    return CODECS[name]


def codec_of(path: str) -> Codec | None:
    """That of a file; None: it is not compressed, as far as its name says."""
    return next((codec for suffix, codec in _BY_SUFFIX.items() if path.endswith(suffix)), None)
