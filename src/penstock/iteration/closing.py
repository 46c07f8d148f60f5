"""How an iteration is closed: what each of its heads gets on its feedback edges.

    of                                                  a head gets
    the stream that is fed back to it                   the records
    a workset that is fed back to another head          the number of records: COUNT
    a delta that is fed back to another head            the ends of supersteps: ENDS
    the stream for termination                          the number of records: TERMINATION
    a head from which none of these streams comes       the ends of supersteps
    an operator from which none of them comes, but      the ends of supersteps
    which runs in supersteps: outputs, what has entered

So all heads learn the same and decide the same (`engine/runtime/task/superstep_decisions.py`), and none begins a
superstep before all operators of the iteration have ended the last one.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from penstock.engine.plan.transformations import SuperstepsTransformation, Transformation
from penstock.engine.plan.upstream import comes_from
from penstock.engine.runtime.network.edge import FeedbackRole


class FedBack(NamedTuple):
    """A stream that is fed back to a head. `role`: WORKSET or DELTA."""

    head: SuperstepsTransformation
    stream: Transformation
    role: FeedbackRole = FeedbackRole.WORKSET


def close_iteration(
    fed_back: Sequence[FedBack],
    *,
    entering: Sequence[SuperstepsTransformation],
    termination: Transformation | None,
    awaited: Sequence[Transformation],
) -> None:
    """Connect the heads of an iteration with what is fed back, one stream to each.

    `entering`: the heads of unbounded streams that enter, to which nothing is fed back. `awaited`: other streams of the
    iteration, which have to run in its supersteps.
    """
    heads = [*(one.head for one in fed_back), *entering]
    known = [one.stream for one in fed_back] + ([] if termination is None else [termination])
    others = {one.id: one for one in (*heads, *awaited) if not _leads_to(one, known)}.values()
    for head in heads:
        for one in fed_back:
            if one.head is head:
                head.feedback.append(one.stream)
                head.feedback_role = one.role
            else:
                is_workset = one.role is FeedbackRole.WORKSET
                head.counted.append((one.stream, FeedbackRole.COUNT if is_workset else FeedbackRole.ENDS))
        if termination is not None:
            head.counted.append((termination, FeedbackRole.TERMINATION))
        head.counted += [(one, FeedbackRole.ENDS) for one in others]


def _leads_to(stream: Transformation, others: Sequence[Transformation]) -> bool:
    """Return whether one of the others comes from the operator of a stream."""
    operator = stream
    while operator.edge_kind is not None and len(operator.inputs) == 1:
        operator = operator.inputs[0]
    return any(comes_from(one, operator) for one in others)
