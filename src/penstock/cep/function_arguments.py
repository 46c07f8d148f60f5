"""Functions of matches, as a program gives them, checked."""

from __future__ import annotations

from typing import Any

from penstock.cep.functions import PatternFlatTimeoutFunction, PatternProcessFunction, TimedOutPartialMatchHandler
from penstock.cep.operators.match_calls import Form, MatchCalls, ToSideOutput, process
from penstock.datastream.arguments import as_function, check_output_tag, check_parameters
from penstock.engine.runtime.operators.function import UserFunction


def process_calls(function: Any) -> MatchCalls:
    """Return the calls of a PatternProcessFunction, or of a callable. Raises TypeError for anything else."""
    of_match = as_function(function, "process_match", PatternProcessFunction)
    timed_out = None
    if isinstance(function, TimedOutPartialMatchHandler):
        timed_out = UserFunction.of_object(function, "process_timed_out_match")
        check_parameters(timed_out.call, TimedOutPartialMatchHandler.process_timed_out_match, timed_out.method)
    return MatchCalls(of_match, process, timed_out)


def timeout_call(tag: Any, function: Any, interface: type) -> tuple[UserFunction | None, Form]:
    """Return the function of timeouts, and how it is called. Raises TypeError if tag or function is missing."""
    if tag is None and function is None:
        return None, process
    check_output_tag(tag)
    if function is None:
        raise TypeError(f"timeouts go to {tag!r}, but there is no timeout_function to make its records")
    flat = interface is PatternFlatTimeoutFunction
    return as_function(function, "timeout", interface), ToSideOutput(tag, flat)
