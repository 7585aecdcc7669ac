"""The analyzer over HTTP: who may read what, in which form, and that it is what was published."""

from __future__ import annotations

import csv
import io
import json
import re

import httpx
import pytest

from client_kit import Owner
from http_kit import ask, serving
from repository import ROOT
from service_site import START, Analyzer
from shoal.service.analyzer.app import analyzer_app
from shoal.service.analyzer.results import Results
from shoal.service.keyring import KeyList
from shoal.service.keyring.key_list import unverified
from shoal.service.survey import Survey

FIRST, SECOND = "11" * 16, "22" * 16
SHUFFLERS_LIST = Owner("shuffler").document()
VALUES = [0] * 60 + [1] * 30 + [2] * 10
HOSTILE = '=HYPERLINK("http://evil")'


@pytest.fixture(scope="module")
def analyzer(tmp_path_factory):
    made = Analyzer(tmp_path_factory.mktemp("analyzer") / "a")
    made.first = made.asking(answers=("red", "green", HOSTILE))
    made.second = made.asking(name="another")
    made.send(made.first, VALUES, batch=FIRST)
    made.send(made.first, VALUES[:20], batch=SECOND, seed=2)
    made.collect(made.first)
    made.store.key_lists.keep(unverified(SHUFFLERS_LIST))
    yield made
    made.close()


@pytest.fixture(scope="module")
def client(analyzer):
    with (
        serving(analyzer_app(analyzer.store, analyzer.keyring)) as url,
        httpx.Client(base_url=url, timeout=60) as made,
    ):
        yield made


@pytest.fixture(scope="module")
def path(analyzer):
    return f"/v1/surveys/{analyzer.first.id}"


@pytest.fixture(scope="module")
def token(analyzer):
    made = analyzer.store.tokens.add("reader", analyzer.first.id, 3600)
    return {"Authorization": f"Bearer {made}"}


def problem(answer):
    assert answer.headers["content-type"] == "application/problem+json"
    return answer.status_code, answer.json()["type"].rpartition(":")[2]


def test_keys_and_surveys_are_for_everybody(client, analyzer, path):
    keys = client.get("/v1/keys")
    listed = KeyList.verified(keys.content, fingerprint=analyzer.keyring.fingerprint, now=START)
    assert listed.role == "analyzer"
    assert "max-age" in keys.headers["cache-control"]
    assert Survey.from_bytes(client.get(path).content) == analyzer.first
    names = [each["name"] for each in client.get("/v1/surveys").json()["surveys"]]
    assert names == ["colours", "another"]


def test_results_need_a_token(client, analyzer, path, token):
    for place in ("results", f"results/{FIRST}", "ledger"):
        refused = client.get(f"{path}/{place}")
        assert problem(refused) == (401, "not_authorized")
        assert "Bearer" in refused.headers["www-authenticate"]
        wrong = {"Authorization": "Bearer nonsense"}
        assert problem(client.get(f"{path}/{place}", headers=wrong)) == (401, "not_authorized")
        other = f"/v1/surveys/{analyzer.second.id}/{place}"
        assert problem(client.get(other, headers=token)) == (403, "forbidden")
        assert client.get(f"{path}/{place}", headers=token).status_code == 200


def test_results_are_what_was_published(client, analyzer, path, token):
    found = client.get(f"{path}/results", headers=token)
    assert found.headers["cache-control"] == "no-store"
    body = found.json()
    assert [each["batch"] for each in body["batches"]] == [FIRST, SECOND]
    assert [each["status"] for each in body["batches"]] == ["published", "withheld"]
    assert body["combined"]["valid"] == 100
    readers = {"epsilon": body["combined"]["epsilon"], "batches": 1, "smallest": 100}
    towards_analyzer = {"analyzer_epsilon": body["batches"][1]["epsilon"], "opened": 2}
    assert body["life"] == readers | towards_analyzer
    one = client.get(f"{path}/results/{FIRST}", headers=token)
    assert one.content == analyzer.store.results.get(analyzer.first.id, FIRST)
    assert one.json() == body["batches"][0]


def test_a_survey_without_results(client, analyzer):
    everything = analyzer.store.tokens.add("all", None, 3600)
    shown = {"Authorization": f"bearer {everything}"}
    found = client.get(f"/v1/surveys/{analyzer.second.id}/results", headers=shown).json()
    assert (found["batches"], found["combined"]) == ([], None)


@pytest.mark.parametrize("asked", [{"params": {"format": "csv"}}, {"accept": "text/csv"}])
def test_a_table_for_spreadsheets(client, path, token, asked):
    accept = {"Accept": asked["accept"]} if "accept" in asked else {}
    found = client.get(f"{path}/results", headers=token | accept, params=asked.get("params"))
    assert found.headers["content-type"] == "text/csv; charset=utf-8"
    rows = list(csv.DictReader(io.StringIO(found.text)))
    assert [row["batch"] for row in rows] == [FIRST] * 3 + [SECOND] + ["all"] * 3
    assert rows[2]["answer"] == "'" + HOSTILE, "not run as a formula"
    assert float(rows[0]["low"]) < float(rows[0]["fraction"]) < float(rows[0]["high"])
    assert (rows[3]["status"], rows[3]["fraction"]) == ("withheld", "")
    assert rows[3]["valid"] == "20"


def test_json_wins_where_both_are_accepted(client, path, token):
    accept = {"Accept": "application/json, text/csv"}
    found = client.get(f"{path}/results", headers=token | accept)
    assert found.headers["content-type"] == "application/json"
    asked = client.get(f"{path}/results", headers=token, params={"format": "xml"})
    assert problem(asked) == (400, "malformed")


def test_the_ledger_says_what_every_batch_costs(client, analyzer, path, token):
    found = client.get(f"{path}/ledger", headers=token).json()
    assert found["promised"] == {"epsilon": 1.0, "delta": 1e-6}
    costs = {each["batch"]: (each["epsilon"], each["released"]) for each in found["batches"]}
    survey = analyzer.first
    assert costs[FIRST] == (survey.guarantee(100).epsilon, True)
    assert costs[SECOND] == (survey.guarantee(20).epsilon, False)


def test_public_results_need_no_token(analyzer, path):
    app = analyzer_app(analyzer.store, analyzer.keyring, public_results=True)
    with serving(app) as url, httpx.Client(base_url=url, timeout=60) as client:
        assert client.get(f"{path}/results").status_code == 200
        document = client.get("/openapi.json").json()
        assert "security" not in document["paths"]["/v1/surveys/{survey}/results"]["get"]


@pytest.mark.parametrize(
    ("place", "expected"),
    [
        ("/v1/surveys/nonsense", (404, "unknown_survey")),
        (f"/v1/surveys/{'00' * 32}", (404, "unknown_survey")),
        ("/v2", (404, "no_such_path")),
    ],
)
def test_what_does_not_exist(client, place, expected):
    assert problem(client.get(place)) == expected


def test_a_batch_without_a_result(client, path, token):
    for name in ("33" * 16, "x", "%2e%2e"):
        answer = client.get(f"{path}/results/{name}", headers=token)
        assert problem(answer) == (404, "unknown_batch")


def test_nothing_can_be_changed(client, path):
    assert problem(client.post(f"{path}/results")) == (405, "wrong_method")


def test_the_copy_of_a_shufflers_keys(client):
    assert client.get("/v1/keys/shuffler").content == SHUFFLERS_LIST
    name = {"fingerprint": Owner("shuffler").fingerprint}
    assert client.get("/v1/keys/shuffler", params=name).content == SHUFFLERS_LIST
    other = client.get("/v1/keys/shuffler", params={"fingerprint": "cd" * 32})
    assert problem(other) == (404, "no_copy")


def test_the_page_has_every_path_and_member(client):
    whole = (ROOT / "docs/reference/http.md").read_text()
    page = whole[whole.index("## The analyzer\n") :]
    document = client.get("/openapi.json").json()
    told = set(re.findall(r"^\| \[GET `(/v1/[^`]*)`\]", page, re.MULTILINE))
    assert told == set(document["paths"])
    named = set(re.findall(r"`(\w+)`", page))
    for kind in ("Share", "Mean", "Life", "Result", "Combined", "Results", "Ledger", "Promise"):
        members = set(document["components"]["schemas"][kind]["required"])
        assert members <= named, kind


def test_documents_have_the_members_that_are_described(client, analyzer):
    described = client.get("/openapi.json").json()["components"]["schemas"]["Result"]
    found = json.loads(analyzer.store.results.get(analyzer.first.id, FIRST))
    assert set(found) == set(described["properties"]) - {"questions"}  # which several have
    older = {"admission", "warning"}  # which older ones lack
    assert set(found) - set(described["required"]) == older


def test_results_are_computed_once_for_all_readers(tmp_path, monkeypatch):
    made = Analyzer(tmp_path / "a")
    survey = made.asking()
    made.send(survey, VALUES, batch=FIRST)
    made.collect(survey)
    computed = []

    def counting(results, name):
        computed.append(name)
        return read(results, name)

    read = Results.survey
    monkeypatch.setattr(Results, "survey", counting)
    app = analyzer_app(made.store, made.keyring, public_results=True)
    path = f"/v1/surveys/{survey.id}/results"
    first = ask(app, path)
    assert ask(app, path).content == first.content
    assert len(computed) == 1
    assert ask(app, path, params={"format": "csv"}).text.startswith("batch,status")
    assert len(computed) == 2
    made.send(survey, VALUES, batch=SECOND, seed=2)
    made.collect(survey)
    assert len(ask(app, path).json()["batches"]) == 2
    assert len(computed) == 3
    made.close()
