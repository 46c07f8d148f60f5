"""Which lines belong to a byte range."""

import io
from itertools import pairwise

from hypothesis import example, given
from hypothesis import strategies as st

from penstock.connectors.files.formats.lines import LineBlocks

TEXTS = st.lists(
    st.sampled_from([b"\n", b"\r\n", b"a", b"bc", "é".encode(), "漢".encode(), b"long" * 7]), max_size=40
).map(b"".join)


def stream_at(data, start):
    stream = io.BytesIO(data)
    stream.seek(max(0, start - 1))
    return stream


def blocks_of(data, start, end, block_bytes):
    return list(LineBlocks(stream_at(data, start), start, end, block_bytes))


def lines_of(data):
    return data.split(b"\n")[:-1] + ([data.rsplit(b"\n", 1)[-1]] if data and not data.endswith(b"\n") else [])


@given(data=TEXTS, size=st.integers(1, 30), block_bytes=st.integers(1, 50))
@example(data=b"\n\n\n", size=1, block_bytes=1)
@example(data=b"a" * 100, size=7, block_bytes=3)
@example(data=b"x\r\ny", size=2, block_bytes=50)
def test_ranges_read_each_byte_once_and_in_order(data, size, block_bytes):
    """At one split size in a thousand, a line would be read twice or not at all."""
    read = b""
    for start in range(0, len(data), size):
        for offset, block in blocks_of(data, start, min(start + size, len(data)), block_bytes):
            assert offset == len(read)
            read += block
    assert read == data


@given(data=TEXTS, size=st.integers(1, 30), block_bytes=st.integers(1, 50))
def test_a_line_belongs_to_the_range_in_which_it_begins(data, size, block_bytes):
    """A reader would have to read past the end of its range, without bound."""
    begins = [0] + [i + 1 for i, byte in enumerate(data) if byte == 10 and i + 1 < len(data)]
    for start in range(0, len(data), size):
        blocks = blocks_of(data, start, start + size, block_bytes)
        owned = [begin for begin in begins if start <= begin < start + size]
        assert sum(len(lines_of(block)) for _, block in blocks) == len(owned)
        assert [offset for offset, _ in blocks[:1]] == owned[:1]


@given(data=TEXTS, block_bytes=st.integers(1, 50))
def test_blocks_are_whole_lines_and_any_block_border_is_a_place_to_go_on(data, block_bytes):
    """A restart would continue in the middle of a line."""
    blocks = blocks_of(data, 0, None, block_bytes)
    assert all(block.endswith(b"\n") for _, block in blocks[:-1])
    offsets = [offset for offset, _ in blocks] + [len(data)]
    for begin, end in pairwise(offsets):
        assert b"".join(block for _, block in blocks_of(data, begin, end, 5)) == data[begin:end]
        assert b"".join(block for _, block in blocks_of(data, begin, None, 7)) == data[begin:]


@given(data=TEXTS, block_bytes=st.integers(1, 20))
def test_what_is_given_back_comes_again_with_more(data, block_bytes):
    """A CSV record that spans several blocks would be cut in two."""
    blocks = LineBlocks(io.BytesIO(data), 0, None, block_bytes)
    taken = b""
    for offset, block in blocks:
        assert offset == len(taken)
        if blocks.is_last:
            taken += block
        else:
            keep = len(lines_of(block)) // 2
            cut = sum(len(line) + 1 for line in lines_of(block)[:keep])
            blocks.give_back(block[cut:])
            taken += block[:cut]
    assert taken == data
