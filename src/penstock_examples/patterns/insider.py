"""An insider: a user who gets more rights, then exports much, then shares it outside, within half an hour."""

from __future__ import annotations

from typing import NamedTuple

from penstock.cep import CEP, Pattern, field
from penstock.common import Duration
from penstock.datastream import DataStream

STEPS = ("more rights", "bulk export", "shared outside")


class Action(NamedTuple):
    """An action of a user."""

    user: str
    kind: str


def suspects(actions: DataStream[Action]) -> DataStream[str]:
    """Return the user of each such sequence, whatever else happens between its steps."""
    rights, export, shared = (field("kind") == kind for kind in STEPS)
    begin: Pattern[Action, Action] = Pattern.begin("rights")
    pattern = begin.where(rights).followed_by("export").where(export).followed_by("shared").where(shared)
    found = CEP.pattern(actions.key_by("user"), pattern.within(Duration.of_minutes(30)))
    return found.select(lambda match: match["rights"][0].user)
