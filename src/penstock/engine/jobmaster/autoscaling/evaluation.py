"""Compute how much each vertex can process, and how much it has to: the model of DS2.

A subtask that is busy for a tenth of its time could process ten times as much: its *true* rate. All vertices have to
keep up with the rate at which sources would emit without back pressure: a vertex's input grows like the output of its
predecessors. So one window yields the parallelism of all vertices, not only of the present bottleneck.

Source: Kalavri et al., "Three steps is all you need", OSDI 2018; Flink Kubernetes Operator docs, "Autoscaler".
"""

from __future__ import annotations

import dataclasses
import math

from penstock.engine.jobmaster.autoscaling.rates import VertexRates
from penstock.engine.jobmaster.autoscaling.settings import AutoscalerSettings
from penstock.engine.jobmaster.autoscaling.topology import ScaledVertex, Topology


@dataclasses.dataclass(frozen=True)
class Evaluation:
    """Evaluation of one vertex. Rates in records per second."""

    true_rate: float
    """Rate that its subtasks can process; infinite if no records arrived."""
    shared_rate: float
    """Rate that they can process if the load of all tasks in their slots grows alike."""
    target_rate: float
    """Rate at which no source falls behind."""
    catch_up_rate: float
    """Additional rate at which sources catch up."""
    is_backlogged: bool
    """Whether a source of the job is far behind."""

    def capacity(self, utilization: float, settings: AutoscalerSettings, with_restart: bool = False) -> float:
        """Return the true rate at which the vertex would have this utilization."""
        if utilization <= 0:
            return math.inf
        per_restart = settings.restart_ms / settings.catch_up_ms if with_restart and settings.catch_up_ms else 0.0
        return self.catch_up_rate + self.target_rate * per_restart + self.target_rate / utilization

    def is_too_slow(self, settings: AutoscalerSettings) -> bool:
        """Return whether it needs more subtasks."""
        most = 1.0 if self.is_backlogged else settings.utilization_max
        return self.true_rate < self.capacity(most, settings)

    def is_too_fast(self, settings: AutoscalerSettings) -> bool:
        """Return whether it needs fewer subtasks."""
        least = 0.0 if self.is_backlogged else settings.utilization_min
        return self.shared_rate > self.capacity(least, settings, with_restart=True)


def evaluate(topology: Topology, rates: list[VertexRates], settings: AutoscalerSettings) -> list[Evaluation]:
    """Evaluate all vertices, in the order of the topology."""
    is_backlogged = any(
        rate.pending is not None and rate.pending * 1000 > rate.records_in * settings.backlog_ms
        for vertex, rate in zip(topology, rates, strict=True)
        if not vertex.feeds
    )
    evaluations: list[Evaluation] = []
    for vertex, rate in zip(topology, rates, strict=True):
        if vertex.feeds:
            grown, caught_up = _of_input(vertex, rates, evaluations)
            target, catch_up = rate.records_in * grown, rate.records_in * caught_up
        else:
            target = rate.demand
            behind = rate.pending or 0
            catch_up = behind * 1000 / settings.catch_up_ms if settings.catch_up_ms else 0.0
        true_rate, shared_rate = _at_full_load(rate, rate.utilization), _at_full_load(rate, rate.load)
        evaluations.append(
            Evaluation(
                true_rate=true_rate,
                shared_rate=shared_rate,
                target_rate=target,
                catch_up_rate=catch_up,
                is_backlogged=is_backlogged,
            )
        )
    return evaluations


def _at_full_load(rate: VertexRates, load: float) -> float:
    return rate.records_in / load if rate.records_in and load else math.inf


def _of_input(vertex: ScaledVertex, rates: list[VertexRates], before: list[Evaluation]) -> tuple[float, float]:
    """Return the factors by which a vertex's input will grow, and of the additional input to catch up.

    The shares of its predecessors are not measured: they are assumed to be proportional to what these emit.
    """
    weights = [_emitted(rates[feed.vertex], feed.operator) for feed in vertex.feeds]
    if not sum(weights):
        return 1.0, 0.0
    grown = caught_up = 0.0
    for feed, weight in zip(vertex.feeds, weights, strict=True):
        rate, evaluation = rates[feed.vertex].records_in, before[feed.vertex]
        grown += weight * (evaluation.target_rate / rate if rate else 1.0)
        caught_up += weight * (evaluation.catch_up_rate / rate if rate else 0.0)
    return grown / sum(weights), caught_up / sum(weights)


def _emitted(rates: VertexRates, operator: int) -> float:
    return rates.records_out[operator] if operator < len(rates.records_out) else 0.0
