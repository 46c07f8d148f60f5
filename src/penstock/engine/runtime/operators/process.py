"""Process functions, keyed or not: the loop in which most jobs spend their time.

Per record, a loop sets the key, calls the function, and drains its generator into the output chunk. All other costs are
per chunk. There are two loops, with and without timestamps, so that no loop tests for timestamps per record.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from types import GeneratorType
from typing import TYPE_CHECKING, Any

from msgspec import UNSET

from penstock.api.timers import TimeDomain, TimerService
from penstock.common.errors import ProgramError
from penstock.common.functions.user_calls import RAISED
from penstock.common.values.copies import ATOMS, are_tuples_of_atoms, pair_of_atoms
from penstock.engine.runtime.chunks import Rows, Timestamps, Values
from penstock.engine.runtime.operators.emitted import COLLECTIONS, emitted, trusted_generator
from penstock.engine.runtime.operators.function import UserFunction
from penstock.engine.runtime.operators.keyed import KeyedOperator, KeyedTimerService
from penstock.engine.runtime.operators.operator import FunctionPlace, emit_tagged, last_position
from penstock.engine.runtime.operators.stateless import FunctionOperator
from penstock.engine.runtime.operators.superstep_listening import SuperstepListening
from penstock.engine.state.backends.states import NO_KEY

if TYPE_CHECKING:
    from penstock.engine.runtime.operators.operator import Output
    from penstock.engine.runtime.task.context import OperatorContext


_INPUT_MAX = 4
"""The largest input, in chunks, of the loop that does not count the first result of a record."""
_TESTED_TOGETHER = 4
"""Results of a list are tested together from this number on; for fewer, a test of each costs less."""


class KeyedContext:
    """The context of `process_element` and `on_timer`."""

    __slots__ = ("_backend", "_timer_service", "current_domain", "current_timestamp")

    def __init__(self, backend: Any, timer_service: KeyedTimerService) -> None:
        self._backend = backend
        self._timer_service = timer_service
        self.current_timestamp: int | None = None
        self.current_domain = TimeDomain.EVENT_TIME

    def timestamp(self) -> int | None:
        """Return the timestamp of the record or timer (ms), or None."""
        return self.current_timestamp

    def timer_service(self) -> TimerService:
        """Return the current times, and the timers of the current key."""
        return self._timer_service

    def get_current_key(self) -> Any:
        """Return the key of the record or timer."""
        return self._backend.key

    def time_domain(self) -> TimeDomain:
        """Return the kind of the timer that fires."""
        return self.current_domain


class KeyedProcessOperator(SuperstepListening, KeyedOperator):
    """Runs a KeyedProcessFunction."""

    _values: Values
    _keys: list[Any]
    _rest: Iterator[Any]
    _work: Iterator[Any]
    _timestamps: Timestamps
    _called: UserFunction
    _given_context: Any
    _results: Iterator[Any] | None = None
    _pair: tuple[type, type] = (int, int)
    """The types of the last result that was a pair of atoms."""

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
        self.find_listener(self.function)

    def timers_fired(self, timestamp: int) -> bool:
        return super().timers_fired(timestamp) if self.listener is None else self.notify_listener(timestamp)

    def call_listener(self, chunk: Rows, function: UserFunction) -> bool:
        return self.call_each(chunk, [NO_KEY], function=function, ctx=self._ctx)

    def open(self) -> None:
        super().open()
        self.function.open(self.context, self.backend.store())

    def close(self) -> None:
        try:
            self.function.close(self.context)
        finally:
            super().close()

    def process(self, chunk: Rows) -> bool:
        return self.call_each(chunk, self.keys_of(chunk.values), function=self.function, ctx=self._ctx)

    def call_each(self, chunk: Rows, keys: list[Any], *, function: UserFunction, ctx: Any) -> bool:
        """Call `function` with each value and `ctx`. Operators with two inputs have both for each input."""
        values, timestamps = chunk.values, chunk.timestamps
        self._values, self._timestamps, self._keys = values, timestamps, keys
        self._called, self._given_context = function, ctx
        self._rest = iter(values)
        # `_rest` is last in `zip`: when the function fails, it shows the position of the value.
        self._work = zip(self._keys, self._rest) if timestamps is None else zip(self._keys, timestamps, self._rest)  # noqa: B905
        self._processing = True
        return self._continue_processing()

    def resume(self) -> bool:
        if self.is_notified:
            return self.emit_pending_watermark()
        if not self._processing:
            return super().resume()
        self.paused = False
        return self._continue_processing()

    def fire(self, domain: TimeDomain, timestamp: int, key: Any, namespace: Any) -> Iterable[Any] | None:
        if self._on_timer is None:
            return None
        self._ctx.current_timestamp = timestamp
        self._ctx.current_domain = domain
        try:
            return self._on_timer(timestamp, self._ctx)  # type: ignore[no-any-return]
        except RAISED as error:
            raise self.context.user_error(error, self.timer_method, key=key, timestamp=timestamp) from error

    def _continue_processing(self) -> bool:
        output, budget = self.output, self.context.budget
        gather = self._gather if self._timestamps is None else self._gather_timed
        while True:
            outputs: Values = []
            times: list[int] = []
            try:
                more = gather(outputs, times, budget.chunk_records)
            except RAISED as error:
                raise self._failed(error) from error
            emitted_times = times if self._timestamps is not None else None
            may_continue = not outputs or emit_tagged(output, Rows(outputs, emitted_times))
            if not more:
                self._processing = False
                return may_continue if self.pending_watermark is None else self.finish_notification(may_continue)
            if not (may_continue and budget.may_continue()):
                self.paused = True
                return False

    def _gather(self, outputs: Values, times: list[int], limit: int) -> bool:
        backend, ctx, call, append = self.backend, self._given_context, self._called.call, outputs.append
        copy, atoms, known, generator = self.copy_value, ATOMS, COLLECTIONS, trusted_generator(call)
        ctx.current_timestamp = None
        results = self._results
        if results is not None:
            for result in results:
                append(copy(result))
                if len(outputs) >= limit:
                    return True
            self._results = None
        if generator is GeneratorType and limit > 1 and len(self._values) <= _INPUT_MAX * limit:
            return self._gather_generated(outputs, limit)
        # This runs once per record: it uses locals, and calls only the user's function. `_gather_timed` repeats it with
        # timestamps, so that neither loop tests for them. The long condition decides most values without `copy`.
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
                        else copy(result)
                    )
                    if len(outputs) >= limit:
                        # A generator is paused here; a list is processed to its end, see `_rest_of`.
                        self._results = _rest_of(results)
                        if self._results is not None:
                            return True
                        full = True
                if full:
                    return True
        return False

    def _gather_generated(self, outputs: Values, limit: int) -> bool:
        """Gather results of a generator function, which need no check.

        Most such functions give one result per record, so the loop counts only from the second result of a record on.
        """
        backend, ctx, call, append = self.backend, self._given_context, self._called.call, outputs.append
        copy, atoms, (first, second) = self.copy_value, ATOMS, self._pair
        for key, value in self._work:
            backend.key = key
            results = call(value, ctx)
            for result in results:
                # Comparing the types of a pair with those of the last pair costs less than looking into a set.
                if type(result) is tuple and len(result) == 2:
                    one, other = result
                    if (type(one) is first or type(one) in atoms) and (type(other) is second or type(other) in atoms):
                        append(result)
                        break
                append(result if type(result) in atoms else copy(result))
                break
            else:
                continue
            for result in results:
                append(copy(result))
                if len(outputs) >= limit:
                    self._results = results
                    return True
        self._pair = pair_of_atoms(outputs, self._pair)
        return False

    def _gather_generated_timed(self, outputs: Values, times: list[int], limit: int) -> bool:
        backend, ctx, call = self.backend, self._given_context, self._called.call
        append, append_time, copy, atoms = outputs.append, times.append, self.copy_value, ATOMS
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
                append(result if type(result) in atoms else copy(result))
                break
            else:
                continue
            for result in results:
                append(copy(result))
                append_time(timestamp)
                if len(outputs) >= limit:
                    self._results = results
                    return True
        self._pair = pair_of_atoms(outputs, self._pair)
        return False

    def _gather_timed(self, outputs: Values, times: list[int], limit: int) -> bool:
        backend, ctx, call = self.backend, self._given_context, self._called.call
        append, append_time, copy, atoms = outputs.append, times.append, self.copy_value, ATOMS
        known, generator = COLLECTIONS, trusted_generator(call)
        results = self._results
        if results is not None:
            timestamp = ctx.current_timestamp
            for result in results:
                append(copy(result))
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
                        else copy(result)
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
        position = last_position(self._values, self._rest)
        timestamp = self._timestamps[position] if self._timestamps else None
        key = self._keys[position]
        return self.context.user_error(
            error,
            self._called.method,
            self._values[position],
            key=UNSET if key is NO_KEY else key,
            timestamp=timestamp,
        )


def _rest_of(results: Any) -> Iterator[Any] | None:
    """Return the rest of `results` after a loop over it stopped half way; None if the loop must run to its end.

    A generator continues where it stopped. A list would start again from its first element, but it is finite.
    """
    return results if hasattr(results, "__next__") else None


class PlainContext:
    """The context of a ProcessFunction without a key: times, but no timers and no key."""

    __slots__ = ("_timer_service", "current_timestamp")

    def __init__(self, timer_service: TimerService) -> None:
        self._timer_service = timer_service
        self.current_timestamp: int | None = None

    def timestamp(self) -> int | None:
        """Return the timestamp of the record (ms), or None."""
        return self.current_timestamp

    def timer_service(self) -> TimerService:
        """Return the current times; timers need a key."""
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


class ProcessOperator(SuperstepListening, FunctionOperator):
    """Runs a ProcessFunction on a stream without a key."""

    def setup(self, context: OperatorContext, output: Output) -> None:
        super().setup(context, output)
        self._ctx = PlainContext(TimesOnly(context))
        self.functions_replaced()

    def functions_replaced(self) -> None:
        super().functions_replaced()
        self.find_listener(self.function)

    def watermark(self, timestamp: int) -> bool:
        if self.listener is None:
            return super().watermark(timestamp)
        self.context.counters.watermark = timestamp
        return self.notify_listener(timestamp)

    def call_listener(self, chunk: Rows, function: UserFunction) -> bool:
        return self.call_each(chunk, function, self._ctx)

    def process(self, chunk: Rows) -> bool:
        return self.call_each(chunk, self.function, self._ctx)

    def call_each(self, chunk: Rows, function: UserFunction, ctx: Any) -> bool:
        """Call `function` with each value and `ctx`. Operators with two inputs have both for each input."""
        self._chunk = chunk
        self._called, self._given_context = function, ctx
        self._rest = iter(chunk.values)
        self._times = iter(chunk.timestamps) if chunk.timestamps is not None else None
        ctx.current_timestamp = None
        self._results: Iterator[Any] | None = None
        return self.resume()

    def resume(self) -> bool:
        if self.is_notified:
            return self.emit_pending_watermark()
        self.paused = False
        output, budget = self.output, self.context.budget
        while True:
            outputs: Values = []
            times: Timestamps = None if self._times is None else []
            try:
                more = self._gather(outputs, times, budget.chunk_records)
            except RAISED as error:
                raise self.failed(error, self._called.method, self._chunk, self._rest) from error
            may_continue = not outputs or emit_tagged(output, Rows(outputs, times))
            if not more:
                return may_continue if self.pending_watermark is None else self.finish_notification(may_continue)
            if not (may_continue and budget.may_continue()):
                self.paused = True
                return False

    def _gather(self, outputs: Values, times: Timestamps, limit: int) -> bool:
        ctx, call, copy = self._given_context, self._called.call, self.copy_value
        generator = trusted_generator(call)
        while True:
            if self._results is not None:
                for result in self._results:
                    outputs.append(copy(result))
                    if times is not None:
                        times.append(ctx.current_timestamp)
                    if len(outputs) >= limit:
                        return True
                self._results = None
            for value in self._rest:
                if self._times is not None:
                    ctx.current_timestamp = next(self._times)
                results = call(value, ctx)
                if results is None:
                    continue
                kind = type(results)
                if kind is list and _TESTED_TOGETHER <= (count := len(results)) <= limit:
                    outputs += results if are_tuples_of_atoms(results) else map(copy, results)
                    if times is not None:
                        times += [ctx.current_timestamp] * count
                    if len(outputs) >= limit:
                        return True
                    continue
                if kind is not generator and kind is not list and kind not in COLLECTIONS:
                    results = emitted(results)
                self._results = iter(results)
                break
            else:
                return False
