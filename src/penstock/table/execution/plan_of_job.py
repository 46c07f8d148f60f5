"""The plan that a job runs with, in its checkpoints and savepoints.

A job that is restored by the same statements over the same tables, with the same options, runs with the plan that it
ran with, although another version of the planner may plan them differently. After a change of the program it runs with
the new plan, if the state fits: a node with state must be the same node in both plans. Plans hold references to secrets
(`planner/secret_options.py`), and functions by name.
"""

from __future__ import annotations

import base64
import binascii
import dataclasses
import json
import zlib
from collections.abc import Mapping
from typing import Any, NamedTuple

import msgspec

from penstock.common.errors import CheckpointError
from penstock.common.values.decoding import DECODING_ERRORS, from_json
from penstock.engine.checkpoint.manifest import Manifest
from penstock.table.planner.compiled_plan import CompiledPlan, read_plan
from penstock.table.planner.errors import UnsupportedPlanError

_ANY = ("description", "configuration", "state", "inputProperties", "dynamicTableSink", "scanTableSource")
"""Fields of a node that may change while its state stays what it is."""


class _Stored(msgspec.Struct):
    """`origin`: CompiledPlan.origin. `plan`: the JSON."""

    origin: str
    plan: str


def packed_plan(plan: CompiledPlan) -> str:
    """Return a plan as manifests contain it: JSON, deflated, in base64."""
    return base64.b64encode(zlib.compress(msgspec.json.encode(_Stored(plan.origin, plan.text)))).decode("ascii")


def restored_plan(planned: CompiledPlan, manifest: Manifest | None, *, allow_non_restored: bool) -> CompiledPlan:
    """Return the plan to run with: that of a checkpoint which the job starts from, or the one of the statements now.

    Raises CheckpointError if the state of the checkpoint does not fit the statements, or if its plan can't be read.
    """
    stored = None if manifest is None else _unpacked(manifest)
    if manifest is None or stored is None or stored.plan == planned.text:
        return planned
    if stored.origin and stored.origin == planned.origin:
        return plan_of_checkpoint(manifest) or planned
    _check_state(manifest, _nodes(stored.plan), _nodes(planned.text), allow_non_restored=allow_non_restored)
    return planned


def check_origin(packed: str, manifest: Manifest, allow_non_restored: bool) -> None:
    """Raise CheckpointError if a job with a packed plan can't have the state of a checkpoint.

    Called in the process that runs the job: a client may not see the checkpoints of a cluster.
    """
    stored = _unpacked(manifest)
    if stored is None:
        return
    own = _read(packed)
    if stored.plan != own.plan:
        _check_state(manifest, _nodes(stored.plan), _nodes(own.plan), allow_non_restored=allow_non_restored)


def plan_of_checkpoint(manifest: Manifest) -> CompiledPlan | None:
    """Return the plan of the job that took a checkpoint; None: it was not a job of SQL. Raises CheckpointError."""
    stored = _unpacked(manifest)
    if stored is None:
        return None
    try:
        return dataclasses.replace(read_plan(stored.plan), origin=stored.origin)
    except UnsupportedPlanError as error:
        raise CheckpointError(
            f"checkpoint {manifest.checkpoint_id} has a plan that this version of penstock can't run: {error}. Restore "
            "it with the version that has taken it"
        ) from None


def _unpacked(manifest: Manifest) -> _Stored | None:
    if not manifest.compiled_plan:
        return None
    try:
        return _read(manifest.compiled_plan)
    except (*DECODING_ERRORS, binascii.Error, zlib.error) as error:
        raise CheckpointError(
            f"the plan in checkpoint {manifest.checkpoint_id} of '{manifest.job_name}' can't be read: {error}"
        ) from None


def _read(packed: str) -> _Stored:
    return from_json(zlib.decompress(base64.b64decode(packed)), _Stored)


class _Node(NamedTuple):
    """A node as far as state depends on it."""

    kind: str
    description: str
    content: Mapping[str, Any]
    inputs: tuple[Any, ...]
    """The types of the rows that it receives."""

    def fits(self, other: _Node) -> bool:
        """Return whether the other node may have the state of this one."""
        return (self.kind, self.content, self.inputs) == (other.kind, other.content, other.inputs)


def _nodes(text: str) -> dict[str, _Node]:
    """Return the nodes of a plan by id."""
    plan = json.loads(text)
    of_ids = {node["id"]: node for node in plan["nodes"]}
    inputs: dict[int, list[Any]] = {id: [] for id in of_ids}
    for edge in plan["edges"]:
        inputs[edge["target"]].append(of_ids[edge["source"]]["outputType"])
    return {
        str(id): _Node(
            node["type"].rpartition("_")[0].removeprefix("stream-exec-"),
            node.get("description", ""),
            {key: value for key, value in node.items() if key not in (*_ANY, "type")} | {"table": _table(node)},
            tuple(inputs[id]),
        )
        for id, node in of_ids.items()
    }


def _table(node: Mapping[str, Any]) -> Any:
    """Return the identifier of the table that a node reads or writes: its options may change."""
    for key in ("dynamicTableSink", "scanTableSource"):
        if key in node:
            return node[key]["table"]["identifier"]
    return None


def _check_state(
    manifest: Manifest, stored: Mapping[str, _Node], planned: Mapping[str, _Node], *, allow_non_restored: bool
) -> None:
    for operator in manifest.operators:
        id = operator.state_id.partition("_")[0]
        before, now = stored.get(id), planned.get(id)
        if before is None or (now is not None and before.fits(now)):
            continue
        if (now is None or now.kind != before.kind) and allow_non_restored:
            continue
        raise CheckpointError(
            f"checkpoint {manifest.checkpoint_id} of '{manifest.job_name}' has the state of "
            f"{before.description or before.kind}, and the statements have "
            + (f"{now.description or now.kind} in its place" if now is not None else "no such node")
            + ". Start from it with the statements, tables and options that it was taken with, or start the new "
            "statements without it"
        )
