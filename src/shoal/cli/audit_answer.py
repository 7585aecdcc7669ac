"""From what ``shoal audit`` was asked to the auditor."""

from __future__ import annotations

import contextlib
import importlib
import sys
from pathlib import Path
from typing import Any

from shoal.auditing import Audit, Function, Program, WholePipeline
from shoal.auditing import audit as run_audit
from shoal.auditing.errors import running
from shoal.auditing.running import Progress
from shoal.auditing.subjects import Listed
from shoal.cli import tables
from shoal.cli.audit_asked import AuditAsked
from shoal.cli.options import RefusedError
from shoal.cli.randomizers import family
from shoal.protocols import registry
from shoal.protocols.base import Protocol
from shoal.randomness import simulated

_LOCAL_EPSILON = 1.0
_TIMEOUT = 600.0
_WHOLE = "near-central-sum"


def answer(asked: AuditAsked, progress: Progress) -> Audit:
    """Run it. What the audited code prints goes to standard error."""
    declared = _declared(asked)
    with contextlib.redirect_stdout(sys.stderr):
        subject = _yours(asked) or declared
        return run_audit(
            subject,
            n=asked.n or 1,
            epsilon=asked.epsilon,
            delta=asked.delta,
            local_epsilon=None if isinstance(declared, Protocol) else asked.local_epsilon,
            runs=asked.runs,
            confidence=asked.confidence,
            inputs=asked.values,
            declared=declared,
            randomness=None if asked.seed is None else simulated(asked.seed),
            progress=progress,
        )


def _declared(asked: AuditAsked) -> object | None:
    if asked.table is not None:
        return Listed(tables.read(asked.table))
    if asked.randomizer is None:
        return None
    if asked.randomizer in registry.PROTOCOLS:
        return _protocol(asked, asked.randomizer)
    local = _LOCAL_EPSILON if asked.local_epsilon is None else asked.local_epsilon
    return family(asked.randomizer, k=asked.k, bounds=asked.bounds)(epsilon=local)


def _protocol(asked: AuditAsked, name: str) -> Protocol:
    """With the least noise that keeps the claim."""
    if asked.epsilon is None:
        raise RefusedError(f"--randomizer {name} needs --epsilon: what its noise is made for")
    if asked.local_epsilon is not None:
        raise RefusedError(f"{name} has no ε0: leave out --local-epsilon")
    shape: dict[str, Any] = {}
    if name in registry.ANSWERS or name in registry.VECTORS:
        if asked.k is None:
            raise RefusedError(f"--randomizer {name} needs --k")
        shape = {"k": asked.k} if name in registry.ANSWERS else {"dimension": asked.k, "bound": 1.0}
    elif asked.k is not None:
        raise RefusedError(f"--randomizer {name} takes no --k")
    if name in registry.NUMBERS:
        shape = _bounds(name, *(asked.bounds or (0.0, 1.0)))
    elif asked.bounds is not None:
        raise RefusedError(f"--randomizer {name} takes no numbers: leave out --bounds")
    return registry.calibration(name)(n=asked.n, epsilon=asked.epsilon, delta=asked.delta, **shape)


def _bounds(name: str, low: float, high: float) -> dict[str, float]:
    if name == _WHOLE and (low != 0 or high < 1 or not float(high).is_integer()):
        told = f"0 to a whole number: --bounds 0,3, not {low:g},{high:g}"
        raise RefusedError(f"{name} adds up whole numbers from {told}")
    return {"low": low, "high": high}


def _yours(asked: AuditAsked) -> Function | WholePipeline | Program | None:
    if asked.command is not None:
        timeout = _TIMEOUT if asked.timeout is None else asked.timeout
        return Program(asked.command, timeout)
    if asked.pipeline is not None:
        return WholePipeline(_loaded("--pipeline", asked.pipeline))
    if asked.call is not None:
        found = _loaded("--callable", asked.call)
        method = getattr(found, "randomize", None)
        if callable(method):
            return Function(method, vectorized=True, label=asked.call)
        return Function(found, vectorized=asked.vectorized, label=asked.call)
    return None


def _loaded(option: str, place: str) -> Any:  # noqa: ANN401 - a function, or an object
    """module:name, looked for in the working directory too."""
    module, colon, name = place.partition(":")
    if not (module and colon and name):
        raise RefusedError(f"expected {option} MODULE:NAME, got {place!r}")
    here = str(Path.cwd())
    if here not in sys.path:
        sys.path.insert(0, here)
    with running(f"import {module}"):
        found: Any = getattr(importlib.import_module(module), name, None)
    if not callable(found) and not hasattr(found, "randomize"):
        raise RefusedError(f"{option}: {module} has no function {name!r}")
    if isinstance(found, type):
        raise RefusedError(f"{option}: {place} is a class: name a function, or an object of it")
    return found
