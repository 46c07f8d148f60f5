"""HybridSource: from one source to the next."""

import pickle

import pytest

from penstock.api.source import Boundedness, Nothing
from penstock.connectors.base.collection import CollectionSource
from penstock.connectors.base.data_generator import DataGeneratorSource
from penstock.connectors.base.number_sequence import NumberSequenceSource
from penstock.connectors.base.split_enumerator import FixedSplitEnumerator
from penstock.connectors.base.split_reader import Chunk, SplitReader
from penstock.datastream.connectors.file_system import FileSource, StreamFormat
from penstock.datastream.connectors.hybrid_source import HybridSource, SourceFactory
from penstock.engine.plan.static_splits import assign_statically
from penstock.testing.conformance.source import SourceRun, check_source, read_all


def three():
    return (
        HybridSource.builder(NumberSequenceSource(1, 9))
        .add_source(CollectionSource(["a"]))
        .add_source(NumberSequenceSource(100, 104))
        .build()
    )


class Continue(SourceFactory):
    """Continue where the previous numbers ended."""

    def create(self, context):
        assert context.get_previous_enumerator().snapshot_state() == []
        return NumberSequenceSource(10, 14)


def switched():
    return HybridSource.builder(NumberSequenceSource(1, 9)).add_source(Continue(), Boundedness.BOUNDED).build()


@pytest.mark.parametrize("make_source", [three, switched])
def test_conformance(make_source):
    """A restart before, at or after the switch would lose or repeat records."""
    check_source(make_source)


def test_files_before_numbers(tmp_path):
    """A source that looks for its splits on another thread would be taken for empty when its turn comes."""
    for name in "ab":
        (tmp_path / name).write_text(f"{name}1\n{name}2\n")
    check_source(
        lambda: (
            HybridSource.builder(NumberSequenceSource(1, 3))
            .add_source(FileSource.for_record_stream_format(StreamFormat.text_line_format(), str(tmp_path)).build())
            .build()
        )
    )


def test_the_order_is_that_of_the_sources():
    """Live records would come before the history that they continue."""
    assert read_all(three(), 1) == [*range(1, 10), "a", *range(100, 105)]


class Ranges(NumberSequenceSource):
    """The numbers of a range that anyone may change."""

    def __init__(self, ranges):
        super().__init__(*ranges[0])
        self.ranges = ranges

    def create_enumerator(self, context):
        return NumberSequenceSource(*self.ranges[0]).create_enumerator(context)


class Made(SourceFactory):
    def __init__(self, values):
        self.values = values

    def create(self, context):
        return CollectionSource(self.values)


def test_sources_are_what_they_were_in_the_call():
    """A program that sets a source or factory again for its next job would change the one before."""
    first, then = Ranges([(1, 3)]), Made([4])
    source = HybridSource.builder(first).add_source(then, Boundedness.BOUNDED).build()
    first.ranges[0] = (7, 9)
    then.values.append(5)
    assert read_all(source, 1) == [1, 2, 3, 4]


def test_no_subtask_is_ahead_of_another():
    """State built from history would meet live records while another subtask still reads history."""
    source = HybridSource.builder(NumberSequenceSource(1, 100)).add_source(NumberSequenceSource(101, 200)).build()
    records = read_all(source, 4, 7)
    assert sorted(records[:100]) == list(range(1, 101))
    assert sorted(records[100:]) == list(range(101, 201))


def test_the_last_source_may_never_end():
    """A job that continues with live data would be refused, or end."""
    source = HybridSource.builder(NumberSequenceSource(1, 2)).add_source(DataGeneratorSource(str, None)).build()
    assert source.get_boundedness() is Boundedness.CONTINUOUS_UNBOUNDED
    run = SourceRun(source, 2)
    run.start()
    assert set(run.read_polls(20, 2)) >= {1, 2, "0", "1", "2", "3"}
    assert not run.is_finished()
    run.close()


class Pushed(NumberSequenceSource):
    """Assign its ranges without a request, as sources with partitions do, and then end."""

    def create_enumerator(self, context):
        return PushingEnumerator(context, super().create_enumerator(context).snapshot_state())

    def restore_enumerator(self, context, state):
        return PushingEnumerator(context, state)

    def create_reader(self, context):
        return PushedReader(context)


class PushingEnumerator(FixedSplitEnumerator):
    def discover(self):
        for subtask in range(self._context.parallelism):
            while any(split.index == subtask for split in self.snapshot_state()):
                super().handle_split_request(subtask)
            self._context.signal_no_more_splits(subtask)

    def handle_split_request(self, subtask):
        pass


class PushedReader(SplitReader):
    def start(self):
        pass

    def read(self, split, max_records):
        numbers, position = split.take(max_records)
        return Chunk(list(numbers), position)

    def _request_ahead(self):
        pass


@pytest.mark.parametrize("parallelism", [1, 3])
def test_sources_that_assign_splits_without_being_asked(parallelism):
    """A source with partitions would never be left, since its readers ask for nothing."""
    source = HybridSource.builder(Pushed(1, 9)).add_source(Pushed(10, 19)).add_source(NumberSequenceSource(20, 25))
    assert sorted(read_all(source.build(), parallelism, 2)) == list(range(1, 26))


def test_a_restart_does_not_make_a_source_again():
    """The second source would begin somewhere else than before the restart."""
    made = []

    def factory(context):
        made.append(context)
        return NumberSequenceSource(10, 14)

    source = HybridSource.builder(NumberSequenceSource(1, 3)).add_source(factory, Boundedness.BOUNDED).build()
    run = SourceRun(source, 1)
    run.start()
    before = run.read_polls(4, 3)
    assert before[3:] and len(made) == 1
    state = pickle.loads(pickle.dumps(run.snapshot()))
    run.close()
    resumed = SourceRun(source, 1)
    resumed.restore(state)
    assert before + resumed.read_to_end(2) == [1, 2, 3, 10, 11, 12, 13, 14]
    assert len(made) == 1


class Interleaved(CollectionSource):
    def create_reader(self, context):
        reader = super().create_reader(context)
        reader.interleaved = True
        return reader


def test_splits_hold_back_the_watermark_as_in_their_source():
    """A partition that begins late would find its records late."""
    source = HybridSource.builder(CollectionSource([1])).add_source(Interleaved([2, 3])).build()
    splits = assign_statically(source, 1, 0)[0]
    reader = source.create_reader(Context())
    reader.add_splits(splits)
    reader.start()
    assert [reader.interleaves(split) for split in splits] == [False, False, False]
    assert reader.poll(1).values == [1]
    assert reader.poll(1).values == [2]
    assert [reader.interleaves(split) for split in splits] == [False, False, True]


class Context:
    subtask, parallelism, checkpointing = 0, 1, False

    def now_ms(self):
        return 0

    def request_split(self):
        pass


def test_what_never_ends_has_no_successor():
    """A source that is never read would be added silently."""
    builder = HybridSource.builder(DataGeneratorSource(str, None))
    with pytest.raises(ValueError, match="must be bounded; source 1 is unbounded"):
        builder.add_source(NumberSequenceSource(1, 2))


@pytest.mark.parametrize(
    ("add", "message"),
    [
        (lambda builder: builder.add_source("files"), "expected a Source"),
        (lambda builder: builder.add_source(Continue()), "needs Boundedness"),
    ],
)
def test_what_is_no_source_is_refused(add, message):
    """The job would fail at the switch, hours after its start."""
    with pytest.raises(TypeError, match=message):
        add(HybridSource.builder(NumberSequenceSource(1, 2)))


def test_fewer_sources_than_the_checkpoint_knows():
    """A job would continue from a source that is not there."""
    run = SourceRun(three(), 1)
    run.start()
    run.read_polls(6, 3)
    state, _ = run.snapshot()
    run.close()
    shorter = HybridSource.builder(NumberSequenceSource(1, 9)).build()
    with pytest.raises(ValueError, match="may be added at the end, not removed"):
        shorter.restore_enumerator(SourceRun(shorter, 1), state)


def test_waiting_is_not_the_end():
    """A subtask that has read its part would end while others still read theirs."""
    reader = three().create_reader(Context())
    reader.start()
    assert reader.poll(1) == Nothing()
