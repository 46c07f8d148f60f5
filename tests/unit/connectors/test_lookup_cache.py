"""The cache of looked-up rows."""

from __future__ import annotations

from penstock.connectors.base.keyed_lookup import LookupCache


def test_rows_expire_and_the_least_recently_used_goes() -> None:
    """The cache would grow without bound, or show rows of yesterday."""
    cache = LookupCache(2, expire_after_s=10)
    cache.put("a", [1], 0)
    cache.put("b", [], 1)
    assert cache.get("a", 2) == [1]
    cache.put("c", [3], 3)

    assert (cache.get("a", 4), cache.get("b", 4), cache.get("c", 4)) == ([1], None, [3])
    assert (cache.get("a", 10), cache.get("c", 12.9), cache.get("c", 13)) == (None, [3], None)
