"""Permuted descent: its steps per second, its accountant, and gradients of single examples."""

from __future__ import annotations

import json
import math
import os
import subprocess
import sys
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import numpy.typing as npt
from encoding import seconds
from result import Result

from shoal.learning import Descent, Logistic, account
from shoal.learning.descent import descend
from shoal.learning.run import Run
from shoal.randomness import secure, simulator

EXAMPLES, FEATURES = 10**5, 20
NAIVE_EXAMPLES = 10**4
SLOWEST_EPOCH = 2.0
SLOWEST_ACCOUNT = 4.0
RATE, CLIP, NOISE, RADIUS = 0.01, 1.0, 4.0, 5.0
BATCHES = (64, 256)
PINS = ("torch==2.13.0", "opacus==1.6.0")

_ROOT = Path(__file__).resolve().parent.parent
_HOME = _ROOT / ".venv-torch"
_PYTHON = _HOME / "bin" / "python"
_READY = _HOME / ".ready"
_LONGEST = 900  # seconds
_SCRIPT = """
import copy, json, statistics, sys, time, warnings
warnings.simplefilter("ignore")
import torch
from torch import nn
from opacus import GradSampleModule
from shoal.learning.torch_loop import Learner

torch.set_num_threads(1)
torch.manual_seed(1)
models = {
    "mlp": nn.Sequential(
        nn.Linear(64, 128), nn.ReLU(), nn.Linear(128, 64), nn.ReLU(), nn.Linear(64, 10)),
    "cnn": nn.Sequential(
        nn.Unflatten(1, (1, 8, 8)), nn.Conv2d(1, 16, 3), nn.ReLU(), nn.Conv2d(16, 16, 3),
        nn.ReLU(), nn.Flatten(), nn.Linear(256, 10)),
}

def seconds(run):
    run()
    times = []
    for _ in range(15):
        start = time.process_time()
        run()
        times.append(time.process_time() - start)
    return statistics.median(times)

speeds = {}
for name, model in models.items():
    learner = Learner(module=model, loss=nn.CrossEntropyLoss())
    wrapped = GradSampleModule(copy.deepcopy(model), loss_reduction="sum")
    for batch in map(int, sys.argv[1:]):
        examples, answers = torch.randn(batch, 64), torch.randint(0, 10, (batch,))

        def theirs():
            wrapped.zero_grad()
            nn.functional.cross_entropy(wrapped(examples), answers, reduction="sum").backward()
            return {key.removeprefix("_module."): p.grad_sample
                    for key, p in wrapped.named_parameters()}

        def ours():
            return learner.gradients(examples, answers)

        here, there = ours(), theirs()
        apart = max(float((here[key] - there[key]).abs().max()) for key in here)
        speeds[f"{name}, batch {batch}"] = {
            "ours": batch / seconds(ours), "theirs": batch / seconds(theirs), "apart": apart}
print(json.dumps(speeds))
"""


def everything() -> Iterator[Result]:
    """Descent in NumPy beside a plain loop, and gradients in PyTorch beside Opacus."""
    yield from _descent()
    yield from _accounts()
    yield from _gradients()


def _descent() -> Iterator[Result]:
    heading = f"permuted descent, one example a step, d = {FEATURES} (secure noise, median of 5)"
    examples, targets = _made_up(EXAMPLES)
    asked = Run.of(NOISE, EXAMPLES), Descent(rate=RATE, clip=CLIP, radius=RADIUS)
    ours = seconds(lambda: descend(examples, targets, Logistic(), *asked, randomness=secure()))
    plain = seconds(lambda: _plainly(examples[:NAIVE_EXAMPLES], targets[:NAIVE_EXAMPLES]))
    speeds = EXAMPLES / ours / 1e3, NAIVE_EXAMPLES / plain / 1e3
    yield Result(
        heading=heading,
        what=f"one epoch of {EXAMPLES:,} steps",
        value=ours,
        unit="s",
        at_most=SLOWEST_EPOCH,
    )
    yield Result(heading=heading, what="steps", value=speeds[0], unit="k/s")
    note = "noise of numpy.random"
    yield Result(
        heading=heading, what="steps of a plain loop", value=speeds[1], unit="k/s", note=note
    )
    ratio = speeds[0] / speeds[1]
    yield Result(heading=heading, what="times faster", value=ratio, unit="x")


def _accounts() -> Iterator[Result]:
    heading = "accounting for one epoch of 60,000 examples, noise multiplier 1 (median of 5)"
    for delta in (1e-6, 1e-20):
        yield Result(
            heading=heading,
            what=f"delta = {delta:g}",
            value=seconds(lambda delta=delta: account(noise_multiplier=1, n=60_000, delta=delta)),  # type: ignore[misc]
            unit="s",
            at_most=SLOWEST_ACCOUNT,
        )


def _made_up(n: int) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.float64]]:
    generator = simulator(1)
    examples = generator.normal(size=(n, FEATURES))
    return examples, np.sign(examples @ generator.normal(size=FEATURES))


def _plainly(
    examples: npt.NDArray[np.float64], targets: npt.NDArray[np.float64]
) -> npt.NDArray[np.float64]:
    """The algorithm as it is written down, step by step."""
    generator = simulator(2)
    theta, total = np.zeros(FEATURES), np.zeros(FEATURES)
    for i in generator.permutation(len(examples)):
        x, y = examples[i], targets[i]
        gradient = -y * x / (1 + math.exp(y * (x @ theta)))
        gradient *= min(1.0, CLIP / np.linalg.norm(gradient))
        gradient += generator.normal(0.0, NOISE, FEATURES)
        theta = theta - RATE * gradient
        theta *= min(1.0, RADIUS / np.linalg.norm(theta))
        total += theta
    return total / len(examples)


def _gradients() -> Iterator[Result]:
    heading = (
        "gradients of single examples, one thread (PyTorch; the same model, batch and process)"
    )
    found = _answer()
    if isinstance(found, str):
        yield Result(heading=heading, what="torch.func beside Opacus", value=None, note=found)
        return
    for what, speeds in found.items():
        note = f"largest difference {speeds['apart']:.0e}"
        yield Result(heading=heading, what=f"{what}: shoal", value=speeds["ours"] / 1e3, unit="k/s")
        yield Result(
            heading=heading,
            what=f"{what}: Opacus",
            value=speeds["theirs"] / 1e3,
            unit="k/s",
            note=note,
        )
        yield Result(
            heading=heading,
            what=f"{what}: times faster",
            value=speeds["ours"] / speeds["theirs"],
            unit="x",
        )


def _answer() -> dict[str, dict[str, float]] | str:
    """What the script prints where PyTorch and Opacus are, or why it does not run."""
    try:
        python = sys.executable if _is_here() else _installed()
        printed = _run(python, "-c", _SCRIPT, *map(str, BATCHES))
    except (OSError, subprocess.SubprocessError) as error:
        told = getattr(error, "stderr", None) or str(error)
        return f"PyTorch does not run here: {str(told).strip().splitlines()[-1][:80]}"
    found: dict[str, dict[str, float]] = json.loads(printed)
    return found


def _is_here() -> bool:
    return all(find_spec(name) is not None for name in ("torch", "opacus"))


def _installed() -> str:
    """An environment of their own, made unless it is there with these versions."""
    wanted = "\n".join(PINS)
    if not (_READY.exists() and _READY.read_text(encoding="utf-8") == wanted):
        print(f"installing {' and '.join(PINS)} into {_HOME.name}", file=sys.stderr)
        _run(sys.executable, "-m", "venv", "--clear", str(_HOME))
        pip = (str(_PYTHON), "-m", "pip", "--disable-pip-version-check", "-q", "install")
        _run(*pip, *PINS, str(_ROOT))
        _READY.write_text(wanted, encoding="utf-8")
    return str(_PYTHON)


def _run(*command: str) -> str:
    return subprocess.run(  # noqa: S603 - fixed commands of our own
        command,
        capture_output=True,
        text=True,
        check=True,
        timeout=_LONGEST,
        env=os.environ | {"PYTHONPATH": str(_ROOT / "src")},
    ).stdout
