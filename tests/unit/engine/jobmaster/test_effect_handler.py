"""Every effect of a job master has its place in the table of all hosts."""

import typing

from penstock.engine.checkpoint.effects import StorageEffect
from penstock.engine.jobmaster import effect_handler
from penstock.engine.jobmaster.effects import JobEffect
from penstock.engine.jobmaster.notices import JobNotice


def test_the_table_has_every_effect() -> None:
    """A job would fail on the first effect that no host knows how to carry out."""
    of_their_own = {StorageEffect, *typing.get_args(JobNotice)}

    assert set(effect_handler.METHODS) == set(typing.get_args(JobEffect)) - of_their_own
