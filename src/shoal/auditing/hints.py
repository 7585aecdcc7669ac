"""What is known of the audited code, to know where to look: no proof of an audit rests on it."""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from shoal.errors import InvalidArgumentError
from shoal.mechanisms.base import Device
from shoal.values import Array, Batch, Flags

Whole = npt.NDArray[np.int64]


class Hints:
    """By default nothing is known.

    ``inputs`` are data; ``messages`` are an array with an entry, or a row, for each.
    """

    ends_first = False  # the first two trial inputs are as far apart as any others
    outputs: int | None = None  # how many messages there are, if they are whole numbers from 0
    local_epsilon = math.inf

    def trial_inputs(self) -> tuple[Hashable, ...]:
        """Data worth trying."""
        expected = "the values to try (inputs), as nothing is known of the data that it takes"
        raise InvalidArgumentError("inputs", None, expected)

    def far_apart(self) -> tuple[int, ...]:
        """Answers whose messages are known to differ much."""
        return ()

    def check_input(self, value: Hashable) -> None:
        """Refuse a datum that it does not take."""

    def probabilities(self, inputs: Sequence[Any]) -> Array | None:  # noqa: ARG002
        """Pr[message y | x], one row per input x, if messages are numbers and few enough."""
        return None

    def supports(self, messages: npt.NDArray[Any], inputs: Sequence[Any]) -> Flags | None:  # noqa: ARG002
        """Which inputs (columns) each message (row) speaks for; None if messages do no such thing.

        A mechanism with local epsilon sends what supports its input e^epsilon times likelier.
        """
        return None

    def support_sizes(self, messages: npt.NDArray[Any]) -> Whole | None:  # noqa: ARG002
        """How many inputs each message speaks for in all, if it shows."""
        return None

    def direction(self, first: Any, second: Any) -> Array | None:  # noqa: ANN401, ARG002
        """Along which direction messages tell two inputs apart, if both are vectors."""
        return None

    def true_message(self, value: Any) -> int | None:  # noqa: ANN401, ARG002
        """The number of the message that holders of this datum send beside their noise."""
        return None

    def gap(self, first: Any, second: Any) -> Callable[[Batch], float] | None:  # noqa: ANN401, ARG002
        """How the analyzer's estimate of a batch tells two inputs apart, as one number."""
        return None


class OfMechanism(Hints):
    """What a mechanism of Shoal says of itself."""

    def __init__(self, mechanism: Device) -> None:
        self._mechanism, self._domain = mechanism, mechanism.domain
        self._codec = mechanism.codec
        self.ends_first = self._domain.ends_first
        self.outputs, self.local_epsilon = self._codec.outputs, mechanism.local_epsilon

    def trial_inputs(self) -> tuple[Hashable, ...]:
        """Those of its domain."""
        return self._domain.trial_inputs()

    def far_apart(self) -> tuple[int, ...]:
        """Its own."""
        return self._mechanism.far_apart()

    def check_input(self, value: Hashable) -> None:
        """Refuse what is not of its domain."""
        self._domain.check(value)

    def probabilities(self, inputs: Sequence[Any]) -> Array | None:
        """Rows of its table."""
        return self._mechanism.probabilities(inputs)

    def supports(self, messages: npt.NDArray[Any], inputs: Sequence[Any]) -> Flags | None:
        """As its codec reads messages."""
        return self._codec.supports(messages, inputs)

    def support_sizes(self, messages: npt.NDArray[Any]) -> Whole | None:
        """As its codec reads messages."""
        return self._codec.support_sizes(messages)

    def direction(self, first: Any, second: Any) -> Array | None:  # noqa: ANN401
        """As its codec reads messages."""
        return self._codec.direction(first, second)

    def true_message(self, value: Any) -> int | None:  # noqa: ANN401
        """Its own."""
        return self._mechanism.true_message(value)

    def gap(self, first: Any, second: Any) -> Callable[[Batch], float] | None:  # noqa: ANN401
        """That of its estimator."""
        gap = self._mechanism.estimator.gap(first, second)
        return None if gap is None else lambda batch: gap(self._mechanism.counted(batch))
