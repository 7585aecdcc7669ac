"""How fast Shoal is, beside its rivals; exits with 1 if a limit is missed.

    python benchmarks/run.py [--json] [--section NAME] [--graph PATH] [--large]

* ``accounting``: one epsilon, many rounds; beside the strongest simple rival.
* ``encoding``: reports per second on one core, and decoding; beside the package pure-ldp.
* ``messages``: people per second and messages per person where they send several.
* ``run``: a file of ten million rows from end to end.
* ``spark``: the same on Apache Spark with one worker and two, beside the local engine; with
  ``--large`` a hundred million rows. Needs the extra ``spark``, and is measured only when named.
* ``walking``: steps of reports over a network, beside plain Python over NetworkX; a run of peers.
* ``testing``: null distributions of a test; beside a loop that runs the whole collection.
* ``learning``: noisy steps, and gradients of single examples; beside Opacus.
* ``auditing``: a million runs of a pipeline.
* ``service``: reports taken in, opened, mixed and published; beside a bare endpoint and library.
* ``kills``: a hundred ``kill -9`` on each database, under load: lost, doubled, late. It takes ten
  minutes, and is measured only when it is named.
* ``dashboard``: pages of a survey with a thousand batches.
* ``browser``: reports sealed in a real Chromium.

Times are processor time of one core, so that other work on the machine disturbs them little, except
for the run and the walks, whose time is the clock's. Every repetition asks the accountant a
slightly different question, so that no cache can answer it.
"""

from __future__ import annotations

import argparse
import importlib
import inspect
import json
import os
import platform
import sys
from collections.abc import Iterator
from itertools import groupby
from pathlib import Path

from result import Result

# Read by the libraries below numpy when they are loaded: one core, like a user's web request.
THREADS = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "NUMEXPR_NUM_THREADS")
# Each section is a module with a function ``everything``, which may take ``graph`` or ``large``.
SECTIONS = {
    "accounting": "measure",
    "encoding": "encoding",
    "messages": "messaging",
    "run": "running",
    "spark": "spark_cluster",
    "walking": "walking",
    "testing": "testing",
    "learning": "learning",
    "auditing": "auditing",
    "service": "service",
    "kills": "kills",
    "dashboard": "dashboard",
    "browser": "browser",
}


NAMED = {"kills", "spark"}  # measured only when they are named


def main() -> int:
    """Measure and print; the exit status says whether all limits are kept."""
    parser = argparse.ArgumentParser(description="How fast Shoal is.")
    parser.add_argument("--json", action="store_true", help="print one JSON object, no table")
    parser.add_argument("--section", choices=SECTIONS, help="measure this part only")
    parser.add_argument("--graph", type=Path, help="an edge list to measure walks on too")
    large = "measure also what takes minutes, disk and an idle machine"
    parser.add_argument("--large", action="store_true", help=large)
    asked = parser.parse_args()
    as_json = asked.json
    os.environ.update(dict.fromkeys(THREADS, "1"))
    results: list[Result] = []
    usual = [name for name in SECTIONS if name not in NAMED]
    sections = [asked.section] if asked.section else usual
    for result in _measured(sections, {"graph": asked.graph, "large": asked.large}):
        results.append(result)
        if not as_json:
            print(end="." if result.kept else "!", flush=True, file=sys.stderr)
    if as_json:
        print(json.dumps(_summary(results), indent=2))
    else:
        print(file=sys.stderr)
        _print_table(results)
    return 0 if all(result.kept for result in results) else 1


def _measured(sections: list[str], options: dict[str, object]) -> Iterator[Result]:
    for section in sections:
        everything = importlib.import_module(SECTIONS[section]).everything
        takes = inspect.signature(everything).parameters
        yield from everything(**{name: options[name] for name in takes})


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
