"""A guarantee has the same digits wherever it is shown, and an estimate those of its error."""

from __future__ import annotations

import math
import re

import numpy as np
import pytest

import shoal
from factories import example
from shoal.explain.text import Item, down, measured, up
from shoal.intervals.estimates import Estimate
from shoal.results.result import ColumnResult, Result
from shoal.service.survey.promise import if_made_up
from shoal.service.survey.summary import document as summary
from shoal.service.survey.words import promise_document, sentences
from shoal.web.pages import survey_page
from shoal.web.rendering import templates

PEOPLE = 2000


@pytest.fixture(scope="module")
def survey():
    device = shoal.RandomizedResponse(k=3, epsilon=2.3456789)
    return example(device, minimum=PEOPLE, epsilon=1.0)


def renderings(survey):
    guarantee = survey.guarantee(PEOPLE)
    estimate = Estimate(np.array([0.3, 0.3, 0.4]), np.full(3, 1e-4), PEOPLE)
    column = ColumnResult(
        column="q",
        labels=survey.answers,
        estimate=estimate,
        randomizer=survey.device,
        guarantee=guarantee,
        n=PEOPLE,
    )
    result = Result(columns=(column,), guarantee=guarantee, notes=())
    return {
        "terminal": str(guarantee),
        "notebook": guarantee.document().to_html(),
        "run": str(result),
        "report": re.sub(r"(?s)<script.*?</script>|<pre>.*?</pre>", "", result.to_html()),
        "dashboard": templates().get_template("panels.html").module.statement(guarantee),
        "dashboard table": templates().get_template("parts.html").module.epsilon(guarantee.epsilon),
        "survey words": " ".join(each.text for each in sentences(survey).statements),
        "survey page": survey_page(survey, 0).body.decode(),
        "promise": str(promise_document(survey)),
        "survey show": str(summary(survey, 0)),
    }


def test_every_rendering_shows_the_same_digits(survey):
    guarantee = survey.guarantee(PEOPLE)
    shown = {up(guarantee.epsilon), up(guarantee.local_epsilon), down(guarantee.lower)}
    made_up = if_made_up(survey.devices, survey.terms, PEOPLE)
    shown |= {up(each.epsilon) for each in made_up if each.epsilon is not None}
    for name, text in renderings(survey).items():
        assert up(guarantee.epsilon) in text, name
        for digits in re.findall(r"\d+\.\d+", text):
            for value in (guarantee.epsilon, guarantee.local_epsilon):
                if math.isclose(float(digits), value, rel_tol=1e-2):
                    assert digits in shown, (name, digits)


@pytest.mark.parametrize("margin", [3.0, 0.4, 0.04, 1e-3, 1e-5, 1e-7])
def test_an_estimate_has_the_digits_of_its_error(margin):
    item = Item("x", 30.0, 30.0 - margin, 30.0 + margin, unit=" %")
    value, limits = item.cells
    low, _, high = limits.partition(" to ")
    assert len({value, low, high}) == 3
    assert float(measured(margin, margin)) == pytest.approx(margin, rel=0.05)
    assert set(measured(margin, margin)) - set("0.,")
