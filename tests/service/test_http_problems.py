from __future__ import annotations

import json

import httpx
import pytest
from starlette.exceptions import HTTPException
from starlette.routing import Route

from http_kit import ask, refusal_of
from shoal.errors import InvalidArgumentError, ShoalError
from shoal.sealing import MalformedError
from shoal.service import errors
from shoal.service.http.openapi import Application
from shoal.service.http.problems import (
    MEDIA_TYPE,
    NO_TOKEN,
    PREFIX,
    Problem,
    ProblemError,
    problem_of,
)

INSIDE = "postgresql://operator:hunter2@10.0.0.7/store"


def answered(error, observe=None):
    def endpoint(_request):
        raise error

    observed = {"observe": observe} if observe else {}
    app = Application({"paths": {}}, None, pages=[Route("/", endpoint)], **observed)
    return ask(app, "/")


@pytest.mark.parametrize(
    ("error", "status", "kind"),
    [
        (errors.StoreUnavailableError("writing", INSIDE), 503, "unavailable"),
        (errors.UnknownError("survey", "ab"), 404, "unknown_survey"),
        (errors.survey_closed("ab", "it is over"), 403, "survey_closed"),
        (errors.UnknownError("batch", "ab"), 404, "unknown_batch"),
        (errors.NotReadyError("it", "mixing", retry_after=7), 425, "not_ready"),
        (errors.already_collected("ab"), 409, "already_collected"),
        (errors.wrong_digest("ab", "cd"), 409, "wrong_digest"),
        (errors.NotAuthorizedError(), 401, "not_authorized"),
        (errors.NotAuthorizedError("label"), 403, "forbidden"),
        (MalformedError("a key", "a key"), 400, "malformed"),
        (InvalidArgumentError("n", 0, "n > 0"), 400, "invalid"),
        (ShoalError("no"), 409, "refused"),
    ],
)
def test_every_error_of_ours_is_a_problem(error, status, kind):
    answer = answered(error)
    assert refusal_of(answer) == (status, kind)
    assert answer.json()["title"]
    assert answer.json()["detail"]


def test_no_error_of_the_service_is_forgotten():
    """A new one must say its kind or have one, or be known never to reach a handler."""
    inside = {"LeaseLostError", "StoreVersionError", "ShoalError", "ConflictError"}
    ours = {
        name: found
        for name, found in vars(errors).items()
        if isinstance(found, type) and issubclass(found, ShoalError)
    }
    told = {"UnknownError", "NotAuthorizedError"}  # by their values, above
    for name in ours.keys() - inside - told:
        assert problem_of(ours[name].__new__(ours[name])).kind != "refused", name


def test_waiting_is_told_in_header_and_document():
    answer = answered(errors.NotReadyError("the batch", "it is mixed", retry_after=7))
    assert answer.headers["retry-after"] == "7"
    assert answer.json()["retry_after"] == 7
    assert "it is mixed" in answer.json()["detail"]


def test_what_is_wrong_inside_stays_inside():
    assert "hunter2" not in answered(errors.StoreUnavailableError("writing", INSIDE)).text
    unforeseen = answered(RuntimeError(INSIDE))
    assert unforeseen.status_code == 500
    assert unforeseen.headers["content-type"] == MEDIA_TYPE
    assert "hunter2" not in unforeseen.text


@pytest.mark.parametrize(
    ("error", "challenge"),
    [
        (errors.NotAuthorizedError(), 'Bearer realm="shoal", error="invalid_token"'),
        (errors.NotAuthorizedError("x"), 'Bearer realm="shoal", error="insufficient_scope"'),
        (ProblemError(NO_TOKEN), 'Bearer realm="shoal"'),
    ],
)
def test_who_is_refused_is_told_how_to_be_let_in(error, challenge):
    assert answered(error).headers["www-authenticate"] == challenge


def test_a_closed_survey_is_no_matter_of_tokens():
    refused = answered(errors.survey_closed("ab", "it is over"))
    assert "www-authenticate" not in refused.headers


def test_refusals_are_observed_by_kind_alone():
    seen = []
    answered(errors.UnknownError("survey", "ab"), lambda *given: seen.append(given))
    assert seen == [("refused_requests", 1, "unknown_survey")]


def test_the_frameworks_own_refusals_are_problems_too():
    pages = [Route("/", lambda _request: None, methods=["POST"])]
    app = Application({"paths": {}}, None, pages=pages)
    assert ask(app, "/nothing").json()["type"] == f"{PREFIX}no_such_path"
    wrong = ask(app, "/")
    assert wrong.status_code == 405
    assert wrong.headers["allow"] == "POST"
    assert wrong.json()["type"] == f"{PREFIX}wrong_method"
    assert answered(HTTPException(418, "tea")).json()["detail"] == "tea"


def test_extra_members_and_closing():
    answer = Problem(kind="x", status=413, detail="d", extra={"limit": 3}, close=True).response()
    assert json.loads(answer.body)["limit"] == 3
    assert httpx.Headers(answer.raw_headers)["connection"] == "close"
