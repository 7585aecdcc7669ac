"""How fast the accountant is, beside the strongest simple rival; exits with 1 if a limit is missed.

    python benchmarks/run.py [--json]

Times are processor time of one core, so that other work on the machine disturbs them little; every
repetition asks a slightly different question, so that no cache can answer it.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import sys
from itertools import groupby

from result import Result

# Read by the libraries below numpy when they are loaded: one core, like a user's web request.
THREADS = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "NUMEXPR_NUM_THREADS")


def main() -> int:
    """Measure everything, print it, and say by the exit status whether all limits are kept."""
    parser = argparse.ArgumentParser(description="How fast Shoal's accountant is.")
    parser.add_argument("--json", action="store_true", help="print one JSON object, no table")
    as_json = parser.parse_args().json
    os.environ.update(dict.fromkeys(THREADS, "1"))

    import measure

    results: list[Result] = []
    for result in measure.everything():
        results.append(result)
        if not as_json:
            print(end="." if result.kept else "!", flush=True, file=sys.stderr)
    if as_json:
        print(json.dumps(_summary(results), indent=2))
    else:
        print(file=sys.stderr)
        _print_table(results)
    return 0 if all(result.kept for result in results) else 1


def _summary(results: list[Result]) -> dict[str, object]:
    return {
        "python": platform.python_version(),
        "machine": platform.machine(),
        "results": [result.to_dict() for result in results],
        "kept": all(result.kept for result in results),
    }


def _print_table(results: list[Result]) -> None:
    for heading, group in groupby(results, key=lambda result: result.heading):
        print(f"\n{heading}")
        for result in group:
            print(f"  {result.what:<44} {result.shown:>12}   {result.verdict}")
    missed = sum(not result.kept for result in results)
    print(f"\n{missed} limits missed" if missed else "\nall limits kept")


if __name__ == "__main__":
    sys.exit(main())
