"""Values of declared types, decoded by many threads at once."""

from __future__ import annotations

import subprocess
import sys

import pytest

FIRST_DECODED_BY_FOUR_THREADS = """
import dataclasses, sys, threading
import msgspec
from penstock.common.values.decoding import converted, from_json, from_msgpack

sys.setswitchinterval(1e-6)
encode, decode = {
    "json": (msgspec.json.encode, from_json),
    "msgpack": (msgspec.msgpack.encode, from_msgpack),
    "built-ins": (lambda value: value, converted),
}[sys.argv[1]]
data = encode({"inner": {f"field_{index}": index for index in range(200)}})
for _ in range(50):
    inner = dataclasses.make_dataclass("Inner", [(f"field_{index}", int) for index in range(200)])
    outer = dataclasses.make_dataclass("Outer", [("inner", inner)])
    at_once = threading.Barrier(4)
    values = []

    def run():
        at_once.wait()
        values.append(decode(data, outer))

    threads = [threading.Thread(target=run) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [value.inner.field_199 for value in values] == [199] * 4
"""


@pytest.mark.thorough
@pytest.mark.parametrize("form", ["json", "msgpack", "built-ins"])
def test_threads_may_be_the_first_to_decode_to_a_type_together(form: str) -> None:
    """A program ended by a segmentation fault: its line of progress and its end had asked for the same figures."""
    command = [sys.executable, "-X", "faulthandler", "-c", FIRST_DECODED_BY_FOUR_THREADS, form]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
