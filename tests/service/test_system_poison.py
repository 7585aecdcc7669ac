"""People who follow no protocol: they shift what is published by no more than it says they can.

Everybody's report goes the whole way: sealed, over HTTP, through the shuffler, to the analyzer's
published result. What the dishonest do to it needs no statistics: estimates are sums over reports,
so what is published, less what the honest reports alone add up to, is the work of the others.
"""

from __future__ import annotations

import numpy as np
import pytest

from http_kit import BYTES
from service_site import live
from shoal.mechanisms.dummies import UniformDummies
from shoal.mechanisms.response import HadamardResponse, RandomizedResponse
from shoal.randomness import simulated
from shoal.service.analyzer.decode import cells_of
from shoal.service.client.randomize import draw, seal
from shoal.values import Counts

PEOPLE = 300
ANSWERS = ("a", "b", "c", "d")
PUSHED = 3
# The answer that is pushed is rare among the honest.
SHARES = np.array([0.5, 0.3, 0.15, 0.05])
DEVICES = {
    "k-ary randomized response": RandomizedResponse(k=4, epsilon=3.0),
    "Hadamard response": HadamardResponse(k=4, epsilon=3.0),
    "dummies": UniformDummies.calibrated(k=4, n=250, epsilon=2.9, delta=1e-6),
}
RANDOMIZERS = [name for name in DEVICES if name != "dummies"]


def poisoned_by(share, name):
    """A survey that allows for such a share of dishonest people."""
    return {
        "device": DEVICES[name],
        "answers": ANSWERS,
        "minimum": PEOPLE,
        "target": PEOPLE,
        "dishonest": share,
        "epsilon": 3.03,
    }


def rows_of(device, numbers):
    """Numbers as messages, whether or not a device may send them."""
    width = device.message_bytes
    return b"".join(int(number).to_bytes(width, "big") for number in numbers)


def added(device, rows, people):
    """What messages add to every answer's estimated count."""
    table = np.frombuffer(rows, dtype=np.uint8).reshape(-1, device.message_bytes)
    return device.estimate(Counts(cells_of(device, table), people)).counts


def worst(device):
    """The messages of one report that push the answer most: all that can be sent are tried."""
    slots = getattr(device, "slots", 1)
    tried = [rows_of(device, [number] * slots) for number in range(device.outputs)]
    return max(tried, key=lambda rows: added(device, rows, 1)[PUSHED])


def published(site, messages):
    """The result of one batch with everybody's messages."""
    reports = seal(site.wire, messages, site.keys())
    assert site.post(reports).json() == {"reports": PEOPLE, "refused": []}
    for worker in (site.shuffler_worker(), site.analyzer_worker()):
        while worker.step():
            pass
    (found,) = site.results()
    return found


def honest_values(people):
    counts = np.floor(SHARES * people).astype(np.int64)
    counts[0] += people - counts.sum()
    return np.repeat(np.arange(4), counts)


@pytest.mark.parametrize(
    ("name", "share"), [(RANDOMIZERS[0], 0.01), *((name, 0.05) for name in DEVICES)]
)
def test_who_pushes_an_answer_moves_it_within_the_published_bound(tmp_path, name, share):
    liars = round(share * PEOPLE)
    device = DEVICES[name]
    with live(tmp_path, **poisoned_by(share, name)) as site:
        values = honest_values(PEOPLE - liars)
        honest = draw(site.survey, values, randomness=simulated(7)).messages
        found = published(site, honest + liars * worst(device))
    assert (found["status"], found["valid"]) == ("published", PEOPLE)
    assert found["honest"] == PEOPLE - liars
    shares = np.array([each["share"] for each in found["estimates"]])
    of_the_honest = added(device, honest, PEOPLE - liars)
    shift = (PEOPLE * shares - of_the_honest) / PEOPLE
    # The liars, too, have an answer: it may be the pushed one, or any other.
    bound = found["bias_bound"]
    assert np.abs(shift).max() <= bound
    assert shift[PUSHED] <= bound - liars / PEOPLE + 1e-12
    # They did their worst; the bound counts the answers that they owe, too, and not much more.
    assert shift[PUSHED] >= 0.9 * (bound - liars / PEOPLE)
    assert shift[PUSHED] > liars / PEOPLE
    # So it holds for what everybody reads, whatever the honest people's noise is.
    truth = np.bincount(values, minlength=4) / PEOPLE
    truth[0] += liars / PEOPLE
    errors = np.array([each["standard_error"] for each in found["estimates"]])
    assert (np.abs(shares - truth) <= bound + 6 * errors).all()


@pytest.mark.parametrize("name", RANDOMIZERS)
def test_what_is_out_of_range_counts_for_nothing(tmp_path, name):
    """One in twenty sends a number that no device has, from the least such to the largest."""
    device = DEVICES[name]
    liars = PEOPLE // 20
    outside = np.linspace(device.outputs, 256**device.message_bytes - 1, liars).astype(int)
    with live(tmp_path, **poisoned_by(0.05, name) | {"minimum": PEOPLE - liars}) as site:
        values = honest_values(PEOPLE - liars)
        honest = draw(site.survey, values, randomness=simulated(8)).messages
        found = published(site, honest + rows_of(device, outside))
    assert found["rejected"]["inadmissible"] == liars
    assert (found["status"], found["valid"]) == ("published", PEOPLE - liars)
    counts = [each["count"] for each in found["estimates"]]
    assert counts == pytest.approx(added(device, honest, PEOPLE - liars))


def test_a_slot_that_is_out_of_range_costs_its_sender_the_report(tmp_path):
    device = DEVICES["dummies"]
    liars = PEOPLE // 20
    outside = rows_of(
        device, np.linspace(device.outputs + 1, 255, liars * device.slots).astype(int)
    )
    with live(tmp_path, **poisoned_by(0.05, "dummies") | {"minimum": 270}) as site:
        values = honest_values(PEOPLE - liars)
        honest = draw(site.survey, values, randomness=simulated(9)).messages
        found = published(site, honest + outside)
        (report,) = seal(site.wire, rows_of(device, [PUSHED] * device.slots), site.keys())
        # What is longer than a report does not get that far.
        for longer in (report + b"x", report * 2 + report[:1], report + bytes(1 << 20)):
            answer = site.http.post(f"{site.path}/reports", content=longer, headers=BYTES)
            assert answer.status_code == 400
            assert answer.json()["type"].endswith("wrong_length")
    assert found["rejected"]["inadmissible"] == liars * device.slots
    assert found["valid"] == PEOPLE - liars * device.slots
