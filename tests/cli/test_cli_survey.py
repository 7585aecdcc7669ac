"""``shoal survey``: a question with its promise, written down, shown and checked."""

from __future__ import annotations

import json
import re
from hashlib import sha256
from pathlib import Path

import pytest

import command_kit
import shoal
from factories import example
from shoal.sealing import canonical
from shoal.service.client import Policy, PolicyError
from shoal.service.keyring import Keyring, Protection
from shoal.service.keyring.key_list import Identity, fingerprint
from shoal.service.survey import Survey
from shoal.service.survey.words import sentences

KEY, OTHER = "ab" * 32, "cd" * 32
PARTIES = (
    f"--shuffler https://shuffler.example/ --shuffler-key {KEY} "
    f"--analyzer https://analyzer.example --analyzer-key {OTHER}"
)
ABOUT = "survey new --question travel? --purpose buses"
NEW = f"{ABOUT} --categories car,bus,bike --epsilon 1 --minimum 500 --dishonest 0 {PARTIES}"


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ("--epsilon 3", "ε is 3, but clients allow at most 2 --max-epsilon 3"),
        ("--minimum 60", "the minimum is 60, but clients allow at least 100 --min-crowd 60"),
        ("--delta 2e-5", "δ is 2e-5, but clients allow at most 1e-5 --max-delta 2e-5"),
    ],
)
def test_a_survey_that_nobody_answers_by_default_is_warned_of(run, change, said):
    what, _, option = said.partition(" --")
    told = " ".join(run(NEW, change).stdout.split())
    assert f"warning: {what} by default" in told
    assert f"shoal submit refuses it without --{option}" in told
    made = run(NEW, change, "--json").json()
    (warning,) = made["warnings"]
    assert warning.endswith(f"--{option}")
    survey = Survey.from_bytes(canonical(made["survey"]))
    with pytest.raises(PolicyError):
        Policy().check(survey)
    name, value = option.split()
    limits = {"max-epsilon": "epsilon", "max-delta": "delta"}
    allowed = {limits[name]: float(value)} if name in limits else {"minimum": int(value)}
    Policy(**allowed).check(survey)


def test_a_survey_that_is_over_is_made_with_a_note(run):
    over = run(f"{NEW} --starts 2020-01-01 --days 10").stdout
    assert "note: it ended on 2020-01-11 00:00" in over
    open_now = run(NEW).stdout
    assert "note" not in open_now
    assert "warning" not in open_now


@pytest.mark.parametrize(
    ("option", "text"),
    [("--question", ""), ("--name", " "), ("--question", "one\ntwo"), ("--purpose", "a\x1b[31m")],
)
def test_text_that_cannot_be_shown_is_refused(option, text):
    said = "without control characters" if text.strip() else "of 1 to 2000 characters"
    told = command_kit.shoal(*NEW.split(), option, text).refusal()
    assert said in told
    assert f"got {option}" in told


def test_answers_that_look_alike_are_refused_or_warned_of(run):
    told = run(NEW.replace("car,bus,bike", "yes,y\u0435s,no")).refusal()
    assert "expected --categories that look different from each other ('yes' is there, too)" in told
    assert "warning: 1 and l look alike" in " ".join(
        run(NEW.replace("car,bus,bike", "1,l,no")).stdout.split()
    )


@pytest.mark.parametrize("text", ["¿Cuántos\u00a0hijos?", "👩\u200d🌾?"])
def test_text_of_other_languages_is_not(text):
    assert command_kit.shoal(*NEW.split(), "--question", text).status == 0


def test_one_fingerprint_for_both_parties_is_refused(run):
    told = run(NEW.replace(OTHER, KEY)).refusal()
    assert "the analyzer's fingerprint to differ from the shuffler's" in told


@pytest.fixture
def written(tmp_path):
    path = tmp_path / "survey.json"
    path.write_bytes(example(name="Travel [bold]to work").to_bytes())
    return path


def test_a_new_survey_says_what_it_promises_and_is_written(run, tmp_path):
    out = tmp_path / "survey.json"
    words = f"{NEW} --dishonest 50 --max-age 12h --starts 2030-01-01 --days 10 --out {out}"
    said = run(words).stdout
    last, after = said.splitlines()[-2:]
    assert last == f"written to {out}"
    assert "shoal survey add" in after
    told = " ".join(said.replace("│", " ").split())
    survey = Survey.from_bytes(out.read_bytes())
    for part in (
        "ε = 1 at δ = 1e-6 for your report",
        "among 500 reports, 450 of them honest",
        "open: crowd assumed, not checked; dishonest people assumed: at most 50",
        "2030-01-01 00:00 to 2030-01-11 00:00",
        "car, bus, bike",
        "after 12 hours with 500",
        "expected error",
        "runs grr",
        str(survey.id),
        f"shuffler {KEY}",
        f"analyzer {OTHER}",
    ):
        assert part in told
    assert sha256(out.read_bytes()).hexdigest() == str(survey.id)
    assert survey.guarantee(500).epsilon <= 1 + 1e-9
    assert survey.shuffler.url == "https://shuffler.example"
    assert (survey.batches.target, survey.batches.max_age) == (1000, 43_200)
    assert survey.not_after - survey.not_before == 864_000


def test_help_says_what_is_required_and_a_time_as_it_is_written(run):
    told = " ".join(run("survey new --help").stdout.replace("│", " ").split())
    for option in ("question TEXT", "purpose TEXT", "epsilon NUMBER", "shuffler URL"):
        assert f"--{option} Required: " in told
    assert "--minimum WHOLE Required, unless --plan is given" in told
    assert "default: 7d" in told
    assert "604800" not in told


def test_json_has_the_survey_and_what_follows_from_it(run, tmp_path):
    out = tmp_path / "survey.json"
    found = run(f"{NEW} --out {out} --json").json()
    survey = Survey.from_bytes(out.read_bytes())
    assert found["id"] == str(survey.id)
    assert found["survey"] == json.loads(out.read_bytes())
    assert found["report_bytes"] == 107
    assert found["guarantee"]["minimum"]["epsilon"] == survey.guarantee(500).epsilon
    assert found["guarantee"]["target"]["epsilon"] < found["guarantee"]["minimum"]["epsilon"]
    assert found["expected_error"]["target"] < found["expected_error"]["minimum"]
    assert run(f"survey show {out} --json").json() == found


def test_nothing_is_written_without_being_asked(run, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert "written" not in run(NEW).stdout
    assert list(tmp_path.iterdir()) == []


def test_a_mechanism_by_name_and_protocols(run):
    words = NEW.replace("--minimum 500", "--minimum 2000")
    named = run(f"{words} --randomizer unary --json").json()
    assert named["survey"]["questions"][0]["mechanism"]["name"] == "unary"
    many = run(f"{words} --messages-cap 3 --json").json()
    assert many["survey"]["questions"][0]["slots"] > 1
    assert many["guarantee"]["minimum"]["local_epsilon"] is None
    assert (
        "none if shuffler and analyzer collude: your report may give the answer away"
        in " ".join(run(f"{words} --messages-cap 3").stdout.replace("│", " ").split())
    )


def test_the_near_central_histogram_is_collected_with_carriers(run):
    words = f"{NEW} --randomizer near-central-robust"
    told = run(f"{words} --json").json()
    (asked,) = told["survey"]["questions"]
    assert asked["mechanism"]["name"] == "near-central-carriers"
    assert told["guarantee"]["minimum"]["epsilon"] <= told["survey"]["epsilon"]
    assert told["records"]["minimum"] <= asked["slots"] * 500
    assert "--any-local-epsilon" in told["warnings"][0]
    shown = " ".join(run(words).stdout.replace("│", " ").split())
    assert f"1 to {asked['slots']} messages" in shown
    assert "runs near-central-robust, with carriers of the noise" in shown
    assert "near-central-carriers" not in shown
    assert "the analyzer opens" in shown
    assert "one dishonest person can add" in shown
    refused = run(f"{words} --suite mlkem768x25519-aes128gcm").refusal()
    assert "expected x25519-aes128gcm for near-central-carriers" in refused


def test_a_saved_plan_chooses_its_own_minimum(run, tmp_path):
    saved = tmp_path / "plan.json"
    shoal.plan(shoal.Choice("answer", 3), epsilon=1, n=800).save(saved)
    words = NEW.replace("--minimum 500", f"--plan {saved}")
    found = run(f"{words} --json").json()
    assert 790 <= found["survey"]["batches"]["minimum"] <= 801
    assert found["guarantee"]["minimum"]["epsilon"] <= 1 + 1e-6
    fewer = run(f"{words} --minimum 400").refusal()
    assert "minimum=400" in fewer
    other = words.replace("car,bus,bike", "car,bus")
    refusal = run(other).refusal()
    assert "a plan for another kind of question: 800 people, one of 3 answers" in refusal
    assert "leave out --randomizer" in run(f"{words} --randomizer grr").refusal()
    assert "it is the input" in run(f"{words} --out {saved}").refusal()


def test_keys_may_be_named_by_files(run, tmp_path):
    plain, document = tmp_path / "shuffler.txt", tmp_path / "analyzer.json"
    plain.write_text(f"{KEY}\n")
    identity = Identity("analyzer", bytes(range(32)))
    document.write_text(json.dumps({"identity": identity.public.hex()}, separators=(",", ":")))
    words = NEW.replace(f"--shuffler-key {KEY}", f"--shuffler-key {plain}")
    words = words.replace(f"--analyzer-key {OTHER}", f"--analyzer-key {document}")
    found = run(f"{words} --json").json()["survey"]
    assert found["shuffler"]["fingerprint"] == KEY
    assert found["analyzer"]["fingerprint"] == fingerprint("analyzer", identity.public)
    ring = tmp_path / "shuffler" / "keys"
    made = Keyring.create(ring, role="shuffler", protection=Protection.none())
    for place in (ring, ring.parent, ring / "index.json"):
        held = run(NEW.replace(f"--shuffler-key {KEY}", f"--shuffler-key {place}"), "--json").json()
        assert held["survey"]["shuffler"]["fingerprint"] == made.fingerprint
    other = run(NEW.replace(f"--analyzer-key {OTHER}", f"--analyzer-key {ring}")).refusal()
    assert "has the keys of the shuffler, not of the analyzer" in other
    document.write_text("{}")
    assert "neither a fingerprint nor a list of keys" in run(words).refusal()


def test_a_survey_is_shown_in_words(run, written):
    survey = Survey.from_bytes(written.read_bytes())
    printed = run(f"survey show {written}").stdout
    said = " ".join(printed.split())
    for statement in sentences(survey).statements:
        assert f"{statement.title}: {statement.text}" in said
    assert f"id: {survey.id}" in said
    assert survey.purpose in said
    # Not the numbers of the one who asks: those are printed when a survey is made.
    for word in ("grr", "bytes", "expected error", "│"):
        assert word not in printed


def test_a_survey_is_checked(run, written):
    found = run(f"survey check {written} --json").json()
    survey = Survey.from_bytes(written.read_bytes())
    assert found["id"] == str(survey.id)
    assert found["kept"] == survey.guarantee(1000).epsilon
    said = run(f"survey check {written} --id {survey.id}").stdout
    assert said.splitlines()[0] == str(survey.id)
    assert "of the promised 2.5" in said
    assert "another survey: its id is" in run(f"survey check {written} --id {KEY}").refusal()
    assert "64 lower-case" in run(f"survey check {written} --id x").refusal()


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({"not_before": 1_577_836_800, "not_after": 1_578_096_000}, "it ended on 2020-01-04 00:00"),
        ({"not_before": 4_102_444_800, "not_after": 4_102_531_200}, "it has not begun"),
        ({"not_before": 0, "not_after": 4_102_531_200}, None),
    ],
)
def test_it_is_said_that_a_survey_takes_no_answers(run, tmp_path, fields, said):
    path = tmp_path / "survey.json"
    path.write_bytes(example(**fields).to_bytes())
    for command in ("show", "check"):
        shown = run(f"survey {command} {path}").stdout
        assert "note:" not in shown if said is None else said in shown
    note = run(f"survey check {path} --json").json()["note"]
    assert note is None if said is None else said in note


def test_another_survey_is_not_written_over(run, tmp_path):
    out = tmp_path / "survey.json"
    words = f"{NEW} --starts 2030-01-01 --out {out}"
    run(words)
    before = out.read_bytes()
    assert "holds another survey" in run(words.replace("--minimum 500", "--minimum 600")).refusal()
    run(words)
    assert out.read_bytes() == before
    out.write_text("something else")
    run(words)
    assert out.read_bytes() == before


def test_a_survey_that_tells_nothing_comes_with_a_warning(run, tmp_path):
    out = tmp_path / "survey.json"
    words = NEW.replace("--epsilon 1 --minimum 500", "--epsilon 0.1 --minimum 50")
    told = " ".join(run(f"{words} --randomizer grr --out {out}").stdout.split())
    assert "says almost nothing: its expected error is above 25 percentage points" in told
    minimum = re.search(r"--minimum (\d+) would do", told)[1]
    better = words.replace("--minimum 50", f"--minimum {minimum}")
    assert "says almost nothing" not in run(f"{better} --randomizer grr").stdout
    assert int(minimum) < 500
    assert "says almost nothing" in run(f"survey show {out}").stdout


def test_texts_of_strangers_command_nothing(run, written):
    for command in ("show", "check"):
        assert "[bold]" in run(f"survey {command} {written}").stdout
    written.write_bytes(example(name="Travel to\x1b[31m work").to_bytes())
    for command in ("show", "check"):
        refused = run(f"survey {command} {written}").refusal()
        assert "texts that mislead people" in refused
        assert "\x1b" not in refused


@pytest.mark.parametrize("command", ["show", "check"])
def test_what_is_no_survey_is_refused(run, written, tmp_path, command):
    data = written.read_bytes()
    broken = tmp_path / "broken.json"
    for content in (
        b"",
        b"{}",
        data + b"\n",
        data[:-1],
        b"x" * 99_999,
    ):
        broken.write_bytes(content)
        refused = run(f"survey {command} {broken}").refusal()
        assert f"{broken} is not a survey in its original form" in refused
        assert "malformed" in refused
    weaker = json.loads(data) | {"epsilon": 0.01}
    broken.write_bytes(canonical(weaker))
    refused = run(f"survey {command} {broken}").refusal()
    assert f"{broken} does not keep its promise: it was changed, or badly made" in refused
    assert "gives 0.117" in refused
    assert "cannot read" in run(f"survey {command} {tmp_path / 'nothing'}").refusal()


MISSING = ["question", "purpose", "epsilon", "minimum", "shuffler", "analyzer-key"]


@pytest.mark.parametrize("option", MISSING)
def test_what_is_missing_is_named(run, option):
    words = NEW.split()
    place = words.index(f"--{option}")
    assert f"--{option} is missing" in run(" ".join(words[:place] + words[place + 2 :])).refusal()


QUESTIONS = [
    {
        "kind": "choice",
        "name": "travel",
        "text": "How do you travel?",
        "labels": ["car", "bus"],
        "weight": 2,
    },
    {"kind": "number", "name": "minutes", "text": "For how long?", "low": 0, "high": 120},
]
AREA = {"column": "area", "text": "Area", "labels": ["n", "s"]}
SEVERAL = (
    f"survey new --name commuting --purpose buses --epsilon 1 --minimum 500 --dishonest 0 {PARTIES}"
)


BY_GROUPS = "--question Agreed? --categories yes,no --by Region --groups north,south"


def test_answers_are_counted_by_groups(run, tmp_path):
    out = tmp_path / "survey.json"
    told = run(SEVERAL, f"{BY_GROUPS} --out {out}").stdout
    assert "Region: north, south" in told
    survey = Survey.from_bytes(out.read_bytes())
    assert (survey.only.by, survey.only.groups) == ("Region", ("north", "south"))
    assert survey.device.k == 4
    listed = [*QUESTIONS, QUESTIONS[0] | {"name": "by", "groups": AREA}]
    (tmp_path / "q.json").write_text(json.dumps(listed))
    run(SEVERAL, f"--questions {tmp_path / 'q.json'} --out {tmp_path / 's.json'}")
    survey = Survey.from_bytes((tmp_path / "s.json").read_bytes())
    assert survey.questions[2].by == "Area"
    assert survey.questions[2].groups == ("n", "s", "(none)")
    assert survey.devices[2].k == 9


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (BY_GROUPS.replace("--by Region", ""), "--by"),
        (BY_GROUPS.replace("--groups north,south", ""), "--by needs --groups"),
        (BY_GROUPS.replace("--categories yes,no", "--bounds 0,1"), "--groups needs --categories"),
        (BY_GROUPS.replace("north,south", "north,"), "at least two --groups"),
    ],
)
def test_groups_that_are_none_are_refused(run, tmp_path, words, said):
    assert said in run(SEVERAL, f"{words} --out {tmp_path / 's.json'}").refusal()
    assert not (tmp_path / "s.json").exists()


def test_several_questions_spend_the_budget_together(run, tmp_path):
    (tmp_path / "q.json").write_text(json.dumps(QUESTIONS))
    out = tmp_path / "survey.json"
    told = run(SEVERAL, f"--questions {tmp_path / 'q.json'} --out {out}").stdout
    assert "each question is randomized, sealed and mixed by itself" in told
    assert "a number from 0 to 120, which has to be given" in " ".join(told.split())
    survey = Survey.from_bytes(out.read_bytes())
    assert [question.name for question in survey.questions] == ["travel", "minutes"]
    assert survey.questions[0].answers == ("car", "bus", "(none)")
    assert 0.99 <= survey.guarantee(500).epsilon <= 1
    shown = run(f"survey show {out} --json").json()
    assert set(shown["expected_error"]["minimum"]) == {"travel", "minutes"}
    assert run(f"survey check {out}").status == 0


def changed(place, **fields):
    """Both questions, one of them with other fields; None takes one away."""
    listed = [dict(each) for each in QUESTIONS]
    listed[place] |= fields
    kept = [{name: x for name, x in each.items() if x is not None} for each in listed]
    return json.dumps(kept)


OF_CHOICE = "expected groups with labels and a text, of a choice, for"


@pytest.mark.parametrize(
    ("written", "said"),
    [
        ("{", "expected --questions to be a file of JSON"),
        (changed(0, groups=AREA | {"text": ""}), f"{OF_CHOICE} travel in question 1 of"),
        (changed(0, groups={"column": "area", "text": "?"}), f"{OF_CHOICE} travel"),
        (changed(1, groups=AREA), f"{OF_CHOICE} minutes in question 2 of q.json"),
        (changed(0, groups=AREA | {"text": 1}), "expected a text as text in question 1 of"),
        (changed(1, text=None), "got text=''"),
        (changed(1, name="a b"), "hyphens and dots in question 2 of q.json, got name='a b'"),
        (changed(1, name=""), "in question 2 of q.json, got name=''"),
        (changed(0, text="a\nb"), "got text='a\\nb'"),
        (changed(0, labels=["a", " a"]), "that look different from each other"),
        (changed(1, choose="laplce"), "(did you mean laplace?) in question 2 of"),
        (changed(1, choose=1), "a text as choose in question 2 of q.json, got choose=1"),
        (
            changed(1, choose="grr"),
            "for numbers, as in minutes in question 2 of q.json, got choose",
        ),
        (
            changed(1, choose="gaussian"),
            "devices run, for minutes (this is for tables) in question 2 of q.json, got choose",
        ),
        (changed(0, choose="duchi"), "for answers, as in travel in question 1 of q.json, got ch"),
        (changed(0, labels=None), "a list of answers for the question travel in question 1 of"),
        (changed(0, labels=3), "a list of answers for the question travel in question 1 of"),
        (changed(0, other=True), "no other answers to travel than those of the list"),
        (changed(0, missing="drop"), "'cell' or 'refuse' for travel in question 1 of"),
        (changed(1, kind="scale"), "a choice or a number, as surveys ask for minutes so far"),
        (json.dumps([QUESTIONS[0] | {"labels": ["a"]}]), "at least two labels of travel"),
        (
            json.dumps([QUESTIONS[0] | {"groups": AREA | {"labels": ["n"]}}]),
            "at least two groups of travel in question 1 of q.json",
        ),
    ],
)
def test_questions_that_are_none_are_refused(run, tmp_path, monkeypatch, written, said):
    monkeypatch.chdir(tmp_path)
    Path("q.json").write_text(written)
    refused = run(SEVERAL, "--questions q.json --out survey.json").refusal()
    assert said in refused
    assert "q.json" in refused
    assert not Path("survey.json").exists()


@pytest.mark.parametrize(
    ("question", "words"),
    [
        (QUESTIONS[0], "--categories car,bus"),
        (QUESTIONS[0] | {"choose": "hadamard"}, "--categories car,bus --randomizer hadamard"),
        (QUESTIONS[1], "--bounds 0,120"),
        (
            QUESTIONS[0] | {"groups": AREA | {"column": "group"}},
            "--categories car,bus --by Area --groups n,s",
        ),
    ],
)
def test_a_list_of_one_question_is_a_survey_with_one_question(run, tmp_path, question, words):
    (tmp_path / "q.json").write_text(json.dumps([question | {"text": "Travel?", "name": "answer"}]))
    dated, listed, typed = "--starts 2030-01-01", tmp_path / "l.json", tmp_path / "t.json"
    run(SEVERAL, dated, f"--questions {tmp_path / 'q.json'} --out {listed}")
    run(SEVERAL, dated, f"--question Travel? {words} --out {typed}")
    assert listed.read_bytes() == typed.read_bytes()
