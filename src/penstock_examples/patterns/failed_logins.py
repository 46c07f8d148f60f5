"""Failed logins: two in a row of one user, within ten seconds."""

from __future__ import annotations

from typing import NamedTuple

from penstock.cep import CEP, Pattern, field
from penstock.common import Duration
from penstock.datastream import DataStream


class Login(NamedTuple):
    """A login, or an attempt."""

    user: str
    address: str
    succeeded: bool


def warnings(logins: DataStream[Login]) -> DataStream[tuple[str, str, str]]:
    """Return user and both addresses of each pair of failures."""
    failed = ~field("succeeded")
    twice = Pattern.begin("first").where(failed).next("second").where(failed).within(Duration.of_seconds(10))
    return CEP.pattern(logins.key_by("user"), twice).select(
        lambda match: (match["first"][0].user, match["first"][0].address, match["second"][0].address)
    )
