"""What a device does with an answer, in words: with the odds that it really draws by.

Every mechanism has one sentence on what leaves the device, and one or two on how that comes about.
The odds are taken from the whole numbers of the sampler, which are part of the survey.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from typing import cast

from shoal.explain.text import down, plain
from shoal.protocols.base import Device
from shoal.randomizers.base import NumberMechanism
from shoal.service.survey.document import Survey

_SCALES = tuple(10**digits for digits in range(2, 17))
_NEAR = Fraction(1, 4)  # by how much of the rarer case a number may be off
_HALF = Fraction(1, 2)
_QUARTER = Fraction(1, 4)
_DENIABLE = (
    "Whatever leaves your device, it may have come from any answer: nobody can prove from it what "
    "you said."
)
_ONLY_THE_CROWD = (
    "What hides your answer is that all this is mixed with what everybody else sends, and that "
    "nobody knows which messages belong together."
)


@dataclass(frozen=True)
class DeviceWords:
    """What leaves the device, and how it comes about."""

    leaves: str
    how: tuple[str, ...]


def _words(leaves: str, *how: str) -> DeviceWords:
    return DeviceWords(leaves, how)


def cases(probability: Fraction) -> str:
    """A probability as people say it.

    >>> cases(Fraction(1, 2)), cases(Fraction(731, 1000)), cases(Fraction(99971, 100000))
    ('50 of 100 cases', 'about 73 of 100 cases', 'about 9,997 of 10,000 cases')
    """
    rarer = min(probability, 1 - probability)
    for scale in _SCALES:
        number = round(probability * scale)
        off = abs(Fraction(number, scale) - probability)
        if 0 < number < scale and off <= _NEAR * rarer:
            return f"{'about ' if off else ''}{number:,} of {scale:,} cases"
    return "almost all cases" if probability > _HALF else "hardly any cases"


def device_words(survey: Survey) -> DeviceWords:
    """What this survey's mechanism does with an answer."""
    return _WORDS[survey.device.name](survey)


def _whole(device: Device, name: str) -> int:
    """A number of the sampler; large ones are written as text."""
    return int(cast("int | str", device.integers[name]))


def _probability(device: Device, name: str) -> Fraction:
    """A probability that the sampler has in so many bits."""
    return Fraction(_whole(device, name), 1 << _whole(device, "bits"))


def _truth(device: Device) -> Fraction:
    """The probability with which randomized response keeps what it was given."""
    return Fraction(_whole(device, "high"), _whole(device, "total"))


def _response(survey: Survey) -> DeviceWords:
    return _one_answer(survey, _truth(survey.device))


def _one_answer(survey: Survey, truth: Fraction) -> DeviceWords:
    others, often = len(survey.answers) - 1, cases(truth)
    another = (
        "the other one" if others == 1 else f"one of the other {others:,}, each as likely as any"
    )
    return _words(
        f"One answer leaves your device, and chance decides which: yours in {often}, another one "
        "otherwise.",
        f"Your device draws a random number. In {often} it reports your answer; otherwise "
        f"{another}. Which case it was is written down nowhere.",
        _DENIABLE,
    )


def _fitting(truth: Fraction, how: str) -> DeviceWords:
    """A message that fits some of the answers."""
    often = cases(truth)
    return _words(
        "One message leaves your device, and chance decides which: one that fits your answer, as "
        f"it may fit others, in {often}, and one that does not otherwise.",
        f"{how} In {often} your device sends a message that fits your answer, otherwise one "
        "that does not. Which case it was is written down nowhere.",
        _DENIABLE,
    )


def _hadamard(survey: Survey) -> DeviceWords:
    device = survey.device
    truth = _truth(device)
    messages = _whole(device, "blocks") * _whole(device, "width")
    how = (
        f"There are {messages:,} messages, and every answer fits {_whole(device, 'width') // 2:,} "
        "of them by a public table."
    )
    return _fitting(truth, how)


def _projective(survey: Survey) -> DeviceWords:
    device = survey.device
    q, t = _whole(device, "q"), _whole(device, "t")
    inside, messages = (q ** (t - 1) - 1) // (q - 1), (q**t - 1) // (q - 1)
    truth = Fraction(inside * _whole(device, "high"), _whole(device, "total"))
    how = f"There are {messages:,} messages, and every answer fits {inside:,} of them by a rule."
    return _fitting(truth, how)


def _hashing(survey: Survey) -> DeviceWords:
    device = survey.device
    truth = _truth(device)
    groups = _whole(device, "buckets")
    how = f"Your device first sorts all answers into {groups:,} groups, by chance."
    return _fitting(truth, how)


def _subset(survey: Survey) -> DeviceWords:
    device = survey.device
    truth = Fraction(_whole(device, "with"), _whole(device, "total"))
    size, answers = _whole(device, "size"), len(survey.answers)
    if size == 1:
        return _one_answer(survey, truth)
    often = cases(truth)
    return _words(
        f"A list of {size:,} answers leaves your device, and chance decides which: yours is on it "
        f"in {often}.",
        f"Your device draws {size:,} of the {answers:,} answers. In {often} yours is one of "
        "them, otherwise it is not; the others are drawn without looking at it.",
        _DENIABLE,
    )


def _unary(survey: Survey) -> DeviceWords:
    true, false = (cases(_probability(survey.device, name)) for name in ("true", "false"))
    return _words(
        "A list of answers leaves your device, and chance decides which: yours is on it in "
        f"{true}, every other answer in {false}.",
        "Your device tosses a coin of its own for every answer. Yours goes on the list in "
        f"{true}, each other one in {false}.",
        _DENIABLE,
    )


def _bounds(survey: Survey) -> tuple[str, str]:
    device = cast("NumberMechanism", survey.device)
    return plain(device.low), plain(device.high)


def _one_bit(survey: Survey) -> DeviceWords:
    device = survey.device
    truth = cases(_truth(device))
    low, high = _bounds(survey)
    return _words(
        "One word leaves your device, low or high, and chance decides which: the larger your "
        "number, the more often it is high.",
        f"For {low} your device says low in {truth}, for {high} it says high in {truth}, and "
        "for numbers between them accordingly. No digit of your number is sent.",
        _DENIABLE,
    )


def _steps(survey: Survey) -> DeviceWords:
    device = survey.device
    truth = cases(_truth(device))
    low, high = _bounds(survey)
    outputs = _whole(device, "outputs")
    return _words(
        f"One of {outputs:,} steps from {low} to {high} leaves your device, and chance decides "
        f"which: that of your number in {truth}, another one otherwise.",
        "Your device rounds your number up or down to one of the steps, by chance. In "
        f"{truth} it reports that step, otherwise one of the other {outputs - 1:,}, each as "
        "likely as any.",
        _DENIABLE,
    )


def _window(survey: Survey) -> DeviceWords:
    device = survey.device
    width, outputs = _whole(device, "width"), _whole(device, "outputs")
    truth = cases(Fraction(width * _whole(device, "high"), _whole(device, "total")))
    part = cases(Fraction(width, outputs)).removesuffix(" cases")
    return _words(
        f"One number leaves your device, drawn by chance: near yours in {truth}, anywhere else "
        "otherwise.",
        f"Near yours is a window that covers {part} of all that can be reported. In {truth} "
        "your device draws a number from this window, otherwise one from outside it.",
        _DENIABLE,
    )


def _noise(survey: Survey) -> DeviceWords:
    device = survey.device
    tails = [int(tail) for tail in cast("list[int]", device.integers["tails"])]
    total = _whole(device, "total")
    # Towards a bound a number is moved no further than the bound. Half of the range is free on one
    # side at least, and so far it is moved there as often as if there were no bound.
    last = len(tails) - 1
    chances = [Fraction(tail, total) for tail in tails[1 : max(last // 2, 1) + 1]]
    steps = max((j for j, chance in enumerate(chances, 1) if chance >= _QUARTER), default=1)
    numbers = cast("NumberMechanism", device)
    far = plain(float(down(steps * (numbers.high - numbers.low) / last, 2)))
    moved = cases(chances[steps - 1])
    return _words(
        "Your number leaves your device rounded, and moved by chance from there: by "
        f"{far} or more in {moved} at least.",
        f"Your device rounds your number to one of {last + 1:,} steps, adds a random number, above "
        "or below zero, and reports the sum; what is beyond a bound is reported as the bound.",
        _DENIABLE,
    )


def _dummies(survey: Survey) -> DeviceWords:
    device = survey.device
    always, more = _whole(device, "always"), _probability(device, "sometimes")
    parts = [f"{always:,} made-up one{'s' * (always > 1)}"] if always else []
    if more:
        parts.append(f"a made-up one{' more' * (always > 0)} in {cases(more)}")
    return _words(
        "Your answer leaves your device as it is, at times with made-up ones beside it; only the "
        "crowd hides whose it is.",
        f"Your device sends your answer, and with it {' and '.join(parts)}. Made-up ones may "
        "be any answer, each as likely, and every message is sealed by itself.",
        _ONLY_THE_CROWD,
    )


def _hashed(survey: Survey) -> DeviceWords:
    among = _dummies(survey)
    how = "A message does not name an answer, but one of many groups that it belongs to."
    return _words(among.leaves, *among.how, how)


def _sparse(survey: Survey) -> DeviceWords:
    each = cases(_probability(survey.device, "gamma"))
    answers = len(survey.answers)
    return _words(
        "Your answer leaves your device as it is, at times with made-up ones beside it; only the "
        "crowd hides whose it is.",
        f"Your device sends your answer, and of each of the {answers:,} answers one more copy "
        f"in {each}. Every message is sealed by itself.",
        _ONLY_THE_CROWD,
    )


def _zero_sum(survey: Survey) -> DeviceWords:
    each = cases(_probability(survey.device, "gamma"))
    return _words(
        "Every answer leaves your device, and yours once more; only the crowd hides whose it is.",
        "Your device sends one copy of every answer and one more of yours, but holds each of "
        f"the former back in {each}. Every message is sealed by itself.",
        _ONLY_THE_CROWD,
    )


def _zero_sum_count(survey: Survey) -> DeviceWords:
    each = cases(_probability(survey.device, "gamma"))
    no, yes = survey.answers
    return _words(
        f"One mark leaves your device, and one more if you answer “{yes}”; only the crowd hides "
        "whose it is.",
        f"Your device sends one mark, but holds it back in {each}. For “{yes}” it sends one "
        f"more, for “{no}” none. From outside all envelopes look the same.",
        _ONLY_THE_CROWD,
    )


def _coins(survey: Survey) -> DeviceWords:
    coin = _probability(survey.device, "coins")
    truth = cases(1 - coin / 2)
    return _words(
        f"One answer leaves your device, and chance decides which: yours in {truth}, the other one "
        "otherwise.",
        f"In {cases(coin)} your device tosses a fair coin and reports what the coin says; "
        "otherwise it reports your answer.",
        _DENIABLE,
    )


def _marks(survey: Survey) -> DeviceWords:
    number = isinstance(survey.device, NumberMechanism)
    if number:
        sent = "as many marks as your number has steps"
    else:
        no, yes = survey.answers
        sent = f"one mark for “{yes}” and none for “{no}”"
    return _words(
        "Marks that stand for your answer leave your device, at times with noise beside them; only "
        "the crowd hides whose they are.",
        f"Your device sends {sent}, and by chance some marks more, above and below zero. All "
        "devices together make the noise; most add none. Every mark is sealed by itself.",
        _ONLY_THE_CROWD,
    )


def _split(survey: Survey) -> DeviceWords:
    shares = survey.slots
    return _words(
        f"Your number leaves your device in {shares:,} random pieces that say nothing by "
        "themselves: only the sum of everybody's pieces can be read.",
        "Your device adds its share of noise to your number, and splits the sum into "
        f"{shares:,} numbers. Any {shares - 1:,} of them are plain chance; all of them add up to "
        "that sum.",
        _ONLY_THE_CROWD,
    )


_WORDS: dict[str, Callable[[Survey], DeviceWords]] = {
    "grr": _response,
    "hadamard": _hadamard,
    "projective": _projective,
    "subset": _subset,
    "unary": _unary,
    "hashing": _hashing,
    "laplace": _noise,
    "duchi": _one_bit,
    "piecewise": _window,
    "rounded": _steps,
    "dummies": _dummies,
    "sparse": _sparse,
    "zero-sum": _zero_sum,
    "hashed-dummies": _hashed,
    "near-central": _marks,
    "zero-sum-count": _zero_sum_count,
    "coins": _coins,
    "split-and-mix": _split,
    "near-central-sum": _marks,
}
NAMES = frozenset(_WORDS)
