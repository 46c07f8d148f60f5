"""From a pattern to its automaton.

Steps are built from the last one to the first, each in front of its *sink*: the state that waits for what comes behind.

    a single step          state ──TAKE──▶ sink, and IGNORE to itself if its contiguity is relaxed
    an optional step       also PROCEED to the sink; its IGNORE leads to a *twin* without PROCEED, so that a match
                           which leaves the step out comes from one state only
    times(2, 4)            four states in a row, of which the last two PROCEED to the sink
    a loop                 states for its least number of repetitions, then one that TAKEs to itself and PROCEEDs
    a greedy step          the sink's guards get "and the step does not fit"
    a not-step             PROCEED to a stop state from each state between its neighbors, if an event fits
    a group                its steps in front of the sink, once for each repetition

States, edges and their order follow Flink's NFACompiler, for they define which matches there are. What differs is on
the page of decisions: gaps belong to the TAKE of a step, in all states that wait for it, and a window anywhere in the
pattern makes a final `not_followed_by` wait.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace

from penstock.cep.gaps import close_gaps
from penstock.cep.graph import Action, Atoms, Formula, Kind, State, both, negated
from penstock.cep.places import Place, Variant, gap_of
from penstock.cep.steps import Contiguity, Step, Times, window_ms


@dataclass(frozen=True)
class Graph:
    """An automaton: its states, of which the first one is the start."""

    states: list[State]
    atoms: Atoms
    window_ms: int | None


def compile_steps(steps: list[Step]) -> Graph:
    """Return the automaton of a pattern that was checked."""
    atoms = Atoms(
        [condition for step in _with_groups(steps) for condition in (step.condition, step.until) if condition]
    )
    compiler = _Compiler(atoms, window_ms(steps))
    start = compiler.sequence(steps, State("end", None, Kind.FINAL), Place(steps, 0, None))
    states = close_gaps(start)
    names: Counter[str] = Counter()
    for number, state in enumerate(states):
        state.number = number
        names[state.name] += 1
        if names[state.name] > 1:
            state.name = f"{state.name}#{names[state.name]}"
    return Graph(states, atoms, compiler.window_ms)


class _Compiler:
    def __init__(self, atoms: Atoms, window: int | None) -> None:
        self.atoms = atoms
        self.window_ms = window
        self._stops: dict[str, State] = {}
        self._before_greedy: dict[State, State] = {}

    # ---- sequences and groups

    def sequence(self, steps: Sequence[Step], sink: State, place: Place) -> State:
        following = place.following
        for position in reversed(range(len(steps))):
            here = replace(place, steps=steps, position=position, following=following)
            if here.step.contiguity is Contiguity.NOT_FOLLOWED:
                sink = self._pending(here) if sink.kind is Kind.FINAL else sink
            elif here.step.contiguity is Contiguity.NOT_NEXT:
                sink = self._not_next(here, sink)
            else:
                sink = self._step(here, sink)
            following = here.step
        return sink

    def _pending(self, place: Place) -> State:
        """Build the end of a pattern that is complete when its time ends without the event."""
        fits = self._take(place, place.step)
        state = State(f"{place.step.name}~", place.step.name, Kind.PENDING, gap_ms=place.step.gap_ms)
        state.add(Action.PROCEED, self._stop(place.step), fits)
        state.add(Action.IGNORE, state, negated(fits))
        return state

    def _not_next(self, place: Place, sink: State) -> State:
        fits = self._take(place, place.step)
        state = State(place.step.name, place.step.name, gap_ms=place.step.gap_ms)
        # Completing a match needs an event, so the edge to the final state ignores one.
        action = Action.IGNORE if sink.kind is Kind.FINAL else Action.PROCEED
        state.add(action, sink, negated(fits))
        state.add(Action.PROCEED, self._stop(place.step), fits)
        return state

    def _step(self, place: Place, sink: State) -> State:
        step = place.step
        if step.loops:
            loop = self._loop(place, self._without_nots(place, sink))
            state = self._repetitions(place, loop, sink, replace(step.times or Times(1, 1), most=None))
        elif step.times is not None:
            state = self._repetitions(place, sink, sink, step.times)
        else:
            once = Variant(self._take(place, step), self._ignored(place, place.contiguity))
            state = self._single(place, sink, sink, optional=step.optional, variant=once)
        self._add_stops(place, state)
        return state

    def _group(self, place: Place, sink: State, repeats: bool, gap_ms: int | None) -> State:
        group = place.step
        until = None if group.until is None else self.atoms.formula(group.until)
        inside = Place(group.group, 0, place.following, group=group, repeats=repeats, until=until, head_gap_ms=gap_ms)
        return self.sequence(group.group, sink, inside)

    # ---- one step

    def _single(self, place: Place, sink: State, leave: State, *, optional: bool, variant: Variant) -> State:
        """Build the state that takes one event of a step. `leave` is where PROCEED leads if it is `optional`."""
        step = place.step
        if step.group:
            state = self._group(place, sink, variant.repeats, gap_of(place, variant.repeats))
            if optional:
                state.add(Action.PROCEED, leave, self._true(place))
            return state
        gap_ms = gap_of(place, variant.repeats)
        state = State(f"{step.name}{variant.label}", step.name, gap_ms=gap_ms)
        behind = self._without_nots(place, sink)
        state.add(Action.TAKE, behind, variant.take)
        if optional:
            until = None if step.until is None or not step.greedy else self.atoms.formula(step.until)
            true = self._true(place)
            if until is not None:
                state.add(Action.PROCEED, self._before_greedy.get(leave, leave), both(true, until))
                true = both(true, negated(until))
            state.add(Action.PROCEED, leave, true)
        if variant.ignore is not None:
            head_of_optional = place.is_head and not place.repeats and place.group is not None and place.group.optional
            waiting = state
            if optional or head_of_optional:
                waiting = State(f"{state.name}~", step.name, gap_ms=gap_ms, twin_of=state)
                waiting.add(Action.TAKE, behind, variant.take)
                waiting.add(Action.IGNORE, waiting, variant.ignore)
                self._add_stops(place, waiting)
            state.add(Action.IGNORE, waiting, variant.ignore)
        return state

    def _repetitions(self, place: Place, sink: State, leave: State, times: Times) -> State:
        """Build the states of a step that repeats, in front of `sink`, which may be its loop."""
        step = place.step
        until = None if step.until is None else negated(self.atoms.formula(step.until))
        take = both(until if until is not None else True, self._take(place, step))
        inner = self._ignored(place, place.step.inner)
        ignore = inner if inner is None or until is None else both(until, inner)
        most = times.least if times.most is None else times.most
        if step.greedy and times.least != most:
            self._restrict(sink, take, gap_of(place, repeats=True))
        for number in range(most, times.least, -1):
            variant = Variant(take, ignore, f"[{number}]", repeats=True)
            sink = self._single(place, sink, leave, optional=True, variant=variant)
            self._add_following_stop(place, sink)
        for number in range(times.least, 1, -1):
            variant = Variant(take, ignore, f"[{number}]", repeats=True)
            sink = self._single(place, sink, leave, optional=False, variant=variant)
            self._add_following_stop(place, sink)
        first = Variant(take, self._ignored(place, place.contiguity))
        return self._single(place, sink, leave, optional=step.optional, variant=first)

    def _loop(self, place: Place, sink: State) -> State:
        step = place.step
        if step.group:
            return self._group_loop(place, sink)
        until = None if step.until is None else self.atoms.formula(step.until)
        go_on: Formula = True if until is None else negated(until)
        take = both(go_on, self._take(place, step))
        inner = self._ignored(place, place.step.inner)
        gap_ms = gap_of(place, repeats=True)
        loop = State(f"{step.name}[*]", step.name, gap_ms=gap_ms)
        true = self._true(place)
        if step.greedy:
            if until is not None:
                loop.add(Action.PROCEED, self._remembered(sink), both(true, until))
                true = both(true, go_on)
            loop.add(Action.PROCEED, sink, true)
            self._restrict(sink, self._take(place, step), gap_ms)
        else:
            loop.add(Action.PROCEED, sink, true)
        loop.add(Action.TAKE, loop, take)
        self._add_following_stop(place, loop)
        if inner is not None:
            ignore = both(go_on, inner)
            waiting = State(f"{step.name}[*]~", step.name, gap_ms=gap_ms, twin_of=loop)
            waiting.add(Action.TAKE, loop, take)
            waiting.add(Action.IGNORE, waiting, ignore)
            loop.add(Action.IGNORE, waiting, ignore)
            self._add_following_stop(place, waiting)
        return loop

    def _group_loop(self, place: Place, sink: State) -> State:
        again = State("again", None)
        head = self._group(place, again, True, gap_of(place, repeats=True))
        true = self._true(place)
        head.add(Action.PROCEED, sink, true)
        again.add(Action.PROCEED, head, true)
        return head

    # ---- guards

    def _take(self, place: Place, step: Step) -> Formula:
        fits = self.atoms.formula(step.condition)
        return fits if place.until is None else both(negated(place.until), fits)

    def _true(self, place: Place) -> Formula:
        return True if place.until is None else negated(place.until)

    def _ignored(self, place: Place, contiguity: Contiguity) -> Formula | None:
        """Return which events are passed over while the step waits; None: no event is."""
        if contiguity is Contiguity.STRICT:
            return None
        step = place.step
        passed = True if contiguity is Contiguity.RELAXED_ANY else negated(self.atoms.formula(step.condition))
        return passed if place.until is None else both(negated(place.until), passed)

    def _remembered(self, sink: State) -> State:
        """Return the sink as it is before a greedy step restricts it: an event that ends the loop goes there."""
        copy = _copied(sink)
        self._before_greedy[sink] = copy
        return copy

    def _restrict(self, sink: State, take: Formula, gap_ms: int | None) -> None:
        """Let a greedy step have the events that fit it, as long as its gap allows another repetition."""
        if gap_ms is not None and sink.kind is not Kind.FINAL:
            sink.unrestricted = _copied(sink)
            sink.unrestricted.name += "'"
            sink.release_ms = gap_ms
        for edge in sink.edges:
            edge.guard = both(edge.guard, negated(take))

    # ---- not-steps

    def _stop(self, step: Step) -> State:
        return self._stops.setdefault(step.name, State(f"{step.name}!", step.name, Kind.STOP))

    def _add_stops(self, place: Place, state: State) -> None:
        for step in place.not_steps():
            state.add(Action.PROCEED, self._stop(step), self._take(place, step))

    def _add_following_stop(self, place: Place, state: State) -> None:
        step = place.following
        if step is not None and step.contiguity is Contiguity.NOT_FOLLOWED:
            state.add(Action.PROCEED, self._stop(step), self._take(place, step))

    def _without_nots(self, place: Place, sink: State) -> State:
        """Return the sink behind an optional step that took an event: the not-steps before it have ended."""
        nots = place.not_steps()
        if not nots or not place.step.optional:
            return sink
        return _without(sink, {self._stop(step) for step in nots}, {})


def _with_groups(steps: Sequence[Step]) -> list[Step]:
    """Return all steps, and the groups, which have conditions of their own."""
    return [found for step in steps for found in (step, *_with_groups(step.group))]


def _copied(state: State) -> State:
    copy = replace(state, edges=[], twin_of=state.twin_of)
    for edge in state.edges:
        copy.add(edge.action, copy if edge.target is state else edge.target, edge.guard)
    return copy


def _without(state: State, stops: set[State], copies: dict[State, State]) -> State:
    """Return a copy of what PROCEED reaches from the state, without the edges to `stops`."""
    if state in copies:
        return copies[state]
    if state.kind is Kind.FINAL:
        return state
    copy = copies[state] = replace(state, edges=[])
    for edge in state.edges:
        if edge.action is not Action.PROCEED:
            copy.add(edge.action, copy if edge.target is state else edge.target, edge.guard)
        elif edge.target not in stops:
            target = edge.target if edge.target.kind is Kind.STOP else _without(edge.target, stops, copies)
            copy.add(edge.action, target, edge.guard)
    return copy
