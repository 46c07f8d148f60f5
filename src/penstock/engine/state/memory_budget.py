"""The memory budget of a slot: which operator holds how many bytes, and whether one may take more.

State that cannot leave memory is refused more, with an error. What can leave it (the sorter of BATCH) spills, largest
first, so that others get room. Source: Flink docs, "Set up TaskManager Memory", Managed Memory; Spark's
TaskMemoryManager, which lets the largest consumer spill.
"""

from __future__ import annotations

from collections.abc import Callable

from penstock.common.errors import MemoryBudgetError

UNCHECKED_BYTES = 1 << 20
"""Without a limit, growth by less is not compared with the available memory, which the host has to look up."""
_OWNERS_SHOWN = 3


class MemoryBudget:
    """The memory of a slot, shared by its tasks: `limit_bytes` in all.

    Without a limit, growth may take what `available_bytes` returns: how much more the machine or container has now;
    None: unknown, so nothing is refused. Not for several threads; any thread may read the figures.
    """

    def __init__(
        self, limit_bytes: int | None = None, available_bytes: Callable[[], int | None] = lambda: None
    ) -> None:
        self.limit_bytes = limit_bytes
        self._available_bytes = available_bytes
        self.used_bytes = 0
        self._accounts: list[MemoryAccount] = []

    def account(
        self,
        owner: str,
        what: str,
        *,
        vertex: int = 0,
        keys: Callable[[], int] | None = None,
        spill: Callable[[], None] | None = None,
    ) -> MemoryAccount:
        """Return a new account of `owner`, an operator as errors name it, for `what`: "keyed state", for example.

        `keys`: returns how many keys it holds, for errors. `spill`: releases its memory.
        """
        account = MemoryAccount(self, owner, what, vertex=vertex, keys=keys, spill=spill)
        self._accounts.append(account)
        return account

    def used_by(self, vertex: int) -> int:
        """Return the bytes that the operators of a vertex hold in this slot."""
        return sum(account.bytes_held for account in list(self._accounts) if account.vertex == vertex)

    def has_room_for(self, bytes_more: int, asking: MemoryAccount) -> bool:
        """Return whether `asking` may take so many bytes, perhaps after others have spilled."""
        if self._fits(bytes_more):
            return True
        spillable = [one for one in self._accounts if one is not asking and one.spill is not None and one.bytes_held]
        for account in sorted(spillable, key=lambda one: one.bytes_held, reverse=True):
            assert account.spill is not None
            account.spill()
            if self._fits(bytes_more):
                return True
        return False

    def refusal(self, asking: MemoryAccount, bytes_more: int) -> MemoryBudgetError:
        """Return the error of an account that may not take so many bytes."""
        if self.limit_bytes is not None:
            limit, used = shown_bytes(self.limit_bytes), shown_bytes(self.used_bytes)
            why = f"the slot may use {limit}, of which {used} are in use"
            remedy = "Raise taskmanager.memory.managed.size"
        else:
            available = self._available_bytes() or 0
            why = f"{shown_bytes(max(0, available))} are available on its machine or in its container"
            remedy = "Give the workers more memory"
        owners = sorted((one for one in self._accounts if one.bytes_held), key=lambda one: -one.bytes_held)
        held = "".join(f"\n  {one.what} of {one.owner}: {one.holding()}" for one in owners[:_OWNERS_SHOWN])
        return MemoryBudgetError(
            f"{asking.owner}: no memory for its {asking.what}, which holds {asking.holding()} and needs "
            f"{shown_bytes(bytes_more)} to grow: {why}. {remedy}, set state.backend.type to rocksdb, which keeps state "
            f"on local disk, or raise the parallelism.\nMost memory of the slot is held by:{held or ' nothing'}"
        )

    def _fits(self, bytes_more: int) -> bool:
        if self.limit_bytes is not None:
            return self.used_bytes + bytes_more <= self.limit_bytes
        if bytes_more < UNCHECKED_BYTES:
            return True
        available = self._available_bytes()
        return available is None or bytes_more <= available


class MemoryAccount:
    """The memory of one owner: reserved before it is allocated, released when it is free again."""

    def __init__(
        self,
        budget: MemoryBudget,
        owner: str,
        what: str,
        *,
        vertex: int,
        keys: Callable[[], int] | None,
        spill: Callable[[], None] | None,
    ) -> None:
        self._budget = budget
        self.owner = owner
        self.what = what
        self.vertex = vertex
        self.spill = spill
        self._keys = keys
        self.bytes_held = 0
        self.is_over = False
        """Whether it has taken memory beyond the budget since it last held none: it should release what it can."""

    def reserve(self, bytes_more: int, meanwhile_bytes: int = 0) -> None:
        """Take so many bytes, before they are allocated. `meanwhile_bytes`: needed in addition while arrays are copied.

        Raises MemoryBudgetError, with nothing taken, if they exceed the budget.
        """
        needed = bytes_more + meanwhile_bytes
        if not self._budget.has_room_for(needed, self):
            raise self._budget.refusal(self, needed)
        self._add(bytes_more)

    def try_reserve(self, bytes_more: int) -> bool:
        """Take so many bytes if they do not exceed the budget. Returns whether they are taken."""
        if not self._budget.has_room_for(bytes_more, self):
            return False
        self._add(bytes_more)
        return True

    def take(self, bytes_more: int, meanwhile_bytes: int = 0) -> None:
        """Take so many bytes in any case, for a cache: `is_over` says whether to release it after this chunk."""
        if not self._budget.has_room_for(bytes_more + meanwhile_bytes, self):
            self.is_over = True
        self._add(bytes_more)

    def release(self, bytes_less: int) -> None:
        """Return so many bytes."""
        assert bytes_less <= self.bytes_held, f"{self.what} of {self.owner} releases more than it holds"
        self._add(-bytes_less)
        if not self.bytes_held:
            self.is_over = False

    def release_all(self) -> None:
        """Return all bytes."""
        self.release(self.bytes_held)

    def holding(self) -> str:
        """Return what it holds, for errors."""
        held = shown_bytes(self.bytes_held)
        return held if self._keys is None else f"{self._keys():,} keys in {held}"

    def _add(self, bytes_more: int) -> None:
        self.bytes_held += bytes_more
        self._budget.used_bytes += bytes_more


def shown_bytes(count: int) -> str:
    """Return a number of bytes as text, in the largest unit that gives at least 1: "1.5 MB"."""
    for unit, size in (("GB", 1 << 30), ("MB", 1 << 20), ("KB", 1 << 10)):
        if count >= size:
            return f"{count / size:.1f} {unit}"
    return f"{count} bytes"
