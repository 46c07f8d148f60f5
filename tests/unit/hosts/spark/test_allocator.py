"""What a worker frees stays in its process."""

from __future__ import annotations

import subprocess
import sys
import textwrap

import pytest

PROGRAM = textwrap.dedent(
    """
    import pickle, resource, sys
    payload = bytes(1 << 20)
    if sys.argv[1] == "kept":
        from penstock.hosts.spark.worker.allocator import keep_freed_memory
        keep_freed_memory()
    def faults():
        for _ in range(50):
            b"header" + pickle.dumps([payload], protocol=5)
        return resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    faults()
    print(-faults() + faults())
    """
)


@pytest.mark.skipif(sys.platform != "linux", reason="glibc's settings")
def test_buffers_of_a_megabyte_are_not_cleared_by_the_system_each_time() -> None:
    """Each large row would take ten times as long to encode."""
    faults = {
        way: int(subprocess.run([sys.executable, "-c", PROGRAM, way], check=True, capture_output=True).stdout)
        for way in ("kept", "returned")
    }
    assert faults["kept"] < 500 < 5_000 < faults["returned"]
