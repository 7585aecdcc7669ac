"""Operations that both services have, and the parameters and problems of the others."""

from __future__ import annotations

from typing import Literal

from shoal.service.http import openapi
from shoal.service.http.openapi import Endpoint, Operation, Parameter, as_json

SURVEY_PATH = "/v1/surveys/{survey}"
OBJECT: openapi.Schema = {"type": "object"}
EVERYWHERE = {
    429: "Too many requests from one place.",
    503: "The store is unavailable, or too much is waiting: send the same again later.",
}
UNKNOWN = {404: "No such survey.", **EVERYWHERE}
TOKENS = {401: "No token that counts.", 403: "A token for another survey."}

SURVEY = Parameter(
    name="survey",
    place="path",
    schema=openapi.digits(64),
    description="The survey's name: SHA-256 of its canonical configuration.",
)
BATCH = Parameter(
    name="batch", place="path", schema=openapi.digits(32), description="The batch's id."
)


def keys_operation(endpoint: Endpoint, whose: Literal["shuffler", "analyzer"]) -> Operation:
    """The service's own list of keys."""
    return Operation(
        path="/v1/keys",
        endpoint=endpoint,
        summary=f"The {whose}'s public keys, signed; the same bytes for everybody.",
        answer=as_json("The list.", OBJECT),
        problems=EVERYWHERE,
        cross_origin=True,
    )


def survey_operation(endpoint: Endpoint) -> Operation:
    """A whole survey."""
    return Operation(
        path=SURVEY_PATH,
        endpoint=endpoint,
        summary="The survey's canonical configuration: its SHA-256 is the survey's name.",
        parameters=[SURVEY],
        answer=as_json("The survey.", OBJECT),
        problems=UNKNOWN,
        cross_origin=True,
    )
