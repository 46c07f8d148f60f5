"""`iterate_arrays`: delta iterations on NumPy arrays, without a Python call per entry or per message.

A record is a chunk of arrays: {name: array}, of equal lengths. A field, the key, says to which key group each position
belongs. A subtask has the entries of its key groups in one chunk, sorted by key, which steps change in place; a
snapshot has one chunk for each key group, so that it can be restored with another parallelism. The workset travels as
one chunk per subtask, and is divided behind the head, by the parallelism of this run.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, TypeAlias

import numpy as np

from penstock.api.functions.aggregator import Aggregator, ConvergenceCriterion
from penstock.api.functions.checkpointed import CheckpointedFunction
from penstock.api.functions.function import Function
from penstock.api.output_tag import OutputTag
from penstock.api.runtime_context import RuntimeContext
from penstock.api.state.descriptors import ListStateDescriptor
from penstock.datastream.data_stream import DataStream
from penstock.datastream.functions import CoProcessFunction, ProcessFunction
from penstock.engine.runtime.task.context import shortened
from penstock.iteration.arguments import check_stream, is_unbounded
from penstock.iteration.listener import IterationListener
from penstock.iteration.superstep_stream import iterate

Arrays: TypeAlias = "dict[str, np.ndarray[Any, Any]]"
"""A chunk: arrays of equal lengths by name, one of which is the key."""
KEY_GROUPS = 128
SOLUTION: OutputTag[Any] = OutputTag("(iteration) solution set of arrays")
_ENTRIES, _STATIC, _MESSAGES = "entries", "static", "messages"


class ArrayStep(Function):
    """The step of an iteration on arrays. Derive from it; each subtask has a copy of its own.

    `entries` and `static` are the parts of this subtask, each sorted by its key. `entries` has one position for each
    key, and may be changed in place; its keys may not. Where a subtask has no part, the arrays are empty.
    """

    entries: Arrays
    static: Arrays

    def prepare(self) -> None:
        """Compute what steps need of `entries` and `static`: they are complete, new, or restored."""

    def step(self, superstep: int, messages: Arrays) -> Arrays | None:
        """Return the messages for the next superstep; None or none at all: there are none.

        `messages` are those to keys of this subtask, in no particular order, also to keys that `entries` does not have.
        It is called with messages only.
        """
        raise NotImplementedError


def iterate_arrays(
    entries: DataStream[Arrays],
    workset: DataStream[Arrays],
    step: ArrayStep,
    supersteps_max: int | None = None,
    *,
    key: str = "key",
    static: DataStream[Arrays] | None = None,
    static_key: str = "key",
    aggregators: Mapping[str, Aggregator[Any]] | None = None,
    criteria: Mapping[str, ConvergenceCriterion[Any]] | None = None,
    slack: int = 0,
    name: str = "Array iteration",
) -> DataStream[Arrays]:
    """Run a delta iteration on arrays. Return its entries at the end: a chunk for each key group that has some.

    `entries`: the solution set, of whose equal keys the last one is kept. `workset`: the messages of superstep 0.
    `static`: what else steps read, for example edges, by `static_key`. All chunks of a stream have the same arrays.
    Keys are whole numbers of 0 or more; `key` is that of entries and messages. `step` is called in each subtask that
    has messages, and the iteration ends when none is returned, or as for `iterate`, from which the other arguments
    come. All streams have to be bounded: ValueError. All subtasks must have the default parallelism.
    """
    for stream in (entries, workset, *([] if static is None else [static])):
        check_stream("iterate_arrays", stream)
        if is_unbounded(stream):
            raise ValueError(f"'{stream.get_name()}' is unbounded, but iterate_arrays sorts all of it in superstep 0")
    if not isinstance(step, ArrayStep):
        raise TypeError(f"expected an object derived from ArrayStep, got {step!r}")
    head = iterate(workset, supersteps_max, aggregators=aggregators, criteria=criteria, slack=slack, name=name)
    outside = entries.process(_Divide(key, _ENTRIES)).name("Divide entries")
    if static is not None:
        outside = outside.union(static.process(_Divide(static_key, _STATIC)).name("Divide static data"))
    messages = head.process(_Divide(key, "")).name("Divide messages")
    stepped = _to_subtasks(messages).connect(_to_subtasks(outside)).process(_Steps(step, key, static_key)).name(name)
    head.close_with(stepped)
    return stepped.get_side_output(SOLUTION)


def reduce_by_key(arrays: Arrays, key: str, **functions: np.ufunc) -> Arrays:
    """Combine the positions with equal keys: the values of each named array by a function such as `numpy.minimum`.

    Returns a chunk with these arrays and the key, sorted by the key. Source: a combiner of MapReduce.
    """
    order = np.argsort(arrays[key], kind="stable")
    keys = arrays[key][order]
    starts = _starts(keys)
    if not len(keys):
        return {key: keys, **{name: arrays[name][:0] for name in functions}}
    reduced = {name: function.reduceat(arrays[name][order], starts) for name, function in functions.items()}
    return {key: keys[starts], **reduced}


def _starts(sorted_keys: Any) -> Any:
    """Return where each run of equal keys begins."""
    return np.flatnonzero(np.r_[True, sorted_keys[1:] != sorted_keys[:-1]]) if len(sorted_keys) else np.arange(0)


def _to_subtasks(stream: DataStream[Any]) -> DataStream[Any]:
    return stream.partition_custom(lambda subtask, subtasks: subtask, lambda record: record[0])


def _groups(keys: Any) -> Any:
    # Not in a narrow type of the keys: products with it would be wrong.
    return keys.astype(np.int64, copy=False) % KEY_GROUPS


def _checked(chunk: Any, key: str, what: str) -> Arrays:
    """Return a user's chunk. Raises TypeError or ValueError for other values, which would lose positions."""
    if not isinstance(chunk, dict) or not all(isinstance(array, np.ndarray) for array in chunk.values()):
        raise TypeError(f"{what} must be a dict of NumPy arrays by name, got {shortened(chunk)}")
    if key not in chunk or (len(chunk[key]) and chunk[key].dtype.kind not in "iu"):
        kinds = {name: str(array.dtype) for name, array in chunk.items()}
        raise TypeError(f"{what} need an array '{key}' of whole numbers, the keys, got {kinds}")
    lengths = {name: len(array) for name, array in chunk.items()}
    if len({*lengths.values()}) > 1:
        raise ValueError(f"the arrays of {what} must be of equal lengths, got {lengths}")
    return chunk


class _Divide(ProcessFunction[Any, Any]):
    """Divides chunks by the subtasks of their keys: emits (subtask, kind, chunk)."""

    def __init__(self, key: str, kind: str) -> None:
        self._key = key
        self._kind = kind

    def open(self, runtime_context: RuntimeContext) -> None:
        self._subtasks = runtime_context.get_number_of_parallel_subtasks()
        self._names_sent = not self._kind
        """Whether all subtasks have a chunk: they need the names and types of arrays, even if these are empty."""

    def process_element(self, value: Arrays, ctx: Any) -> Iterator[Any]:
        _checked(value, self._key, self._kind or _MESSAGES)
        if self._subtasks == 1:
            yield 0, self._kind, value
            return
        owners = _owners(value[self._key], self._subtasks)
        order = np.argsort(owners, kind="stable")
        cuts = np.searchsorted(owners[order], np.arange(self._subtasks + 1)).tolist()
        divided = {name: array[order] for name, array in value.items()}
        for subtask in range(self._subtasks):
            start, stop = cuts[subtask], cuts[subtask + 1]
            if start < stop or not self._names_sent:
                yield subtask, self._kind, {name: array[start:stop] for name, array in divided.items()}
        self._names_sent = True


def _owners(keys: Any, subtasks: int) -> Any:
    """Return the subtask of each key: like keyed state, each has a range of key groups."""
    return (_groups(keys) * subtasks // KEY_GROUPS).astype(np.int16)


class _Steps(CoProcessFunction[Any, Any, Any], IterationListener, CheckpointedFunction):
    """Gathers the messages of a superstep, and calls the step at its end."""

    def __init__(self, step: ArrayStep, key: str, static_key: str) -> None:
        self._step = step
        self._keys = {_ENTRIES: key, _STATIC: static_key}
        self._arrived: dict[str, list[Arrays]] = {_ENTRIES: [], _STATIC: []}
        self._messages: list[Arrays] = []
        self._restored: list[tuple[str, Arrays]] = []

    def open(self, runtime_context: RuntimeContext) -> None:
        self._step.open(runtime_context)
        self._subtask = runtime_context.get_index_of_this_subtask()
        self._subtasks = runtime_context.get_number_of_parallel_subtasks()
        self._step.entries, self._step.static = {}, {}
        self._arrived = {kind: [chunk for one, chunk in self._restored if one == kind] for kind in self._keys}
        key = self._keys[_ENTRIES]
        messages = [self._of_this_subtask(chunk, key) for kind, chunk in self._restored if kind == _MESSAGES]
        self._messages = [chunk for chunk in messages if len(chunk[key])]
        self._restored = []
        if any(self._arrived.values()):
            self._complete(self._of_this_subtask)

    def close(self) -> None:
        self._step.close()

    def initialize_state(self, context: Any) -> None:
        self._state = context.get_operator_state_store().get_union_list_state(ListStateDescriptor("arrays"))
        self._restored = list(self._state.get())

    def snapshot_state(self, context: Any) -> None:
        step = self._step
        complete = [(kind, chunk) for kind in self._keys for chunk in self._by_group(kind, getattr(step, kind))]
        # While another iteration leads to this one, superstep 0 may have got something before it ends.
        arrived = [(kind, chunk) for kind, chunks in self._arrived.items() for chunk in chunks]
        self._state.update([*complete, *arrived, *((_MESSAGES, chunk) for chunk in self._messages)])

    def process_element1(self, value: Any, ctx: Any) -> None:
        self._messages.append(value[2])

    def process_element2(self, value: Any, ctx: Any) -> None:
        _, kind, chunk = value
        self._arrived[kind].append(chunk)

    def on_epoch_watermark_incremented(self, epoch_watermark: int, context: Any) -> Iterator[Arrays]:
        if any(self._arrived.values()):
            self._complete(lambda chunk, key: chunk)
        messages, self._messages = self._messages, []
        if messages:
            result = self._step.step(epoch_watermark, _joined(messages, _MESSAGES))
            key = self._keys[_ENTRIES]
            if result is not None and len(_checked(result, key, "the messages that step() returns")[key]):
                yield result

    def on_iteration_terminated(self, context: Any) -> Iterator[Any]:
        key = self._keys[_ENTRIES]
        for chunk in self._by_group(_ENTRIES, self._step.entries):
            if len(chunk[key]):
                yield SOLUTION, chunk

    def _complete(self, own: Callable[[Arrays, str], Arrays]) -> None:
        """Sort what has arrived."""
        step, arrived = self._step, self._arrived
        self._arrived = {kind: [] for kind in self._keys}
        for kind, before in ((_ENTRIES, step.entries), (_STATIC, step.static)):
            key = self._keys[kind]
            chunks = [own(chunk, key) for chunk in arrived[kind]]
            if not chunks:
                continue
            joined = _joined([before, *chunks] if before else chunks, kind)
            order = np.argsort(joined[key], kind="stable")
            keys = joined[key][order]
            if kind == _ENTRIES and len(keys):
                # The last one of each key.
                order = order[np.r_[keys[1:] != keys[:-1], True]]
            setattr(step, kind, {name: array[order] for name, array in joined.items()})
        step.prepare()

    def _of_this_subtask(self, chunk: Arrays, key: str) -> Arrays:
        mine = _owners(chunk[key], self._subtasks) == self._subtask
        return {name: array[mine] for name, array in chunk.items()}

    def _by_group(self, kind: str, chunk: Arrays) -> Iterator[Arrays]:
        """Divide a chunk by key groups. One without positions stays as it is: its names and types count."""
        if not chunk or not len(chunk[self._keys[kind]]):
            yield from [chunk] if chunk else []
            return
        groups = _groups(chunk[self._keys[kind]])
        order = np.argsort(groups, kind="stable")
        starts = _starts(groups[order])
        for start, stop in zip(starts.tolist(), [*starts[1:].tolist(), len(groups)], strict=True):
            # A copy: the entries change while the snapshot is written.
            yield {name: array[order[start:stop]] for name, array in chunk.items()}


def _joined(chunks: Sequence[Arrays], what: str) -> Arrays:
    for chunk in chunks:
        if chunk.keys() != chunks[0].keys():
            raise ValueError(
                f"chunks of {what} have different arrays: {[*chunks[0]]} and {[*chunk]}: give each chunk all of them"
            )
    # An empty array may be of any type, which would change that of the others.
    chunks = [chunk for chunk in chunks if any(map(len, chunk.values()))] or chunks[:1]
    if len(chunks) == 1:
        return chunks[0]
    return {name: np.concatenate([chunk[name] for chunk in chunks]) for name in chunks[0]}
