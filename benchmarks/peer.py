"""The packages pure-ldp and networkx, in an environment of their own.

The release of pure-ldp on PyPI leaves out two of its requirements and breaks with newer releases of
others, so that it has to have the versions it works with.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

PACKAGE = "pure-ldp 1.2.0"
PINS = (
    "pure-ldp==1.2.0",
    "networkx==3.6.1",
    "numpy==1.26.4",
    "scikit-learn==1.9.1",
    "statsmodels==0.15.0",
    "xxhash==3.8.2",
)
COUNTERPARTS = {"grr": "DE", "hadamard": "HR", "unary": "OUE", "hashing": "OLH"}

_HOME = Path(__file__).resolve().parent.parent / ".venv-peer"
_PYTHON = _HOME / "bin" / "python"
_READY = _HOME / ".ready"
_LONGEST_INSTALL = 180  # seconds
_SCRIPT = """
import json, statistics, sys, time, warnings
warnings.simplefilter("ignore")
import numpy as np
from pure_ldp.frequency_oracles.direct_encoding import DEClient
from pure_ldp.frequency_oracles.hadamard_response import (
    HadamardResponseClient, HadamardResponseServer)
from pure_ldp.frequency_oracles.local_hashing import LHClient
from pure_ldp.frequency_oracles.unary_encoding import UEClient

k, epsilon = int(sys.argv[1]), float(sys.argv[2])
permutation = HadamardResponseServer(epsilon, k).get_hash_funcs()
clients = {
    "DE": (DEClient(epsilon, k), 40_000),
    "HR": (HadamardResponseClient(epsilon, k, permutation), 10_000),
    "OUE": (UEClient(epsilon, k, use_oue=True), 2_000),
    "OLH": (LHClient(epsilon, k, use_olh=True), 10_000),
}
speeds = {}
for name, (client, size) in clients.items():
    answers = np.random.default_rng(1).integers(1, k + 1, size).tolist()
    times = []
    for repetition in range(6):
        start = time.process_time()
        for answer in answers:
            client.privatise(answer)
        times.append(time.process_time() - start)
    speeds[name] = size / statistics.median(times[1:]) / 1e6
print(json.dumps(speeds))
"""


def speeds(*, k: int, local_epsilon: float) -> dict[str, float] | str:
    """Millions of reports per second of processor time, or why they could not be measured."""
    return answer(_SCRIPT, str(k), repr(local_epsilon))


def answer(script: str, *arguments: str) -> dict[str, float] | str:
    """The numbers that a script prints in the environment, or why it does not run."""
    try:
        _install()
        printed = _run(str(_PYTHON), "-c", script, *arguments)
    except (OSError, subprocess.SubprocessError) as error:
        told = getattr(error, "stderr", None) or str(error)
        return f"the environment does not run here: {str(told).strip().splitlines()[-1][:80]}"
    found: dict[str, float] = json.loads(printed)
    return found


def _install() -> None:
    """Make the environment, unless it is there with these versions."""
    wanted = "\n".join(PINS)
    if _READY.exists() and _READY.read_text(encoding="utf-8") == wanted:
        return
    print(f"installing {PACKAGE} and networkx into {_HOME.name}", file=sys.stderr)
    _run(sys.executable, "-m", "venv", "--clear", str(_HOME))
    _run(str(_PYTHON), "-m", "pip", "--disable-pip-version-check", "-q", "install", *PINS)
    _READY.write_text(wanted, encoding="utf-8")


def _run(*command: str) -> str:
    return subprocess.run(  # noqa: S603 - fixed commands of our own
        command, capture_output=True, text=True, check=True, timeout=_LONGEST_INSTALL
    ).stdout
