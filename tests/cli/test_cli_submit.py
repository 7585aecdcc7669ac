"""``shoal submit``: one answer, a table of answers, and what was sent before."""

from __future__ import annotations

import io
import shlex
import threading
from dataclasses import replace
from functools import partial
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from types import SimpleNamespace

import httpx
import pytest

from client_kit import DAY, NOW, Services, make_survey, manual_clock
from command_kit import shoal
from factories import by_groups, several
from shoal.cli import submit
from shoal.mechanisms.dummies import UniformDummies
from shoal.mechanisms.grid import Duchi
from shoal.mechanisms.response import RandomizedResponse
from shoal.service import client as service_client
from shoal.service.admission import Invited, Open
from shoal.service.client import Client
from shoal.service.ops import invitations
from shoal.service.survey import Party, words

GOES_ON = "the same command continues from here, and randomizes nobody's answer twice"


@pytest.fixture
def services():
    return Services(make_survey())


@pytest.fixture
def clock():
    return manual_clock()


@pytest.fixture
def run(tmp_path, monkeypatch, services, clock):
    """Run the command against services in this process; its outbox is below ``tmp_path``."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    monkeypatch.setattr(
        service_client, "Client", partial(Client, transport=services.transport, clock=clock)
    )
    (tmp_path / "survey.json").write_bytes(services.survey.to_bytes())

    return partial(shoal, "submit")


def test_an_answer_is_delivered_and_the_promise_is_told(run, services):
    finished = run("survey.json", "red")
    assert finished.status == 0, finished.stderr
    first, *rest, last = finished.stdout.splitlines()
    assert first == "survey: colours"
    limit = f"promised: ε of at most {services.survey.epsilon:g} at δ = 1e-6; "
    assert " ".join(rest).startswith(f"{limit}in the smallest crowd, of 500, it is 0.17")
    *promised, admission = rest
    assert " ".join(promised).endswith(", and local ε0 = 1 (no trust needed)")
    assert admission.startswith("admission: open: crowd assumed, not checked")
    assert last == "delivered: report 1"
    assert len(services.messages) == 1
    again = run("survey.json", "green", "--json").json()
    assert (again["outcome"], again["again"]) == ("sent", True)
    assert again["promise"]["minimum"] == 500
    assert len(services.bodies) == 1


def test_a_report_that_only_the_crowd_hides_is_told_to_be_one(run, services, tmp_path):
    device = UniformDummies.calibrated(k=4, n=400, epsilon=1.0, delta=1e-6)
    survey = make_survey(device=device)
    services.__init__(survey)
    (tmp_path / "survey.json").write_bytes(survey.to_bytes())
    refused = run("survey.json", "red").refusal()
    assert "only the crowd hides" in refused
    assert "--any-local-epsilon" in refused
    told = run("survey.json", "red", "--any-local-epsilon").stdout
    assert "nothing if the others collude: the report may give the answer away" in told
    assert "inf" not in told


def test_the_promise_is_told_before_anything_is_sent(run, services, monkeypatch):
    told = []
    document = words.promise_document

    def before(survey):
        told.append(len(services.posts()))
        return document(survey)

    monkeypatch.setattr(words, "promise_document", before)
    assert run("survey.json", "red").status == 0
    assert (told, len(services.posts())) == ([0], 1)


@pytest.mark.parametrize(
    ("words", "typed", "sent"),
    [
        (["red"], "n\n", 0),
        (["red"], "", 0),
        (["red"], "y\n", 1),
        ([], "red\n", 1),
        (["red", "--yes"], "", 1),
        (["--file", "answers.csv", "--column", "a"], "n\n", 0),
        (["--file", "answers.csv", "--column", "a"], "y\n", 1),
    ],
)
def test_whoever_is_at_a_terminal_is_asked(run, services, terminal, words, typed, sent):
    Path("answers.csv").write_text("a\nred\n")
    terminal(typed)
    finished = run("survey.json", *words)
    assert "promised: ε" in finished.stdout
    assert len(services.messages) == sent
    if not sent:
        assert finished.status == 2
        assert finished.stderr.endswith("nothing was sent\n")


@pytest.fixture
def terminal(monkeypatch):
    """Somebody types this; the runner has an input of its own, so the module sees another."""

    def typing(text):
        class Typed(io.StringIO):
            def isatty(self):
                return True

        quiet = SimpleNamespace(write=lambda _text: None, flush=lambda: None)
        seen = SimpleNamespace(stdin=Typed(text), stderr=quiet)
        monkeypatch.setattr(submit, "sys", seen)

    return typing


def test_the_answer_may_come_from_the_input(run, services):
    assert "delivered: report 1" in run("survey.json", "-", answer="red\n").success()
    assert "report 1" in run("survey.json", answer="blue\r\n").success()
    assert len(services.messages) == 1  # the second was the same occasion
    assert "ANSWER is missing" in run("survey.json", answer="").refusal()


def test_an_address_is_a_survey(run, services):
    url = f"{services.survey.shuffler.url}/v1/surveys/{services.survey.id}"
    assert run(url, "red", "--json").json()["survey"] == str(services.survey.id)


def test_a_report_waits_and_is_flushed(run, services, clock):
    path = f"/v1/surveys/{services.survey.id}/reports"
    services.answers["shuffler", path] = httpx.Response(429, headers={"retry-after": "600"})
    finished = run("survey.json", "red")
    assert "kept: report 1 waits (status 429)" in finished.stdout
    assert "shoal submit --flush" in finished.stdout
    assert run("--flush", "--json").json()["waiting"] == 1
    services.answers.clear()
    clock.advance(DAY)
    assert run("--flush").stdout == "1 sent, 0 waiting, 0 given up\n"
    assert len(services.messages) == 1


@pytest.fixture
def hurried(monkeypatch):
    """Nobody waits between tries."""
    monkeypatch.setattr(Client, "_sleep", staticmethod(lambda _seconds: None))


@pytest.mark.usefixtures("hurried")
def test_what_was_to_go_through_a_proxy_does_not_go_without(run, services, tmp_path):
    dead = "http://me:secret@127.0.0.1:1"
    told = run("survey.json", "red", "--proxy", dead, "--outbox", "my box").success().splitlines()
    assert "kept: report 1 waits (the keys of the shuffler cannot be fetched" in told[-2]
    words = ["--flush", "--outbox", "my box", "--proxy", "http://…@127.0.0.1:1"]
    assert shlex.split(told[-1]) == ["send", "it", "with", "shoal", "submit", *words]
    kept = run("--flush", "--outbox", "my box").success()
    assert kept.startswith("0 sent, 1 waiting, 0 given up\nit must go through a proxy")
    again = run("survey.json", "red", "--outbox", "my box").success().splitlines()
    assert again[-2].startswith("kept: report 1 waits (it must go through a proxy")
    assert again[-1] == "send it with shoal submit --flush --outbox 'my box' --proxy URL"
    assert services.requests == []
    assert not (tmp_path / "state").exists()


@pytest.mark.parametrize("proxy", ["nonsense", "", "ftp://me:secret@proxy.example", "http://[::1"])
def test_what_is_no_proxy_is_refused(run, services, tmp_path, proxy):
    told = run("survey.json", "red", "--proxy", proxy).refusal()
    assert "expected the address of a --proxy, such as" in told
    assert "secret" not in told
    assert services.requests == []
    assert not (tmp_path / "state").exists()


def test_an_address_without_the_whole_id_is_told_from_one_with_it(run):
    told = run("https://analyzer.example/answer/abc", "red").refusal()
    assert "ends with its id, 64 hexadecimal digits; ask the sender" in told
    assert told.endswith("; nothing was sent")


def test_who_interrupts_while_the_survey_is_fetched_has_sent_nothing(run, services):
    def interrupt(_request):
        raise KeyboardInterrupt

    services.answers["shuffler", f"/v1/surveys/{services.survey.id}"] = interrupt
    url = f"{services.survey.shuffler.url}/v1/surveys/{services.survey.id}"
    finished = run(url, "red")
    assert (finished.status, finished.stderr) == (130, "interrupted: nothing was sent\n")


@pytest.mark.usefixtures("hurried")
def test_a_survey_that_the_shuffler_does_not_know_was_perhaps_changed(run, services):
    problem = {"type": "urn:shoal:problem:unknown_survey", "detail": "add it with shoal survey add"}
    paths = (f"/v1/surveys/{services.survey.id}/{what}" for what in ("reports", "keys/analyzer"))
    for box, path in enumerate(paths):
        services.answers["shuffler", path] = httpx.Response(404, json=problem)
        told = run("survey.json", "red", "--outbox", f"box{box}").stdout
        assert "the shuffler does not collect for this survey: its file may have been" in told
        assert "ask for the original" in told
        assert "kept: report 1 waits" in told
        assert "shoal survey add" not in told


def test_a_second_answer_is_not_used_and_one_is_told(run, services):
    assert "answer given now" not in run("survey.json", "red").stdout
    told = run("survey.json", "blue").stdout
    assert "this report was made earlier, and the answer given now was not used" in told
    assert len(services.messages) == 1


@pytest.mark.parametrize(("people", "told"), [(1, "1 report was wiped"), (0, "0 reports were")])
def test_what_is_wiped_is_counted(run, services, people, told):
    path = f"/v1/surveys/{services.survey.id}/reports"
    services.answers["shuffler", path] = httpx.Response(429, headers={"retry-after": "600"})
    for _ in range(people):
        run("survey.json", "red")
    assert told in run("--opt-out").stdout


@pytest.mark.parametrize("option", ["--flush", "--spent", "--opt-out", "--opt-in"])
def test_what_is_no_outbox_is_refused_and_not_made(run, tmp_path, option):
    (tmp_path / "other").mkdir()
    for place in ("typo", "other"):
        told = run(option, "--outbox", place).refusal()
        assert told == f"{place} is not an outbox: nothing was sent or changed there"
    assert not (tmp_path / "typo").exists()
    assert list((tmp_path / "other").iterdir()) == []
    run("survey.json", "red", "--outbox", "box")
    assert run(option, "--outbox", "box").status == 0


def test_the_address_that_people_are_handed_is_a_survey(run, services):
    url = f"{services.survey.analyzer.url}/answer/{services.survey.id}"
    assert run(url, "red", "--json").json()["survey"] == str(services.survey.id)
    asked = services.requests[0].url
    assert asked == f"{services.survey.analyzer.url}/v1/surveys/{services.survey.id}"


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (("red",), "a report waits; send it with shoal submit --flush --outbox box"),
        (
            ("--file", "answers.csv", "--column", "a"),
            f"0 delivered, 3 waiting, 0 of 3 people still to come; {GOES_ON}",
        ),
    ],
)
def test_who_interrupts_is_told_how_to_go_on(run, services, words, told):
    Path("answers.csv").write_text("a\nred\nblue\nred\n")

    def interrupt(_request):
        raise KeyboardInterrupt

    path = f"/v1/surveys/{services.survey.id}/reports"
    services.answers["shuffler", path] = interrupt
    finished = run("survey.json", *words, "--outbox", "box")
    assert (finished.status, finished.stderr) == (130, f"interrupted: {told}\n")
    services.answers.clear()
    assert run("survey.json", *words, "--outbox", "box").status == 0
    assert len(services.messages) == (3 if words[0] == "--file" else 1)


def test_what_was_spent_is_shown(run):
    run("survey.json", "red")
    shown = run("--spent").stdout.splitlines()
    assert shown[0].split() == ["survey", "epsilon", "delta", "eps0", "reports", "waiting"]
    assert shown[1].startswith("colours")
    found = run("--spent", "--json").json()
    assert found["surveys"][0]["name"] == "colours"
    assert found["epsilon"] == pytest.approx(0.171, abs=1e-3)


def test_opting_out_and_in(run, services):
    assert run("--opt-out").stdout.startswith("opted out: 0 reports")
    assert "opted out; opt in again" in run("survey.json", "red").refusal()
    assert run("--opt-in").stdout == "opted in\n"
    assert run("survey.json", "red").status == 0
    assert len(services.messages) == 1


def test_a_table_of_people_invited_has_a_table_of_invitations(run, services, tmp_path):
    survey = make_survey(admission=Invited(entitled=2000, dishonest=0))
    services.__init__(survey)
    (tmp_path / "survey.json").write_bytes(survey.to_bytes())
    (tmp_path / "answers.csv").write_text("colour\nred\ngreen\nred\n")
    handed = invitations.invite(survey, 3)
    words = ("survey.json", "--file", "answers.csv", "--column", "colour")
    assert "for invited people" in run(*words).refusal()
    few = "handed.csv has 2 invitations, and answers.csv answers of 3 people"
    for people, said in ((2, few), (3, "")):
        (tmp_path / "handed.csv").write_text(invitations.table(survey, handed[:people]))
        finished = run(*words, "--invitations", "handed.csv")
        assert finished.status == (2 if said else 0), finished.stderr
        assert said in " ".join(finished.stderr.split())
    (body,) = services.bodies
    size = services.wire.report_bytes + 16
    codes = [body[end - 16 : end] for end in range(size, len(body) + 1, size)]
    assert codes == [each.invitation.code(survey.id, 1) for each in handed]
    nothing = run(*words, "--invitations", "answers.csv").refusal()
    assert "is not a table of invitations" in nothing
    assert "nothing was sent" in nothing


def test_a_table_is_sent_and_sent_once(run, services, tmp_path):
    rows = ["red"] * 40 + ["blue"] * 20
    (tmp_path / "answers.csv").write_text("\n".join(["colour", *rows]) + "\n")
    words = ("survey.json", "--file", "answers.csv", "--column", "colour")
    first = run(*words).stdout.splitlines()
    assert first[-1] == "60 delivered, 0 waiting; 60 of 60 people asked, 60 took part"
    again = run(*words, "--json").json()
    assert (again["delivered"], again["again"]) == (60, True)
    assert again["job"] == str(tmp_path.resolve() / "answers.csv")
    assert "nobody was randomized again" in run(*words).stdout
    assert len(services.messages) == 60
    assert run(*words, "--job", "others", "--json").json()["job"] == "others"
    assert len(services.messages) == 120
    (tmp_path / "answers.csv").write_text("colour\nred\n")
    assert "began with 60 people and now has 1" in run(*words).stderr


def test_what_was_sent_before_includes_tables(run, services, tmp_path):
    """Flushing, spending and opting out see the outbox of jobs too."""
    path = f"/v1/surveys/{services.survey.id}/reports"
    (tmp_path / "answers.csv").write_text("colour\nred\nblue\n")
    words = ("survey.json", "--file", "answers.csv", "--column", "colour")
    services.answers["shuffler", path] = httpx.Response(429, headers={"retry-after": "600"})
    assert "2 waiting" in run(*words).stdout
    assert "each one of the people of tables" in run("--spent").stdout
    assert run("--spent", "--json").json()["jobs"]["surveys"][0]["waiting"] == 2
    assert run("--flush", "--json").json()["waiting"] == 2
    assert run("--opt-out").stdout.startswith("opted out: 2 reports")
    services.answers.clear()
    assert run("--flush", "--json").json()["sent"] == 0
    assert "opted out" in run(*words, "--job", "b").refusal()
    run("--opt-in")
    assert run(*words, "--job", "b", "--json").json()["delivered"] == 2


def test_opting_out_holds_for_tables_that_come_later(run, services, tmp_path):
    (tmp_path / "answers.csv").write_text("colour\nred\nblue\n")
    run("--opt-out")
    told = run("survey.json", "--file", "answers.csv", "--column", "colour").refusal()
    assert "opted out" in told
    assert services.requests == []


@pytest.mark.parametrize(
    ("lines", "words"),
    [
        (
            ["red,1", "secret-mauve,2"],
            "1 of 2 rows of colour have an answer that the survey does not",
        ),
        (["red,1", ",2", "blue,3"], "1 of 3 rows of colour have no answer: --drop-nulls"),
    ],
)
def test_a_table_with_other_rows_is_refused(run, services, tmp_path, lines, words):
    (tmp_path / "answers.csv").write_text("\n".join(["colour,row", *lines]) + "\n")
    told = run("survey.json", "--file", "answers.csv", "--column", "colour").refusal()
    assert words in told
    assert "mauve" not in told
    assert services.requests == []


def test_rows_without_an_answer_can_be_left_out(run, tmp_path):
    (tmp_path / "answers.csv").write_text("colour,row\nred,1\n,2\nblue,3\n")
    words = ("survey.json", "--file", "answers.csv", "--column", "colour", "--drop-nulls")
    assert run(*words, "--json").json()["delivered"] == 2


def test_a_column_of_numbers(run, services, tmp_path):
    survey = make_survey(device=Duchi(low=0.0, high=10.0, epsilon=1.0), answers=())
    services.__init__(survey)
    (tmp_path / "survey.json").write_bytes(survey.to_bytes())
    (tmp_path / "hours.csv").write_text("hours\n1.5\n12\n-3\n")
    refused = run("survey.json", "--file", "hours.csv", "--column", "hours").refusal()
    assert "2 of 3 rows of hours are not a number from 0 to 10: nothing was sent" in refused
    assert "a number from 0 to 10" in run("survey.json", "10.5").refusal()
    assert services.posts() == []
    (tmp_path / "hours.csv").write_text("hours\n1.5\n10\n0\n")
    found = run("survey.json", "--file", "hours.csv", "--column", "hours", "--json").json()
    assert found["delivered"] == 3
    assert run("survey.json", "7.5", "--json").json()["outcome"] == "sent"
    assert "a number from 0 to 10" in run("survey.json", "seven", "--occasion", "1").refusal()


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["survey.json", "pink"], "one of the answers 'red'"),
        (["survey.json", "red", "--occasion", "2"], "accepts 1 report from one person"),
        (["survey.json", "red", "--max-epsilon", "0.1"], "the policy allows at most 0.1"),
        (["survey.json", "red", "--max-local-epsilon", "0.5"], "at most 0.5"),
        (["survey.json", "red", "--max-delta", "1e-9"], "at most 1e-9"),
        (["survey.json", "red", "--min-crowd", "1e4"], "at least 10000"),
        (["survey.json", "red", "--max-total-epsilon", "0.1"], "in total at most 0.1"),
        (["survey.json", "red", "--max-total-delta", "1e-9"], "in total at most 1e-9"),
        (["survey.json", "red", "--max-total-local-epsilon", "0.1"], "in total at most 0.1"),
        (["survey.json", "red", "--host", "other.example"], "only other.example"),
        (["nowhere.json", "red"], "cannot read nowhere.json"),
        (["answers.csv", "red"], "malformed"),
        ([], "SURVEY is missing"),
        (["survey.json", "red", "--file", "answers.csv", "--column", "a"], "not both"),
        (["survey.json", "--file", "answers.csv"], "--file needs --column"),
        (["survey.json", "--file", "nope.csv", "--column", "a"], "there is no file nope.csv;"),
        (["survey.json", "red", "--job", "x"], "--job needs --file"),
        (["survey.json", "red", "--flush"], "--flush is used alone"),
        (["--spent", "--opt-out"], "--spent is used alone"),
        (["--flush", "--file", "people.csv"], "--flush is used alone"),
        (["survey.json", "--file", "answers.csv", "--column", "b"], "b"),
        (["survey.json"], "ANSWER is missing"),
        (["survey.json", "--file", "empty.csv", "--column", "a"], ""),
        (["survey.json", "red", "--proxy", "nonsense"], "the address of a --proxy"),
        (["survey.json", "red", "--delay", "-3"], "--delay"),
    ],
)
def test_what_makes_no_sense_is_refused_in_one_line(run, services, words, told):
    Path("answers.csv").write_text("a\nred\n")
    Path("empty.csv").write_text("a\n")
    refused = run(*words).refusal()
    assert told in refused
    assert refused.endswith(("; nothing was sent", ": nothing was sent")), refused
    assert refused.count("nothing was sent") == 1
    assert services.posts() == []


def test_help_has_its_panels(run):
    shown = run("--help").stdout
    for word in ("One person", "The people of a table", "Limits, whatever", "--compare-keys"):
        assert word in shown


def test_over_a_real_connection(tmp_path, monkeypatch, clock):
    """The same, with sockets between."""

    class Handler(BaseHTTPRequestHandler):
        def answer(self):
            body = self.rfile.read(int(self.headers.get("content-length", 0)))
            url = f"https://{'analyzer' if self.path.startswith('/a/') else 'shuffler'}.example"
            path = self.path.removeprefix("/a").removeprefix("/s")
            reply = services.handle(httpx.Request(self.command, url + path, content=body))
            self.send_response(reply.status_code)
            self.send_header("content-length", str(len(reply.content)))
            self.end_headers()
            self.wfile.write(reply.content)

        do_GET = do_POST = answer  # noqa: N815 - names of the base class

        def log_message(self, *_words):
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    base = f"http://127.0.0.1:{server.server_address[1]}"
    known = make_survey()
    services = Services(
        make_survey(
            shuffler=Party(url=f"{base}/s", fingerprint=known.shuffler.fingerprint),
            analyzer=Party(url=f"{base}/a", fingerprint=known.analyzer.fingerprint),
        )
    )
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        monkeypatch.setattr(service_client, "Client", partial(Client, clock=clock))
        url = f"{base}/s/v1/surveys/{services.survey.id}"
        sent = shoal("submit", url, "red", "--outbox", tmp_path, "--json").json()
        assert sent["outcome"] == "sent"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
    assert len(services.messages) == 1
    # Nobody there any more: it is kept.
    services.survey = make_survey(
        name="later", shuffler=services.survey.shuffler, analyzer=services.survey.analyzer
    )
    with Client(tmp_path, clock=clock) as client:
        client._sleep = lambda _seconds: None
        assert "ConnectError" in client.report(services.survey, "red").reason
        assert client.spent().rows[1].waiting == 1
    assert clock() == NOW


@pytest.fixture
def asking_two(run, services, tmp_path):
    """The command, with a survey of two questions instead."""
    asked = several((RandomizedResponse(k=3, epsilon=1.0), Duchi(low=0, high=10, epsilon=1.0)))
    survey = replace(make_survey(), questions=asked.questions, admission=Open(dishonest=0))
    services.__init__(survey)
    (tmp_path / "survey.json").write_bytes(survey.to_bytes())
    return run


def test_several_questions_are_answered_by_name(asking_two, services, tmp_path):
    assert asking_two("survey.json", "--answer", "q0=a0", "--answer", "q1=4").status == 0
    assert [len(each) for each in services.messages] == [2]
    other = ("--occasion", "1", "--outbox", str(tmp_path / "other"))
    assert asking_two("survey.json", *other, answer="\n7\n").status == 0
    (tmp_path / "people.csv").write_text("q0,q1\na0,1\n,2\na1,10\n")
    assert asking_two("survey.json", "--file", "people.csv").status == 0
    assert len(services.messages) == 5


@pytest.fixture
def asking_by_groups(run, services, tmp_path):
    """The command, with a survey by groups, and one of several questions, the last by groups."""
    fields = {"admission": Open(dishonest=0), "epsilon": 2.0}
    survey = replace(make_survey(), questions=(by_groups(),), **fields)
    among = (*several().questions, by_groups("vote", epsilon=0.1))
    services.__init__(survey)
    (tmp_path / "survey.json").write_bytes(survey.to_bytes())
    (tmp_path / "among.json").write_bytes(replace(survey, questions=among).to_bytes())
    return run


def test_a_group_is_answered_beside_the_answer(asking_by_groups, services, tmp_path):
    assert asking_by_groups("survey.json", "yes", "--group", "north").status == 0
    other = ("--outbox", str(tmp_path / "other"))
    assert asking_by_groups("survey.json", *other, answer="south\nno\n").status == 0
    (tmp_path / "people.csv").write_text("vote,region\nyes,north\nno,east\n")
    table = ("--file", "people.csv", "--column", "vote", "--by", "region")
    assert asking_by_groups("survey.json", *table).status == 0
    assert len(services.messages) == 4


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ("survey.json yes", "the survey counts by groups: give --group once"),
        ("survey.json yes --group a --group b", "give --group once"),
        ("survey.json yes --group west", "one of the groups 'north', 'south', 'east'"),
        ("survey.json - --group north", "--group needs ANSWER"),
        ("survey.json --file people.csv --column vote", "the column of the groups"),
        ("survey.json --file people.csv --group north", "in its column --by"),
        ("survey.json yes --by region", "--by needs --file"),
        ("among.json --answer vote=yes --group north", "expected --group NAME=GROUP"),
        ("among.json --answer q0=a0 --group q0=north", "questions that are by groups: vote"),
        ("among.json --group vote=north", "--group needs --answer NAME=ANSWER"),
        ("among.json --answer vote=maybe --group vote=north", "one of the answers to vote"),
    ],
)
def test_groups_that_fit_no_survey_are_refused(asking_by_groups, services, tmp_path, words, said):
    (tmp_path / "people.csv").write_text("vote,region\nyes,north\n")
    refused = asking_by_groups(*words.split()).refusal()
    assert said in refused
    assert refused.endswith("nothing was sent")
    assert not services.messages


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["red"], "the survey has several questions: give --answer NAME=ANSWER (q0, q1)"),
        (["--answer", "q0=a0"], "to q1, which cannot be skipped"),
        (["--answer", "q1=4", "--answer", "q1=5"], "each name once"),
        (["--answer", "q1"], "expected --answer NAME=ANSWER"),
        (["--answer", "q2=a", "--answer", "q1=4"], "with the names of the questions: q0, q1"),
        (["--file", "people.csv", "--column", "q0"], "with the names of the questions"),
        (["--file", "people.csv", "--drop-nulls"], "no rows dropped"),
    ],
)
def test_answers_that_fit_no_question_are_refused(asking_two, services, tmp_path, words, said):
    (tmp_path / "people.csv").write_text("q0,q1\na0,1\n,2\n")
    refused = asking_two("survey.json", *words).refusal()
    assert said in refused
    assert refused.endswith("nothing was sent")
    assert not services.messages


def test_one_question_needs_no_name(run, services):
    assert "give its ANSWER alone" in run("survey.json", "--answer", "q0=red").refusal()
    assert not services.messages
