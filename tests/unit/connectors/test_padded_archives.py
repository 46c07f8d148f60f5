"""Archives as other programs leave them: padded, of several members, empty."""

import gzip

import pytest

from penstock.common.errors import SourceError
from penstock.connectors.files.formats.compression import CODECS
from penstock.connectors.files.formats.streams import reading

ONE, TWO = gzip.compress(b"one\n" * 50_000), gzip.compress(b"two\n")


def content(path):
    with reading(str(path)) as stream:
        return b"".join(iter(lambda: stream.read(1000), b""))


@pytest.mark.parametrize("zeros", [0, 1, 7, 512, 70_000])
def test_zeros_behind_members_of_gzip_are_padding(tmp_path, zeros):
    """A file that a tape or a store has padded to blocks would be said to be damaged."""
    path = tmp_path / "padded.gz"
    path.write_bytes((ONE + bytes(zeros) + TWO + bytes(zeros)) * 2)
    assert content(path) == (b"one\n" * 50_000 + b"two\n") * 2


@pytest.mark.parametrize("behind", [b"garbage", bytes(8) + b"garbage", TWO[:-1], TWO[:1], bytes(70_000) + TWO[:5]])
def test_other_bytes_behind_members_of_gzip_are_damage(tmp_path, behind):
    """The data after it would silently be skipped."""
    path = tmp_path / "damaged.gz"
    path.write_bytes(ONE + behind)
    with pytest.raises(SourceError, match=r"cannot read \S*/damaged\.gz: (a gzip stream|the file ends within)"):
        content(path)


def test_each_bit_of_a_member_of_gzip_is_checked(tmp_path):
    """A bit that a disk has flipped would be another letter."""
    path = tmp_path / "bits.gz"
    for at in range(10, len(TWO)):
        path.write_bytes(TWO[:at] + bytes([TWO[at] ^ 4]) + TWO[at + 1 :])
        try:
            # Some bits of the last byte before the checksum stand for nothing.
            assert content(path) == b"two\n"
        except SourceError as error:
            assert "bits.gz" in str(error)


@pytest.mark.parametrize("name", [*CODECS, "deflate"])
def test_an_empty_archive_is_an_upload_that_failed(tmp_path, name):
    """A file of 0 bytes would be taken for one of no records; only Hadoop's snappy has no header."""
    path = tmp_path / f"empty{CODECS[name].suffix if name in CODECS else '.deflate'}"
    path.touch()
    if name == "snappy":
        assert content(path) == b""
        return
    with pytest.raises(SourceError, match=r"cannot read \S*/empty\.\w+: the file "):
        content(path)
    if name in CODECS:
        path.write_bytes(CODECS[name].compress(b""))
        assert content(path) == b""


@pytest.mark.parametrize("name", [name for name in CODECS if name != "snappy"])
def test_members_may_be_empty(tmp_path, name):
    """Logs of several days, joined to one archive, would be refused because nothing happened on one of them."""
    codec = CODECS[name]
    path = tmp_path / f"joined{codec.suffix}"
    days = [b"", b"one\n", b"", b"", b"tw", b"o\n", b""]
    path.write_bytes(b"".join(map(codec.compress, days)))
    assert content(path) == b"one\ntwo\n"


@pytest.mark.parametrize("name", ["bzip2", "xz"])
def test_what_follows_a_stream_is_read(tmp_path, name):
    """The data after a damaged place would silently be skipped."""
    codec = CODECS[name]
    path = tmp_path / f"damaged{codec.suffix}"
    one, two = codec.compress(b"one\n" * 50_000), codec.compress(b"two\n")
    path.write_bytes(one + two)
    assert content(path) == b"one\n" * 50_000 + b"two\n"
    for behind in (b"garbage", two[:-1], two[:1], b"x" + two):
        path.write_bytes(one + behind)
        with pytest.raises(
            SourceError, match=rf"cannot read \S*/damaged\{codec.suffix}: (an? {name} stream|the file ends)"
        ):
            content(path)
