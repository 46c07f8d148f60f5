"""Full windows: all records of a key in one window, which fires at the end of the stream.

In BATCH a key's records come one after the other, so its contents are held here, without state and timers: this is
several times as fast as the general operator, which it is in STREAMING.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from penstock.api.windows.window import GlobalWindow
from penstock.common.functions.user_calls import RAISED
from penstock.engine.runtime.chunks import Rows
from penstock.engine.runtime.operators.operator import last_position
from penstock.engine.runtime.windows.window_operator import WindowOperator

if TYPE_CHECKING:
    from penstock.engine.runtime.operators.operator import Output
    from penstock.engine.runtime.task.context import OperatorContext

_ABSENT = object()


class FullWindowOperator(WindowOperator):
    """Runs GlobalWindows whose trigger fires at the end of the stream."""

    def setup(self, context: OperatorContext, output: Output) -> None:
        super().setup(context, output)
        self._key: Any = None
        self._held: Any = _ABSENT

    def process(self, chunk: Rows) -> bool:
        if not self.context.mode.ends_keys:
            return super().process(chunk)
        values, held = chunk.values, self._held
        if held is _ABSENT:
            self._key = self.keys_of(values[:1])[0]
        if self.keeps_records:
            if held is _ABSENT:
                self._held = list(values)
            else:
                held += values
            return True
        rest, add = iter(values), self.contents.add
        try:
            if held is _ABSENT:
                held = self.contents.first(next(rest))
            for value in rest:
                held = add(value, held)
        except RAISED as error:
            value = values[last_position(values, rest)]
            raise self.context.user_error(error, self.contents.method, value, key=self._key) from error
        self._held = held
        return True

    def end_key(self) -> bool:
        held, self._held = self._held, _ABSENT
        work = self.evaluate(self._key, GlobalWindow.get(), held, is_shared=False)
        return self.do(work, self.forget_key)
