"""What operators are told about the shuffler's copies of the analyzers' keys."""

from __future__ import annotations

from dataclasses import replace

import pytest

from client_kit import DAY, NOW, Owner
from service_site import Shuffler
from shoal.service.keyring import ContradictionError, KeyList
from shoal.service.keyring.key_list import FUTURE_TOLERANCE, unverified
from shoal.service.ops.facts import copy_figures, copy_findings
from shoal.service.ops.health import Fact, State
from shoal.service.survey import Party


@pytest.fixture
def shuffler(tmp_path):
    party = Party(url="https://analyzer.example", fingerprint=Owner("analyzer").fingerprint)
    made = Shuffler.alone(tmp_path / "shuffler", analyzer=party)
    yield made
    made.close()


def told(shuffler, now=NOW):
    store = shuffler.store
    findings = list(copy_findings(store.surveys.all(), store.key_lists, now))
    figures = [each.value for each in copy_figures(store.surveys.all(), store.key_lists, now)]
    ready = Fact("analyzer keys", lambda: findings).summary()
    return [finding.state for finding in findings], ready, figures


def test_a_copy_that_is_lacking_or_has_ended_is_a_warning(shuffler):
    states, ready, figures = told(shuffler)
    assert (states, ready.state, figures) == ([State.WARN], State.WARN, [1, 0])
    assert "no copy yet" in ready.detail
    assert "reaches the analyzer's address" in ready.advice
    shuffler.store.key_lists.keep(unverified(Owner("analyzer").document()))
    states, ready, figures = told(shuffler)
    assert (states, ready.state, figures) == ([State.OK], State.OK, [0, 0])
    survey = replace(shuffler.survey, name="long", not_after=NOW + 500 * DAY)
    shuffler.store.surveys.add(survey)
    states, ready, figures = told(shuffler, NOW + 301 * DAY)
    assert (states, ready.state, figures) == ([State.WARN], State.WARN, [1, 0])
    assert "signature has expired" in ready.detail


def test_a_copy_that_devices_refuse_because_it_is_ahead_is_a_failure(shuffler):
    owner = Owner("analyzer")
    owner.issued = NOW + FUTURE_TOLERANCE
    shuffler.store.key_lists.keep(unverified(owner.document()))
    states, ready, figures = told(shuffler)
    assert (states, ready.state, figures) == ([State.OK], State.OK, [0, 0])
    owner.issued = NOW + 20 * DAY
    shuffler.store.key_lists.keep(unverified(owner.document()))
    states, ready, figures = told(shuffler)
    assert (states, ready.state, figures) == ([State.FAIL], State.WARN, [1, 0])
    assert "20 days ahead of this clock" in ready.detail
    assert "correct the clocks here and at the analyzer" in ready.advice
    states, ready, figures = told(shuffler, NOW + 19 * DAY)
    assert (states, ready.state, figures) == ([State.OK], State.OK, [0, 0])


def test_surveys_that_are_over_need_no_copy(shuffler):
    states, ready, figures = told(shuffler, NOW + 31 * DAY)
    assert (states, ready.state, figures) == ([], State.OK, [0, 0])


def test_a_contradiction_is_a_failure_but_the_service_goes_on(shuffler):
    owner = Owner("analyzer")
    found = unverified(owner.document())
    shuffler.store.key_lists.keep(found)
    other = KeyList.signed(
        owner.identity, found.keys, issued=found.issued, valid_until=found.valid_until + 1
    )
    with pytest.raises(ContradictionError):
        shuffler.store.key_lists.keep(other)
    states, ready, figures = told(shuffler)
    assert (states, ready.state, figures) == ([State.OK, State.FAIL], State.WARN, [0, 1])
    assert "contradict each other" in ready.detail
