"""How long messages of the job master wait for a slot."""

from __future__ import annotations

from penstock.hosts.spark.worker.pipelined_stage import Mailbox


def test_messages_are_counted_and_their_latency_is_measured() -> None:
    """A function that takes seconds would hold up checkpoints, and nothing would show it."""
    mailbox = Mailbox()
    assert mailbox.figures(0) == {
        "mails": 0, "mails_waiting": 0, "mail_latency_mean_ms": 0, "mail_latency_max_ms": 0,
    }  # fmt: skip
    mailbox.note_handled(1_000_000, 2_000_000)
    mailbox.note_handled(1_000_000, 4_000_000)
    assert mailbox.figures(3) == {
        "mails": 2, "mails_waiting": 3, "mail_latency_mean_ms": 2, "mail_latency_max_ms": 3,
    }  # fmt: skip


def test_a_wait_of_long_ago_is_forgotten() -> None:
    """A single slow call after the start would be shown for weeks."""
    mailbox = Mailbox()
    mailbox.note_handled(0, 9_000_000_000)
    for _ in range(60):
        mailbox.note_handled(0, 1_000_000)
    assert mailbox.figures(0)["mail_latency_max_ms"] == 1 and mailbox.figures(0)["mails"] == 61
