"""Who leads: each row of the leadership's table."""

from __future__ import annotations

import pytest

from penstock.service.cluster.high_availability.events import (
    Claim,
    Claimed,
    ClaimLost,
    Confirm,
    Confirmed,
    Deposed,
    Effect,
    Event,
    Extend,
    Failed,
    Lead,
    Look,
    Looked,
    Resign,
    StepDown,
    StopRequested,
    TimePassed,
)
from penstock.service.cluster.high_availability.leadership import Leadership, Standing

LEASE_MS = 8_000


def handled(leadership: Leadership, *events: Event) -> list[Effect]:
    """What the last one leads to."""
    effects: list[Effect] = []
    for event in events:
        effects = leadership.handle(event)
    return effects


def leading(asked_ms: int = 100) -> Leadership:
    """One that leads term 3, and has been told at once."""
    leadership = Leadership(LEASE_MS)
    handled(leadership, TimePassed(0), Looked(90, 3))
    assert handled(leadership, Claimed(asked_ms + 5, 3, asked_ms)) == [Lead(3, asked_ms + LEASE_MS)]
    return leadership


def test_a_process_looks_and_claims_what_nobody_has() -> None:
    """Nobody would take the place of a leader that has died."""
    leadership = Leadership(LEASE_MS)
    assert handled(leadership, TimePassed(0)) == [Look()]
    assert handled(leadership, TimePassed(5_000)) == [], "it is asked already"
    assert handled(leadership, Looked(5_000, None)) == [Look()]
    assert handled(leadership, Looked(5_010, None)) == [], "not without end"
    assert handled(leadership, TimePassed(6_000)) == [Look()]
    assert handled(leadership, Looked(6_010, 7)) == [Claim(7)]
    assert leadership.standing is Standing.CLAIMING


def test_a_register_says_how_often_it_is_asked() -> None:
    """An API server of Kubernetes would be asked by each pod several times a second, for nothing."""
    leadership = Leadership(LEASE_MS, 2_000)
    assert handled(leadership, TimePassed(0), Looked(10, None), TimePassed(1_999)) == []
    assert handled(leadership, TimePassed(2_000)) == [Look()]
    handled(leadership, Looked(2_010, 1), Claimed(2_020, 1, 2_010))
    assert handled(leadership, TimePassed(4_000)) == []
    assert handled(leadership, TimePassed(4_010)) == [Confirm()]


@pytest.mark.parametrize("answer", [ClaimLost(20), Failed(20, "no quorum")])
def test_one_that_was_outrun_goes_on_waiting(answer: Event) -> None:
    """Two would lead; or the second never take over from the first."""
    leadership = Leadership(LEASE_MS)
    assert handled(leadership, TimePassed(0), Looked(10, 1), answer) == []
    assert handled(leadership, TimePassed(1_000)) == [Look()]


def test_a_claim_that_counts_too_late_leads_nothing() -> None:
    """A process that was stopped between its claim and the answer would lead beside the next one."""
    leadership = Leadership(LEASE_MS)
    (effect,) = handled(leadership, TimePassed(0), Looked(10, 1), Claimed(20 + LEASE_MS, 1, 20))
    assert isinstance(effect, StepDown)
    assert leadership.standing is Standing.ENDED


def test_a_lead_lasts_from_when_it_was_asked_for() -> None:
    """The register counts from when it has answered, or later: this process would lead a moment too long."""
    leadership = leading(asked_ms=100)
    assert handled(leadership, TimePassed(2_000)) == [Confirm()]
    assert handled(leadership, Confirmed(2_700, 2_000)) == [Extend(2_000 + LEASE_MS)]
    assert handled(leadership, TimePassed(2_950)) == [], "an eighth of the lease"
    assert handled(leadership, TimePassed(3_000)) == [Confirm()]
    assert handled(leadership, TimePassed(9_999)) == [], "the answer is still to come"
    assert isinstance(handled(leadership, TimePassed(10_000))[0], StepDown)


def test_a_lead_that_is_over_is_not_confirmed_any_more() -> None:
    """The processes of its jobs have ended with it: it would find them gone, and call their jobs failed."""
    leadership = leading(asked_ms=100)
    assert handled(leadership, TimePassed(8_000)) == [Confirm()]
    (effect,) = handled(leadership, Confirmed(8_100, 8_000))
    assert isinstance(effect, StepDown)
    assert "was not confirmed for 8.0 s: this process was suspended" in effect.why


def test_one_that_was_deposed_ends_and_says_why() -> None:
    """It would go on with jobs that another process runs."""
    leadership = leading()
    assert handled(leadership, TimePassed(2_000), Deposed(2_010, "its session is over")) == [
        StepDown("its session is over")
    ]
    assert handled(leadership, TimePassed(3_000), Looked(3_001, 9)) == [], "it never leads again"


def test_a_register_that_fails_for_a_while_costs_no_lead() -> None:
    """Each loss of one of ZooKeeper's servers would start all jobs again."""
    leadership = leading(asked_ms=100)
    assert handled(leadership, TimePassed(2_000), Failed(2_500, "no answer")) == []
    assert handled(leadership, TimePassed(3_000)) == [Confirm()]
    assert handled(leadership, Confirmed(3_010, 3_000)) == [Extend(3_000 + LEASE_MS)]
    (effect,) = handled(leadership, TimePassed(4_000), Failed(4_100, "no quorum"), TimePassed(11_000))
    assert effect == StepDown("its lead was not confirmed for 8.0 s: no quorum")


def test_one_that_is_to_end_resigns() -> None:
    """Whoever stands by would wait for a process that was ended in order."""
    for leadership in (Leadership(LEASE_MS), leading()):
        assert handled(leadership, StopRequested(200)) == [Resign()]
        assert handled(leadership, TimePassed(300)) == []
