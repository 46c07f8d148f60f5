"""The memory budget of a slot: accounts, refusals and spills."""

from __future__ import annotations

from random import Random

import pytest

from penstock.common.errors import MemoryBudgetError
from penstock.engine.state.memory_budget import UNCHECKED_BYTES, MemoryBudget

MB = 1 << 20


@pytest.mark.parametrize("seed", range(30))
def test_the_sum_of_all_accounts_never_exceeds_the_limit(seed):
    """Without this, operators that each keep to the limit would take a multiple of it."""
    random = Random(seed)
    budget = MemoryBudget(100)
    accounts = [budget.account(f"operator {n}", "keyed state", vertex=n) for n in range(4)]
    held = [0] * 4
    refused = 0
    for _ in range(500):
        place = random.randrange(4)
        if random.random() < 0.4:
            less = random.randint(0, held[place])
            accounts[place].release(less)
            held[place] -= less
        else:
            more, meanwhile = random.randint(0, 30), random.choice([0, 0, 20])
            if sum(held) + more + meanwhile <= 100:
                accounts[place].reserve(more, meanwhile)
                held[place] += more
            else:
                refused += 1
                with pytest.raises(MemoryBudgetError):
                    accounts[place].reserve(more, meanwhile)
                assert accounts[place].try_reserve(more) == (sum(held) + more <= 100)
                held[place] = accounts[place].bytes_held
        assert [account.bytes_held for account in accounts] == held
        assert [budget.used_by(n) for n in range(4)] == held
        assert budget.used_bytes == sum(held) <= 100
    assert refused


def test_an_error_names_the_owner_what_it_holds_the_limit_and_remedies():
    """Without this, users would not know which operator to change, or how."""
    budget = MemoryBudget(10 * MB)
    other = budget.account("operator 'Names', subtask 2 of 2", "aggregates of keys", keys=lambda: 5)
    other.reserve(1 * MB)
    account = budget.account("operator 'Sums', subtask 1 of 2", "windows", keys=lambda: 70_000)
    account.reserve(6 * MB)
    with pytest.raises(MemoryBudgetError) as caught:
        account.reserve(6 * MB)
    text = str(caught.value)
    assert text.startswith(
        "operator 'Sums', subtask 1 of 2: no memory for its windows, which holds 70,000 keys in 6.0 MB"
    )
    assert "needs 6.0 MB to grow: the slot may use 10.0 MB, of which 7.0 MB are in use" in text
    for remedy in ("Raise taskmanager.memory.managed.size", "state.backend.type to rocksdb", "raise the parallelism"):
        assert remedy in text
    assert text.endswith("\n  aggregates of keys of operator 'Names', subtask 2 of 2: 5 keys in 1.0 MB")


def test_without_a_limit_growth_is_compared_with_what_the_machine_has():
    """Without this, a worker without the option would be killed when its container is full."""
    looked_up = []
    free = [3 * MB]

    def available() -> int:
        looked_up.append(1)
        return free[0]

    account = MemoryBudget(None, available).account("operator 'Sums', subtask 1 of 1", "windows")
    account.reserve(UNCHECKED_BYTES - 1)
    assert not looked_up, "small growth does not pay for the look-up"
    account.reserve(2 * MB)
    free[0] = 1 * MB
    with pytest.raises(MemoryBudgetError, match=r"1\.0 MB are available on its machine"):
        account.reserve(2 * MB)
    unknown = MemoryBudget().account("operator 'Sums', subtask 1 of 1", "windows")
    unknown.reserve(1 << 50)


def test_the_largest_that_can_spill_makes_room():
    """Without this, state would be refused memory that a sorter could give back."""
    budget = MemoryBudget(100)
    spilled = []
    accounts = {}

    def new(name: str, held: int) -> None:
        def spill() -> None:
            spilled.append(name)
            accounts[name].release_all()

        accounts[name] = budget.account(name, "sorted input", spill=spill)
        accounts[name].reserve(held)

    new("small", 10)
    new("large", 60)
    new("middle", 30)
    state = budget.account("state", "keyed state")
    state.reserve(50)
    assert spilled == ["large"]
    assert accounts["middle"].try_reserve(15)
    assert spilled == ["large", "small"], "an account that asks is not told to spill"
    with pytest.raises(MemoryBudgetError):
        state.reserve(60)
    assert budget.used_bytes == 50, "what has spilled stays on disk"


def test_a_cache_takes_what_a_chunk_needs_and_learns_that_it_is_over():
    """Without this, a cache could not process the chunk that exceeds the budget, or would keep it."""
    budget = MemoryBudget(100)
    cache = budget.account("operator", "cache")
    cache.take(90)
    assert not cache.is_over
    cache.take(20)
    assert cache.is_over
    cache.release(60)
    assert cache.is_over, "only an empty cache begins again"
    cache.release_all()
    assert not cache.is_over
    assert budget.used_bytes == 0
