"""Assignment of splits to subtasks."""

from penstock.connectors.base.split_enumerator import OwnedSplitEnumerator, SharedSplitEnumerator
from penstock.connectors.files.split import FileSplit


class Recorder:
    """An enumerator context that records its calls."""

    def __init__(self, parallelism):
        self.parallelism = parallelism
        self.told = []

    def now_ms(self):
        return 0

    def assign_split(self, split, subtask):
        self.told.append((subtask, split.path))

    def signal_no_more_splits(self, subtask):
        self.told.append((subtask, "no more"))

    def take(self):
        told, self.told = self.told, []
        return told


class Shared(SharedSplitEnumerator):
    def snapshot_state(self):
        return self.pending()


def splits(*names):
    return [FileSplit(name, 0, None, 0) for name in names]


def test_the_first_task_to_start_leaves_a_split_for_the_others():
    """With two files and two tasks, the task that starts a moment earlier would read both."""
    context = Recorder(2)
    enumerator = Shared(context, more_to_come=False)
    enumerator.add_splits(splits("a", "b"))
    enumerator.handle_split_request(0)
    enumerator.handle_split_request(0)
    assert context.take() == [(0, "a")]
    enumerator.handle_split_request(1)
    assert context.take() == [(1, "b"), (0, "no more")]
    enumerator.handle_split_request(1)
    assert context.take() == [(1, "no more")]


def test_who_waits_is_served_when_splits_are_found():
    """A task whose request precedes the discovery of a file would never receive it."""
    context = Recorder(2)
    enumerator = Shared(context, more_to_come=True)
    enumerator.handle_split_request(1)
    enumerator.handle_split_request(0)
    assert context.take() == []
    enumerator.add_splits(splits("a", "b", "c"))
    assert context.take() == [(1, "a"), (0, "b")]
    enumerator.handle_split_request(1)
    assert context.take() == [(1, "c")]


def test_splits_of_a_failed_reader_come_first():
    """Splits of a failed reader, partly read already, would be delayed behind all others."""
    context = Recorder(1)
    enumerator = Shared(context, more_to_come=False)
    enumerator.add_splits(splits("a", "b"))
    enumerator.handle_split_request(0)
    enumerator.add_splits_back(splits("a"), 0)
    assert [split.path for split in enumerator.snapshot_state()] == ["a", "b"]


class Owned(OwnedSplitEnumerator):
    """By the length of the path."""

    complete = False

    def owner_of(self, split):
        return len(split.path) % 2

    def more_to_come(self):
        return not self.complete

    def snapshot_state(self):
        return self.pending()


def test_a_split_goes_to_its_owner_when_that_one_has_asked():
    """A split would be read by two subtasks, or by none; a bounded job would never end."""
    context = Recorder(2)
    enumerator = Owned(context, splits("a"))
    enumerator.handle_split_request(0)
    enumerator.add_splits(splits("aa", "b"))
    assert context.take() == [(0, "aa")]
    enumerator.handle_split_request(1)
    assert context.take() == [(1, "a"), (1, "b")] and enumerator.pending() == []
    enumerator.add_splits(splits("c"))
    assert context.take() == [(1, "c")]

    enumerator.add_splits_back(splits("b", "c"), 1)
    assert context.take() == [] and len(enumerator.snapshot_state()) == 2
    enumerator.complete = True
    enumerator.signal_no_more_splits()
    enumerator.handle_split_request(1)
    assert context.take() == [(0, "no more"), (1, "b"), (1, "c"), (1, "no more")]
