"""Readers that read one split after another."""

from penstock.api.source import END_OF_INPUT, Nothing, Records
from penstock.connectors.base.ranges import RangeSplit
from penstock.connectors.base.split_reader import Chunk, ChunkedSplitReader


class Letters(ChunkedSplitReader):
    """Split i has the chunks of CHUNKS[i]; `position` counts letters."""

    CHUNKS = (["abc", "", "defgh"], [], ["x"])

    def __init__(self, context):
        super().__init__(context)
        self.closed = []

    def open(self, split):
        try:
            position = 0
            for chunk in self.CHUNKS[split.index]:
                values = [(letter, ord(letter)) for letter in chunk][max(0, split.position - position) :]
                position += len(chunk)
                if values:
                    letters, times = zip(*values, strict=True)
                    yield Chunk(list(letters), RangeSplit(split.index, position, None), list(times))
                else:
                    yield Chunk([], RangeSplit(split.index, max(position, split.position), None))
        finally:
            self.closed.append(split.index)

    def skip(self, split, count):
        return RangeSplit(split.index, split.position + count, None)


class Context:
    subtask, parallelism = 0, 1

    def __init__(self):
        self.requests = 0

    def now_ms(self):
        return 0

    def request_split(self):
        self.requests += 1


def split(index, position=0):
    return RangeSplit(index, position, None)


def test_the_next_split_is_asked_for_before_the_last_one_ends():
    """The source would idle for a round trip to the driver after each small file."""
    context = Context()
    reader = Letters(context)
    reader.start()
    assert (reader.poll(10), context.requests) == (Nothing(), 1)
    reader.add_splits([split(0)])
    assert context.requests == 1
    reader.poll(10)
    reader.poll(10)
    assert context.requests == 2
    reader.no_more_splits()
    while reader.poll(10) is not END_OF_INPUT:
        pass
    assert context.requests == 2


def test_nobody_is_asked_while_there_is_plenty():
    """A reader restored with many splits would also take those of others."""
    context = Context()
    reader = Letters(context)
    reader.add_splits([split(0), split(1), split(2)])
    reader.start()
    reader.poll(10)
    assert context.requests == 0


def test_long_chunks_are_sliced_with_their_timestamps_and_positions():
    """A poll that exceeds its limit would break the task's budget."""
    reader = Letters(Context())
    reader.add_splits([split(0)])
    reader.no_more_splits()
    taken = []
    while (step := reader.poll(2)) is not END_OF_INPUT:
        assert isinstance(step, Records)
        assert len(step.values) <= 2
        assert step.values == [] or step.timestamps == [ord(letter) for letter in step.values]
        taken += step.values
        again = Letters(Context())
        again.add_splits(reader.snapshot_state())
        again.no_more_splits()
        rest = []
        while (following := again.poll(3)) is not END_OF_INPUT:
            rest += following.values
        assert "".join(taken + rest) == "abcdefgh"
    assert reader.closed == [0]


def test_closing_in_the_middle_closes_the_split():
    """Cancelled jobs would leave files open."""
    reader = Letters(Context())
    reader.add_splits([split(0)])
    reader.poll(1)
    reader.close()
    assert reader.closed == [0]
