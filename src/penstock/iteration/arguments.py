"""Checks of what the functions of this package get, so that a mistake is an error of the call that has made it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from penstock.api.functions.aggregator import Aggregator, ConvergenceCriterion
from penstock.common.functions.script_functions import dumps
from penstock.common.functions.user_calls import RAISED
from penstock.common.types.whole_numbers import as_int
from penstock.datastream.data_stream import DataStream, check_one_environment
from penstock.engine.plan.transformations import (
    PartitionTransformation,
    SuperstepsTransformation,
    Transformation,
    UnionTransformation,
)
from penstock.engine.plan.upstream import comes_from, unbounded_source_of, upstream
from penstock.engine.runtime.operators.superstep_head import SuperstepRules


def superstep_rules(
    supersteps_max: int | None,
    slack: int,
    aggregators: Mapping[str, Aggregator[Any]] | None,
    criteria: Mapping[str, ConvergenceCriterion[Any]] | None,
) -> SuperstepRules:
    """Return the rules of an iteration: see `iterate`, which also says what is raised."""
    if supersteps_max is not None and (as_int(supersteps_max) is None or supersteps_max < 1):
        raise ValueError(f"supersteps_max must be an int of 1 or more, or None for no limit, got {supersteps_max!r}")
    if as_int(slack) is None or slack < 0:
        raise ValueError(f"slack must be an int of 0 or more, got {slack!r}")
    for what, named in (("aggregators", aggregators), ("criteria", criteria)):
        if named is not None and not isinstance(named, Mapping):
            raise TypeError(f"{what} must be a dict with their names, got {named!r}")
    rules = SuperstepRules(supersteps_max, slack, dict(aggregators or {}), dict(criteria or {}))
    for missing in rules.criteria.keys() - rules.aggregators.keys():
        raise ValueError(f"there is no aggregator '{missing}' for its criterion; aggregators: {[*rules.aggregators]}")
    for kind, given in ((Aggregator, rules.aggregators), (ConvergenceCriterion, rules.criteria)):
        for key, value in given.items():
            if not isinstance(value, kind):
                raise TypeError(f"expected an object derived from {kind.__name__} for '{key}', got {value!r}")
    for key, aggregator in rules.aggregators.items():
        _check_sent(key, aggregator)
    return rules


def _check_sent(name: str, aggregator: Aggregator[Any]) -> None:
    """Raise TypeError for an aggregator that subtasks could not send to each other."""
    try:
        dumps(aggregator)
    except RAISED as error:
        raise TypeError(
            f"the aggregator '{name}' travels between subtasks, and can't be pickled: {error}. Define its class at the "
            "top level of a module or of the script, and keep values that can be pickled in it"
        ) from error


def is_unbounded(stream: DataStream[Any]) -> bool:
    """Return whether a stream has an unbounded source."""
    return unbounded_source_of(stream._transformation) is not None


def check_rules_of_unbounded(stream: DataStream[Any], rules: SuperstepRules) -> None:
    """Raise ValueError if a stream is unbounded, and `rules` are for bounded ones."""
    unbounded = unbounded_source_of(stream._transformation)
    if unbounded is not None and (rules.supersteps_max is not None or rules.criteria or rules.slack):
        raise ValueError(
            f"the source '{unbounded}' is unbounded, so its iteration has no supersteps_max, no criteria and no slack: "
            "it ends when the source has ended and nothing is fed back. Use a bounded source for those"
        )


def check_stream(method: str, stream: Any) -> None:
    """Raise TypeError if what `method` of the API got is not a stream."""
    if not isinstance(stream, DataStream):
        raise TypeError(f"expected a stream for {method}, got {stream!r}")


def check_streams(what: str, streams: Any) -> None:
    """Raise TypeError if `streams`, called `what` in the error, is not a list or tuple of streams."""
    if not isinstance(streams, (list, tuple)):
        raise TypeError(f"{what} must be a list of streams, got {streams!r}")
    for stream in streams:
        check_stream(what, stream)


def check_from_inside(method: str, streams: Sequence[Any], heads: Sequence[DataStream[Any]]) -> None:
    """Raise ValueError if an operator of a stream, for `method` of the API, does not come from one of the heads."""
    for stream in streams:
        check_stream(method, stream)
        check_one_environment(method, heads[0], stream)
    for one in upstream([stream._transformation for stream in streams], _merged):
        if not _merged(one) and not any(comes_from(one, head._transformation) for head in heads):
            raise ValueError(
                f"{method}: '{one.name}' comes from outside of the iteration, and has no supersteps. Derive it from "
                "the stream of the iteration, or use replay(stream) or enter(stream) of that"
            )


def _merged(stream: Transformation) -> Sequence[Transformation]:
    """Return the streams of which this one has the records as they are; none if an operator makes them."""
    return stream.inputs if isinstance(stream, UnionTransformation | PartitionTransformation) else ()


def is_in_supersteps(stream: DataStream[Any]) -> bool:
    """Return whether a stream is derived from a structured iteration."""
    return any(isinstance(one, SuperstepsTransformation) for one in upstream([stream._transformation]))
