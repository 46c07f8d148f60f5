"""Counting sources: a list, a sequence of numbers, generated values."""

import pytest

from penstock.api.source import Boundedness, Nothing, Records
from penstock.connectors.base.collection import CollectionSource
from penstock.connectors.base.data_generator import DataGeneratorSource
from penstock.connectors.base.number_sequence import NumberSequenceSource
from penstock.testing.conformance.source import SourceRun, check_source, read_all


class Squares:
    """A generator function as an object, counting its life cycle."""

    def __init__(self):
        self.calls = []

    def open(self, context):
        self.calls.append(("open", context.subtask))

    def map(self, number):
        return number * number

    def close(self):
        self.calls.append("close")


@pytest.mark.parametrize(
    "make_source",
    [
        lambda: CollectionSource([{"n": n} for n in range(23)]),
        lambda: CollectionSource([]),
        lambda: CollectionSource(["only one"]),
        lambda: NumberSequenceSource(-5, 17),
        lambda: NumberSequenceSource(7, 7),
        lambda: DataGeneratorSource(Squares(), 23),
        lambda: DataGeneratorSource(Squares(), 0),
    ],
)
def test_conformance(make_source):
    """A restart would lose or duplicate records of the simplest sources."""
    check_source(make_source)


def test_a_collection_keeps_its_order_at_parallelism_1():
    """Programs that pass a list would receive its values out of order."""
    assert read_all(CollectionSource(list("penstock")), 1, 3) == list("penstock")


def test_a_collection_is_copied():
    """A list that the program appends to later would change the job's input."""
    values = [1, 2]
    source = CollectionSource(values)
    values.append(3)
    assert read_all(source, 1) == [1, 2]


def test_an_object_that_is_there_several_times_is_read_as_it_was_each_time():
    """A function that changes what it is given would see what it had done to the one before."""
    one = [0]
    read = read_all(CollectionSource([one, one]), 1)
    read[0].append(1)
    assert read[1] == [0] and one == [0]


def test_a_sequence_includes_its_end():
    """The last number would be missing, which most programs would not notice."""
    assert read_all(NumberSequenceSource(1, 10), 1) == list(range(1, 11))


def test_each_subtask_gets_its_own_range():
    """The first task to start would take the ranges of the others."""
    run = SourceRun(NumberSequenceSource(0, 99), 4)
    run.start()
    assert [[split.split_id for split in each] for each in run.snapshot()[1]] == [[f"range-{i}"] for i in range(4)]


@pytest.mark.parametrize(
    ("make_source", "error", "words"),
    [
        (lambda: NumberSequenceSource(5, 1), ValueError, "must not be greater than end, got 5 and 1"),
        (lambda: NumberSequenceSource("1", 5), TypeError, "start must be an int, got '1'"),
        (lambda: DataGeneratorSource(3), TypeError, "generator_function must be a callable"),
        (lambda: DataGeneratorSource(str, -1), ValueError, "got -1"),
    ],
)
def test_wrong_arguments_are_named(make_source, error, words):
    """The mistake would appear in a worker's log instead of the line that made it."""
    with pytest.raises(error, match=words):
        make_source()


def test_a_generator_without_count_has_no_end():
    """AUTOMATIC mode would select a batch job that never ends."""
    assert DataGeneratorSource(str).get_boundedness() is Boundedness.CONTINUOUS_UNBOUNDED
    run = SourceRun(DataGeneratorSource(str), 3)
    run.start()
    assert sorted(map(int, run.read_polls(4, 5))) == list(range(60))


def test_an_unbounded_generator_goes_on_with_fewer_subtasks():
    """After scaling down, splits of removed subtasks would starve behind an unbounded one."""
    run = SourceRun(DataGeneratorSource(int), 3)
    run.start()
    before = run.read_polls(2, 4)
    enumerator_state, splits = run.snapshot()
    alone = SourceRun(DataGeneratorSource(int), 1)
    alone.restore((enumerator_state, [[split for each in splits for split in each]]))
    assert sorted(before + alone.read_polls(6, 4)) == list(range(48))


def test_generator_objects_are_opened_and_closed():
    """A generator that opens a file would leak it, or use it unopened."""
    squares = Squares()
    run = SourceRun(DataGeneratorSource(squares, 4), 1)
    run.start()
    assert run.read_to_end(10) == [0, 1, 4, 9]
    assert squares.calls == [("open", 0), "close"]


def test_a_limited_generator_says_when_to_ask_again():
    """Polling again immediately would use a core for ten records per second."""
    from penstock.connectors.base.rate_limiter import RateLimiterStrategy

    run = SourceRun(DataGeneratorSource(int, None, RateLimiterStrategy.per_second(10)), 1)
    run.start()
    reader = run._readers[0]
    assert reader.poll(100) == Records("range-0", [0])
    assert reader.poll(100) == Nothing(100)
    run.clock_ms = 100
    assert reader.poll(100) == Records("range-0", [1])
