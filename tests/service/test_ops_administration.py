"""Surveys are added where they belong, and tokens are shown once."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from command_kit import shoal
from factories import several
from running_kit import quick
from shoal.errors import RefusedError
from shoal.explain.text import moment
from shoal.service.analyzer.collect import AnalyzerWorker
from shoal.service.analyzer.collection import Offer
from shoal.service.analyzer.source import TokenFile, sources
from shoal.service.clock import ManualClock, system_clock
from shoal.service.errors import NotAuthorizedError
from shoal.service.http.outgoing import NoAnswerError
from shoal.service.keyring import Keyring, Protection, Schedule
from shoal.service.keyring.key_list import ROLES
from shoal.service.opening import Pool
from shoal.service.ops import up
from shoal.service.ops.administration import add_survey
from shoal.service.ops.doctor import party_findings
from shoal.service.ops.health import State
from shoal.service.ops.home import check_party, home_of, opened
from shoal.service.ops.processes import Settings, run_analyzer
from shoal.service.ops.up import Embedded
from shoal.service.shuffler.reports import Arrival
from shoal.service.shuffler.worker import Pace, ShufflerWorker
from shoal.service.survey import Party
from shoal.service.wire import Wire


@pytest.fixture
def parties(tmp_path):
    """Keys of both, and the survey of them in a file; neither was told of it."""
    rings = {
        role: Keyring.create(tmp_path / role / "keys", role=role, protection=Protection.none())
        for role in ("shuffler", "analyzer")
    }
    places = {
        role: Party(url=f"https://{role}.example", fingerprint=ring.fingerprint)
        for role, ring in rings.items()
    }
    design = quick(question="?", answers=("a", "b"), people=300)
    survey = design(places["shuffler"], places["analyzer"], system_clock())
    (tmp_path / "survey.json").write_bytes(survey.to_bytes())
    return survey


def test_both_parties_are_told_each_by_itself(tmp_path, parties):
    for role in ("shuffler", "analyzer"):
        told = shoal("survey", "add", tmp_path / "survey.json", "--to", tmp_path / role).stdout
        assert "collects for survey" in told
        assert f"shoal serve {role} {tmp_path / role}" in told.partition("next: ")[2]
        assert "note:" not in told
        again = shoal(
            "survey", "add", tmp_path / "survey.json", "--to", tmp_path / role / "keys", "--json"
        )
        assert '"new": false' in again.stdout
        with opened(home_of(tmp_path / role)) as store:
            assert [survey.id for survey in store.surveys.all()] == [parties.id]


def test_a_survey_that_nobody_could_seal_is_refused_until_there_is_a_key(tmp_path, parties):
    hybrid = replace(parties, suite="mlkem768x25519-aes128gcm")
    (tmp_path / "hybrid.json").write_bytes(hybrid.to_bytes())
    asked = ("survey", "add", tmp_path / "hybrid.json", "--to", tmp_path / "analyzer")
    assert f"shoal keys rotate --suite {hybrid.suite}" in shoal(*asked).refusal()
    assert not (tmp_path / "analyzer" / "store.sqlite").exists()
    ring = Keyring.open(tmp_path / "analyzer" / "keys", protection=Protection.none())
    ring.rotate(suite=hybrid.suite)
    assert "collects for survey" in shoal(*asked).success()


def test_a_survey_that_names_somebody_else_is_refused(tmp_path, parties):
    other = tmp_path / "other"
    Keyring.create(other / "keys", role="shuffler", protection=Protection.none())
    told = shoal("survey", "add", tmp_path / "survey.json", "--to", other).refusal()
    assert parties.shuffler.fingerprint in told
    assert not (other / "store.sqlite").exists()


def test_a_survey_that_ended_is_added_with_a_note(tmp_path, parties):
    over = replace(parties, not_before=1_577_836_800, not_after=1_578_096_000)
    (tmp_path / "over.json").write_bytes(over.to_bytes())
    told = shoal("survey", "add", tmp_path / "over.json", "--to", tmp_path / "shuffler").stdout
    assert "note: it ended on 2020-01-04 00:00" in told


@pytest.mark.usefixtures("parties")
@pytest.mark.parametrize("content", [None, b"", b"{}", b"\xff"])
def test_what_is_no_survey_is_one_line(tmp_path, content):
    path = tmp_path / "broken.json"
    if content is not None:
        path.write_bytes(content)
    assert str(path) in shoal("survey", "add", path, "--to", tmp_path / "shuffler").refusal()


@pytest.mark.parametrize("role", ["shuffler", "analyzer"])
def test_a_survey_that_was_added_by_mistake_is_listed_and_removed(tmp_path, parties, role):
    place = tmp_path / role
    assert "collects for no survey" in shoal("survey", "list", place).success()
    shoal("survey", "add", tmp_path / "survey.json", "--to", place).success()
    shoal("keys", "token", place, "--survey", str(parties.id)[:8])
    listed = shoal("survey", "list", place).success()
    assert str(parties.id)[:16] in listed
    assert "nothing" in listed
    (found,) = json.loads(shoal("survey", "list", place, "--json").success())["surveys"]
    assert found == {
        "survey": str(parties.id),
        "name": parties.name,
        "question": "?",
        "questions": 1,
        "not_before": parties.not_before,
        "not_after": parties.not_after,
        "taken": False,
    }
    refused = shoal("survey", "remove", "0000", "--from", place).refusal()
    assert f"one name here ({str(parties.id)[:12]})" in refused
    told = shoal("survey", "remove", str(parties.id)[:8], "--from", place).success()
    assert f"collects no more for survey {parties.id}, and 1 token for it ended" in told
    findings, _ = party_findings(home_of(place))[:2]
    assert not [each for each in findings if str(parties.id)[:12] in each.check]
    assert "none" in shoal("survey", "remove", str(parties.id), "--from", place).refusal()


@pytest.mark.parametrize("role", ["shuffler", "analyzer"])
def test_a_survey_with_several_questions_is_listed_by_its_name(tmp_path, parties, role):
    place, file = tmp_path / role, tmp_path / "several.json"
    survey = several(shuffler=parties.shuffler, analyzer=parties.analyzer, opens=system_clock())
    file.write_bytes(survey.to_bytes())
    for each in (file, tmp_path / "survey.json"):
        shoal("survey", "add", each, "--to", place).success()
    assert survey.name in shoal("survey", "list", place).success()
    found = json.loads(shoal("survey", "list", place, "--json").success())["surveys"]
    assert {(each["question"], each["questions"]) for each in found} == {("?", 1), (survey.name, 2)}


@pytest.mark.parametrize(
    ("role", "has"), [("shuffler", "reports"), ("analyzer", "collected batches")]
)
def test_a_survey_that_something_was_taken_for_stays(tmp_path, parties, role, has):
    home = home_of(tmp_path / role)
    add_survey(parties, home)
    with opened(home) as store:
        if role == "shuffler":
            report = bytes(Wire.of(parties).report_bytes)
            store.reports.receive([Arrival(parties.id, 0, report)])
            store.close()
        else:
            store.collections.request(parties.id, Offer(batch="ab" * 16, digest="cd" * 32, size=1))
    asked = ("survey", "remove", str(parties.id)[:8], "--from", home.directory)
    assert shoal(*asked).refusal() == (
        f"survey {parties.id} cannot be removed: it has {has}; it closes on "
        f"{moment(parties.not_after)} (UTC)"
    )
    (found,) = json.loads(shoal("survey", "list", home.directory, "--json").success())["surveys"]
    assert found["taken"]


@pytest.mark.parametrize("role", ["shuffler", "analyzer"])
def test_the_data_of_a_survey_that_is_over_goes_by_one_command(tmp_path, parties, role):
    home, day = home_of(tmp_path / role), 86_400
    before = system_clock() - 60 * day
    over = replace(parties, name="over", not_before=before, not_after=before + day)
    report = bytes([1, 0]) + b"\x5a" * (Wire.of(over).report_bytes - 2)
    with opened(home, clock=lambda: before + 60) as store:
        for survey in (parties, over):
            store.surveys.add(survey)
        store.tokens.add("one", over.id, day)
        if role == "shuffler":
            store.reports.receive([Arrival(over.id, 0, report)])
            store.close()
        else:
            store.collections.request(over.id, Offer(batch="ab" * 16, digest="cd" * 32, size=1))
    words = ("survey", "delete-data", "--from", home.directory)
    assert "cannot be undone: give --yes" in shoal(*words, str(over.id)[:8]).refusal()
    refused = shoal(*words, str(parties.id)[:8], "--yes").refusal()
    until = moment(parties.not_after + parties.batches.max_age)
    assert refused == (
        f"survey {parties.id} is not over: its last batch may close until {until} (UTC); "
        "nothing was deleted"
    )
    deleted = json.loads(shoal(*words, str(over.id)[:8], "--yes", "--json").success())
    assert (deleted["survey"], deleted["role"]) == (str(over.id), role)
    kind = "waiting" if role == "shuffler" else "collections"
    assert (deleted["deleted"][kind], deleted["deleted"]["tokens"]) == (1, 1)
    assert "everything in backups made before" in deleted["left"]
    listed = json.loads(shoal("survey", "list", home.directory, "--json").success())["surveys"]
    assert [each["survey"] for each in listed] == [str(parties.id)]
    if role == "shuffler":
        files = [path for path in home.directory.rglob("*") if path.is_file()]
        assert not any(report in path.read_bytes() for path in files)
    assert "one name here" in shoal(*words, str(over.id)[:8], "--yes").refusal()


@pytest.mark.parametrize("role", ["shuffler", "analyzer"])
def test_deleting_says_what_is_left(tmp_path, parties, role):
    home = home_of(tmp_path / role)
    before = system_clock() - 60 * 86_400
    over = replace(parties, not_before=before, not_after=before + 1)
    with opened(home) as store:
        store.surveys.add(over)
    words = ("survey", "delete-data", str(over.id), "--from", home.directory, "--yes")
    first, *left = shoal(*words).success().splitlines()
    assert first.startswith(
        f"the {role} in {home.directory} deleted everything it had of survey {over.id}"
    )
    assert left
    assert all(line.startswith("left: ") for line in left)


@pytest.mark.parametrize("role", ["shuffler", "analyzer"])
def test_a_token_is_for_its_survey_and_its_time(tmp_path, parties, role):
    shoal("survey", "add", tmp_path / "survey.json", "--to", tmp_path / role)
    home = home_of(tmp_path / role)
    name = str(parties.id)[:8]
    finished = shoal("keys", "token", home.directory, "--survey", name, "--days", 2)
    token = finished.stdout.strip()
    assert finished.stderr.startswith("next: ")
    everything = b"".join(path.read_bytes() for path in home.directory.glob("store.sqlite*"))
    assert len(token) > 30
    assert token.encode() not in everything
    later = [system_clock() + days * 86_400 for days in (1, 3)]
    for now, valid in zip(later, (True, False), strict=True):
        with opened(home, clock=lambda now=now: now) as store:
            check = store.tokens.check
            if valid:
                check(token, parties.id)
                with pytest.raises(NotAuthorizedError, match="another survey"):
                    check(token, None)
            else:
                with pytest.raises(NotAuthorizedError, match="no valid token"):
                    check(token, parties.id)


@pytest.mark.parametrize("digits", ["abc", "zz", "ffffffff"])
def test_a_token_for_no_survey_is_refused(tmp_path, parties, digits):
    shoal("survey", "add", tmp_path / "survey.json", "--to", tmp_path / "shuffler")
    told = shoal("keys", "token", tmp_path / "shuffler", "--survey", digits).refusal()
    assert str(parties.id)[:12] in told


def tokens_file(path, *lines):
    path.write_text("".join(f"{line}\n" for line in lines))
    path.chmod(0o600)
    return TokenFile(path)


def test_a_file_of_tokens_is_there_and_for_one_users_eyes(tmp_path, parties):
    path = tmp_path / "token"
    tokens = TokenFile(path)
    with pytest.raises(RefusedError, match="shoal keys token prints one"):
        tokens.check()
    tokens_file(path, "")
    with pytest.raises(RefusedError, match="there is none"):
        tokens.check()
    tokens_file(path, "common")
    path.chmod(0o640)
    with pytest.raises(RefusedError, match="mode 0640"):
        tokens.token(parties, [parties])


def test_tokens_in_a_file_are_for_a_survey_or_a_shuffler(tmp_path, parties):
    def token(*lines):
        return tokens_file(tmp_path / "token", *lines).token(parties, [parties])

    own, address = str(parties.id)[:10], parties.shuffler.url
    assert token("common") == "common"
    assert token("common", f"{own} own") == "own"
    assert token("common", "0000 other") == "common"
    assert token("common", f"{address} theirs") == token(f"{address}/ theirs") == "theirs"
    for lines in [("0000 other",), ("https://elsewhere.example other",), (f"{own[:3]} short",)]:
        with pytest.raises(NoAnswerError, match="there is no token for this survey"):
            token(*lines)
        source = sources(TokenFile(tmp_path / "token"), lambda: [parties], parties)
        with pytest.raises(NoAnswerError, match="there is no token"):
            source.offers()
        with pytest.raises(NoAnswerError), source.fetch("0", "0"):
            pass


def test_a_token_goes_to_one_shuffler_only(tmp_path, parties):
    there = Party(url="https://another.example", fingerprint=parties.shuffler.fingerprint)
    other = replace(parties, shuffler=there)

    def token(survey, *lines):
        return tokens_file(tmp_path / "token", *lines).token(survey, [parties, other])

    for survey in (parties, other):
        with pytest.raises(NoAnswerError, match="also fits surveys of another shuffler"):
            token(survey, "common")
    lines = (f"{parties.shuffler.url} first", f"{there.url} second", "common")
    assert [token(each, *lines) for each in (parties, other)] == ["first", "second"]
    lines = (f"{parties.id} first", f"{other.id} second")
    assert [token(each, *lines) for each in (parties, other)] == ["first", "second"]
    with pytest.raises(NoAnswerError, match="another shuffler") as refused:
        token(other, f"{parties.id} first", "common")
    assert "write the shuffler's address before the token in" in refused.value.advice


@pytest.mark.parametrize("role", ["shuffler", "analyzer"])
def test_tokens_are_listed_and_revoked(tmp_path, parties, role):
    shoal("survey", "add", tmp_path / "survey.json", "--to", tmp_path / role)
    place = tmp_path / role
    assert "no tokens" in shoal("keys", "tokens", place).stdout
    one = shoal(
        "keys", "token", place, "--survey", str(parties.id)[:8], "--label", "first"
    ).stdout.strip()
    every = shoal("keys", "token", place, "--label", "second", "--days", 2).stdout.strip()
    listed = shoal("keys", "tokens", place).stdout
    assert [line.split()[:2] for line in listed.splitlines() if "UTC" in line] == [
        ["first", str(parties.id)[:16]],
        ["second", "all"],
    ]
    assert one not in listed
    (first, second) = json.loads(shoal("keys", "tokens", place, "--json").stdout)["tokens"]
    assert first["survey"] == str(parties.id)
    assert (second["label"], second["survey"], second["ended"]) == ("second", None, False)
    refused = shoal("keys", "revoke", place, "third")
    assert refused.status == 2
    assert "(first, second)" in refused.stderr
    assert "revoked 1 token with the label first" in shoal("keys", "revoke", place, "first").stdout
    with opened(home_of(place)) as store:
        with pytest.raises(NotAuthorizedError, match="no valid token"):
            store.tokens.check(one, parties.id)
        store.tokens.check(every, parties.id)


@pytest.mark.usefixtures("parties")
@pytest.mark.parametrize("role", ["shuffler", "analyzer"])
def test_tokens_that_ended_are_forgotten_a_month_later(tmp_path, role):
    shoal("survey", "add", tmp_path / "survey.json", "--to", tmp_path / role)
    home = home_of(tmp_path / role)
    shoal("keys", "token", home.directory, "--days", 2)
    clock, seconds, steady = ManualClock(system_clock()), [0.0], [True]
    begin = clock()
    with opened(home, clock=clock) as store:
        store.tokens.grace._steady = lambda: seconds[0]
        worker = _worker(role, store, home.keyring(Protection.none()), clock, lambda: steady[0])

        def left(days, hours=1.0):
            clock.now = begin + round(days * 86_400)
            seconds[0] += hours * 3600
            worker.step()
            return len(store.tokens.listed())

        assert [left(days) for days in (3, 31, 31.5)] == [1, 1, 1]
        assert left(440) == 1  # a clock that is ahead for one look
        assert [left(31.6), left(441, hours=0.1), left(442, hours=0.8)] == [1, 1, 1]
        steady[0] = False  # or that was set
        assert [left(443), left(444)] == [1, 1]
        steady[0] = True
        assert [left(33), left(33.1, hours=0.9), left(33.2, hours=0.1)] == [1, 1, 0]
        if role == "shuffler":
            store.close()


def _worker(role, store, ring, clock, steady):
    if role == "shuffler":
        return ShufflerWorker(store, ring, Pool(0), clock, pace=Pace(gather=0), steady=steady)
    return AnalyzerWorker(
        store, ring, lambda _survey: Nobody(), Pool(0), clock=clock, steady=steady
    )


class Nobody:
    """A shuffler without batches."""

    def offers(self):
        return []

    def keys(self):
        return None


@pytest.mark.parametrize(("expired", "fits"), [(4000, True), (3000, False)])
def test_keys_live_as_long_as_a_batch_may_wait(tmp_path, parties, expired, fits):
    place = tmp_path / "short"
    ring = Keyring.create(
        place / "keys",
        role="analyzer",
        protection=Protection.none(),
        schedule=Schedule(expired=expired),
    )
    rules = replace(parties.batches, max_age=3600)
    analyzer = replace(parties.analyzer, fingerprint=ring.fingerprint)
    survey = replace(parties, analyzer=analyzer, batches=rules)
    (tmp_path / "short.json").write_bytes(survey.to_bytes())
    done = shoal("survey", "add", tmp_path / "short.json", "--to", place)
    assert (done.status == 0) == fits, done.stderr
    if not fits:
        assert "may wait for 3,600 s" in done.stderr
        assert not (place / "store.sqlite").exists()
        with opened(home_of(place)) as store:
            store.surveys.add(survey)  # as it was before this was looked at
    found = [each for each in party_findings(home_of(place))[0] if "survey" in each.check]
    assert [each.state is State.FAIL for each in found] == [not fits]


def test_a_survey_longer_than_its_keys_can_be_kept_is_told_of(tmp_path, parties):
    place = tmp_path / "long"
    ring = Keyring.create(
        place / "keys",
        role="analyzer",
        protection=Protection.none(),
        schedule=Schedule(active=7200, expired=7200, pending=600),
    )
    analyzer = replace(parties.analyzer, fingerprint=ring.fingerprint)
    rules = replace(parties.batches, max_age=3600)
    for small, state in (("carry", State.WARN), ("expire", State.OK)):
        ends = parties.not_before + 14 * 7200
        survey = replace(
            parties, analyzer=analyzer, batches=replace(rules, small=small), not_after=ends
        )
        add_survey(survey, home_of(place))
        found = party_findings(home_of(place))[0]
        (finding,) = [each for each in found if str(survey.id)[:12] in each.check]
        assert finding.state is state


def test_an_analyzer_does_not_start_with_keys_that_a_survey_does_not_name(tmp_path, parties):
    shoal("survey", "add", tmp_path / "survey.json", "--to", tmp_path / "analyzer")
    keys = tmp_path / "analyzer" / "keys"
    keys.rename(tmp_path / "away")
    ring = Keyring.create(keys, role="analyzer", protection=Protection.none())
    settings = Settings(home=home_of(tmp_path / "analyzer"), protection=Protection.none())
    with pytest.raises(RefusedError, match=ring.fingerprint):
        run_analyzer(settings, tokens=None)
    over = parties.not_after + parties.batches.max_age + ring.schedule.expired
    check_party([parties], ring, over + 1)
    with pytest.raises(RefusedError):
        check_party([parties], ring, over)


@pytest.mark.parametrize(
    "words",
    [
        "backup {} --to {}/b.tar",
        "collect {}",
        "collect {} --offline",
        "keys list {}",
        "keys rotate {}",
        "keys token {}",
        "keys tokens {}",
        "serve worker {}",
        "survey add {}/survey.json --to {}",
        "survey list {}",
        "survey remove abcd --from {}",
        "survey delete-data abcd --from {}",
    ],
)
def test_a_directory_of_both_parties_is_told_from_one(tmp_path, parties, words):
    del parties
    before = sorted(tmp_path.rglob("*"))
    said = shoal(*words.replace("{}", str(tmp_path)).split()).refusal()
    assert said == (
        f"{tmp_path} is a directory of shoal up, with both parties in it; name one of them: "
        f"{tmp_path}/shuffler or {tmp_path}/analyzer"
    )
    assert sorted(tmp_path.rglob("*")) == before


def test_a_token_says_where_it_is_good_for(tmp_path, parties):
    del parties
    told = {role: shoal("keys", "token", tmp_path / role).stderr for role in ROLES}
    assert "/dashboard/login" in told["analyzer"]
    assert "dashboard" not in told["shuffler"]


def test_half_a_directory_is_made_anew_with_the_same_keys(tmp_path):
    embedded = Embedded(directory=tmp_path / "both")
    design = quick(question="?", answers=("a", "b"), people=300)
    first = embedded.make(design, {"shuffler": 1, "analyzer": 2})
    assert not (embedded.directory / "up.unfinished").exists()
    (embedded.directory / "up.json").rename(embedded.directory / "up.unfinished")  # interrupted
    assert embedded.ports() is None
    again = embedded.make(design, {"shuffler": 3, "analyzer": 4})
    assert again.shuffler.fingerprint == first.shuffler.fingerprint
    assert embedded.survey() == again
    assert embedded.ports() == {"shuffler": 3, "analyzer": 4}


def test_a_directory_interrupted_at_any_point_is_taken_up_again(tmp_path, monkeypatch):
    design = quick(question="?", answers=("a", "b"), people=300)
    real, names = up.write_private, []
    for place in range(5):
        embedded = Embedded(directory=tmp_path / str(place))
        written = []

        def write(path, content, *, place=place, written=written):
            if len(written) == place:
                raise KeyboardInterrupt
            real(path, content)
            written.append(path.name)

        monkeypatch.setattr(up, "write_private", write)
        try:
            embedded.make(design, {"shuffler": 1, "analyzer": 2})
        except KeyboardInterrupt:
            assert embedded.ports() is None
            monkeypatch.setattr(up, "write_private", real)
            embedded.make(design, {"shuffler": 3, "analyzer": 4})
            assert embedded.ports() == {"shuffler": 3, "analyzer": 4}
        names = written
    assert names == ["up.unfinished", "survey.json", "token", "up.json"]


@pytest.mark.parametrize("name", ["survey.json", "dashboard", "shuffler", ".hidden"])
def test_somebody_elses_files_are_neither_replaced_nor_joined(tmp_path, name):
    theirs = tmp_path / "theirs"
    theirs.mkdir(mode=0o755)
    (theirs / name).write_text("mine")
    design = quick(question="?", answers=("a", "b"), people=300)
    with pytest.raises(RefusedError, match=f"did not make .{name}.; nothing was changed"):
        Embedded(directory=theirs).make(design, {"shuffler": 1, "analyzer": 2})
    assert [path.name for path in theirs.iterdir()] == [name]
    assert (theirs / name).read_text() == "mine"
