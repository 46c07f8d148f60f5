"""Other functions for the operators of a running task, which take their places at the barrier of a checkpoint.

    PrepareUpdate    the new functions are unpickled and opened, beside those that are called; UpdatePrepared answers
    the barrier      what the task froze belongs to the old functions. The new ones take their places, the old ones are
                     closed
    DropUpdate       the new functions are closed; nothing has changed

So what fails in `open` is told before anything has changed, and the barrier costs as long as it takes to put one object
in the place of another. A function with operator state is opened at the barrier: only then has the old one written what
it reads. Each uses the keyed state of the operator; what it declares must be what is there.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from contextlib import ExitStack
from functools import partial
from typing import Any, NamedTuple

from penstock.common.errors import PenstockError
from penstock.common.functions.user_calls import PASSED_ON, RAISED
from penstock.engine.runtime.ids import SubtaskId
from penstock.engine.runtime.operators.function import UserFunction
from penstock.engine.runtime.operators.operator import FunctionPlace, Operator
from penstock.engine.runtime.operators.pickled import unpickled
from penstock.engine.runtime.task.chain import Chain
from penstock.engine.runtime.task.context import OperatorContext
from penstock.engine.runtime.task.events import DropUpdate, Effect, PrepareUpdate, UpdatePrepared
from penstock.engine.state.backends.declared_states import DeclaredStates

_ONLY_MODULES_OF_ITS_START = (
    "It has the modules with which the job was started: what needs others begins with a savepoint of this job "
    "(penstock stop, penstock run -s)"
)


class NewFunctions(NamedTuple):
    """Of one operator of a chain, by its index: a function for each of its places, pickled."""

    operator: int
    functions: bytes


class _Replacement(NamedTuple):
    operator: Operator
    places: list[tuple[FunctionPlace, UserFunction]]
    states: DeclaredStates | None
    """What the new functions have declared; None: the operator has no keyed state."""
    allow_non_restored: bool

    @property
    def opened_at_barrier(self) -> list[tuple[FunctionPlace, UserFunction]]:
        """Those that read what the old ones write there."""
        return [(place, new) for place, new in self.places if place.is_opened and new.keeps_operator_state]

    def check_states(self) -> None:
        """Raises ProgramError if there is state for which the new functions, now open, have not asked."""
        if self.states is not None and not self.allow_non_restored:
            self.states.check_all_are_used(self.operator.name)


class FunctionUpdate:
    """Of one task. `ask` takes effects."""

    def __init__(self, subtask: SubtaskId, chain: Chain, ask: Callable[[Effect], None]) -> None:
        self._subtask = subtask
        self._chain = chain
        self._ask = ask
        self._number = 0
        """Of the update that is prepared; 0: none is."""
        self._latest = 0
        """The newest that was to be prepared."""
        self._replacements: list[_Replacement] = []
        self._opened: list[tuple[UserFunction, OperatorContext]] = []
        """Functions that were opened and are in no place yet: nobody else closes them."""

    def prepare(self, event: PrepareUpdate) -> None:
        """Load and open the new functions. May arrive twice."""
        if event.update <= self._latest:
            return
        self.close()
        error = ""
        try:
            self._number = self._latest = event.update
            _add_to_script(event.classes)
            for operator, functions in event.functions.value:
                self._prepare(self._chain.operators[operator], functions, event.allow_non_restored)
        except PASSED_ON:
            raise
        except RAISED as raised:
            error = str(raised) if isinstance(raised, PenstockError) else f"{type(raised).__name__}: {raised}"
            self.close()
        self._ask(UpdatePrepared(*self._subtask, event.update, error))

    def _prepare(self, operator: Operator, pickled: bytes, allow_non_restored: bool) -> None:
        functions: list[UserFunction] = unpickled(
            pickled, f"the new function of operator '{operator.name}'", _ONLY_MODULES_OF_ITS_START
        )
        backend = operator.keyed_backend()
        states = None if backend is None else DeclaredStates(backend)
        places = list(zip(operator.function_places(), functions, strict=True))
        replacement = _Replacement(operator, places, states, allow_non_restored)
        self._replacements.append(replacement)
        for place, function in replacement.places:
            function.metrics = place.function.metrics
            if place.is_opened and not function.keeps_operator_state:
                self._open(replacement, place, function)
        if not replacement.opened_at_barrier:
            replacement.check_states()

    def _open(self, replacement: _Replacement, place: FunctionPlace, function: UserFunction) -> None:
        context = replacement.operator.context
        # Before the call: what fails to open may have opened a part, and is closed, too.
        self._opened.append((function, context))
        try:
            function.open(context, replacement.states if place.has_keyed_state else None)
        finally:
            # It is told of checkpoints, and writes operator state, from the barrier on.
            context.functions.remove(function)

    def apply(self, number: int) -> None:
        """The barrier of the update has come, and what it separates is frozen: the new functions take their places."""
        if number != self._number:
            return
        for replacement in self._replacements:
            if replacement.opened_at_barrier:
                for place, function in replacement.opened_at_barrier:
                    self._open(replacement, place, function)
                replacement.check_states()
        replacements, self._replacements, self._opened, self._number = self._replacements, [], [], 0
        with ExitStack() as to_close:
            # All are closed, whatever one of them fails by.
            for replacement in reversed(replacements):
                for place, _ in reversed(replacement.places):
                    if place.is_opened:
                        to_close.callback(place.function.close, replacement.operator.context)
            for replacement in replacements:
                _put(replacement)

    def drop(self, event: DropUpdate) -> None:
        """The update is not made."""
        if event.update == self._number:
            self.close()

    def close(self) -> None:
        """Close the functions that were opened for an update which is not made."""
        opened, self._opened = self._opened, []
        for function, context in opened:
            # They never counted: what they fail by in `close` is no failure of the job.
            _try(partial(function.close, context))
        replacements, self._replacements, self._number = self._replacements, [], 0
        for replacement in replacements:
            if replacement.states is not None:
                replacement.states.forget()


def _put(replacement: _Replacement) -> None:
    functions = replacement.operator.context.functions
    for place, new in replacement.places:
        old = place.function
        place.put(new)
        if old in functions:
            functions[functions.index(old)] = new
    if replacement.states is not None:
        replacement.states.take_effect()
    replacement.operator.functions_replaced()


def _add_to_script(pickled: bytes) -> None:
    """Records may be of these classes from now on, and name them so."""
    main = sys.modules["__main__"]
    classes = {}
    if pickled:
        classes = unpickled(pickled, "the classes of the new program's script", _ONLY_MODULES_OF_ITS_START)
    for name, kind in classes.items():
        # Also in place of one that came with an update which was not made: nothing is of that class.
        setattr(main, name, kind)


def _try(close: Callable[[], Any]) -> None:
    try:
        close()
    except PASSED_ON:
        raise
    except RAISED:
        return
