"""Milliseconds that the scan takes for each structure of a folder, by its fast way and its
careful one. `python tests/benchmarks/scan.py FOLDER [first|all]`
"""

import sys
import time
from pathlib import Path

from tmol_plugin import scan
from tmol_plugin.inputs import Row
from tmol_plugin.policy import Policy
from tmol_plugin.reading import Source

_REPEATS = 5


def main(folder: str, models: str = "first") -> None:
    fast = scan._summary
    totals, n_rows = [0.0, 0.0], 0
    print("file", "models", "residues", "ms/model fast", "careful", sep="\t")
    for path in sorted(p for p in Path(folder).iterdir() if p.suffix in (".pdb", ".cif", ".gz")):
        row = Row(path.name, str(path), None, {}, 0, 0)
        found = list(scan.scan_rows(row, models, Policy()))
        if fast(Source(row.path), found[0]["model"]) is None:
            continue  # both ways are the careful one
        times = []
        for summary in (fast, lambda source, model: None):
            scan._summary = summary
            seconds = []
            for _ in range(_REPEATS):
                start = time.perf_counter()
                assert list(scan.scan_rows(row, models, Policy())) == found
                seconds.append(time.perf_counter() - start)
            times.append(min(seconds) * 1000)
        scan._summary = fast
        totals = [total + t for total, t in zip(totals, times, strict=True)]
        n_rows += len(found)
        each = (f"{t / len(found):.2f}" for t in times)
        print(path.name, len(found), found[0]["n_residues"], *each, sep="\t")
    print("all", n_rows, "", *(f"{t / n_rows:.2f}" for t in totals), sep="\t")


main(*sys.argv[1:])
