"""The end of a loop: rounds of questions, and what their answers show."""

from __future__ import annotations

from penstock.engine.jobmaster.loops import LoopEnd
from penstock.engine.runtime.ids import SubtaskId
from penstock.engine.runtime.task.events import EndLoop, LoopQuiet, ProbeLoop

HEAD, BODY = SubtaskId(1, 0), SubtaskId(2, 0)


class Played:
    """A loop of two tasks, played by the test."""

    def __init__(self) -> None:
        self.sent: list = []
        self.loop = LoopEnd([HEAD, BODY], [HEAD], lambda *message: self.sent.append(message))
        self.loop.begin()

    def answer(self, task: SubtaskId, round: int, sent: int, received: int, now_ms: int = 0) -> None:
        self.loop.quiet(LoopQuiet(*task, round, sent, received), now_ms)

    def told(self) -> list:
        told, self.sent = self.sent, []
        return told


def asked(round: int) -> list:
    return [(*HEAD, ProbeLoop(round)), (*BODY, ProbeLoop(round))]


def test_it_ends_when_two_rounds_agree() -> None:
    """A loop would never end, and the job with it."""
    played = Played()
    assert played.told() == asked(1)
    played.answer(HEAD, 1, sent=3, received=2)
    assert played.told() == []
    played.answer(BODY, 1, sent=2, received=3)
    assert played.told() == asked(2)
    played.answer(BODY, 2, sent=2, received=3)
    played.answer(HEAD, 2, sent=3, received=2)
    assert played.told() == [(*HEAD, EndLoop())]


def test_what_passes_behind_the_question_is_seen() -> None:
    """A task at rest is woken by one that was asked later: each has answered, and a buffer is in flight."""
    played = Played()
    played.answer(HEAD, 1, sent=1, received=0)
    # What the head had sent has come, and is fed back: on its way to the head.
    played.answer(BODY, 1, sent=1, received=1)
    played.told()
    played.answer(HEAD, 2, sent=2, received=1)
    played.answer(BODY, 2, sent=1, received=1)
    assert played.told() == []
    # As much as was received has been sent, but not before: the third round must show that nothing follows.
    assert played.loop.begins_ms == 10


def test_rounds_that_differ_are_repeated_after_a_pause() -> None:
    """A loop that takes minutes to converge would keep the job master busy with questions."""
    played = Played()
    for round, now_ms in ((1, 0), (2, 5)):
        played.answer(HEAD, round, sent=round * 10, received=0, now_ms=now_ms)
        played.answer(BODY, round, sent=0, received=0, now_ms=now_ms)
    played.told()
    played.loop.tick(14)
    assert played.told() == []
    played.loop.tick(15)
    assert played.told() == asked(3)
    assert played.loop.begins_ms is None


def test_answers_to_earlier_rounds_are_dropped() -> None:
    """An answer that comes twice would end the loop."""
    played = Played()
    played.answer(HEAD, 1, 0, 0)
    played.answer(BODY, 1, 0, 0)
    played.told()
    for _ in range(2):
        played.answer(HEAD, 1, 0, 0)
        played.answer(HEAD, 2, 0, 0)
    assert played.told() == []
    played.answer(BODY, 2, 0, 0)
    played.answer(BODY, 2, 0, 0)
    assert played.told() == [(*HEAD, EndLoop())]
