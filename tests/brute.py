"""Ground truth by brute force, for tests: numpy, scipy and the standard library, nothing of Shoal.

Conventions. A table ``R[x, y]`` gives the probability of message y on input x. An adaptive
sequence is a list of arrays; element i has shape ``(m,) * i + (k, m)`` and gives, for every
history of i messages, the table that the next randomizer uses. A law of a transcript
``z_1 .. z_n`` is an array of shape ``(m,) * n``.
"""

from __future__ import annotations

import itertools
import math
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from fractions import Fraction

import numpy as np
from scipy import special, stats

# ---------------------------------------------------------------------------- divergences, pairs


def hockey_stick(first: np.ndarray, second: np.ndarray, epsilon: float) -> float:
    """D_x(first || second) of two arrays of probabilities."""
    return math.fsum(np.maximum(first - math.exp(epsilon) * second, 0.0).ravel())


def clone_pair(
    n: int, local_epsilon: float, clone_probability: float
) -> tuple[np.ndarray, np.ndarray]:
    """The clone pair as two arrays ``[zeros, ones]``, by its definition, one case at a time."""
    truth = math.exp(local_epsilon) / (math.exp(local_epsilon) + 1)
    first, second = np.zeros((n + 1, n + 1)), np.zeros((n + 1, n + 1))
    for clones, zeros in ((c, a) for c in range(n) for a in range(c + 1)):
        weight = (
            math.comb(n - 1, clones)
            * clone_probability**clones
            * (1 - clone_probability) ** (n - 1 - clones)
            * math.comb(clones, zeros)
            / 2**clones
        )
        for kept, probability in ((1, truth), (0, 1 - truth)):
            first[zeros + kept, clones - zeros + 1 - kept] += weight * probability
            second[zeros + 1 - kept, clones - zeros + kept] += weight * probability
    return first, second


def exact_clone_divergence(
    n: int, growth: Fraction, local_growth: Fraction, clone_probability: Fraction
) -> Fraction:
    """D_x of the clone pair in rational arithmetic; growths are e^epsilon, e^local_epsilon."""
    clone, people = clone_probability.as_integer_ratio()
    truth, both = (local_growth / (local_growth + 1)).as_integer_ratio()
    over, under = growth.as_integer_ratio()
    total = 0
    for c in range(n):
        # Whole numbers, of people^(n-1), 2^(n-1), both and under.
        weight = math.comb(n - 1, c) * clone**c * (people - clone) ** (n - 1 - c) << (n - 1 - c)
        row = [0, *(math.comb(c, a) for a in range(c + 1)), 0]
        for before, here in itertools.pairwise(row):
            p = truth * before + (both - truth) * here
            q = (both - truth) * before + truth * here
            total += weight * max(0, under * p - over * q)
    return Fraction(total, (2 * people) ** (n - 1) * both * under)


# --------------------------------------------------------------------------- one table, shuffled


def shuffled_law(table: np.ndarray, data: Sequence[int]) -> Counter[tuple[int, ...]]:
    """Law of the multiset of messages, by running through every transcript."""
    law: Counter[tuple[int, ...]] = Counter()
    for messages in itertools.product(range(table.shape[1]), repeat=len(data)):
        sent = zip(data, messages, strict=True)
        law[tuple(sorted(messages))] += math.prod(float(table[x, y]) for x, y in sent)
    return law


def shuffled_divergence(
    table: np.ndarray, others: Sequence[int], pair: tuple[int, int], epsilon: float
) -> float:
    """D_x between the shuffled reports of (pair[0], *others) and of (pair[1], *others)."""
    first, second = (shuffled_law(table, (x, *others)) for x in pair)
    growth = math.exp(epsilon)
    return math.fsum(max(0.0, first[z] - growth * second[z]) for z in first | second)


def blanket_atoms(table: np.ndarray, pair: tuple[int, int]) -> dict[str, list[float]]:
    """Largest blanket of a table without zeros, as masses and ratios for one pair of inputs."""
    blanket = table.min(axis=0)
    first, second = table[pair[0]] / blanket, table[pair[1]] / blanket
    return {"mass": blanket.tolist(), "rho0": first.tolist(), "rho1": second.tolist()}


def local_epsilon_of(table: np.ndarray) -> float:
    """Largest log-ratio within a column: the local epsilon of the table."""
    logs = np.log(table)
    return float((logs.max(axis=0) - logs.min(axis=0)).max())


def response(k: int, local_epsilon: float) -> np.ndarray:
    """k-ary randomized response as a table."""
    e = math.exp(local_epsilon)
    return (np.ones((k, k)) + (e - 1) * np.eye(k)) / (e + k - 1)


# -------------------------------------------------------------------------------- random tables


def tempered_table(
    rng: np.random.Generator, inputs: int, outputs: int, local_epsilon: float
) -> np.ndarray:
    """Random rows raised to the power that makes the local epsilon what was asked."""
    logs = np.log(rng.dirichlet(np.full(outputs, 0.7), size=inputs) + 1e-3)
    low, high = 0.0, 64.0
    for _ in range(60):
        power = (low + high) / 2
        if local_epsilon_of(_softmax(power * logs)) > local_epsilon:
            high = power
        else:
            low = power
    return _softmax(low * logs)


def staircase_table(
    rng: np.random.Generator, inputs: int, outputs: int, local_epsilon: float
) -> np.ndarray:
    """An extremal randomizer: every column takes two values, in the ratio e^local_epsilon.

    Column y is ``b_y`` times a random pattern of 1 and e; b >= 0 makes the rows sum to one, and
    mixes solutions found on as many columns as there are inputs. Needs outputs >= inputs.
    """
    while True:
        pattern = rng.integers(0, 2, size=(inputs, outputs))
        ratios = 1 + (math.exp(local_epsilon) - 1) * pattern
        found = list(_scales(ratios))
        scale = sum(found) / len(found) if found else np.zeros(outputs)
        if np.all(scale > 0):
            return ratios * scale


def random_table(
    rng: np.random.Generator, inputs: int, outputs: int, local_epsilon: float
) -> np.ndarray:
    """Half the time tempered, half the time extremal."""
    make = tempered_table if outputs < inputs or rng.random() < 0.5 else staircase_table
    return make(rng, inputs, outputs, local_epsilon)


def random_sequence(
    rng: np.random.Generator, *, n: int, inputs: int, outputs: int, local_epsilon: float
) -> list[np.ndarray]:
    """Adaptive sequence: for every history, a table of its own."""
    sequence = []
    for position in range(n):
        histories = (outputs,) * position
        tables = [
            random_table(rng, inputs, outputs, local_epsilon) for _ in range(math.prod(histories))
        ]
        sequence.append(np.array(tables).reshape((*histories, inputs, outputs)))
    return sequence


def _softmax(logs: np.ndarray) -> np.ndarray:
    powers = np.exp(logs - logs.max(axis=1, keepdims=True))
    return powers / powers.sum(axis=1, keepdims=True)


def _scales(ratios: np.ndarray) -> Iterator[np.ndarray]:
    inputs, outputs = ratios.shape
    for columns in itertools.combinations(range(outputs), inputs):
        square = ratios[:, columns]
        if abs(np.linalg.det(square)) < 1e-9:
            continue
        solution = np.linalg.solve(square, np.ones(inputs))
        if np.all(solution >= 0):
            scale = np.zeros(outputs)
            scale[list(columns)] = solution
            yield scale


# --------------------------------------------------------------------------- adaptive shuffling

Order = tuple[int, ...]


def permutations(n: int) -> list[Order]:
    """Who answers at each position, equally likely: all orders."""
    return list(itertools.permutations(range(n)))


def transpositions(n: int) -> list[Order]:
    """Who answers at each position, equally likely: person 0 swapped with a uniform person."""
    orders = []
    for other in range(n):
        order = list(range(n))
        order[0], order[other] = order[other], order[0]
        orders.append(tuple(order))
    return orders


def transcript_law(
    sequence: Sequence[np.ndarray],
    data: Sequence[int],
    orders: Callable[[int], Iterable[Order]] = permutations,
) -> np.ndarray:
    """Exact law of ``z_i = R_i(z_1 .. z_{i-1}, data[order[i]])`` for a uniform order."""
    laws = [
        _chain([step[..., data[person], :] for step, person in zip(sequence, order, strict=True)])
        for order in orders(len(data))
    ]
    return np.mean(laws, axis=0)


def _chain(steps: Iterable[np.ndarray]) -> np.ndarray:
    law = np.ones(())
    for step in steps:
        law = law[..., None] * step
    return law


# ------------------------------------------------------------------- the clone post-processing


class Decomposition:
    """Every randomizer of a sequence as a mixture of two clones and what is left over.

    For inputs a, b of person 0 and everybody else's input x,

        R(x) = (p/2) zero + (p/2) one + (1 - p) rest(x).

    In Theorem 3.2 of "Hiding Among the Clones" ``zero`` and ``one`` are the distributions Q0 and Q1
    of which R(a) and R(b) are binary randomized response, R(a) = (e Q0 + Q1) / (e + 1) and
    R(b) = (Q0 + e Q1) / (e + 1).
    """

    def __init__(
        self,
        sequence: Sequence[np.ndarray],
        zero: Sequence[np.ndarray],
        one: Sequence[np.ndarray],
        clone_probability: float,
    ) -> None:
        self.zero, self.one = zero, one
        self.clone_probability = clone_probability
        self.rest = [
            (step - clone_probability / 2 * (left + right)[..., None, :]) / (1 - clone_probability)
            for step, left, right in zip(sequence, zero, one, strict=True)
        ]

    @classmethod
    def theorem(
        cls, sequence: Sequence[np.ndarray], pair: tuple[int, int], local_epsilon: float
    ) -> Decomposition:
        e = math.exp(local_epsilon)
        a, b = ([step[..., x, :] for step in sequence] for x in pair)
        zero = [(e * left - right) / (e - 1) for left, right in zip(a, b, strict=True)]
        one = [(e * right - left) / (e - 1) for left, right in zip(a, b, strict=True)]
        return cls(sequence, zero, one, math.exp(-local_epsilon))

    def is_valid(self) -> bool:
        parts = (*self.zero, *self.one, *self.rest)
        return all(bool(np.all(part >= -1e-12)) for part in parts)

    def post_process(self, zeros: int, ones: int, data: Sequence[int]) -> np.ndarray:
        """Algorithm 1: law of the transcript made from the two counts, without person 0's input.

        Labels 0, 1, 2 are put at the n positions in a uniformly random order; positions labelled
        2 are answered from their left-overs by a uniformly random choice of other people.
        """
        n = len(self.zero)
        laws = []
        for labels in _arrangements(zeros, ones, n - zeros - ones):
            blank = [position for position in range(n) if labels[position] == 2]
            for people in itertools.permutations(range(1, n), len(blank)):
                holder = dict(zip(blank, people, strict=True))
                laws.append(self._answer(labels, {i: data[who] for i, who in holder.items()}))
        return np.mean(laws, axis=0)

    def post_process_in_place(self, zeros: int, ones: int, data: Sequence[int]) -> np.ndarray:
        """The same for a transposition: people stay at their own position.

        Whoever answers at position 0 in place of person 0 is a uniform element of the positions
        labelled 0 or 1. That is where person 0 then is, which the labels must not know: right
        only if the other people's inputs cannot tell them apart.
        """
        n = len(self.zero)
        laws = []
        for labels in _arrangements(zeros, ones, n - zeros - ones):
            inputs = {i: data[i] for i in range(1, n) if labels[i] == 2}
            swaps = [i for i in range(n) if labels[i] != 2] if labels[0] == 2 else [0]
            law = [self._answer(labels, {**inputs, 0: data[swap]}) for swap in swaps]
            laws.append(np.mean(law, axis=0))
        return np.mean(laws, axis=0)

    def _answer(self, labels: Sequence[int], inputs: dict[int, int]) -> np.ndarray:
        return _chain(
            self.rest[i][..., inputs[i], :] if label == 2 else (self.zero, self.one)[label][i]
            for i, label in enumerate(labels)
        )


def _arrangements(zeros: int, ones: int, twos: int) -> set[tuple[int, ...]]:
    return set(itertools.permutations((0,) * zeros + (1,) * ones + (2,) * twos))


# -------------------------------------------------------- what a transposition does not hide


def signalled_transposition(
    *, n: int, epsilon: float, local_epsilon: float, group: int, most: int | None = None
) -> float:
    """Lower bound on D_x when person 0 is only swapped with a uniform person.

    The first randomizer answers, truthfully with odds e, "is my input one of a group's?". If
    person 0 is at position a, then person a answers it, so that the answer "yes" makes the
    positions of the group e times likelier. The other randomizers are 3-ary randomized response;
    everybody but person 0 holds its third symbol. Only the answer "yes" and how often the first
    two symbols occur within the group's positions are looked at, each at most ``most`` times: the
    divergence of a function of the transcript, summed in part.
    """
    e, x = math.exp(local_epsilon), math.exp(epsilon)
    q, yes, no = 1 / (e + 2), e / (e + 1), 1 / (e + 1)
    counts = np.arange(min(group, group if most is None else most) + 1)
    log_factorial = np.concatenate([[0.0], np.cumsum(np.log(np.arange(1.0, group + 1)))])
    first, second = (side.ravel() for side in np.meshgrid(counts, counts, indexing="ij"))
    kept = first + second <= group
    first, second = first[kept], second[kept]
    third = group - first - second
    weight = np.exp(
        log_factorial[group]
        - log_factorial[first]
        - log_factorial[second]
        - log_factorial[third]
        + (first + second) * math.log(q)
        + third * math.log1p(-2 * q)
    )
    gain = first * (e - x) + second * (1 - e * x) + third * (1 - x) / e
    return float(weight @ np.maximum(yes * gain + no * (n - group) * (1 - x), 0.0)) / n


# ----------------------------------------------------------------------- binary randomized response


def binary_response_delta(n: float, epsilon: float, local_epsilon: float) -> float:
    """The divergence of shuffled binary randomized response, everybody else holding 0, from below.

    Feldman, McMillan, Talwar, FOCS 2021, arXiv:2012.12803, Appendix G, Equation 27: the ones are
    ``Bin(n-1, q) + Bernoulli(q)`` or ``Bin(n-1, q) + Bernoulli(1-q)``, q = 1/(e^local_epsilon + 1).
    """
    people, q = int(n), float(special.expit(-local_epsilon))
    reach = 20.0 * math.sqrt(people * q * (1 - q)) + 45
    low, high = math.floor(people * q - reach), math.ceil(people * q + reach)
    ones = np.arange(max(0, low), min(people, high) + 1)
    same, fewer = (stats.binom.pmf(ones - shift, people - 1, q) for shift in (0, 1))
    laws = [flip * fewer + (1 - flip) * same for flip in (q, 1 - q)]
    growth = math.exp(epsilon)
    rounded_down = [
        first - growth * second - 3e-11 * (first + growth * second)
        for first, second in itertools.permutations(laws)
    ]
    return max(float(np.maximum(gains, 0.0).sum()) for gains in rounded_down)


def binary_response_epsilon(
    n: float, delta: float, local_epsilon: float, iterations: int = 40
) -> float:
    """Algorithm 7 (Appendix G): no analysis of all randomizers can promise a smaller epsilon."""
    low, high = 0.0, float(local_epsilon)
    for _ in range(iterations):
        middle = (low + high) / 2
        exceeds = binary_response_delta(n, middle, local_epsilon) > delta
        low, high = (middle, high) if exceeds else (low, middle)
    return low
