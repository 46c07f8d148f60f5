"""Updates the functions of a running task's operators at the barrier of a checkpoint.

    PrepareUpdate    unpickle and open the new functions, while the old ones process records; answer: UpdatePrepared
    the barrier      the frozen state belongs to the old functions; put the new ones in their places, close the old
    DropUpdate       close the new functions; nothing has changed

So an error in `open` is reported before anything changes, and the barrier only exchanges objects. A function with
operator state is opened at the barrier, after the old one has written the state that it reads. New functions use the
keyed state of the operator, and their declarations must match it.
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

_MODULES_HINT = (
    "A running job has only the modules that it was started with. To use others, stop the job with a savepoint and "
    "start the program from it (penstock stop, penstock run -s)"
)


class NewFunctions(NamedTuple):
    """The new functions of the operator with this index in a chain, pickled: one for each of its places."""

    operator: int
    functions: bytes


class _Replacement(NamedTuple):
    operator: Operator
    places: list[tuple[FunctionPlace, UserFunction]]
    states: DeclaredStates | None
    """The states that the new functions have declared; None: the operator has no keyed state."""
    allow_non_restored: bool

    @property
    def opened_at_barrier(self) -> list[tuple[FunctionPlace, UserFunction]]:
        """Functions that read operator state, which the old functions write at the barrier."""
        return [(place, new) for place, new in self.places if place.is_opened and new.keeps_operator_state]

    def check_states(self) -> None:
        """Raise ProgramError if there is state that the new functions, now open, have not declared."""
        if self.states is not None and not self.allow_non_restored:
            self.states.check_all_are_used(self.operator.name)


class FunctionUpdate:
    """Prepares and applies the updates of one task. `request` accepts effects."""

    def __init__(self, subtask: SubtaskId, chain: Chain, request: Callable[[Effect], None]) -> None:
        self._subtask = subtask
        self._chain = chain
        self._request = request
        self._number = 0
        """The number of the prepared update; 0: no update is prepared."""
        self._latest = 0
        """The number of the newest update that this task was to prepare."""
        self._replacements: list[_Replacement] = []
        self._opened: list[tuple[UserFunction, OperatorContext]] = []
        """Functions that are open and not in a place yet: only this object closes them."""

    def prepare(self, event: PrepareUpdate) -> None:
        """Load and open the new functions. The event may arrive twice."""
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
        self._request(UpdatePrepared(*self._subtask, event.update, error))

    def _prepare(self, operator: Operator, pickled: bytes, allow_non_restored: bool) -> None:
        functions: list[UserFunction] = unpickled(
            pickled, f"the new function of operator '{operator.name}'", _MODULES_HINT
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
        # Before the call: a function that fails in `open` may have opened resources, and is closed as well.
        self._opened.append((function, context))
        try:
            function.open(context, replacement.states if place.has_keyed_state else None)
        finally:
            # Only from the barrier on is it notified of checkpoints and writes operator state.
            context.functions.remove(function)

    def apply(self, number: int) -> None:
        """Put the new functions in their places: the update's barrier has arrived, and the old state is frozen."""
        if number != self._number:
            return
        for replacement in self._replacements:
            if replacement.opened_at_barrier:
                for place, function in replacement.opened_at_barrier:
                    self._open(replacement, place, function)
                replacement.check_states()
        replacements, self._replacements, self._opened, self._number = self._replacements, [], [], 0
        with ExitStack() as to_close:
            # An ExitStack closes all functions even if one of them raises.
            for replacement in reversed(replacements):
                for place, _ in reversed(replacement.places):
                    if place.is_opened:
                        to_close.callback(place.function.close, replacement.operator.context)
            for replacement in replacements:
                _replace_functions(replacement)

    def drop(self, event: DropUpdate) -> None:
        """Close the functions of a dropped update."""
        if event.update == self._number:
            self.close()

    def close(self) -> None:
        """Close the functions that were opened for an update and are not in use."""
        opened, self._opened = self._opened, []
        for function, context in opened:
            # They processed no record: an error in `close` is not a failure of the job.
            _close_quietly(partial(function.close, context))
        replacements, self._replacements, self._number = self._replacements, [], 0
        for replacement in replacements:
            if replacement.states is not None:
                replacement.states.forget()


def _replace_functions(replacement: _Replacement) -> None:
    functions = replacement.operator.context.functions
    for place, new in replacement.places:
        old = place.function
        place.replace(new)
        if old in functions:
            functions[functions.index(old)] = new
    if replacement.states is not None:
        replacement.states.take_effect()
    replacement.operator.functions_replaced()


def _add_to_script(pickled: bytes) -> None:
    """Define classes of the new program's script in `__main__`: pickled records may name them from now on."""
    main = sys.modules["__main__"]
    classes = {}
    if pickled:
        classes = unpickled(pickled, "the classes of the new program's script", _MODULES_HINT)
    for name, kind in classes.items():
        # May replace a class of a dropped update: no record is of that class.
        setattr(main, name, kind)


def _close_quietly(close: Callable[[], Any]) -> None:
    try:
        close()
    except PASSED_ON:
        raise
    except RAISED:
        return
