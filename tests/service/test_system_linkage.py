"""Who knows the order in which reports came in learns nothing from the order they come out in.

The way is the true one: sorted, stored, opened, moved into a batch, mixed, released. Only the
sealing is a double, for there are many reports.
"""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from peers_kit import free_sealing
from service_site import Batchwise
from shoal.service import opening
from shoal.service.shuffler import reports
from shoal.service.shuffler import worker as worker_module
from shoal.service.shuffler.mixing import mix_records, mixed

FEW = 10
SMALLEST_P = 1e-7


@pytest.fixture
def quick(monkeypatch):
    free_sealing(monkeypatch)


class Watched(Batchwise):
    """A shuffler, and what somebody knows who saw every report come in."""

    def __init__(self, directory, people):
        super().__init__(directory, people)
        self.arrived = {}

    def send(self, people, crowd=0, at_once=1):
        """People arrive one after the other, so many in each request."""
        keys, (section,) = self.keys(crowd), self.wire.sections
        reports, message = [], bytes(section.message_bytes)
        for place in range(people):
            record = section.inner.seal(message, keys.analyzer)
            self.arrived[record] = place
            reports.append(self.wire.outer.seal(record, keys.shuffler))
        for start in range(0, people, at_once):
            self.receive(reports[start : start + at_once])

    def order(self):
        """For every batch, the places of arrival in the order of release."""
        (section,) = self.wire.sections
        batches = (section.split(bytes(batch.body)) for batch in self.files())
        found = [np.array([self.arrived.pop(record) for record in batch]) for batch in batches]
        assert not self.arrived
        return found


def table_of(rows):
    """How often who arrived as the i-th is released as the j-th; ``rows`` has arrivals."""
    table = np.zeros((FEW, FEW), dtype=np.int64)
    for place in range(FEW):
        table[:, place] = np.bincount(rows[:, place], minlength=FEW)
    return table


def groups_of(order):
    """Ten who came in one after the other, in the order they come out, for all such tens.

    Disjoint parts of a uniformly random order are ordered uniformly and independently.
    """
    by_group = np.argsort(order // FEW, kind="stable")
    return order[by_group].reshape(-1, FEW) % FEW


def check_uniform(table):
    """Rows and columns are fixed, so (n - 1)^2 degrees of freedom and a factor (n - 1)/n."""
    trials = int(table[0].sum())
    expected = trials / FEW
    statistic = (FEW - 1) / FEW * ((table - expected) ** 2 / expected).sum()
    assert stats.chi2.sf(statistic, (FEW - 1) ** 2) > SMALLEST_P
    # The best guess of the place of anybody, whoever it is.
    largest = stats.binom.isf(SMALLEST_P / table.size, trials, 1 / FEW)
    assert table.max() <= largest
    return table.max() / trials


def check_tau(order):
    n = len(order)
    found = stats.kendalltau(np.arange(n), order).statistic
    sigma = np.sqrt(2 * (2 * n + 5) / (9 * n * (n - 1)))
    assert abs(found) < 5.4 * sigma  # once in 15 million


@pytest.mark.usefixtures("quick")
def test_a_large_batch_is_not_linked_to_its_arrivals(tmp_path):
    people = 20_000
    watched = Watched(tmp_path, people)
    watched.send(people, at_once=250)
    (order,) = watched.order()
    assert sorted(order) == [*range(people)]
    check_tau(order)
    check_uniform(table_of(groups_of(order)))
    watched.close()


@pytest.mark.parametrize("rounds", [1, pytest.param(80, marks=pytest.mark.slow)])
@pytest.mark.usefixtures("quick")
def test_small_batches_are_not_linked_to_their_arrivals(tmp_path, rounds):
    """Ten people a batch, in three requests; the slow one has twenty thousand batches."""
    watched, found = Watched(tmp_path, FEW), []
    for _ in range(rounds):
        for crowd in range(250):
            watched.send(FEW, crowd, at_once=4)
        found += watched.order()
    assert len(found) == 250 * rounds
    rows = np.array(found)
    check_uniform(table_of(rows))
    watched.close()


@pytest.mark.usefixtures("quick")
def test_the_check_finds_an_order_that_is_kept(tmp_path, monkeypatch):
    """Reports are mixed when they are opened, as a part and when a batch closes: here, never.

    Those of one request: a worker takes requests in an order that means nothing, too.
    """
    original = mix_records

    class Kept:
        def permutation(self, size):
            return np.arange(size)

    monkeypatch.setattr(opening, "_mixed", lambda rows: rows)
    monkeypatch.setattr(reports, "mixed", lambda *given: mixed(*given, randomness=Kept()))
    monkeypatch.setattr(
        worker_module,
        "mix_records",
        lambda *given, **named: original(*given, **named, randomness=Kept()),
    )
    people = 1000
    watched = Watched(tmp_path, people)
    watched.send(people, at_once=people)
    (order,) = watched.order()
    with pytest.raises(AssertionError):
        check_tau(order)
    with pytest.raises(AssertionError):
        check_uniform(table_of(groups_of(order)))
    watched.close()


@pytest.mark.parametrize("trials", [20_000, pytest.param(10**6, marks=pytest.mark.slow)])
def test_the_best_guess_after_many_trials(tmp_path, trials):
    """Ten people, a million times: nobody's place is guessed better than by 1.05/n."""
    rounds = 10
    records = FEW * trials // rounds
    source = tmp_path / "records"
    source.write_bytes(np.arange(records, dtype="<u4").tobytes())
    table = np.zeros((FEW, FEW), dtype=np.int64)
    for _ in range(rounds):
        with (tmp_path / "mixed").open("wb") as mixed:
            mix_records([source], mixed, record_bytes=4, scratch=tmp_path)
        order = np.fromfile(tmp_path / "mixed", dtype="<u4").astype(np.int64)
        table += table_of(groups_of(order))
    assert table.sum() == FEW * trials
    best = check_uniform(table)
    assert trials < 10**6 or best <= 1.05 / FEW
