"""Answers of REST: what is in them, and what is not."""

from __future__ import annotations

import json
from typing import Any

import msgspec
import pytest

from penstock.service.rest.answers import data_answer, json_answer

SECRET = "s3://key:hunter2@bucket/x"
SHOWN = "s3://***@bucket/x"


class Part(msgspec.Struct, rename="kebab"):
    """As answers have them."""

    at_path: str


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        ({"path": SECRET}, {"path": SHOWN}), ([[SECRET], {"a": [SECRET]}], [[SHOWN], {"a": [SHOWN]}]),
        (Part(SECRET), {"at-path": SHOWN}), ({1: SECRET, 2: (SECRET,)}, {"1": SHOWN, "2": [SHOWN]}),
        ({"sasl.password": "hunter2", "name": "Keyed token"}, {"sasl.password": "***", "name": "Keyed token"}),
        ({"errors": ["password=hunter2 is wrong", "a = b"]}, {"errors": ["password=*** is wrong", "a = b"]}),
        ({"x": float("nan"), "y": None, "z": 1.5}, {"x": None, "y": None, "z": 1.5}),
    ],
)  # fmt: skip
def test_secrets_are_hidden_in_each_text(value: Any, shown: Any) -> None:
    """A page that is shared, or a log of a proxy, would have the keys of a bucket."""
    assert json.loads(bytes(json_answer(value).body)) == shown


def test_a_user_s_own_data_is_as_it_is() -> None:
    """State would come back with stars in it, and be taken for what the job knows."""
    for value in ({"path": SECRET}, ["token=1", "sig=2"], {"password": "x"}):
        assert json.loads(bytes(data_answer(value).body)) == value


def test_a_text_that_is_no_unicode_is_answered() -> None:
    """One name with half a character in it, and a page of all jobs would be an error."""
    assert json.loads(bytes(json_answer({"a": "\ud800", "b": float("inf")}).body)) == {"a": "\ud800", "b": None}
