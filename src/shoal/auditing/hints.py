"""What is known of the audited code, to know where to look: no proof of an audit rests on it."""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable
from dataclasses import dataclass
from typing import Any

from shoal.errors import InvalidArgumentError
from shoal.mechanisms.base import Device
from shoal.values import Array, Batch


def _unknown() -> tuple[Hashable, ...]:
    expected = "the values to try (inputs), as nothing is known of the data that it takes"
    raise InvalidArgumentError("inputs", None, expected)


def _nothing(*_: Any) -> None:  # noqa: ANN401 - whatever is asked about
    """What is known of anything, by default."""


@dataclass(frozen=True, kw_only=True, eq=False)
class Hints:
    """By default nothing is known.

    Inputs are data; messages are an array with an entry, or a row, for each.

    * ``trial_inputs`` are data worth trying, ``far_apart`` answers whose messages are known to
      differ much; with ``ends_first`` the first two trial inputs are as far apart as any others.
      ``check_input`` refuses a datum that the code does not take.
    * ``outputs`` is how many messages there are, if they are whole numbers from 0, and
      ``probabilities`` are Pr[message y | x], one row per input x, if they are few enough: of all
      inputs in ``table``, if that is all there is.
    * ``supports`` says which inputs (columns) each message (row) speaks for, and ``support_sizes``
      for how many in all. With local epsilon, what supports its input is e^epsilon times likelier.
    * ``direction`` is along which messages tell two vectors apart, ``true_message`` the number of
      the message that is sent beside the noise, and ``gap`` how the analyzer's estimate of a batch
      tells two inputs apart, as one number.
    """

    ends_first: bool = False
    outputs: int | None = None
    local_epsilon: float = math.inf
    table: Array | None = None
    trial_inputs: Callable[[], tuple[Hashable, ...]] = _unknown
    far_apart: Callable[[], tuple[int, ...]] = tuple
    check_input: Callable[[Hashable], None] = _nothing
    probabilities: Callable[..., Array | None] = _nothing
    supports: Callable[..., Any] = _nothing
    support_sizes: Callable[..., Any] = _nothing
    direction: Callable[..., Array | None] = _nothing
    true_message: Callable[[Any], int | None] = _nothing
    gap: Callable[[Any, Any], Callable[[Batch], float] | None] = _nothing

    @classmethod
    def of(cls, mechanism: Device) -> Hints:
        """What a mechanism of Shoal says of itself, and its parts of themselves."""
        domain, codec = mechanism.domain, mechanism.codec

        def gap(first: Any, second: Any) -> Callable[[Batch], float] | None:  # noqa: ANN401
            known = mechanism.estimator.gap(first, second)
            return None if known is None else lambda batch: known(mechanism.counted(batch))

        return cls(
            ends_first=domain.ends_first,
            outputs=codec.outputs,
            local_epsilon=mechanism.local_epsilon,
            trial_inputs=domain.trial_inputs,
            far_apart=mechanism.far_apart,
            check_input=domain.check,
            probabilities=mechanism.probabilities,
            supports=codec.supports,
            support_sizes=codec.support_sizes,
            direction=codec.direction,
            true_message=mechanism.true_message,
            gap=gap,
        )
