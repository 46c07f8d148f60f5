"""The operator that answers: queries in broadcast state, and panes of all of them in one keyed state.

A pane has the figures of one query for an interval of event time, so windows of any length share one state, and a
record is added once per query, whatever the length of its windows. A timer at the end of each pane with records merges
panes to windows.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from penstock.datastream.functions import KeyedBroadcastProcessFunction, ProcessFunction, RuntimeContext
from penstock.datastream.output_tag import OutputTag
from penstock.datastream.state import MapState, MapStateDescriptor
from penstock_examples.flights.records import Report
from penstock_examples.standing_queries.expressions import compiled
from penstock_examples.standing_queries.queries import (
    FIELDS,
    Answer,
    Failure,
    Figures,
    Query,
    QueryError,
    Removal,
    parsed,
)

QUERIES = MapStateDescriptor("queries")
"""name -> Query, the same in all subtasks."""
PANES = MapStateDescriptor("panes")
"""(name, start of the pane in ms) -> Figures, by airport."""
FAILED = MapStateDescriptor("failed")
"""name -> why the query is not answered for this airport."""
FAILURES: OutputTag[Failure] = OutputTag("failures")


class ParseQueries(ProcessFunction[str, Any]):
    """Parses lines to queries. Refuses those that can't be answered, before they reach the operator."""

    def process_element(self, value: str, ctx: ProcessFunction.Context) -> Iterator[Any]:
        """Yield the query, or its refusal."""
        try:
            yield parsed(value)
        except QueryError as error:
            yield FAILURES, Failure(value[:100], None, str(error))


class AnswerQueries(KeyedBroadcastProcessFunction[str, Report, "Query | Removal", Answer]):
    """Answers all queries for one airport."""

    def open(self, runtime_context: RuntimeContext) -> None:
        """Obtain the state that all queries share."""
        self.panes: MapState[tuple[str, int], Figures] = runtime_context.get_map_state(PANES)
        self.failed: MapState[str, str] = runtime_context.get_map_state(FAILED)

    def process_broadcast_element(self, value: Query | Removal, ctx: KeyedBroadcastProcessFunction.Context) -> None:
        """Add a query, or remove it with its state. A query with an existing name replaces it, without its state."""
        queries = ctx.get_broadcast_state(QUERIES)
        if value.name in queries:
            queries.remove(value.name)
            ctx.apply_to_keyed_state(PANES, lambda airport, panes: _forget(panes, value.name))
        ctx.apply_to_keyed_state(FAILED, lambda airport, failed: failed.remove(value.name))
        if isinstance(value, Query):
            queries.put(value.name, value)

    def process_element(self, value: Report, ctx: KeyedBroadcastProcessFunction.ReadOnlyContext) -> Iterator[Any]:
        """Add the report to the current pane of each matching query, unless its windows have ended."""
        fields = {name: getattr(value, name) for name in FIELDS}
        watermark = ctx.current_watermark()
        for name, query in ctx.get_broadcast_state(QUERIES).items():
            if self.failed.contains(name):
                continue
            start = value.scheduled_ms - value.scheduled_ms % query.pane_ms
            if start + query.pane_ms - 1 <= watermark:
                continue
            try:
                if not compiled(query.where, FIELDS)(fields):
                    continue
                figures = (self.panes.get((name, start)) or Figures()).plus(compiled(query.value, FIELDS)(fields))
            except (TypeError, ValueError, ArithmeticError) as error:
                # An error of one query, for this airport, must not affect the others.
                reason = f"{type(error).__name__}: {error}"
                self.failed.put(name, reason)
                _forget(self.panes, name)
                yield FAILURES, Failure(name, value.airport, reason)
                continue
            self.panes.put((name, start), figures)
            ctx.timer_service().register_event_time_timer(start + query.pane_ms - 1)

    def on_timer(self, timestamp: int, ctx: KeyedBroadcastProcessFunction.OnTimerContext) -> Iterator[Answer]:
        """End the panes of this time: answer the windows that end with them."""
        end = timestamp + 1
        for name, query in ctx.get_broadcast_state(QUERIES).items():
            if end % query.pane_ms:
                continue
            first = end - query.length_ms
            starts = [start for start in range(first, end, query.pane_ms) if self.panes.contains((name, start))]
            if not starts:
                continue
            window = Figures()
            for start in starts:
                window = window.merged(self.panes.get((name, start)) or Figures())
            yield Answer(
                query=name,
                airport=ctx.get_current_key(),
                start_ms=first,
                end_ms=end,
                count=window.count,
                total=window.total,
                low=window.low,
                high=window.high,
            )
            # No later window includes it.
            self.panes.remove((name, first))
            if starts != [first]:
                ctx.timer_service().register_event_time_timer(end + query.pane_ms - 1)


def _forget(panes: MapState[tuple[str, int], Figures], name: str) -> None:
    for key in [key for key in panes.keys() if key[0] == name]:  # noqa: SIM118
        panes.remove(key)
