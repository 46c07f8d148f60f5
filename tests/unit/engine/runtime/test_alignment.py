"""Barrier alignment: every row of its table, and random schedules against a simple, slow model.

A play is written as it happens: `a@0` is record a on channel 0, `|1@0` barrier 1 on channel 0, `end@0` the end of
channel 0, `abort1` the coordinator's message that checkpoint 1 is aborted. Outputs are written alike: `a`, `snapshot1`,
`decline1`.
"""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.engine.runtime.network.alignment import AlignmentOutput, AtLeastOnceAlignment, ExactlyOnceAlignment
from penstock.engine.runtime.network.buffer import CheckpointBarrier, EndOfInput


class Play:
    def __init__(self, kind, channels: int = 2) -> None:
        self.log: list[str] = []
        output = AlignmentOutput(
            lambda channel, item: self.log.append(f"end@{channel}" if isinstance(item, EndOfInput) else item),
            lambda barrier: self.log.append(f"snapshot{barrier.checkpoint_id}"),
            lambda n, *_: self.log.append(f"decline{n}"),
        )
        self.alignment = kind(range(channels), output)

    def __call__(self, play: str) -> str:
        self.log.clear()
        for word in play.split():
            if word.startswith("abort"):
                self.alignment.abort(int(word[5:]))
                continue
            what, _, channel = word.partition("@")
            if what.startswith("|"):
                item = CheckpointBarrier(int(what[1:]), 0)
            else:
                item = EndOfInput() if what == "end" else what
            self.alignment.receive(int(channel), item)
        return " ".join(self.log)


def exactly_once(play: str, channels: int = 2) -> str:
    return Play(ExactlyOnceAlignment, channels)(play)


def at_least_once(play: str, channels: int = 2) -> str:
    return Play(AtLeastOnceAlignment, channels)(play)


def test_what_follows_a_barrier_waits_for_the_other_barriers() -> None:
    """A record would be in the snapshot and be read again after a restart: counted twice."""
    assert exactly_once("a@0 |1@0 b@0 c@1 d@0 |1@1 e@1") == "a c snapshot1 b d e"


def test_a_single_channel_never_waits() -> None:
    """The simplest of jobs would have the latency of its checkpoints."""
    assert exactly_once("a@0 |1@0 b@0 |2@0 c@0", channels=1) == "a snapshot1 b snapshot2 c"


def test_barriers_that_were_set_aside_begin_the_next_alignment() -> None:
    """A fast channel that is two checkpoints ahead would lose a barrier, and the checkpoint would never end."""
    play = Play(ExactlyOnceAlignment)
    assert play("|1@0 a@0 |2@0 b@0 |3@0 c@0 |1@1") == "snapshot1 a"
    assert play("|2@1") == "snapshot2 b"
    assert play("|3@1") == "snapshot3 c"


def test_a_newer_barrier_ends_the_older_alignment() -> None:
    """The task would wait for a barrier that never comes, of a checkpoint that its sender never started."""
    play = Play(ExactlyOnceAlignment)
    assert play("|1@0 a@0 |2@1 b@1") == "decline1 a"
    assert play("|2@0 c@0") == "snapshot2 b c"


def test_a_newer_barrier_waits_for_what_was_set_aside() -> None:
    """Records of a channel would overtake each other."""
    # Barrier 3 arrives while 1 aligns; what channel 0 set aside holds barrier 2, which begins, and is declined in turn.
    assert exactly_once("|1@0 a@0 |2@0 b@0 |3@1 c@1 |3@0 d@0") == "decline1 a decline2 b snapshot3 c d"


def test_an_abort_sets_free_what_was_set_aside() -> None:
    """A checkpoint that timed out would block the job until the next one."""
    play = Play(ExactlyOnceAlignment)
    assert play("|1@0 a@0") == ""
    assert play("abort1") == "a"
    assert play("|1@1 b@1") == "b"


def test_an_abort_that_comes_before_the_barrier_is_remembered() -> None:
    """The task would start to wait for a checkpoint in which no other task takes part."""
    assert exactly_once("abort1 |1@0 a@0 |1@1 |2@0 b@0 |2@1") == "a snapshot2 b"


def test_an_abort_of_another_checkpoint_changes_nothing_now() -> None:
    """The checkpoint under way would be lost with it."""
    assert exactly_once("|2@0 a@0 abort3 abort1 |2@1 |3@0 b@0 |3@1") == "snapshot2 a b"


def test_barriers_that_are_too_old_are_passed_over() -> None:
    """A late barrier would start an alignment that never ends."""
    assert exactly_once("|2@0 |2@1 |1@0 a@0") == "snapshot2 a"
    assert exactly_once("|2@0 |1@1 a@1 |2@1") == "a snapshot2"


def test_a_channel_that_ended_is_not_waited_for() -> None:
    """The last checkpoints of a job with a short and a long input would never end."""
    assert exactly_once("end@1 |1@0 a@0") == "end@1 snapshot1 a"
    assert exactly_once("|1@0 a@0 b@1 end@1") == "b end@1 snapshot1 a"


def test_an_end_after_a_barrier_waits_with_the_rest() -> None:
    """A channel would be closed before its last records were read."""
    assert exactly_once("|1@0 a@0 end@0 b@1 |1@1") == "b snapshot1 a end@0"
    assert exactly_once("|1@0 end@0 |2@1 c@1") == "decline1 end@0 snapshot2 c"


def test_at_least_once_sets_nothing_aside() -> None:
    """AT_LEAST_ONCE, chosen for its latency, would not improve latency."""
    play = Play(AtLeastOnceAlignment)
    assert play("|1@0 a@0 |2@0 b@0 |1@1 c@1 |2@1") == "a b snapshot1 c snapshot2"
    assert play.alignment.set_aside == 0


def test_at_least_once_gives_up_what_a_newer_checkpoint_overtook() -> None:
    """Checkpoints that can't end any more would be kept for ever."""
    assert at_least_once("|1@0 |2@0 |2@1 |1@1") == "decline1 snapshot2"
    assert at_least_once("|1@0 abort1 |1@1 abort2 |2@0 |2@1 |3@0 end@1") == "end@1 snapshot3"


@st.composite
def schedules(draw):
    """Channels bring records, barriers in rising order (some left out) and perhaps their end; aborts come any time."""
    channels = draw(st.integers(1, 3))
    inputs = []
    for channel in range(channels):
        words = []
        for checkpoint in range(1, draw(st.integers(1, 5))):
            words += [f"r{channel}.{checkpoint}.{i}@{channel}" for i in range(draw(st.integers(0, 2)))]
            if draw(st.integers(0, 5)):
                words.append(f"|{checkpoint}@{channel}")
        if draw(st.booleans()):
            words.append(f"end@{channel}")
        inputs.append(words)
    inputs.append([f"abort{draw(st.integers(1, 4))}" for _ in range(draw(st.integers(0, 2)))])
    play = []
    while any(inputs):
        play.append(draw(st.sampled_from([words for words in inputs if words])).pop(0))
    return channels, play


class Model:
    """The table, with all that waits in one list in order of arrival, searched from its head after every step."""

    def __init__(self, channels: int) -> None:
        self.live, self.arrived, self.aborted = set(range(channels)), set(), set()
        self.waiting: list[tuple[int, str]] = []
        self.current, self.last = None, 0
        self.log: list[str] = []

    def run(self, play: list[str]) -> list[str]:
        for word in play:
            if word.startswith("abort"):
                if self.current == int(word[5:]):
                    self.idle()
                self.aborted.add(int(word[5:]))
            else:
                what, _, channel = word.partition("@")
                self.waiting.append((int(channel), what))
            while (index := self.first_free()) is not None:
                self.take(index)
        return self.log

    def first_free(self) -> int | None:
        return next((i for i, (channel, _) in enumerate(self.waiting) if channel not in self.arrived), None)

    def idle(self) -> None:
        self.last, self.current = self.current, None
        self.arrived.clear()

    def take(self, index: int) -> None:
        channel, what = self.waiting[index]
        if what.startswith("|"):
            n = int(what[1:])
            if self.current is not None and n > self.current and n not in self.aborted:
                self.log.append(f"decline{self.current}")
                self.idle()
                return  # the barrier stays where it is, behind what was set aside
            del self.waiting[index]
            if n <= self.last or n in self.aborted or (self.current is not None and n < self.current):
                return
            self.current = n
            self.arrived.add(channel)
        else:
            del self.waiting[index]
            self.log.append(f"end@{channel}" if what == "end" else what)
            if what == "end":
                self.live.discard(channel)
        if self.current is not None and self.live <= self.arrived:
            self.log.append(f"snapshot{self.current}")
            self.idle()


@given(schedules())
def test_random_schedules_are_as_the_model_says(schedule) -> None:
    """An unforeseen order of arrivals would lose or duplicate records."""
    channels, play = schedule
    assert exactly_once(" ".join(play), channels).split() == Model(channels).run(play)


@given(schedules())
def test_each_snapshot_is_a_consistent_cut(schedule) -> None:
    """State would hold a record that the source reads again, or miss one that it does not."""
    channels, play = schedule
    log = exactly_once(" ".join(play), channels).split()
    assert len(set(log)) == len(log)
    taken = [int(word[8:]) for word in log if word.startswith("snapshot")]
    assert taken == sorted(taken)
    for channel in range(channels):
        sent = [word.partition("@")[0] for word in play if word.endswith(f"@{channel}") and not word.startswith("end")]
        delivered = [word for word in log if word.startswith(f"r{channel}.")]
        assert delivered == [word for word in sent if not word.startswith("|")][: len(delivered)]
        for n in taken:
            before = [word for word in log[: log.index(f"snapshot{n}")] if word.startswith(f"r{channel}.")]
            if f"|{n}" in sent:
                assert before == [word for word in sent[: sent.index(f"|{n}")] if not word.startswith("|")]
            else:
                assert f"end@{channel}" in log[: log.index(f"snapshot{n}")]


@given(schedules())
def test_at_least_once_delivers_at_once_and_misses_nothing(schedule) -> None:
    """A record from before the barrier would be in neither the snapshot nor the replay."""
    channels, play = schedule
    log = at_least_once(" ".join(play), channels).split()
    arrived = [word.partition("@")[0] for word in play if word.startswith("r")]
    assert [word for word in log if word.startswith("r")] == arrived
    for word in log:
        if not word.startswith("snapshot"):
            continue
        before = log[: log.index(word)]
        for channel in range(channels):
            sent = [w.partition("@")[0] for w in play if w.endswith(f"@{channel}")]
            barrier = f"|{word[8:]}"
            needed = sent[: sent.index(barrier)] if barrier in sent else sent
            assert {w for w in needed if w.startswith("r")} <= set(before)


@pytest.mark.parametrize("kind", [ExactlyOnceAlignment, AtLeastOnceAlignment])
def test_nothing_is_remembered_of_checkpoints_long_gone(kind) -> None:
    """A job of months would remember every aborted checkpoint."""
    play = Play(kind, channels=1)
    for n in range(1, 200, 2):
        play(f"abort{n} |{n}@0 |{n + 1}@0")
    assert not play.alignment._aborted
    assert play.alignment.set_aside == 0
