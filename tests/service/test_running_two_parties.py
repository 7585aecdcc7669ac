"""Two operators by the book: keys, survey, token, three processes, people, a result."""

from __future__ import annotations

import json
import socket
import subprocess
import sys

import httpx
import pytest

from repository import environment
from running_kit import Service, wait_for

PASSPHRASE = {"SHOAL_PASSPHRASE": "sesame"}
PEOPLE = 200


@pytest.fixture
def shoal(tmp_path):
    def command(*words, **variables):
        finished = subprocess.run(
            [sys.executable, "-m", "shoal.cli", *map(str, words)],
            cwd=tmp_path,
            env=environment() | variables,
            capture_output=True,
            encoding="utf-8",
            check=False,
        )
        assert finished.returncode == 0, finished.stderr
        return finished.stdout

    return command


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


@pytest.mark.slow
def test_what_the_pages_say_works(shoal, tmp_path):
    ports, fingerprints = {}, {}
    for role in ("shuffler", "analyzer"):
        words = ("keys", "new", f"{role}/keys", "--role", role, "--cost", "12", "--json")
        fingerprints[role] = json.loads(shoal(*words, **PASSPHRASE))["fingerprint"]
        ports[role] = free_port()
    parties = [
        words
        for role in ("shuffler", "analyzer")
        for words in (
            *(f"--{role}", f"http://127.0.0.1:{ports[role]}"),
            *(f"--{role}-key", fingerprints[role]),
        )
    ]
    asked = ("--question", "How?", "--purpose", "A test.", "--categories", "car,bus,bike")
    sizes = ("--epsilon", "1", "--minimum", "150", "--target", str(PEOPLE))
    shoal("survey", "new", *asked, *sizes, *parties, "--out", "survey.json")
    for role in ("shuffler", "analyzer"):
        told = shoal("survey", "add", "survey.json", "--to", role)
    name = told.split()[-1]
    (tmp_path / "analyzer" / "token").write_text(
        shoal("keys", "token", "shuffler", "--survey", name[:8], "--days", "90")
    )
    (tmp_path / "analyzer" / "token").chmod(0o600)
    (tmp_path / "answers.csv").write_text("\n".join(["how", *["car", "bus"] * (PEOPLE // 2)]))

    def serve(kind, role, *words, **variables):
        log = tmp_path / f"{kind}.log"
        return Service("serve", kind, str(tmp_path / role), *words, log=log, **variables)

    with (
        serve("shuffler", "shuffler", "--port", str(ports["shuffler"])) as shuffler,
        serve("worker", "shuffler", "--processes", "2", "--pause", "0.3", **PASSPHRASE) as worker,
        serve(
            *("analyzer", "analyzer", "--port", str(ports["analyzer"])),
            *("--pause", "0.5", "--public-results"),
            **PASSPHRASE,
        ) as analyzer,
    ):
        shuffler.address()
        results = f"{analyzer.address()}/v1/surveys/{name}/results"
        shoal("submit", "survey.json", "--file", "answers.csv", "--column", "how", "--outbox", "o")
        (batch,) = wait_for(lambda: httpx.get(results, timeout=30).json()["batches"], 120)
        assert (batch["status"], batch["valid"]) == ("published", PEOPLE)
        checks = json.loads(shoal("doctor", "shuffler", "analyzer", "--json"))["checks"]
        assert {check["state"] for check in checks} == {"ok", "warn"}
        answering = [check for check in checks if check["detail"] == "is collected there"]
        assert len(answering) == 2
        assert [each.stop() for each in (analyzer, worker, shuffler)] == [0, 0, 0]
    collected = json.loads(shoal("collect", "analyzer", "--offline", "--json"))
    assert collected["surveys"][0]["batches"] == [batch]
