"""Two operators by the book: the page is walked, from keys to a result, a backup and back."""

from __future__ import annotations

import json
import re
import shutil
import socket
import subprocess
import sys
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path

import pytest

import http_kit
from http_kit import proxy_to
from repository import ROOT, environment
from running_kit import Service, wait_for

PAGE = "docs/operate/two-operators.md"
PEOPLE = 500
LINE = re.compile(r"^(shuffler|analyzer|asker|device)\$ (.*)$")
PORTS = ("8460", "8461", "9460", "9461", "9462")
QUICK = {"worker": ["--pause", "0.3", "--gather", "0"], "analyzer": ["--pause", "0.5"]}


def lines(text):
    """Every line that is typed, with the machine it is typed on; continued lines are one."""
    pending = None
    for line in text.splitlines():
        found = LINE.match(line)
        if pending is not None:
            machine, words = pending
            pending = (machine, words[:-1].rstrip() + " " + line.removeprefix(">").strip())
        elif found:
            pending = (found[1], found[2])
        if pending is not None and not pending[1].endswith("\\"):
            yield pending
            pending = None


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


@dataclass
class Walk:
    """Four desks on one machine: what stands for addresses, places and names is filled in."""

    place: Path
    names: dict = field(default_factory=dict)
    services: dict = field(default_factory=dict)
    printed: dict = field(default_factory=dict)

    def __post_init__(self):
        for name in ("etc/shoal", "var/lib"):
            (self.place / name).mkdir(parents=True)
        for machine in ("shuffler", "analyzer", "asker", "device"):
            (self.place / machine).mkdir()
        self.ports = {port: str(free_port()) for port in PORTS}
        intake = f"http://127.0.0.1:{self.ports['8460']}"
        proxy = proxy_to(intake, local_address="127.0.0.1")
        self.front = ExitStack()
        self.names |= {
            "https://shuffler.example": self.front.enter_context(http_kit.serving(proxy)),
            "https://analyzer.example": f"http://127.0.0.1:{self.ports['8461']}",
            "/etc/": f"{self.place}/etc/",
            "/var/": f"{self.place}/var/",
        }

    def filled(self, words):
        for name, value in self.names.items():
            words = words.replace(name, value)
        return words

    def type(self, machine, words):
        """What a person would: run it, paste, or start it and leave it."""
        filled = self.filled(words)
        if words.startswith("sudo "):
            return
        if words.startswith("shoal serve "):
            self.serve(words.split()[2], filled.split()[1:])
            return
        given = None
        if words.endswith("token)"):
            given = self.printed["shuffler", "keys token"]
        elif words.startswith("curl "):
            address = filled.split()[-1]
            self.printed[machine, "curl"] = http_kit.get(address).json()
            return
        finished = subprocess.run(
            ["/bin/sh", "-c", self.shoal(filled)],
            cwd=self.place / machine,
            env=environment(),
            input=given,
            capture_output=True,
            encoding="utf-8",
            check=False,
        )
        assert finished.returncode == 0, f"{machine}$ {filled}\n{finished.stdout}{finished.stderr}"
        self.printed[machine, " ".join(words.split()[1:3])] = finished.stdout
        self.printed[machine, words.split()[1]] = finished.stdout
        self.learn(machine, words)

    def shoal(self, words):
        """The command of this tree; cheap passphrases, because the test makes keys anew."""
        words = words.replace("openssl rand -base64 32", "echo sesame")
        if "keys new" in words:
            words += " --cost 12"
        return re.sub(r"^shoal ", f"{sys.executable} -m shoal ", words)

    def learn(self, machine, words):
        """Names that later lines have in them, and files that one hands to another."""
        if words.startswith("shoal keys show"):
            found = re.search(r"fingerprint\s+([0-9a-f]{64})", self.printed[machine, "keys show"])
            self.names[f"{machine.upper()}_FINGERPRINT"] = found[1]
        if words.startswith("shoal survey new"):
            for other in ("shuffler", "analyzer", "device"):
                shutil.copy(self.place / "asker" / "survey.json", self.place / other)
        if words.startswith("shoal invite make"):
            shutil.copy(self.place / "asker" / "survey.codes", self.place / "shuffler")
            rows = (self.place / "asker" / "invitations.csv").read_text(encoding="utf-8")
            some = "".join(rows.splitlines(keepends=True)[: PEOPLE + 1])
            (self.place / "device" / "invitations.csv").write_text(some, encoding="utf-8")
        if words.startswith("shoal survey add"):
            self.names["SURVEY"] = re.search(r"[0-9a-f]{64}", self.printed[machine, "survey add"])[
                0
            ]

    def serve(self, kind, words):
        words = [self.ports.get(word, word) for word in words] + QUICK.get(kind, [])
        log = self.place / f"{kind}.log"
        self.services[kind] = Service(*words, log=log)
        self.services[kind].address({"worker": "metrics_listening"}.get(kind, "listening"))

    def close(self):
        self.front.close()
        for service in self.services.values():
            service.__exit__()


@pytest.fixture
def walk(tmp_path):
    found = Walk(tmp_path)
    yield found
    found.close()


@pytest.mark.slow
def test_the_page_is_walked_to_a_result_and_back_from_a_backup(walk):
    text = (ROOT / PAGE).read_text(encoding="utf-8")
    typed = list(lines(text))
    assert len(typed) > 25
    rows = "\n".join(["how", *["car", "bus", "bike", "foot", "foot"] * (PEOPLE // 5)])
    (walk.place / "device" / "answers.csv").write_text(rows, encoding="utf-8")
    for machine, words in typed:
        if words.startswith("shoal doctor"):
            _wait_for_keys(walk)
        if words.endswith("/results"):
            _wait_for_result(walk)
        walk.type(machine, words)
    published = walk.printed["device", "curl"]
    (batch,) = published["batches"]
    assert (batch["status"], batch["valid"]) == ("published", PEOPLE)
    assert "<html" in (walk.place / "analyzer" / "result.html").read_text(encoding="utf-8")
    doctor = walk.printed["shuffler", "doctor"] + walk.printed["analyzer", "doctor"]
    assert " fail " not in doctor
    assert "the service there collects for it" in doctor
    _restored(walk, batch)


def _wait_for_keys(walk):
    address = walk.filled("https://shuffler.example/v1/surveys/SURVEY/keys/analyzer")
    wait_for(lambda: http_kit.get(address).status_code == 200, 120)


def _wait_for_result(walk):
    address = walk.filled("https://analyzer.example/v1/surveys/SURVEY/results")
    wait_for(lambda: http_kit.get(address).json()["batches"], 120)


def _restored(walk, batch):
    """The machines burn; both come back from what step 8 made."""
    assert [walk.services[kind].stop() for kind in ("analyzer", "worker", "shuffler")] == [0, 0, 0]
    walk.front.close()
    for role in ("shuffler", "analyzer"):
        home, secret = f"/var/lib/shoal-{role}", f"/etc/shoal/{role}.passphrase"
        shutil.rmtree(walk.filled(home))
        (backup,) = (walk.place / "var" / "backups" / f"shoal-{role}").iterdir()
        drop = " --waiting drop" if role == "shuffler" else ""
        words = f"--to {home} --passphrase-file {secret}{drop}"
        walk.type(role, f"shoal restore /var/backups/shoal-{role}/{backup.name} {words}")
        walk.type(role, f"shoal doctor {home}")
        assert " fail " not in walk.printed[role, "doctor"]
    walk.type("analyzer", f"shoal collect {home} --offline --json")
    found = json.loads(walk.printed["analyzer", "collect"])
    assert found["surveys"][0]["batches"] == [batch]


def test_the_page_is_read_as_it_is_meant():
    text = "shuffler$ shoal keys \\\n>     new x\nanalyzer$ ls\nplain $ text\n"
    assert list(lines(text)) == [("shuffler", "shoal keys new x"), ("analyzer", "ls")]
