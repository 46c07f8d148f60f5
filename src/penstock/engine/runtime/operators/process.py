"""Process functions, keyed or not: the loop in which most jobs spend their time.

Per record: the key is set, the function is called, its generator is drained into the chunk that goes out. Everything
else costs time per chunk only. There are two loops, with and without timestamps, since a stream has one or the other.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from types import GeneratorType
from typing import TYPE_CHECKING, Any

from msgspec import UNSET

from penstock.api.timers import TimeDomain, TimerService
from penstock.common.errors import ProgramError
from penstock.common.functions.user_calls import RAISED
from penstock.common.values.copies import ATOMS, pair_of_atoms
from penstock.engine.runtime.operators.emitted import COLLECTIONS, emitted, trusted_generator
from penstock.engine.runtime.operators.function import UserFunction
from penstock.engine.runtime.operators.keyed import KeyedOperator, KeyedTimerService
from penstock.engine.runtime.operators.operator import FunctionPlace, Timestamps, Values, emit_tagged, positions_taken
from penstock.engine.runtime.operators.stateless import FunctionOperator
from penstock.engine.state.backends.states import NO_KEY

if TYPE_CHECKING:
    from penstock.engine.runtime.operators.operator import Output
    from penstock.engine.runtime.task.context import OperatorContext


_INPUT_MAX = 4
"""How many chunks' worth of records a loop takes that does not count the first result of each."""


class KeyedContext:
    """What `process_element` and `on_timer` are given beside the value."""

    __slots__ = ("_backend", "_timer_service", "current_domain", "current_timestamp")

    def __init__(self, backend: Any, timer_service: KeyedTimerService) -> None:
        self._backend = backend
        self._timer_service = timer_service
        self.current_timestamp: int | None = None
        self.current_domain = TimeDomain.EVENT_TIME

    def timestamp(self) -> int | None:
        """Timestamp of the record or timer (ms); None if the record has none."""
        return self.current_timestamp

    def timer_service(self) -> TimerService:
        """Times, and timers of the current key."""
        return self._timer_service

    def get_current_key(self) -> Any:
        """Key of the record or timer."""
        return self._backend.key

    def time_domain(self) -> TimeDomain:
        """Which kind of timer fires."""
        return self.current_domain


class KeyedProcessOperator(KeyedOperator):
    """Runs a KeyedProcessFunction."""

    _values: Values
    _keys: list[Any]
    _rest: Iterator[Any]
    _work: Iterator[Any]
    _timestamps: Timestamps
    _called: UserFunction
    _given: Any
    _results: Iterator[Any] | None = None
    _pair: tuple[type, type] = (int, int)
    """Types of a pair of atoms, as the results before were."""

    def __init__(self, name: str, key_selector: Callable[[Any], Any], function: UserFunction) -> None:
        super().__init__(name, key_selector)
        self.function = function

    def setup(self, context: OperatorContext, output: Output) -> None:
        super().setup(context, output)
        self._ctx = KeyedContext(self.backend, self.timer_service)
        self._processing = False
        self.functions_replaced()

    def function_places(self) -> Sequence[FunctionPlace]:
        return (FunctionPlace(self, "function", has_keyed_state=True),)

    def functions_replaced(self) -> None:
        self._on_timer = getattr(self.function.instance, "on_timer", None)
        self.timer_method = self.function.named("on_timer")

    def open(self) -> None:
        super().open()
        self.function.open(self.context, self.backend.store())

    def close(self) -> None:
        try:
            self.function.close(self.context)
        finally:
            super().close()

    def process(self, values: Values, timestamps: Timestamps) -> bool:
        return self.take(values, timestamps, self.keys_of(values), self.function, self._ctx)

    def take(self, values: Values, timestamps: Timestamps, keys: list[Any], function: UserFunction, ctx: Any) -> bool:
        """Call `function` with each value and `ctx`: operators with several inputs have one of both for each."""
        self._values, self._timestamps, self._keys = values, timestamps, keys
        self._called, self._given = function, ctx
        self._rest = iter(values)
        # The value is taken last: when the function fails, `_rest` shows which one it was.
        self._work = zip(self._keys, self._rest) if timestamps is None else zip(self._keys, timestamps, self._rest)  # noqa: B905
        self._processing = True
        return self._go_on_processing()

    def resume(self) -> bool:
        if not self._processing:
            return super().resume()
        self.paused = False
        return self._go_on_processing()

    def fire(self, domain: TimeDomain, timestamp: int, key: Any, namespace: Any) -> Iterable[Any] | None:
        if self._on_timer is None:
            return None
        self._ctx.current_timestamp = timestamp
        self._ctx.current_domain = domain
        try:
            return self._on_timer(timestamp, self._ctx)  # type: ignore[no-any-return]
        except RAISED as error:
            raise self.context.user_error(error, self.timer_method, key=key, timestamp=timestamp) from error

    def _go_on_processing(self) -> bool:
        output, budget = self.output, self.context.budget
        gather = self._gather if self._timestamps is None else self._gather_timed
        while True:
            outputs: Values = []
            times: list[int] = []
            try:
                more = gather(outputs, times, budget.chunk_records)
            except RAISED as error:
                raise self._failed(error) from error
            go_on = not outputs or emit_tagged(output, outputs, times if self._timestamps is not None else None)
            if not more:
                self._processing = False
                return go_on
            if not (go_on and budget.go_on()):
                self.paused = True
                return False

    def _gather(self, outputs: Values, times: list[int], limit: int) -> bool:
        backend, ctx, call, append = self.backend, self._given, self._called.call, outputs.append
        own, atoms, known, generator = self.own, ATOMS, COLLECTIONS, trusted_generator(call)
        ctx.current_timestamp = None
        results = self._results
        if results is not None:
            for result in results:
                append(own(result))
                if len(outputs) >= limit:
                    return True
            self._results = None
        if generator is GeneratorType and limit > 1 and len(self._values) <= _INPUT_MAX * limit:
            return self._gather_generated(outputs, limit)
        # Locals, and no calls but the user's: this runs once per record. `_gather_timed` repeats it with timestamps, so
        # that neither loop has to test for them. The long condition says what `own` would find out for most values.
        full = False
        for key, value in self._work:
            backend.key = key
            results = call(value, ctx)
            if results is not None:
                if (kind := type(results)) is not generator and kind is not list and kind not in known:
                    results = emitted(results)
                for result in results:
                    append(
                        result
                        if (
                            type(result) is tuple
                            and len(result) == 2
                            and type(result[0]) in atoms
                            and type(result[1]) in atoms
                        )
                        or type(result) in atoms
                        else own(result)
                    )
                    if len(outputs) >= limit:
                        # A generator is paused here; a list is taken to its end, see `_rest_of`.
                        self._results = _rest_of(results)
                        if self._results is not None:
                            return True
                        full = True
                if full:
                    return True
        return False

    def _gather_generated(self, outputs: Values, limit: int) -> bool:
        """`_gather` for generator functions, whose results need no look.

        Most give one result for a record, so results are counted from the second one of a record on.
        """
        backend, ctx, call, append = self.backend, self._given, self._called.call, outputs.append
        own, atoms, (first, second) = self.own, ATOMS, self._pair
        for key, value in self._work:
            backend.key = key
            results = call(value, ctx)
            for result in results:
                # Of a pair, the types of the one before are compared, which takes less than to look into a set.
                if type(result) is tuple and len(result) == 2:
                    one, other = result
                    if (type(one) is first or type(one) in atoms) and (type(other) is second or type(other) in atoms):
                        append(result)
                        break
                append(result if type(result) in atoms else own(result))
                break
            else:
                continue
            for result in results:
                append(own(result))
                if len(outputs) >= limit:
                    self._results = results
                    return True
        self._pair = pair_of_atoms(outputs, self._pair)
        return False

    def _gather_generated_timed(self, outputs: Values, times: list[int], limit: int) -> bool:
        backend, ctx, call = self.backend, self._given, self._called.call
        append, append_time, own, atoms = outputs.append, times.append, self.own, ATOMS
        first, second = self._pair
        for key, timestamp, value in self._work:
            backend.key = key
            ctx.current_timestamp = timestamp
            results = call(value, ctx)
            for result in results:
                append_time(timestamp)
                if type(result) is tuple and len(result) == 2:
                    one, other = result
                    if (type(one) is first or type(one) in atoms) and (type(other) is second or type(other) in atoms):
                        append(result)
                        break
                append(result if type(result) in atoms else own(result))
                break
            else:
                continue
            for result in results:
                append(own(result))
                append_time(timestamp)
                if len(outputs) >= limit:
                    self._results = results
                    return True
        self._pair = pair_of_atoms(outputs, self._pair)
        return False

    def _gather_timed(self, outputs: Values, times: list[int], limit: int) -> bool:
        backend, ctx, call = self.backend, self._given, self._called.call
        append, append_time, own, atoms = outputs.append, times.append, self.own, ATOMS
        known, generator = COLLECTIONS, trusted_generator(call)
        results = self._results
        if results is not None:
            timestamp = ctx.current_timestamp
            for result in results:
                append(own(result))
                append_time(timestamp)
                if len(outputs) >= limit:
                    return True
            self._results = None
        if generator is GeneratorType and limit > 1 and len(self._values) <= _INPUT_MAX * limit:
            return self._gather_generated_timed(outputs, times, limit)
        full = False
        for key, timestamp, value in self._work:
            backend.key = key
            ctx.current_timestamp = timestamp
            results = call(value, ctx)
            if results is not None:
                if (kind := type(results)) is not generator and kind is not list and kind not in known:
                    results = emitted(results)
                for result in results:
                    append(
                        result
                        if (
                            type(result) is tuple
                            and len(result) == 2
                            and type(result[0]) in atoms
                            and type(result[1]) in atoms
                        )
                        or type(result) in atoms
                        else own(result)
                    )
                    append_time(timestamp)
                    if len(outputs) >= limit:
                        self._results = _rest_of(results)
                        if self._results is not None:
                            return True
                        full = True
                if full:
                    return True
        return False

    def _failed(self, error: BaseException) -> Exception:
        position = positions_taken(self._values, self._rest)
        timestamp = self._timestamps[position] if self._timestamps else None
        key = self._keys[position]
        return self.context.user_error(
            error, self._called.method, self._values[position], UNSET if key is NO_KEY else key, timestamp
        )


def _rest_of(results: Any) -> Iterator[Any] | None:
    """What is left of `results` after a loop over it stopped half way; None: the loop must run to its end.

    A generator continues where it stopped. A list would start again from its first element, but it is finite.
    """
    return results if hasattr(results, "__next__") else None


class PlainContext:
    """What a ProcessFunction without a key is given: times, but no timers and no key."""

    __slots__ = ("_timer_service", "current_timestamp")

    def __init__(self, timer_service: TimerService) -> None:
        self._timer_service = timer_service
        self.current_timestamp: int | None = None

    def timestamp(self) -> int | None:
        """Timestamp of the record (ms); None if it has none."""
        return self.current_timestamp

    def timer_service(self) -> TimerService:
        """Current times; timers need a key."""
        return self._timer_service


class TimesOnly(TimerService):
    """The timer service of a stream without a key."""

    def __init__(self, context: OperatorContext) -> None:
        self._context = context

    def current_processing_time(self) -> int:
        return self._context.now_ms()

    def current_watermark(self) -> int:
        return self._context.counters.watermark

    def register_processing_time_timer(self, timestamp: int) -> None:
        raise ProgramError("timers need a key: call key_by before process")

    register_event_time_timer = register_processing_time_timer
    delete_processing_time_timer = register_processing_time_timer
    delete_event_time_timer = register_processing_time_timer


class ProcessOperator(FunctionOperator):
    """Runs a ProcessFunction on a stream without a key."""

    def setup(self, context: OperatorContext, output: Output) -> None:
        super().setup(context, output)
        self._ctx = PlainContext(TimesOnly(context))

    def process(self, values: Values, timestamps: Timestamps) -> bool:
        return self.take(values, timestamps, self.function, self._ctx)

    def take(self, values: Values, timestamps: Timestamps, function: UserFunction, ctx: Any) -> bool:
        """Call `function` with each value and `ctx`: operators with several inputs have one of both for each."""
        self._values, self._timestamps = values, timestamps
        self._called, self._given = function, ctx
        self._rest = iter(values)
        self._times = iter(timestamps) if timestamps is not None else None
        ctx.current_timestamp = None
        self._results: Iterator[Any] | None = None
        return self.resume()

    def resume(self) -> bool:
        self.paused = False
        output, budget = self.output, self.context.budget
        while True:
            outputs: Values = []
            times: Timestamps = None if self._times is None else []
            try:
                more = self._gather(outputs, times, budget.chunk_records)
            except RAISED as error:
                raise self.failed(error, self._called.method, self._values, self._rest, self._timestamps) from error
            go_on = not outputs or emit_tagged(output, outputs, times)
            if not more:
                return go_on
            if not (go_on and budget.go_on()):
                self.paused = True
                return False

    def _gather(self, outputs: Values, times: Timestamps, limit: int) -> bool:
        ctx, call = self._given, self._called.call
        generator = trusted_generator(call)
        while True:
            if self._results is not None:
                for result in self._results:
                    outputs.append(self.own(result))
                    if times is not None:
                        times.append(ctx.current_timestamp)
                    if len(outputs) >= limit:
                        return True
                self._results = None
            for value in self._rest:
                if self._times is not None:
                    ctx.current_timestamp = next(self._times)
                results = call(value, ctx)
                if results is not None:
                    if (kind := type(results)) is not generator and kind is not list and kind not in COLLECTIONS:
                        results = emitted(results)
                    self._results = iter(results)
                    break
            else:
                return False
