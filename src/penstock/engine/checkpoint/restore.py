"""Assign the state in a manifest to subtasks. Every start from a checkpoint or savepoint uses this module.

Operators are matched by state id. Keyed state goes to the subtasks that own its key groups now. Split lists stay in
their subtask, or are redistributed round robin if the parallelism has changed. Union lists go to all subtasks. Of
broadcast lists, which are equal, each subtask gets one. Source: Flink docs, "Working with State", Redistribution; State
Management paper, 3.3.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec

from penstock.common.configuration import options
from penstock.common.errors import CheckpointError
from penstock.engine.checkpoint.manifest import VERSION, Manifest, OperatorPart, SubtaskPart, unpacked
from penstock.engine.checkpoint.plan import CheckpointVertex
from penstock.engine.runtime.ids import SubtaskId
from penstock.engine.state.handles import KeyedFile, ListInFile, Redistribution, RestoredOperator, Section
from penstock.engine.state.key_groups import key_group_range, subtask_of

Restored = dict[SubtaskId, dict[str, RestoredOperator]]
"""Subtask -> state id -> the state that the operator restores."""
_TO_ALLOW = f"--allow-non-restored-state, {options.IGNORE_UNCLAIMED_STATE.key}"


def assign(
    manifest: Manifest, vertices: Sequence[CheckpointVertex], *, owns_files: bool, allow_non_restored: bool
) -> Restored:
    """Return the state that each subtask restores.

    `owns_files`: the files belong to this job, so its next checkpoint may refer to them.

    Raises CheckpointError if the max parallelism of an operator has changed, or if the program lacks an operator with
    state and `allow_non_restored` is not set.
    """
    # Files of an older format are read, but nothing is appended to them: the next checkpoint is a full one.
    owns_files = owns_files and manifest.version == VERSION
    restored: Restored = {}
    found = set()
    for vertex in vertices:
        for state_id, name in vertex.operators:
            part = manifest.operator(state_id)
            if part is None:
                continue
            found.add(state_id)
            # Lists have no key groups: they fit any max parallelism.
            if part.max_parallelism != vertex.max_parallelism and part.has_keyed:
                raise CheckpointError(
                    f"operator '{name}' has a maximum parallelism of {vertex.max_parallelism}, but its state was "
                    f"written with {part.max_parallelism}: keys may belong to other key groups. Set the old value: "
                    f"set_max_parallelism({part.max_parallelism})"
                )
            for subtask, operator in enumerate(_of_operator(part, vertex, owns_files)):
                restored.setdefault(SubtaskId(vertex.id, subtask), {})[state_id] = operator
    _check_sinks(manifest, vertices, allow_non_restored)
    lost = [part for part in manifest.operators if part.state_id not in found]
    if lost and not allow_non_restored:
        names = ", ".join(f"'{part.name}' ({part.state_id})" for part in lost)
        raise CheckpointError(
            f"checkpoint {manifest.checkpoint_id} holds state of operators that this program does not have: {names}. "
            "Give operators the uid they had (those without one are identified by their position in the program), or "
            f"drop that state: {_TO_ALLOW}"
        )
    return restored


def _check_sinks(manifest: Manifest, vertices: Sequence[CheckpointVertex], allow_non_restored: bool) -> None:
    known = {state_id for vertex in vertices for state_id, _ in vertex.operators}
    gone = [state_id for state_id, commits in manifest.commits.items() if commits and state_id not in known]
    if gone and not allow_non_restored:
        raise CheckpointError(
            f"checkpoint {manifest.checkpoint_id} holds uncommitted results of sinks that this program does not "
            f"have: {', '.join(gone)}. Give sinks the uid they had (those without one are identified by their position "
            f"in the program), or leave these results uncommitted: {_TO_ALLOW}"
        )


def enumerator_states(manifest: Manifest) -> dict[str, Any]:
    """Return the states of enumerators by the state id of their source."""
    return {state_id: unpacked(text) for state_id, text in manifest.enumerators.items()}


def _of_operator(part: OperatorPart, vertex: CheckpointVertex, owns_files: bool) -> list[RestoredOperator]:
    extends_files = owns_files and part.parallelism == vertex.parallelism
    lists = _lists(part, vertex.parallelism)
    keyed = {old.subtask: old.state.keyed for old in part.subtasks if old.state.keyed}
    restored = []
    for subtask in range(vertex.parallelism):
        chains = _chains(keyed, part.parallelism, vertex, subtask)
        groups = [(groups.start, groups.stop) for _, groups in chains]
        restored.append(RestoredOperator([chain for chain, _ in chains], lists[subtask], extends_files, groups))
    return restored


def _chains(
    keyed: dict[int, list[KeyedFile]], former_parallelism: int, vertex: CheckpointVertex, subtask: int
) -> list[tuple[list[KeyedFile], range]]:
    """Return the chains of files that a subtask reads, each with the key groups of the subtask that wrote it.

    `keyed`: all chains, by the subtask that wrote them. The max parallelism is the same if there is any chain.
    """
    owned = key_group_range(subtask, vertex.max_parallelism, vertex.parallelism)
    chains = []
    # Only the few subtasks that owned these key groups, of perhaps a thousand.
    bounds = owned.start, owned.stop - 1
    first, last = (subtask_of(group, vertex.max_parallelism, former_parallelism) for group in bounds)
    for old in range(first, last + 1):
        # The whole chain, even if the subtask owns only some key groups: increments replace entries of earlier files.
        groups = key_group_range(old, vertex.max_parallelism, former_parallelism)
        shared = min(groups.stop, owned.stop) - max(groups.start, owned.start)
        if old in keyed and shared > 0:
            chains.append((shared, keyed[old], groups))
    # The chain with most key groups first: if it begins with the files of a store, the subtask's store begins with
    # them.
    return [(chain, groups) for _, chain, groups in sorted(chains, key=lambda chain: -chain[0])]


def _lists(part: OperatorPart, parallelism: int) -> list[list[tuple[str, ListInFile]]]:
    dealt: list[list[tuple[str, ListInFile]]] = [[] for _ in range(parallelism)]
    # Counted over all lists: if each list began with the first subtask, many short lists would all go there.
    turn = 0
    copies: dict[str, dict[int, tuple[str, ListInFile]]] = {}
    for old in part.subtasks:
        for path, list_ in _lists_of(old):
            # With another parallelism the partitioners decide: each subtask reads all records and keeps its own.
            in_flight = list_.redistribution is Redistribution.IN_FLIGHT and part.parallelism != parallelism
            if list_.redistribution is Redistribution.UNION or in_flight:
                for lists in dealt:
                    lists.append((path, list_))
            elif list_.redistribution is Redistribution.BROADCAST:
                copies.setdefault(list_.name, {})[old.subtask] = path, list_
            elif part.parallelism == parallelism:
                # Items stay in their subtask: a source continues its splits, a writer its transactions.
                dealt[old.subtask].append((path, list_))
            else:
                shares: list[list[Section]] = [[] for _ in range(parallelism)]
                for item in list_.items:
                    shares[turn % parallelism].append(item)
                    turn += 1
                for lists, items in zip(dealt, shares, strict=True):
                    if items:
                        lists.append((path, msgspec.structs.replace(list_, items=items)))
    for by_subtask in copies.values():
        # All copies should be equal. In case they are not, each subtask gets its own copy again, and with another
        # parallelism the one that Flink would assign (RoundRobinOperatorStateRepartitioner).
        any_copy = next(iter(by_subtask.values()))
        for subtask, lists in enumerate(dealt):
            lists.append(by_subtask.get(subtask % part.parallelism, any_copy))
    return dealt


def _lists_of(part: SubtaskPart) -> list[tuple[str, ListInFile]]:
    file = part.state.lists
    return [(file.path, list_) for list_ in file.lists] if file is not None else []
