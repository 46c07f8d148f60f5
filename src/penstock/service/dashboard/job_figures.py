"""The figures of operators that a job's page shows, from the JSON of REST. The fields are Flink's."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

METRICS = (
    "numRecordsInPerSecond",
    "numRecordsOutPerSecond",
    "busyTimeMsPerSecond",
    "backPressuredTimeMsPerSecond",
    "currentInputWatermark",
    "latency_mean",
    "latency_max",
)
"""The metrics of each vertex, and of each subtask of the chosen one."""
_NO_WATERMARK = 1 << 62
"""Beyond it are the lowest and the highest timestamp: no watermark yet, and the end of the input."""
_ENDED = frozenset({"FINISHED", "CANCELED", "FAILED"})
Metrics = dict[str, dict[str, float]]
"""Aggregates by name: min, max, sum, avg and skew over subtasks."""


@dataclass(frozen=True)
class VertexInput:
    """An edge of the job graph, by the id of the vertex that it comes from."""

    source: str
    strategy: str


@dataclass(frozen=True)
class VertexFigures:
    """The figures of one vertex. Shares are of a second, from 0 to 1, of the subtask with the largest share.

    A vertex that has ended has `read` and `written`, its total records, in place of rates, and shares of the whole time
    of its subtasks.

    `lag_ms`: how far event time is behind the clock, in the slowest subtask; None: no watermark. `skew`: how unevenly
    subtasks are loaded, 0 to 100 (Flink: DoubleDataSkew).
    """

    id: str
    name: str
    status: str
    parallelism: int
    max_parallelism: int
    level: int
    inputs: tuple[VertexInput, ...]
    in_per_s: float = 0.0
    out_per_s: float = 0.0
    busy: float = 0.0
    back_pressure: float = 0.0
    lag_ms: float | None = None
    skew: float = 0.0
    latency_mean_ms: float | None = None
    latency_max_ms: float | None = None
    read: int = 0
    written: int = 0

    @property
    def has_ended(self) -> bool:
        """Whether it has ended for good."""
        return self.status in _ENDED

    @property
    def heat(self) -> str:
        """Return the word, and color, for its load: off, calm, busy, hot, or pressed (back-pressured)."""
        if self.status != "RUNNING":
            return "off"
        if self.back_pressure > 0.5:
            return "pressed"
        return "hot" if self.busy > 0.9 else "busy" if self.busy > 0.6 else "calm"


def metrics_of(answer: list[dict[str, Any]]) -> Metrics:
    """Return the answer to `/vertices/:id/subtasks/metrics?get=…`, by name."""
    return {one["id"]: {kind: value for kind, value in one.items() if kind != "id"} for one in answer}


def vertices_of(details: dict[str, Any], metrics: dict[str, Metrics]) -> list[VertexFigures]:
    """Return the vertices of `/jobs/:id`, in order. `metrics`: by id of the vertex; some may be missing."""
    nodes = {node["id"]: node for node in details["plan"]["nodes"]}
    levels: dict[str, int] = {}
    found = []
    for vertex in details["vertices"]:
        inputs = nodes.get(vertex["id"], {}).get("inputs", [])
        levels[vertex["id"]] = max((levels.get(one["id"], -1) for one in inputs), default=-1) + 1
        found.append(
            VertexFigures(
                id=vertex["id"],
                name=vertex["name"],
                status=vertex["status"],
                parallelism=vertex["parallelism"],
                max_parallelism=vertex["maxParallelism"],
                level=levels[vertex["id"]],
                inputs=tuple(VertexInput(one["id"], one["ship_strategy"]) for one in inputs),
                **_measured(metrics.get(vertex["id"], {}), details["now"], not inputs),
                **(_at_its_end(vertex["metrics"]) if vertex["status"] in _ENDED else {}),
            )
        )
    return found


def _measured(metrics: Metrics, now_ms: float, is_source: bool) -> dict[str, Any]:
    if not metrics:
        return {}
    records = metrics.get("numRecordsOutPerSecond" if is_source else "numRecordsInPerSecond", {})
    return {
        "in_per_s": metrics.get("numRecordsInPerSecond", {}).get("sum", 0.0),
        "out_per_s": metrics.get("numRecordsOutPerSecond", {}).get("sum", 0.0),
        "busy": metrics.get("busyTimeMsPerSecond", {}).get("max", 0.0) / 1000,
        "back_pressure": metrics.get("backPressuredTimeMsPerSecond", {}).get("max", 0.0) / 1000,
        "lag_ms": lag_ms(metrics.get("currentInputWatermark", {}).get("min"), now_ms),
        "skew": records.get("skew", 0.0),
        "latency_mean_ms": metrics.get("latency_mean", {}).get("avg"),
        "latency_max_ms": metrics.get("latency_max", {}).get("max"),
    }


def _at_its_end(totals: dict[str, float]) -> dict[str, Any]:
    busy, pressed = totals["accumulated-busy-time"], totals["accumulated-backpressured-time"]
    all_ms = busy + pressed + totals["accumulated-idle-time"] or 1.0
    return {
        "read": totals["read-records"],
        "written": totals["write-records"],
        "busy": busy / all_ms,
        "back_pressure": pressed / all_ms,
    }


def lag_ms(watermark: float | None, now_ms: float) -> float | None:
    """Return how far (ms) a watermark is behind the clock; None: no watermark, or the input has ended."""
    return None if watermark is None or abs(watermark) >= _NO_WATERMARK else now_ms - watermark


@dataclass(frozen=True)
class SubtaskFigures:
    """The figures of one subtask; see VertexFigures."""

    index: int
    status: str
    attempt: int
    slot: str
    in_per_s: float
    out_per_s: float
    read: int
    written: int
    busy: float
    back_pressure: float
    lag_ms: float | None


def subtask_metric_names(first: int, end: int) -> list[str]:
    """Return the names for `/vertices/:id/metrics?get=…` of these subtasks."""
    return [f"{index}.{name}" for index in range(first, end) for name in METRICS[:5]]


def subtasks_of(vertex: dict[str, Any], values: list[dict[str, Any]]) -> list[SubtaskFigures]:
    """Return the subtasks of `/vertices/:id`. `values`: the values of its metrics."""
    by_name = {one["id"]: float(one["value"]) for one in values}

    def subtask(answer: dict[str, Any]) -> SubtaskFigures:
        index = answer["subtask"]
        rate_in, rate_out, busy_ms, pressed_ms = (by_name.get(f"{index}.{name}", 0.0) for name in METRICS[:4])
        return SubtaskFigures(
            index=index,
            status=answer["status"],
            attempt=answer["attempt"],
            slot=answer["endpoint"],
            in_per_s=rate_in,
            out_per_s=rate_out,
            read=answer["metrics"]["read-records"],
            written=answer["metrics"]["write-records"],
            busy=busy_ms / 1000,
            back_pressure=pressed_ms / 1000,
            lag_ms=lag_ms(by_name.get(f"{index}.currentInputWatermark"), vertex["now"]),
        )

    return [subtask(answer) for answer in vertex["subtasks"]]
