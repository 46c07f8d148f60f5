"""What each subtask restores from a manifest. Every job starts from every checkpoint or savepoint this way.

Operators are matched by state id. Keyed state goes to the subtasks that own its key groups now; split lists stay in
their subtask, or are redistributed round robin if the parallelism has changed; union lists go to all subtasks; of
broadcast lists, which are equal, one goes to all. Source: Flink docs, "Working with State", Redistribution; State
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
"""subtask -> state id -> what its operator restores"""
_TO_ALLOW = f"--allow-non-restored-state, {options.IGNORE_UNCLAIMED_STATE.key}"


def assign(
    manifest: Manifest, vertices: Sequence[CheckpointVertex], *, own: bool, allow_non_restored: bool
) -> Restored:
    """What each subtask restores. `own`: the files are this job's, so its next checkpoint may refer to them.

    Raises CheckpointError if the maximum parallelism of an operator has changed, or if an operator with state is not in
    the program any more and `allow_non_restored` is not set.
    """
    # Files of an older format are read, but nothing is appended to them: the next checkpoint is a full one.
    own = own and manifest.version == VERSION
    restored: Restored = {}
    found = set()
    for vertex in vertices:
        for state_id, name in vertex.operators:
            part = manifest.operator(state_id)
            if part is None:
                continue
            found.add(state_id)
            # Lists have no key groups: they fit any maximum.
            if part.max_parallelism != vertex.max_parallelism and part.has_keyed:
                raise CheckpointError(
                    f"operator '{name}' has a maximum parallelism of {vertex.max_parallelism}, its state was written "
                    f"with {part.max_parallelism}: a key may belong to another key group. Restore the old value: "
                    f"set_max_parallelism({part.max_parallelism})"
                )
            for subtask, operator in enumerate(_of_operator(part, vertex, own)):
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
    """The states of enumerators, by the state id of their source."""
    return {state_id: unpacked(text) for state_id, text in manifest.enumerators.items()}


def _of_operator(part: OperatorPart, vertex: CheckpointVertex, own: bool) -> list[RestoredOperator]:
    same = part.parallelism == vertex.parallelism
    lists = _lists(part, vertex.parallelism)
    keyed = {old.subtask: old.state.keyed for old in part.subtasks if old.state.keyed}
    return [
        RestoredOperator(_chains(keyed, part.parallelism, vertex, subtask), lists[subtask], own and same)
        for subtask in range(vertex.parallelism)
    ]


def _chains(
    keyed: dict[int, list[KeyedFile]], was: int, vertex: CheckpointVertex, subtask: int
) -> list[list[KeyedFile]]:
    """The chains that a subtask reads. `keyed`: those that there are, by the subtask they were of; `was`: of how many.

    Where there is any, the maximum parallelism is the same.
    """
    owned = key_group_range(subtask, vertex.max_parallelism, vertex.parallelism)
    chains = []
    # Of a thousand only the few that owned these key groups.
    first, last = (subtask_of(group, vertex.max_parallelism, was) for group in (owned.start, owned.stop - 1))
    for old in range(first, last + 1):
        # The whole chain, even if only some of its key groups are owned: increments replace entries of earlier files.
        groups = key_group_range(old, vertex.max_parallelism, was)
        shared = min(groups.stop, owned.stop) - max(groups.start, owned.start)
        if old in keyed and shared > 0:
            chains.append((shared, keyed[old]))
    # The one with most of them first: if it begins with the files of a store, the subtask's store does, too.
    return [chain for _, chain in sorted(chains, key=lambda chain: -chain[0])]


def _lists(part: OperatorPart, parallelism: int) -> list[list[tuple[str, ListInFile]]]:
    dealt: list[list[tuple[str, ListInFile]]] = [[] for _ in range(parallelism)]
    # Counted over all lists: if each began with the first subtask, many short ones would all end up there.
    turn = 0
    copies: dict[str, dict[int, tuple[str, ListInFile]]] = {}
    for old in part.subtasks:
        for path, list_ in _lists_of(old):
            # The partitioners decide, if the parallelism is another one: each subtask reads all, and takes its own.
            in_flight = list_.redistribution is Redistribution.IN_FLIGHT and part.parallelism != parallelism
            if list_.redistribution is Redistribution.UNION or in_flight:
                for mine in dealt:
                    mine.append((path, list_))
            elif list_.redistribution is Redistribution.BROADCAST:
                copies.setdefault(list_.name, {})[old.subtask] = path, list_
            elif part.parallelism == parallelism:
                # Items stay where they were: a source goes on with its own splits, a writer with its own transactions.
                dealt[old.subtask].append((path, list_))
            else:
                shares: list[list[Section]] = [[] for _ in range(parallelism)]
                for item in list_.items:
                    shares[turn % parallelism].append(item)
                    turn += 1
                for mine, items in zip(dealt, shares, strict=True):
                    if items:
                        mine.append((path, msgspec.structs.replace(list_, items=items)))
    for by_subtask in copies.values():
        # They should be the same. Each subtask has its own again, in case they are not; with another parallelism as
        # Flink gives them out (RoundRobinOperatorStateRepartitioner).
        one = next(iter(by_subtask.values()))
        for subtask, mine in enumerate(dealt):
            mine.append(by_subtask.get(subtask % part.parallelism, one))
    return dealt


def _lists_of(part: SubtaskPart) -> list[tuple[str, ListInFile]]:
    file = part.state.lists
    return [(file.path, list_) for list_ in file.lists] if file is not None else []
