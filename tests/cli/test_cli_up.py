"""``shoal up``: everything on this machine, interrupted and taken up again."""

from __future__ import annotations

import signal
import sys
from types import SimpleNamespace

import httpx
import pytest

import http_kit
from factories import example
from running_kit import Process, quick, wait_for
from shoal.cli.up import invite, missing_scripts
from shoal.sealing import SurveyId
from shoal.service.admission import Invitation
from shoal.service.http.server import listen
from shoal.service.ops.up import Embedded
from shoal.service.survey import Batches
from shoal.web import assets


class Up(Process):
    """``shoal up``, its output read line by line."""

    def __init__(self, directory, *words):
        super().__init__("up", directory, *words)
        self.said = []

    def until(self, words):
        for line in self.process.stdout:
            self.said.append(line.rstrip())
            if words in line:
                return
        pytest.fail("\n".join([*self.said, self.process.stderr.read()]))

    def value(self, label):
        (line,) = [line for line in self.said if line.split()[:1] == [label]]
        return line.split()[1]

    def interrupt(self):
        self.process.send_signal(signal.SIGINT)
        rest, errors = self.process.communicate(timeout=600)
        return self.process.returncode, rest, errors


def test_it_publishes_stops_at_ctrl_c_and_goes_on_with_the_same_keys_and_results(run, tmp_path):
    directory = tmp_path / "up"
    with Up(directory, "--simulate", "300") as up:
        up.until("It runs until Ctrl-C")
        up.until("curl")
        flat = " ".join(" ".join(up.said).split())
        for words in (
            "Estimated from 300 reports",
            "◆ true fraction",
            "a proved upper bound",
            "invented",
            "unprotected keys",
        ):
            assert words in flat
        results = http_kit.get(up.said[-1].split()[-1]).json()
        assert SurveyId.from_text(up.value("survey"))  # whole, however narrow the terminal
        up.until("the page where people answer")
        page = http_kit.get(up.said[-1].split()[0])
        assert page.status_code == 200
        assert "How often did you feel lonely last week?" in page.text
        (first,) = results["batches"]
        assert (first["valid"], first["status"]) == (300, "published")
        assert first["epsilon"] <= 1
        shuffler = up.value("shuffler")
        assert http_kit.get(f"{shuffler}/readyz").status_code == 200
        metrics = next(line.split()[-1] for line in up.said if "shuffler's metrics" in line)
        figures = http_kit.get(metrics).text
        assert f'shoal_last_batch_reports{{survey="{results["survey"][:12]}"}} 300.0' in figures
        status, rest, errors = up.interrupt()
    assert (status, errors) == (0, "")
    assert f"Continue with: shoal up {directory}" in " ".join(rest.split())
    with pytest.raises(httpx.ConnectError):
        http_kit.get(shuffler)
    found = run("up", str(directory), "--simulate 300 --once --json").json()
    assert found["shuffler"] == shuffler
    assert found["results"]["survey"] == results["survey"]
    assert SurveyId.from_text(results["survey"])
    batches = {batch["batch"]: batch for batch in found["results"]["batches"]}
    assert len(batches) == 2
    assert batches[first["batch"]] == first
    assert found["results"]["combined"]["valid"] == 600
    for estimate in found["results"]["combined"]["estimates"]:
        error = estimate["share"] - found["invented"][estimate["answer"]]
        assert abs(error) < 6 * estimate["standard_error"]
    assert not [path for path in directory.rglob("*") if path.stat().st_mode & 0o077]


@pytest.mark.slow
@pytest.mark.parametrize("again", [(), ("--simulate", "2000")], ids=["bare", "the same command"])
def test_interrupted_while_people_send_everybody_arrives_once(tmp_path, again):
    directory = tmp_path / "up"
    with Up(directory, "--simulate", "2000") as up:
        up.until("analyzer's metrics")
        wait_for((directory / "people" / "1-0").exists)
        status, _, _ = up.interrupt()
    assert status == 130
    with Up(directory, *again) as up:
        up.until("Estimated from 2,000 reports")
        up.interrupt()


@pytest.mark.slow
def test_killed_outright_nobody_is_left_behind_and_it_goes_on(tmp_path):
    directory = tmp_path / "up"
    with Up(directory, "--simulate", "300") as up:
        up.until("It runs until Ctrl-C")
        up.process.kill()
        up.process.wait()
        shuffler = up.value("shuffler")
        wait_for(lambda: not _answers(shuffler))
    with Up(directory, "--simulate", "300", "--once") as up:
        up.until("Estimated from 600 reports")
        up.process.communicate(timeout=600)
        assert up.process.returncode == 0


def _answers(url):
    try:
        return http_kit.get(f"{url}/healthz").is_success
    except httpx.HTTPError:
        return False


def test_missing_scripts_of_the_pages_are_said(monkeypatch, tmp_path):
    monkeypatch.setattr(assets, "BUILT", tmp_path)
    (told,) = missing_scripts()
    assert "nobody can answer in a browser" in told
    assert "run make browser in a clone of Shoal, then pip install '.[server]'" in told
    for name in assets.SCRIPTS:
        (tmp_path / name).write_text("/* built */")
    assert not missing_scripts()


# ------------------------------------------------------------------------- what is refused


def test_a_port_that_is_taken_is_one_line_and_leaves_nothing(run, tmp_path):
    with listen("127.0.0.1", 0) as taken:
        port = taken.getsockname()[1]
        said = run("up", str(tmp_path / "up"), "--port", str(port)).refusal()
    assert said.startswith(f"cannot listen on 127.0.0.1 port {port}: the port is in use; ")
    assert not (tmp_path / "up").exists()


def test_one_that_is_running_is_not_started_again(run, tmp_path):
    embedded = Embedded(directory=tmp_path / "up")
    with listen("127.0.0.1", 0) as taken:
        port = taken.getsockname()[1]
        design = quick(question="?", answers=("a", "b"), people=300)
        embedded.make(design, {"shuffler": port, "analyzer": 0})
        said = run("up", str(tmp_path / "up")).refusal()
    assert f"it is already running, or another program has its port {port}" in said


def test_missing_packages_are_one_line(run, tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "starlette", None)
    said = run("up", str(tmp_path / "up")).refusal()
    assert said.startswith("shoal up needs starlette: pip install 'starlette>=")


def test_a_directory_of_something_else_is_left_alone(run, tmp_path):
    (tmp_path / "up.json").write_text("{}")
    said = run("up", str(tmp_path)).refusal()
    assert "up.json was not written by shoal up: choose another directory" in said
    assert [path.name for path in tmp_path.iterdir()] == ["up.json"]


def test_a_directory_with_other_files_is_refused_before_anything_starts(run, tmp_path):
    (tmp_path / "survey.json").write_text("mine")
    (tmp_path / "dashboard").write_text("mine too")
    said = run("up", str(tmp_path)).refusal()
    assert said == (
        f"cannot use {tmp_path}: it has files that shoal up did not make (dashboard); "
        "nothing was changed: choose a new directory, or an empty one"
    )
    texts = {path.name: path.read_text() for path in tmp_path.iterdir()}
    assert texts == {"survey.json": "mine", "dashboard": "mine too"}


def test_a_place_that_cannot_be_written_to_is_one_line(run, tmp_path):
    (tmp_path / "file").write_text("")
    said = run("up", str(tmp_path / "file" / "up")).refusal()
    assert said.startswith("cannot use")


@pytest.mark.parametrize(("minimum", "option"), [(8, " --min-crowd 8 --max-epsilon 9"), (5000, "")])
def test_what_to_type_next_is_not_refused(tmp_path, capsys, minimum, option):
    batches = Batches(minimum=minimum, target=minimum, max_age=60)
    survey = example(answers=("a b", "c", "d", "e"), batches=batches, epsilon=9 if option else 1)
    services = SimpleNamespace(
        embedded=SimpleNamespace(directory=tmp_path),
        survey=survey,
        spare_invitations=lambda: spare,
    )
    spare = [Invitation(bytes(16))]
    invite(services)
    said = capsys.readouterr().out
    line = next(line for line in said.splitlines() if "submit" in line)
    handed = f" --invitation {spare[0]}"
    assert line == f"  shoal submit {tmp_path / 'survey.json'} 'a b'{handed}{option}"
    assert f"/answer/{survey.id}#{spare[0]}" in said
    spare.clear()  # a directory of before, whose survey anybody may answer
    invite(services)
    said = capsys.readouterr().out
    assert f"  shoal submit {tmp_path / 'survey.json'} 'a b'{option}\n" in said
    assert "#" not in said
