"""Random programs: a seed determines a program, any DAG of the node kinds of `building.py`.

For each stream the generator tracks which operators may follow: whether the timestamps of its records are usable for
windows and timers, and which parallelism is required next.
"""

from __future__ import annotations

import dataclasses
from random import Random
from typing import Any

from penstock.hosts.simulator.changing import FORMS
from penstock.hosts.simulator.loops import SHAPES
from penstock.hosts.simulator.programs import Node, Program, Record, SplitScript

_WIDE_BOUND_MS = 1_000_000
_KINDS = {
    "map": 3, "lambda": 2, "rekey": 2, "filter": 2, "flat_map": 4, "split": 3, "union": 4, "partition": 6, "reduce": 3,
    "echo": 3, "gather": 3, "alarms": 4, "window": 5, "assign": 2,
}  # fmt: skip
_PARTITIONS = ["rebalance", "rescale", "shuffle", "forward", "broadcast", "global_", "custom"]
_ADDED_LATER = {"connect": 2, "co_echo": 2, "rules": 3, "evict": 2, "interval_join": 3, "window_join": 2}
_OPERATORS_MAX = {"flat_map": 2, "broadcast": 1, "echo": 2, "alarms": 2}


@dataclasses.dataclass
class _Stream:
    """A stream, and which operators may follow. `sane`: its timestamps are known and in time.

    `forced`: the next operator's parallelism.
    """

    node: int
    producers: frozenset[int]
    timed: bool
    sane: bool
    forced: int | None = None
    used: bool = False


def generate(seed: int, all_kinds: bool = True) -> Program:
    """Generate the program of a seed. If not `all_kinds`, leave out the operator kinds that were added later."""
    return _Generator(Random(seed), all_kinds).program()


def generate_from(random: Random) -> Program:
    """Generate a program from the choices of `random`. With Hypothesis' random, a failing program shrinks."""
    return _Generator(random, True).program()


class _Generator:
    def __init__(self, random: Random, all_kinds: bool) -> None:
        self._random = random
        self._all_kinds = all_kinds
        self._nodes: list[Node] = []
        self._streams: list[_Stream] = []
        self._counts: dict[str, int] = {}
        self._batched = random.random() < 0.35
        self._parallelism_max = random.choice([1, 2, 2, 3, 4])
        self._exact_time = random.random() < 0.75
        self._keys = random.choice([1, 2, 5, 20])

    def program(self) -> Program:
        """Generate sources, then steps, then a sink for each stream without consumers."""
        random = self._random
        for _ in range(random.choice([1, 1, 2, 2, 3])):
            self._source()
        for _ in range(random.randint(0, 10)):
            self._step()
            if random.random() < 0.15 and self._counts.get("exploded", 0) < 2:
                watermark_kinds = {"source", "alarms", "gather", "window", "assign"}
                behind = [s for s in self._streams if self._nodes[s.node].kind in watermark_kinds]
                self._counts["exploded"] = self._counts.get("exploded", 0) + 1
                self._explode_in_chain(random.choice(behind))
        if random.random() < 0.04:
            stream = self._any()
            self._add("raise", stream, on=random.randint(0, 9), sane=stream.sane)
        for stream in list(self._streams):
            if not stream.used or random.random() < 0.1:
                self._add(random.choice(["collect", "write"]), stream)
        past = any(node.settings.get("past") for node in self._nodes)
        program = Program(
            (),
            batched=self._batched,
            chaining=random.random() < 0.85,
            max_parallelism=random.choice([None, None, self._parallelism_max, 4, 7, 13]),
            buffer_timeout_ms=random.choice([0, 1, 5, 5, 50, -1]),
            watermark_interval_ms=random.choice([1, 20, 200]),
            exact_time=self._exact_time and not past,
        )
        # Last, so that without these kinds older seeds still generate the programs that found faults.
        if self._all_kinds and random.random() < 0.4:
            for _ in range(random.choice([1, 1, 2])):
                self._added_later()
        if self._all_kinds and random.random() < 0.3:
            self._align()
        # After the others, for the same reason.
        if self._all_kinds and random.random() < 0.2:
            self._ask()
        if self._all_kinds and not self._batched and random.random() < 0.25:
            for _ in range(random.choice([1, 1, 2])):
                self._loop()
            # Records that were fed back may be late.
            program = dataclasses.replace(program, exact_time=False)
        if self._all_kinds and random.random() < 0.2:
            self._hold()
        return dataclasses.replace(program, nodes=tuple(self._nodes))

    def _hold(self) -> None:
        """Add a function that changes values it has emitted, readers that change values they get, and sinks."""
        random = self._random
        stream = random.choice(self._streams)
        form, copies = random.choice(list(FORMS)), random.choice([None, None, 1, 3])
        emitted = self._add("emit_and_change", stream, sane=stream.sane, form=form, copies=copies)
        for _ in range(random.choice([1, 2, 2])):
            read = self._key_by(emitted) if random.random() < 0.3 else emitted
            self._add(random.choice(["collect", "write"]), self._add("read_and_change", read, sane=read.sane))

    def _loop(self) -> None:
        """Add a loop, and sinks for the records that leave it and for its turn counts."""
        random = self._random
        shape, how = random.choice(SHAPES), random.choice(["forward", "hash", *_PARTITIONS])
        if how == "rescale":
            how = "hash"
        # A broadcast multiplies each record by the number of subtasks, so it must leave after one turn.
        step = 31 if how == "broadcast" else random.choice([7, 13, 31])
        branches = how != "broadcast" and random.random() < 0.5
        after = self._add("loop", self._any(), shape=shape, how=how, step=step, branches=branches)
        if shape != "plain":
            turns = _Stream(len(self._nodes), after.producers, timed=False, sane=False)
            self._rewire("turns", [after], turns)
            self._add("collect", turns)
        if random.random() < 0.5:
            after = self._add("echo", self._key_by(after), copies=random.randint(1, 3))
        self._add(random.choice(["collect", "write"]), after)

    def _ask(self) -> None:
        """Add an asynchronous function, and a sink or an operator with a sink."""
        random = self._random
        stream = random.choice(self._streams)
        after = self._add(
            "async_add",
            stream,
            sane=stream.sane,
            ordered=random.random() < 0.5,
            capacity=random.choice([1, 2, 5, 100]),
            timeout_ms=random.choice([0, 1, 20, 10_000]),
            delay_ms=random.choice([1, 5, 100]),
            fails_each=random.choice([0, 0, 2, 5]),
            amount=random.randint(0, 5),
        )
        if random.random() < 0.5:
            after = self._add("flat_map", after, sane=after.sane, most=random.randint(0, 4))
        self._add(random.choice(["collect", "write"]), after)

    def _align(self) -> None:
        """Let sources with watermarks wait for each other."""
        drift_ms, interval_ms = self._random.choice([1, 20, 500]), self._random.choice([1, 50, 1_000])
        for node in self._nodes:
            if node.kind == "source" and node.settings["watermarks"] != "none":
                node.settings["align"] = (drift_ms, interval_ms)

    def _parallelism(self) -> int:
        return self._random.randint(1, self._parallelism_max)

    def _any(self) -> _Stream:
        unused = [stream for stream in self._streams if not stream.used]
        pool = unused if unused and self._random.random() < 0.75 else self._streams
        return self._random.choice(pool)

    # Sources.

    def _source(self) -> None:
        random, id = self._random, len(self._nodes)
        parallelism = self._parallelism()
        # The assignment of splits decides which bound admits every record: see _scripts.
        ordered = random.random() < 0.7
        timed = random.random() < 0.85
        disorder_ms = random.choice([0, 3, 30])
        settings: dict[str, Any] = {
            "splits": self._scripts(id, parallelism, disorder_ms),
            "shared": not ordered and random.random() < 0.5,
            "interleaved": not ordered and random.random() < 0.5,
            "chunk": random.choice([1, 2, 4, 50]),
            "timed": timed,
            "assigner": timed and random.random() < 0.3,
            "watermarks": random.choice(["bounded", "bounded", "punctuated", "none"]),
            "bound_ms": disorder_ms if ordered else _WIDE_BOUND_MS,
        }
        if not self._exact_time:
            settings["bound_ms"] = random.choice([0, 10, 100])
            settings["idle_ms"] = random.choice([None, 1, 100, 1_000])
        self._nodes.append(Node(id, "source", (), parallelism, settings=settings))
        self._streams.append(_Stream(id, frozenset([parallelism]), timed, timed))

    def _scripts(self, source: int, parallelism: int, disorder_ms: int) -> list[SplitScript]:
        """Event time advances over the splits of a subtask, which are read one after another."""
        random = self._random
        starts_ms = [random.randint(0, 300) for _ in range(parallelism)]
        pace_ms = random.choice([0, 1, 7, 50])
        scripts = []
        for index in range(random.randint(0, 4)):
            split_id = f"s{source}.{index}"
            records: list[tuple[Record, int]] = []
            for position in range(random.choice([0, 1, 3, 8, 15])):
                starts_ms[index % parallelism] += random.randint(0, pace_ms)
                time = max(0, starts_ms[index % parallelism] - random.randint(0, disorder_ms))
                record = (split_id, (position,), random.randrange(self._keys), random.randint(0, 60))
                records.append((record, time))
            pauses = tuple(
                (random.randint(0, len(records)), random.choice([1, 30, 3_000]))
                for _ in range(random.choice([0, 0, 1, 3]))
            )
            scripts.append(SplitScript(split_id, index, tuple(records), pauses if records else ()))
        return scripts

    # Steps.

    def _step(self) -> None:
        random = self._random
        kind = random.choices(list(_KINDS), list(_KINDS.values()))[0]
        if self._counts.get(kind, 0) >= _OPERATORS_MAX.get(kind, 99):
            return
        self._counts[kind] = self._counts.get(kind, 0) + 1
        stream = self._any()
        if kind == "union":
            self._union()
        elif kind == "partition":
            self._partition(stream)
        elif kind == "split":
            self._split(stream)
        elif kind in ("reduce", "echo", "gather", "alarms", "window"):
            self._keyed(kind, stream)
        elif kind == "assign":
            if stream.timed:
                watermarks = random.choice(["bounded", "punctuated"])
                self._add(kind, stream, sane=stream.sane, watermarks=watermarks, bound_ms=_WIDE_BOUND_MS)
        else:
            settings: dict[str, Any] = {
                "map": {"amount": random.randint(0, 5)},
                "lambda": {},
                "rekey": {"keys": random.randint(1, 6)},
                "filter": {"divisor": random.randint(2, 5)},
                "flat_map": {"most": random.randint(0, 9)},
            }[kind]
            self._add(kind, stream, sane=stream.sane, **settings)

    def _add(
        self,
        kind: str,
        stream: _Stream,
        *,
        sane: bool = False,
        timed: bool | None = None,
        second: _Stream | None = None,
        **settings: Any,
    ) -> _Stream:
        """Add an operator to a stream, or to two."""
        random, id = self._random, len(self._nodes)
        parallelism = stream.forced or self._parallelism()
        if stream.forced is None and random.random() < 0.5 and len(stream.producers) == 1:
            parallelism = next(iter(stream.producers))
        chaining = random.choices([None, "never", "head"], [8, 1, 1])[0]
        if chaining is not None:
            settings["chaining"] = chaining
        inputs = (stream.node,) if second is None else (stream.node, second.node)
        for input in (stream, second or stream):
            input.used = True
        self._nodes.append(Node(id, kind, inputs, parallelism, settings=settings))
        after = _Stream(id, frozenset([parallelism]), stream.timed if timed is None else timed, sane)
        if kind not in ("collect", "write"):
            self._streams.append(after)
        return after

    def _rewire(self, kind: str, streams: list[_Stream], after: _Stream, **settings: Any) -> _Stream:
        """Add a step that is not an operator but only connects streams."""
        for stream in streams:
            stream.used = True
        self._nodes.append(Node(after.node, kind, tuple(stream.node for stream in streams), settings=settings))
        self._streams.append(after)
        return after

    def _explode_in_chain(self, stream: _Stream) -> None:
        """Add an operator that pauses directly after one that emits watermarks, and an exchange after it.

        There a watermark could overtake the records that the paused operator still holds.
        """
        random, id = self._random, len(self._nodes)
        parallelism = next(iter(stream.producers))
        stream.used = True
        self._nodes.append(Node(id, "flat_map", (stream.node,), parallelism, settings={"most": random.choice([3, 9])}))
        after = _Stream(id, frozenset([parallelism]), stream.timed, stream.sane)
        self._streams.append(after)
        hashed = self._key_by(after)
        self._add("echo", hashed, sane=hashed.sane, copies=1)

    def _union(self) -> None:
        streams = [self._any() for _ in range(self._random.choice([2, 2, 3]))]
        forced = {stream.forced for stream in streams} - {None}
        if len(forced) > 1:
            return
        producers = frozenset().union(*(stream.producers for stream in streams))
        timed, sane = all(s.timed for s in streams), all(s.sane for s in streams)
        after = _Stream(
            node=len(self._nodes), producers=producers, timed=timed, sane=sane, forced=forced.pop() if forced else None
        )
        self._rewire("union", streams, after)

    def _added_later(self) -> None:
        """Add an operator of a kind that was added later, perhaps an operator after it, and a sink."""
        random = self._random
        kind = random.choices(list(_ADDED_LATER), list(_ADDED_LATER.values()))[0]
        if kind == "evict":
            self._evict()
            return
        first, second = random.choice(self._streams), random.choice(self._streams)
        amounts = random.randint(0, 5), random.randint(0, 5)
        sane, timed = first.sane and second.sane, first.timed and second.timed
        if kind == "connect":
            forced = {stream.forced for stream in (first, second)} - {None}
            if len(forced) > 1:
                return
            union = dataclasses.replace(first, forced=forced.pop() if forced else None)
            after = self._add(kind, union, sane=sane, timed=timed, second=second, amounts=amounts)
        elif kind == "co_echo":
            copies = random.randint(0, 4)
            first, second = self._key_by(first), self._key_by(second)
            after = self._add(kind, first, sane=sane, timed=timed, second=second, amounts=amounts, copies=copies)
        elif kind == "interval_join":
            if not sane:
                return
            bounds: dict[str, Any] = {"lower_ms": -random.choice([0, 3, 50]), "upper_ms": random.choice([0, 1, 50])}
            first, second = self._key_by(first), self._key_by(second)
            after = self._add(kind, first, sane=True, second=second, **bounds)
        elif kind == "window_join":
            if not sane or {first.forced, second.forced} != {None}:
                return
            size_ms, how = random.choice([5, 60, 500]), random.choice(["join", "co_group"])
            after = self._add(kind, first, sane=True, second=second, size_ms=size_ms, how=how)
        else:
            after = self._add(kind, self._key_by(first), timed=True, second=second)
        if random.random() < 0.5:
            after = self._add(random.choice(["lambda", "plain"]), after)
        self._add(random.choice(["collect", "write"]), after)

    def _partition(self, stream: _Stream) -> None:
        how = self._random.choice(_PARTITIONS)
        if how == "forward" and len(stream.producers) > 1:
            return
        if self._counts.get(how, 0) >= _OPERATORS_MAX.get(how, 99):
            return
        self._counts[how] = self._counts.get(how, 0) + 1
        forced = next(iter(stream.producers)) if how == "forward" else None
        after = _Stream(
            node=len(self._nodes), producers=stream.producers, timed=stream.timed, sane=stream.sane, forced=forced
        )
        self._rewire("partition", [stream], after, how=how)

    def _split(self, stream: _Stream) -> None:
        after = self._add("split", stream, sane=stream.sane)
        side = _Stream(len(self._nodes), after.producers, after.timed, after.sane)
        if self._random.random() < 0.8:
            self._rewire("side", [after], side)
            after.used = self._random.random() < 0.3

    def _keyed(self, kind: str, stream: _Stream) -> None:
        random = self._random
        if kind in ("alarms", "window") and not stream.sane:
            return
        if kind == "window":
            self._window(stream)
            return
        if kind == "reduce":
            stream = self._add("plain", stream)
        keyed = self._key_by(stream)
        if kind == "reduce":
            self._add(kind, keyed, how=random.choice(["reduce", "sum", "max", "min"]))
        elif kind == "echo":
            self._add(kind, keyed, sane=keyed.sane, copies=random.randint(0, 6))
        elif kind == "gather":
            self._add(kind, keyed, timed=True)
        else:
            past = random.random() < 0.3
            delay_ms, copies = random.choice([0, 5, 100]), random.choice([0, 1, 1, 4])
            self._add(kind, keyed, sane=not past, delay_ms=delay_ms, past=past, copies=copies)

    def _window(self, stream: _Stream) -> None:
        random = self._random
        how = random.choice(["process", "aggregate", "reduce"])
        if how == "reduce":
            stream = self._add("plain", stream, sane=stream.sane)
        keyed = self._key_by(stream)
        size_ms = random.choice([1, 10, 60, 500])
        settings: dict[str, Any] = {
            "windows": random.choice(["tumbling", "sliding", "session"]),
            "size_ms": size_ms,
            "slide_ms": max(1, size_ms // random.choice([1, 2, 3, 5])),
            "lateness_ms": random.choice([0, 0, 20, 1_000]) if self._exact_time else 0,
            "how": how,
        }
        after = self._add("window", keyed, sane=True, **settings)
        if not self._exact_time or random.random() < 0.3:
            late = _Stream(len(self._nodes), after.producers, keyed.timed, False, used=not self._exact_time)
            self._rewire("late", [after], late)
            self._add("collect", late)
            self._add("collect", after)

    def _evict(self) -> None:
        sane = [stream for stream in self._streams if stream.sane]
        if not sane:
            return
        random = self._random
        keyed = self._key_by(random.choice(sane))
        size_ms = random.choice([1, 60, 500])
        settings: dict[str, Any] = {
            "windows": random.choice(["tumbling", "sliding", "session"]),
            "size_ms": size_ms,
            "slide_ms": max(1, size_ms // random.choice([1, 3])),
            "lateness_ms": random.choice([0, 20]) if self._exact_time else 0,
            "how": "process",
            "evicts": random.choice([True, False]),
        }
        self._add("collect", self._add("window", keyed, sane=True, **settings))

    def _key_by(self, stream: _Stream) -> _Stream:
        keyed = _Stream(len(self._nodes), stream.producers, stream.timed, stream.sane)
        return self._rewire("key_by", [stream], keyed)
