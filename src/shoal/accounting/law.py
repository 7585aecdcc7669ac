"""Blanket laws: all that the shuffle model's guarantee needs to know about a randomizer.

For a blanket law with atoms ``(m_i, rho0_i, rho1_i)`` and ``x = e^epsilon``, n shuffled reports
satisfy, for every choice of the other people's data,

    delta(epsilon) <= (1/n) E[(Z_1 + ... + Z_n)_+],

with iid ``Z = rho0_i - x rho1_i`` with probability ``m_i`` and 0 with the remaining probability
(Balle, Bell, Gascón, Nissim, "The Privacy Blanket of the Shuffle Model", CRYPTO 2019, Lemma 5.3,
rewritten; docs/theory/blanket.md). A randomizer *returns* its law; the accountant evaluates it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from numbers import Real
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from shoal import checks
from shoal.accounting import table as tables
from shoal.accounting.atoms import NORMALISATION_TOLERANCE, Array, AtomLike, PairLaw, distinct
from shoal.errors import InvalidArgumentError

if TYPE_CHECKING:
    from shoal.accounting.density import NoiseDensity

LARGEST_LOCAL_EPSILON = 300.0
_CLAIM_TOLERANCE = 1e-12
_ATOM = [True] * 3  # three numbers
FIXED = "one fixed randomizer, the same for everybody"
ADAPTIVE = "any randomizers with this local guarantee, even chosen adaptively"


@dataclass(frozen=True)
class Ends:
    """The least and the largest probability of output 1, and of output 0.

    ``least`` and ``most`` are those of 1, ``rest`` is 1 - most, ``unlike`` 1 - least: given and not
    computed, since a difference would have lost its digits. Zero is none of them.
    """

    least: float
    most: float
    unlike: float
    rest: float

    @classmethod
    def of(cls, rows: Array) -> Ends | None:
        """Those of a table's rows, if it has two columns that are not all equal, and no zero."""
        if rows.shape[1] != 2 or not (rows > 0).all() or np.ptp(rows[:, 1]) == 0:
            return None
        zero, one = rows.T
        return cls(float(one.min()), float(one.max()), float(zero.max()), float(zero.min()))

    @property
    def local_epsilon(self) -> float:
        """Of an output 1."""
        return math.log(self.most / self.least)

    @property
    def mirrored(self) -> Ends:
        """Outputs exchanged: the other order of the two data sets."""
        return Ends(self.rest, self.unlike, self.most, self.least)

    @cached_property
    def orders(self) -> tuple[Ends, ...]:
        """Whose divergences differ."""
        return (self,) if self == self.mirrored else (self, self.mirrored)

    @property
    def spread(self) -> float:
        """Deviation of one person's loss among many, to leading order."""
        variance = min(self.least * self.unlike, self.most * self.rest)
        return (self.most - self.least) / math.sqrt(variance)


@dataclass(frozen=True)
class Claim:
    """Whose guarantee a law proves: the theorem, the randomizers it covers, their local epsilon.

    ``local_epsilon`` is the claimed one where there is a claim; the atoms must keep it.
    ``binary`` says that binary randomized response is covered, so that it bounds from below.
    ``clone_probability`` is that of the clone pair which the law is equivalent to, if it is one.
    ``categories`` is k if the claim is about k-ary randomized response.
    ``gaussian`` says that reports are Gaussian: how far apart two of them can be, over sigma. Then
    the curve of one of them is known exactly. ``ends`` says that an output is one of two.
    """

    theorem: str = "privacy blanket"
    scope: str = FIXED
    local_epsilon: float | None = None
    binary: bool = False
    clone_probability: float | None = None
    categories: int | None = None
    gaussian: float | None = None
    ends: Ends | None = None


PairLike = PairLaw | Iterable[AtomLike]


@dataclass(frozen=True, init=False)
class BlanketLaw:
    """A blanket law: atoms, one list for each inequivalent ordered pair of inputs.

    δ(ε) is the maximum over the lists. Both orders of a pair are covered: a list that is not
    its own mirror image gets the mirror image added. Anything with a ``law()`` that returns
    one is a randomizer to :func:`shoal.amplify`.

    Args:
        pairs: Lists of atoms ``(mass, rho0, rho1)``, or one such list: the blanket's mass
            of an outcome, and the ratios to the blanket of its probabilities under both inputs.
        witnesses: Makes exact laws of explicit neighbouring data sets (the blanket replaced
            by what the others really send, so their mass is 1): they give lower bounds.
        claim: The theorem, its scope and the ε₀ that is claimed; by default what the atoms say.

    Raises:
        InvalidArgumentError: The atoms are not those of a blanket (a ratio below 1, a mass above
            1), or exceed the ε₀ that is claimed.

    References:
        Balle, Bell, Gascón, Nissim, "The Privacy Blanket of the Shuffle Model", CRYPTO 2019;
        :doc:`/theory/blanket`.

    Example:
        >>> e = math.e
        >>> hadamard = BlanketLaw([(0.5 / (e + 1), a, b) for a in (e, 1.0) for b in (e, 1.0)])
        >>> round(hadamard.local_epsilon, 12)
        1.0
    """

    pairs: tuple[PairLaw, ...]
    claim: Claim
    local_epsilon: float
    explicit: Callable[[], Iterable[PairLike]] = field(repr=False, compare=False)

    def __init__(
        self,
        pairs: Iterable[PairLike] | Iterable[AtomLike],
        *,
        witnesses: Callable[[], Iterable[PairLike]] = tuple,
        claim: Claim | None = None,
    ) -> None:
        listed = _pair_laws(pairs)
        if not listed:
            raise InvalidArgumentError("pairs", [], "at least one list of atoms")
        # A blanket lies below both output laws.
        lowest = min(float(np.append(pair.rho0, pair.rho1).min(initial=1.0)) for pair in listed)
        if lowest < 1 - NORMALISATION_TOLERANCE:
            expected = "atoms of a blanket: rho0 >= 1 and rho1 >= 1"
            raise InvalidArgumentError("rho", lowest, expected)
        claim = claim or Claim()
        both = distinct([*listed, *(pair.reversed() for pair in listed)])
        actual = max(pair.local_epsilon for pair in both)
        claimed = actual if claim.local_epsilon is None else claim.local_epsilon
        if actual > claimed + _CLAIM_TOLERANCE * (1 + claimed):
            expected = f"atoms within the claimed local_epsilon={claimed:g}"
            raise InvalidArgumentError("atoms", f"log-ratio {actual:.6g}", expected)
        vars(self).update(pairs=both, explicit=witnesses, claim=claim, local_epsilon=claimed)

    @cached_property
    def witnesses(self) -> tuple[PairLaw, ...]:
        """Exact laws of explicit neighbouring data sets, computed on first use."""
        return distinct(_pair_laws(self.explicit()))

    @classmethod
    def generic(cls, local_epsilon: float) -> BlanketLaw:
        """Any sequence of local_epsilon-DP randomizers: the optimal clones.

        Two atoms of mass 1/(e^eps0 + 1) with ratios (e^eps0, 1) and (1, e^eps0); proved in
        docs/theory/optimal-clones.md for adaptively chosen randomizers too.
        """
        e = _exponential(local_epsilon)
        atoms = [(1 / (e + 1), e, 1.0), (1 / (e + 1), 1.0, e)]
        return cls._of_clones("optimal clones", local_epsilon, 2 / (e + 1), atoms)

    @classmethod
    def clones(cls, local_epsilon: float) -> BlanketLaw:
        """Any sequence of local_epsilon-DP randomizers: the clones of FMT21, Theorem 3.2.

        The blanket is e^-eps0 (R_0 + R_1)/2, whose two extreme ratios give the published pair.
        """
        e = _exponential(local_epsilon)
        near, far = 2 * e / (e + 1), 2 * e * (e / (e + 1))
        atoms = [(0.5 / e, far, near), (0.5 / e, near, far)]
        return cls._of_clones("clones (FMT21 Theorem 3.2)", local_epsilon, 1 / e, atoms)

    @classmethod
    def _of_clones(
        cls, theorem: str, local_epsilon: float, probability: float, atoms: list[AtomLike]
    ) -> BlanketLaw:
        """The law of a clone pair; randomized response is among what it covers."""
        e = math.exp(local_epsilon)
        claim = Claim(theorem, ADAPTIVE, local_epsilon, binary=True, clone_probability=probability)
        witnesses = partial(_response_witnesses, e=e)
        return cls(atoms, witnesses=lambda: [*witnesses(3), *witnesses(2)], claim=claim)

    @classmethod
    def deletion(cls, epsilon: float) -> BlanketLaw:
        """Any sequence of deletion epsilon-DP randomizers (FMT21, Definition 3.6).

        Every R(x) lies within e^{+-epsilon} of one reference distribution, so the blanket is
        e^-epsilon times the reference: more than replacement 2 epsilon-DP would give.
        Proved in docs/theory/deletion.md.
        """
        a = _exponential(epsilon, "deletion_epsilon")
        edge = 1 / (a * (a + 1))
        atoms = [(edge, a * a, 1.0), (edge, 1.0, a * a), ((a - 1) * edge, 1.0, 1.0)]
        claim = Claim("deletion clones", ADAPTIVE, 2 * epsilon)
        return cls(atoms, witnesses=lambda: [_deletion_witness(a)], claim=claim)

    @classmethod
    def randomized_response(cls, *, k: int, epsilon: float) -> BlanketLaw:
        """k-ary randomized response: the truth with probability e^eps/(e^eps + k - 1)."""
        k = checks.count(2, k=k)
        e = _exponential(epsilon)
        z = e + k - 1
        atoms = [(1 / z, e, 1.0), (1 / z, 1.0, e), ((k - 2) / z, 1.0, 1.0)]
        ends = Ends(1 / z, e / z, e / z, 1 / z) if k == 2 and epsilon > 0 else None
        claim = Claim(local_epsilon=epsilon, binary=k == 2, categories=k, ends=ends)
        return cls(atoms, witnesses=lambda: _response_witnesses(k, e), claim=claim)

    @classmethod
    def from_table(cls, table: npt.ArrayLike, *, local_epsilon: float | None = None) -> BlanketLaw:
        """The law of a randomizer given as ``table[x, y] = Pr[output y | input x]``.

        If ``local_epsilon`` is given, an entry that breaks it is an error.
        """
        rows = tables.validated(table, local_epsilon=local_epsilon)
        return cls(
            tables.blanket_pairs(rows),
            witnesses=lambda: tables.witness_pairs(rows),
            claim=Claim(local_epsilon=local_epsilon, ends=Ends.of(rows)),
        )

    @classmethod
    def from_density(
        cls,
        noise: NoiseDensity,
        *,
        low: float,
        high: float,
        local_epsilon: float | None = None,
        step: float | None = None,
        theorem: str = "privacy blanket of the density",
    ) -> BlanketLaw:
        """The law of a number between public bounds plus log-concave noise.

        ``noise`` is a frozen distribution of ``scipy.stats``, or anything with its ``logpdf``,
        ``cdf`` and ``sf``, right to 1e-14. Its density is positive and log-concave: that is checked
        on two thousand outputs, and refused if it is not.
        It covers every pair of numbers (docs/theory/beyond-pure.md), and needs no finite local
        epsilon; if there is one, ``local_epsilon``, no output is counted as lost. Reports may be
        rounded to low + ``step`` times a whole number, high among them: a lower bound is then of
        what is sent.

        >>> from scipy import stats
        >>> law = BlanketLaw.from_density(stats.logistic(scale=0.5), low=0, high=1)
        >>> law.local_epsilon, round(law.shuffle_index, 2)
        (inf, 0.57)
        """
        from shoal.accounting import density
        from shoal.accounting.gaussian import Normal

        if local_epsilon is not None:
            checks.positive(local_epsilon=local_epsilon)
        pair, witnesses = density.envelope(
            noise, low=low, high=high, local_epsilon=local_epsilon, step=step
        )
        alone = (high - low) / noise.sigma if isinstance(noise, Normal) else None
        claim = Claim(theorem, local_epsilon=local_epsilon, gaussian=alone)
        return cls([pair], witnesses=witnesses, claim=claim)

    @property
    def shuffle_index(self) -> float:
        """How well reports hide among others: epsilon is about ``t/(index sqrt(n))`` for large n.

        One over the standard deviation of (R_0 - R_1)/b under the blanket b, of the worst pair: all
        that the guarantee of a large crowd depends on (docs/theory/beyond-pure.md; Takagi, Liew,
        "Analysis of Shuffling Beyond Pure Local Differential Privacy", arXiv 2601.19154).
        """
        return min(1 / pair.spread(1) if pair.spread(1) else math.inf for pair in self.pairs)

    def participating(self, probability: float) -> BlanketLaw:
        """The law when each person reports only with this probability, unseen by the analyzer."""
        checks.fraction(participation=probability)
        if probability == 1.0:
            return self
        return BlanketLaw(
            [pair.participating(probability) for pair in self.pairs],
            witnesses=lambda: [pair.participating(probability) for pair in self.witnesses],
            claim=replace(
                self.claim, binary=False, clone_probability=None, categories=None, ends=None
            ),
        )


def _response_witnesses(k: int, e: float) -> list[list[AtomLike]]:
    """k-ary randomized response, all others on one answer: a third one, or one of the two."""
    z = e + k - 1
    same: list[AtomLike] = [((k - 2) / z, 1.0, 1.0)]
    witnesses = [
        [(e / z, 1.0, 1 / e), (1 / z, 1.0, e), *same],
        [(e / z, 1 / e, 1.0), (1 / z, e, 1.0), *same],
    ]
    if k > 2:
        third = [(1 / z, e, 1.0), (1 / z, 1.0, e), (e / z, 1 / e, 1 / e)]
        witnesses.append([*third, ((k - 3) / z, 1.0, 1.0)])
    return witnesses


def _deletion_witness(a: float) -> list[AtomLike]:
    """Three outputs of reference mass (1, 1, a - 1)/(a + 1); the others avoid the first two.

    R_0 multiplies the reference by (a, 1/a, 1/a), R_1 by (1/a, a, 1/a); everybody else multiplies
    it by as much as a allows on the third output.
    """
    # first = (1 - third)/2 with the cancelling terms gone.
    if a >= 2:
        first = 1 / (a * (a + 1))
        third = (a + 2) / a * ((a - 1) / (a + 1))
    else:
        first = (1 + a * (2 - a)) / (2 * (a + 1))
        third = a * (a - 1) / (a + 1)
    high, low = a / (a + 1) / first, 1 / (a * (a + 1)) / first
    atoms = [(first, high, low), (first, low, high)]
    if third > 0:
        ratio = (a - 1) / (a * (a + 1)) / third
        atoms.append((third, ratio, ratio))
    return atoms


def _exponential(epsilon: float, name: str = "local_epsilon") -> float:
    checks.non_negative(**{name: epsilon})
    expected = f"{name} <= {LARGEST_LOCAL_EPSILON:g}"
    checks.refuse(epsilon > LARGEST_LOCAL_EPSILON, expected, **{name: epsilon})
    return math.exp(epsilon)


def _pair_laws(pairs: Iterable[PairLike] | Iterable[AtomLike]) -> list[PairLaw]:
    """Lists of atoms, or one list of atoms, as laws."""
    listed: list[Any] = [pair if isinstance(pair, PairLaw) else list(pair) for pair in pairs]
    if all(
        isinstance(atom, list) and [isinstance(m, Real) for m in atom] == _ATOM for atom in listed
    ):
        return [PairLaw.of(listed)] if listed else []
    return [pair if isinstance(pair, PairLaw) else PairLaw.of(pair) for pair in listed]
