"""Recorded invitations, codes and surveys of version 2: what clients in every language agree on."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from shoal.errors import InvalidArgumentError
from shoal.sealing import SurveyId
from shoal.service.admission import Invitation
from shoal.service.survey import Survey

RECORDED = json.loads((Path(__file__).parent / "vectors" / "admission_v1.json").read_text())


@pytest.mark.parametrize("case", RECORDED["invitations"], ids=lambda case: case["secret"][:6])
def test_recorded_invitations_are_read_and_give_their_codes(case):
    invitation = Invitation(bytes.fromhex(case["secret"]))
    assert str(invitation) == case["spellings"][0]
    for text in case["spellings"]:
        assert Invitation.read(text) == invitation
    for text in case["mistyped"]:
        with pytest.raises(InvalidArgumentError, match="typo"):
            Invitation.read(text)
    for each in case["codes"]:
        survey = SurveyId.from_text(each["survey"])
        assert invitation.code(survey, each["occasion"]).hex() == each["code"]


def test_recorded_surveys_of_version_2_keep_their_ids():
    for case in RECORDED["surveys"]:
        survey = Survey.from_bytes(case["survey"].encode())
        assert str(survey.id) == case["id"]
        honest = survey.honest(survey.batches.minimum)
        assert (honest, honest // survey.reports_per_person) == (case["honest"], case["crowd"])
