"""Rules: patterns that come as records of a control stream, each with an id and a version.

    {"id": "bursts", "version": 2, "pattern": {...}}     adds a rule, or changes it
    {"id": "bursts", "version": 3, "remove": true}       removes it

A version must be higher than the one before, so that rules are the same whatever the order in which they come: of each
rule, the highest version counts. Source: FLIP-200, which Flink has accepted and not built.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

from penstock.cep import json_form
from penstock.cep.errors import MalformedPatternError
from penstock.cep.pattern import Pattern
from penstock.cep.pattern_json import read_pattern

RULE_KEYS = ("id", "version", "pattern", "remove")
ID_LENGTH_MAX = 200
"""Length of an id, in characters."""
VERSION_MAX = (1 << 63) - 1


class RejectedRule(NamedTuple):
    """A record of the control stream that changes nothing, and why."""

    rule: Any
    error: str


@dataclass(frozen=True)
class Rule:
    """A version of a rule. `pattern` is None if the rule is removed."""

    id: str
    version: int
    pattern: Pattern[Any, Any] | None


def read_rule(text: Any) -> Rule:
    """Return the rule in a JSON text. Raises MalformedPatternError, with the position, if there is none."""
    tree = json_form.tree_of(text, "the rule")
    if not isinstance(tree, dict) or (unknown := [key for key in tree if key not in RULE_KEYS]):
        shown = f"{tree!r:.100}" if not isinstance(tree, dict) else repr(unknown[0])
        raise MalformedPatternError(f"$: expected an object with keys among {', '.join(RULE_KEYS)}, got {shown:.100}")
    id, version = tree.get("id"), tree.get("version")
    if not isinstance(id, str) or not 1 <= len(id) <= ID_LENGTH_MAX or not _is_unicode(id):
        raise MalformedPatternError(f"$.id: expected a text of 1 to {ID_LENGTH_MAX} characters, got {id!r:.100}")
    if not isinstance(version, int) or isinstance(version, bool) or not 0 <= version <= VERSION_MAX:
        raise MalformedPatternError(f"$.version: expected a whole number from 0 on, got {version!r:.100}")
    if ("pattern" in tree) is (tree.get("remove") is True) or tree.get("remove", True) is not True:
        raise MalformedPatternError('$: expected either "pattern": {...} or "remove": true')
    return Rule(id, version, read_pattern(tree["pattern"], "$.pattern") if "pattern" in tree else None)


def _is_unicode(text: str) -> bool:
    """Return whether a text can be written: JSON can spell halves of characters, which keys of state lack."""
    return not any("\ud800" <= character <= "\udfff" for character in text)
