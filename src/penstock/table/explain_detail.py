"""`ExplainDetail`: additions to the text about a plan. Source: PyFlink, pyflink.table.ExplainDetail."""

from __future__ import annotations


class ExplainDetail(str):
    """A name of an addition; `explain_sql` also takes the names as texts."""

    __slots__ = ()

    ESTIMATED_COST = "ESTIMATED_COST"
    """Estimates of the optimizer for each node."""
    CHANGELOG_MODE = "CHANGELOG_MODE"
    """The changes that each node gives."""
    JSON_EXECUTION_PLAN = "JSON_EXECUTION_PLAN"
    """The plan of Flink's job as JSON."""
    PLAN_ADVICE = "PLAN_ADVICE"
    """Advice about the plan, such as risks of non-deterministic updates."""
