"""Whether the leader of a shared folder still lives, by what is seen of its lease."""

from __future__ import annotations

from penstock.service.cluster.high_availability.lease_watch import LeaseObservation, LeaseWatch

LEASE_MS = 1_000


def test_nobody_has_led_or_has_resigned() -> None:
    """A first start, or one behind an orderly end, would wait for nothing."""
    watch = LeaseWatch(LEASE_MS)
    assert watch.vacant(LeaseObservation(0, b""), 0, 1) == 1
    assert watch.vacant(LeaseObservation(4, b"over", is_over=True), 2, 3) == 5


def test_a_lease_is_watched_for_its_whole_time() -> None:
    """Another process would lead while the leader's own lease still runs."""
    watch = LeaseWatch(LEASE_MS)
    assert watch.vacant(LeaseObservation(2, b"1"), 0, 400) is None
    # It may have been renewed at 399, and was read at 400 for the first time.
    assert watch.vacant(LeaseObservation(2, b"1"), 1_399, 1_500) is None
    assert watch.vacant(LeaseObservation(2, b"1"), 1_400, 1_401) == 3


def test_one_that_is_renewed_lives() -> None:
    """A leader that is well would be followed by another one, and all jobs be started again."""
    watch = LeaseWatch(LEASE_MS)
    for second in range(10):
        assert watch.vacant(LeaseObservation(2, b"%d" % second), second * 1_000, second * 1_000 + 1) is None
    assert watch.vacant(LeaseObservation(3, b"9"), 20_000, 20_001) is None, "another leader's has a time of its own"


def test_a_claim_without_a_lease_is_waited_for() -> None:
    """A leader that has just claimed, and not yet begun its lease, would be followed at once."""
    watch = LeaseWatch(LEASE_MS)
    assert watch.vacant(LeaseObservation(2, b""), 0, 1) is None
    assert watch.vacant(LeaseObservation(2, b""), 2_000, 2_001) == 3
