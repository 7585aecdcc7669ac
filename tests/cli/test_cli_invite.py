"""``shoal invite``: a class is invited, a code is lost, somebody leaves; and what is refused."""

from __future__ import annotations

import csv
import json
import stat
from functools import partial
from pathlib import Path

import pytest

from client_kit import Services, make_survey, manual_clock
from command_kit import shoal
from shoal.service import client as service_client
from shoal.service.admission import Invitation, Invited
from shoal.service.client import Client
from shoal.service.keyring import Keyring, Protection
from shoal.service.ops.home import Home, opened
from shoal.service.survey import Open, Survey


@pytest.fixture
def desk(tmp_path, monkeypatch):
    """A shuffler in a directory, with a survey for thirty people, and one that is open."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("SHOAL_STORE", raising=False)
    home = Home(directory=tmp_path / "home", role="shuffler")
    home.make()
    Keyring.create(home.keys, role="shuffler", protection=Protection.none())
    admissions = {"class": Invited(entitled=500, dishonest=0), "open": Open(dishonest=0)}
    with opened(home, migrate=True) as store:
        for name, admission in admissions.items():
            survey = make_survey(name=name, admission=admission, reports_per_person=2, epsilon=2.0)
            store.surveys.add(survey)
            Path(f"{name}.json").write_bytes(survey.to_bytes())
    return tmp_path


def invite(*words):
    return shoal("invite", *words)


def rows(path="invitations.csv"):
    with Path(path).open() as file:
        return list(csv.DictReader(file))


def totals():
    (of,) = invite("list", "home", "--json").json()["surveys"]
    return {name: of[name] for name in ("registered", "revoked", "replaced", "spent")}


@pytest.mark.usefixtures("desk")
def test_a_class_is_invited_and_a_lost_invitation_replaced():
    made = invite("make", "class.json", "--count", "30", "--codes", "class.codes").success()
    assert "its readers can answer for these people" in made
    assert "shoal invite add DIR class.codes" in made
    survey = Survey.from_bytes(Path("class.json").read_bytes())
    handed = rows()
    assert [row["number"] for row in handed] == [str(number) for number in range(1, 31)]
    assert all(
        row["link"] == f"https://analyzer.example/answer/{survey.id}#{row['invitation']}"
        for row in handed
    )
    for name in ("invitations.csv", "class.codes"):
        assert stat.S_IMODE(Path(name).stat().st_mode) == 0o600
    told = Path("class.codes").read_text()
    assert not any(row["invitation"].replace("-", "") in told for row in handed)
    assert "60 codes more" in invite("add", "home", "class.codes").success()
    assert "0 codes more" in invite("add", "home", "class.codes").success()
    assert totals() == {"registered": 60, "revoked": 0, "replaced": 0, "spent": 0}
    # Somebody lost theirs, and somebody left.
    found = invite("replace", "class.json", "7", "--csv", "invitations.csv", "--shuffler", "home")
    new = rows()[6]["invitation"]
    assert new in found.success()
    assert new != handed[6]["invitation"]
    left = handed[8]["invitation"].lower()
    words = ("revoke", "class.json", left, "--codes", "left", "--json")
    assert invite(*words).json()["number"] is None
    assert "next" not in invite("add", "home", "left").success()
    assert totals() == {"registered": 58, "revoked": 2, "replaced": 2, "spent": 0}
    assert [row["invitation"] for row in rows()[:6]] == [row["invitation"] for row in handed[:6]]
    words = invite("list", "home", str(survey.id)[:8]).success()
    assert "500 people entitled" in words
    assert "0 spent" in words


REFUSED = [
    ("make open.json --codes x.codes", "open.json needs no invitations: anybody may answer it"),
    ("make class.json --count 501 --codes x.codes", "entitles 500 people, and --count is 501"),
    ("make class.json --count 0 --codes x.codes", "1 <="),
    ("make class.json", "--codes is missing"),
    ("make class.json --codes x.codes --csv class.json", "--csv to be a .csv file"),
    ("make nowhere.json --codes x.codes", "cannot read nowhere.json"),
    ("make class.json --shuffler nowhere", "there is no such directory"),
    ("make class.json --codes x.codes --store sqlite:///x", "--store needs --shuffler"),
    ("revoke class.json 3 --codes x.codes", "a table with that number"),
    ("revoke class.json 0000-1111 --codes x.codes", "check for a typo"),
    ("revoke class.json {other} --shuffler home", "codes registered here"),
    ("replace class.json 99 --csv table.csv --codes x.codes", "a number of the table"),
    ("replace class.json 1 --csv data.csv --codes x.codes", "not a table of invitations"),
    ("add home class.json", "class.json is not a file of codes"),
    ("add home nowhere.codes", "cannot read nowhere.codes"),
    ("list home feed", "the first digits of one name"),
]


@pytest.mark.parametrize(("words", "said"), REFUSED)
def test_refusals(desk, words, said):
    survey = Survey.from_bytes(Path("class.json").read_bytes())
    (other,) = Invitation.draw(1)
    Path("table.csv").write_text(f"number,invitation,link\n1,{other},x\n")
    Path("data.csv").write_text("color\nred\n")
    before = sorted(desk.iterdir())
    assert said in invite(*words.format(other=other).split()).refusal()
    assert sorted(desk.iterdir()) == before
    with opened(Home(directory=desk / "home", role="shuffler")) as store:
        assert store.codes.totals(survey.id).registered == 0


@pytest.mark.usefixtures("desk")
def test_no_table_is_written_over_and_no_place_taken_twice():
    assert invite("make", "class.json", "--shuffler", "home").success()
    assert totals()["registered"] == 1000
    again = ("make", "class.json", "--count", "1", "--shuffler", "home")
    assert "invitations.csv exists already" in invite(*again).refusal()
    said = invite(*again, "--csv", "more.csv").refusal()
    assert "at most 1,000, the number of people whom the survey entitles" in said
    assert not Path("more.csv").exists()


def test_an_invitation_is_used_on_the_command_line(tmp_path, monkeypatch):
    """As it is, or in the link that people are handed: what follows the # is sent to nobody."""
    monkeypatch.chdir(tmp_path)
    services = Services(make_survey(admission=Invited(entitled=1000, dishonest=0)))
    client = partial(Client, transport=services.transport, clock=manual_clock())
    monkeypatch.setattr(service_client, "Client", client)
    Path("survey.json").write_bytes(services.survey.to_bytes())
    first, second = Invitation.draw(2)
    said = shoal("submit", "survey.json", "red", "--outbox", "a").refusal()
    assert "is for invited people" in said
    assert "nothing was sent" in said
    typo = ("--invitation", str(first)[:-1] + "U")
    said = shoal("submit", "survey.json", "red", "--outbox", "a", *typo).refusal()
    assert "check for a typo" in said
    assert services.posts() == []
    words = ("submit", "survey.json", "red", "--outbox", "a", "--require-admission")
    told = shoal(*words, "--invitation", str(first)).success()
    assert "admission: invited: 1,000 entitled; dishonest people assumed: none" in told
    link = f"https://analyzer.example/answer/{services.survey.id}#{second}"
    assert "delivered" in shoal("submit", link, "red", "--outbox", "b", "--yes").success()
    assert set(services.spent) == {each.code(services.survey.id, 1) for each in (first, second)}
    assert all(str(second) not in str(request.url) for request in services.requests)
    assert json.dumps([str(first)]) not in told
    used = shoal("submit", "survey.json", "red", "--outbox", "c", "--invitation", str(first))
    assert "kept: report 1 waits" in used.success()
    assert "code_spent" in used.stdout
