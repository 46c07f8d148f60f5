"""Read public corpora of data files: `python -m tests.corpora FOLDER`, or `make corpora FOLDER=...`.

Each corpus is a folder in FOLDER; those that are not there are skipped. Prints what became of the files, and each
difference that is not known. Exit code 1 if there is one, or if a known one is no more.
"""

from __future__ import annotations

import argparse
import collections
import logging
import sys
import time
from pathlib import Path

from tests.corpora.case import Outcome, Verdict, judged
from tests.corpora.corpora import CORPORA, Corpus
from tests.corpora.differences import Differences

_SLOW_S = 5.0
_FINE = (Verdict.SAME, Verdict.REFUSED, Verdict.NOT_COMPARED)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path, help="the folder with the corpora")
    parser.add_argument("--only", help="one corpus, by its folder")
    parser.add_argument("--verbose", action="store_true", help="print the known differences, too")
    arguments = parser.parse_args()
    logging.disable(logging.WARNING)
    # JSON of arrays in arrays is compared by a function that calls itself.
    sys.setrecursionlimit(20_000)
    faults = 0
    for corpus in CORPORA:
        if arguments.only in (None, corpus.folder):
            faults += _read(corpus, arguments.folder / corpus.folder, arguments.verbose)
    return int(faults > 0)


def _read(corpus: Corpus, folder: Path, is_verbose: bool) -> int:
    """Print what became of a corpus. Returns the number of faults."""
    if not folder.is_dir():
        print(f"{corpus.folder}: skipped, there is no folder {folder} (https://github.com/{corpus.repository})")
        return 0
    began = time.process_time()
    outcomes = [judged(case) for case in corpus.cases(folder)]
    known = Differences(corpus.folder)
    counts = collections.Counter(outcome.verdict.value for outcome in outcomes)
    shown = ", ".join(f"{counts[verdict.value]} {verdict.value}" for verdict in Verdict if counts[verdict.value])
    print(f"{corpus.folder}: {len(outcomes)} readings: {shown} ({time.process_time() - began:.0f} s)", flush=True)
    unknown = [one for one in outcomes if one.verdict not in _FINE and known.reason(one) is None]
    for outcome in unknown:
        _print("FAULT", outcome, outcome.detail)
    gone = known.unseen()
    for pattern, verdict in gone:
        print(f"  GONE: {pattern}: '{verdict.value}' is listed in tests/corpora/differences.py, and is not so")
    for outcome in outcomes if is_verbose else ():
        if outcome not in unknown and outcome.verdict is not Verdict.SAME:
            _print("known", outcome, known.reason(outcome) or outcome.detail)
        if outcome.seconds > _SLOW_S:
            print(f"  slow: {outcome.name}: {outcome.seconds:.0f} s")
    return len(unknown) + len(gone)


def _print(word: str, outcome: Outcome, text: str) -> None:
    print(f"  {word}: {outcome.name}: {outcome.verdict.value}: {' '.join(text.split())}", flush=True)


if __name__ == "__main__":
    sys.exit(main())
