"""Delta iterations on NumPy arrays: `iterate_arrays` with an `ArrayStep`.

Apart from `penstock.iteration`, so that iterations on rows do not import NumPy.
"""

from __future__ import annotations

from penstock.common.doors.door import publish
from penstock.iteration.array_iteration import ArrayStep, iterate_arrays, reduce_by_key

__all__ = ["ArrayStep", "iterate_arrays", "reduce_by_key"]

publish(__name__, __all__)
