"""Backups that somebody changed, and parties that go on from an honest one, over real HTTP.

What is lost is said, nobody counts twice, and what was told to readers stays in what it cost.
"""

from __future__ import annotations

import io
import json
import shutil
import sqlite3
import tarfile
from hashlib import sha256

import numpy as np
import pytest

from http_kit import Lying
from service_site import HOUR, START, Analyzer, live, telling
from shoal.errors import RefusedError
from shoal.service.analyzer.app import analyzer_app
from shoal.service.client import Queued, Settings
from shoal.service.errors import StoreVersionError, UnreadableError
from shoal.service.http.server import address, background, listen
from shoal.service.keyring import Protection
from shoal.service.ops.restore import restore

MINIMUM = 20
PEOPLE = 60
ONCE = Settings(tries=1, wait=0.001, patience=0)


class Parties:
    """Both parties, each behind an address that stays when the party comes back elsewhere."""

    def __init__(self, service, fronts):
        self.service, self.fronts = service, fronts

    def back_up(self, role, name=" backup", **options):
        return self.service.back_up(role, name, **{"waiting": False} | options)

    def bring_back(self, role, backup, **options):
        """The party of a backup, in another directory, at its old address."""
        service = self.service
        service.closing.callback(getattr(service, role).close)
        options |= {"backup": backup, "directory": service.directory / f"{role} again"}
        done = service.bring_back(role, **options)
        half = getattr(service, role)
        app = (
            half.app()
            if role == "shuffler"
            else analyzer_app(half.store, half.keyring, public_results=True)
        )
        listening = listen("127.0.0.1", 0)
        service.closing.enter_context(background(app, listening))
        self.fronts[role].upstream = address(listening)
        return done

    def answer(self, people):
        """People who have an answer each."""
        sent = self.service.client("crowd").report_many(
            self.service.survey, np.array(people), job=f"{len(people)} from {people[0]}"
        )
        assert (sent.delivered, sent.finished) == (len(people), True)
        self.service.work()


def restored(backup, directory, **options):
    options = {"clock": lambda: START + HOUR} | options
    return restore(backup, directory, unlock=lambda _: Protection.none(), **options)


@pytest.fixture
def parties(tmp_path):
    fronts = {"shuffler": Lying(), "analyzer": Lying()}
    front, behind = fronts.values()
    survey = telling(PEOPLE, minimum=MINIMUM, target=MINIMUM)
    with live(tmp_path, front=front, behind=behind, **survey) as service:
        yield Parties(service, fronts)


# ------------------------------------------------------------------------------- going on from one


def test_a_restored_shuffler_loses_what_it_says_and_counts_nobody_twice(parties):
    """Ten before the backup, ten after it, all of them in a batch that was delivered since."""
    service = parties.service
    parties.answer(range(10))
    backup = parties.back_up("shuffler")
    parties.answer(range(10, MINIMUM - 1))

    def silent(request, pass_on):
        """It arrives, and nobody says so."""
        pass_on(request)

    parties.fronts["shuffler"].lies["/reports"] = silent
    device = service.client("unsure", ONCE)
    assert isinstance(device.report(service.survey, f"answer {MINIMUM - 1}"), Queued)
    parties.fronts["shuffler"].lies.clear()
    service.work()
    assert len(service.collect().published) == 1
    told = parties.bring_back("shuffler", backup, waiting="drop")
    assert len(told.dropped) == 1
    assert "is given up, with all reports in it" in str(told.document())
    # Who does not know whether it arrived gives up: under another key it might count twice.
    flushed = device.flush(everything=True)
    assert (flushed.sent, flushed.given_up) == (0, 1)
    assert "may have arrived before" in flushed.reasons[0]
    service.work()
    parties.answer(range(MINIMUM, 2 * MINIMUM))
    passed = service.collect()
    assert (len(passed.published), passed.problems) == (1, {})
    assert service.counted().tolist() == [1.0] * 2 * MINIMUM + [0.0] * (PEOPLE - 2 * MINIMUM)


# ------------------------------------------------------------------------- an analyzer's ledger


@pytest.fixture
def published_since(tmp_path):
    """A small batch, published after the backup from which the analyzer was restored."""
    fronts = {"shuffler": Lying(), "analyzer": Lying()}
    front, behind = fronts.values()
    with live(tmp_path, front=front, behind=behind, local_epsilon=1.0, minimum=60) as service:
        parties = Parties(service, fronts)
        backup = parties.back_up("analyzer")
        parties.answer([0, 1, 2, 3] * 15)
        (batch,) = service.collect().published
        small = service.result(batch)
        parties.bring_back("analyzer", backup)
        yield parties, small


def test_what_was_published_since_a_backup_stays_in_what_the_survey_cost(published_since):
    """The store does not know the batch; readers do, and they are told no smaller ε."""
    parties, small = published_since
    service = parties.service
    assert service.results() == []
    assert not service.collect()  # it is not offered any more
    parties.answer([0, 1, 2, 3] * 150)
    (batch,) = service.collect().published
    large = service.result(batch)
    assert large["epsilon"] < small["epsilon"] / 2
    base = f"{service.survey.analyzer.url}/v1/surveys/{service.survey.id}"
    shown = service.http.get(f"{base}/results").json()
    lives = [large["life"], shown["life"], service.http.get(f"{base}/ledger").json()["life"]]
    for life in lives:
        assert life["epsilon"] >= small["epsilon"]
        assert life["analyzer_epsilon"] == service.survey.local_epsilon
        assert (life["batches"], life["smallest"]) == (1, 60)
    assert shown["combined"]["epsilon"] >= small["epsilon"]
    result = service.analyzer.store.results.survey(service.survey.id).result
    assert result.guarantee.epsilon >= small["epsilon"]
    assert "restored from a backup" in result.notes[0]


def test_restoring_twice_is_entered_once(published_since):
    parties, _ = published_since
    service = parties.service
    again = parties.back_up("analyzer", " again")
    shutil.rmtree(service.analyzer.directory)
    parties.bring_back("analyzer", again)
    life = service.analyzer.store.ledger.spent(service.survey.id)
    assert (life["opened"], life["batches"], life["smallest"]) == (1, 0, 60)


@pytest.mark.parametrize("kind", ["sqlite", "postgresql"])
def test_what_may_be_lost_is_entered_in_every_database(tmp_path, store_urls, kind):
    analyzer = Analyzer(tmp_path / "analyzer", url=store_urls[kind])
    survey, ledger = analyzer.asking(), analyzer.store.ledger
    assert ledger.spent(survey.id)["epsilon"] is None
    for _ in range(2):
        ledger.enter_lost()
    assert ledger.spent(survey.id) == {
        "epsilon": survey.guarantee(survey.batches.minimum).epsilon,
        "batches": 0,
        "smallest": survey.batches.minimum,
        "analyzer_epsilon": survey.local_epsilon,
        "opened": 1,
    }
    assert ledger.entries(survey.id) == []
    # It can be removed, and comes back with what it may have cost.
    spent, store = ledger.spent(survey.id), analyzer.store
    assert not store.surveys.taken(survey.id)
    store.surveys.remove(survey.id)
    analyzer.asking(name="another")
    store.surveys.add(survey)
    assert store.surveys.get(survey.id) == survey
    assert ledger.spent(survey.id) == spent
    analyzer.close()


# ------------------------------------------------------------------------------- changed backups


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """Two backups of a shuffler with reports, one of its analyzer, and one of a stranger."""
    directory = tmp_path_factory.mktemp("made")
    with live(directory / "ours", minimum=MINIMUM) as service:
        parties = Parties(service, {})
        parties.answer([0, 1, 2, 3] * 2)
        older = parties.back_up("shuffler", " older", waiting=True)
        parties.answer([0, 1, 2, 3] * 1)
        newer = parties.back_up("shuffler", waiting=True)
        analyzer = parties.back_up("analyzer")
    with live(directory / "theirs", minimum=MINIMUM) as service:
        stranger = Parties(service, {}).back_up("shuffler", waiting=True)
    return {
        name: content_of(path)
        for name, path in (
            ("older", older),
            ("newer", newer),
            ("analyzer", analyzer),
            ("stranger", stranger),
        )
    }


def content_of(path):
    with tarfile.open(path) as tar:
        return {member.name: tar.extractfile(member).read() for member in tar.getmembers()}


def written(path, members, extra=()):
    """An archive of these files, and of members that are no files."""
    with tarfile.open(path, "w") as tar:
        for name, content in members.items():
            member = tarfile.TarInfo(name)
            member.size = len(content)
            tar.addfile(member, io.BytesIO(content))
        for member in extra:
            tar.addfile(member)
    return path


def noted(members):
    """With a manifest that says what is there: by somebody who knows how."""
    manifest = json.loads(members["manifest.json"])
    for entry in manifest["files"]:
        content = members[entry["path"]]
        entry |= {"bytes": len(content), "sha256": sha256(content).hexdigest()}
    return members | {"manifest.json": json.dumps(manifest).encode()}


def tree(directory):
    return sorted(path.relative_to(directory).as_posix() for path in directory.rglob("*"))


def test_files_of_two_moments_make_no_backup(made, tmp_path):
    """Each is right in its own backup; together they would forget what was spent since."""
    older, newer = made["older"], made["newer"]
    exchanged = [
        name
        for name in older.keys() & newer.keys()
        if older[name] != newer[name] and name != "manifest.json"
    ]
    assert "store.sqlite" in exchanged
    for name in exchanged:
        path = written(tmp_path / "mixed.tar", newer | {name: older[name]})
        with pytest.raises(RefusedError, match=f"{name} (was changed|is missing)"):
            restored(path, tmp_path / "again", waiting="drop")
    assert tree(tmp_path) == ["mixed.tar"]


@pytest.mark.parametrize("kind", [tarfile.SYMTYPE, tarfile.LNKTYPE, tarfile.DIRTYPE])
@pytest.mark.parametrize("name", ["store.sqlite", "keys/identity", "manifest.json"])
def test_a_link_in_the_place_of_a_file_is_refused(made, tmp_path, kind, name):
    outside = tmp_path / "outside"
    outside.write_bytes(made["newer"][name])
    link = tarfile.TarInfo(name)
    link.type, link.linkname = kind, str(outside)
    path = written(
        tmp_path / "b.tar", {each: made["newer"][each] for each in made["newer"] if each != name}
    )
    with tarfile.open(path, "a") as tar:
        tar.addfile(link)
    with pytest.raises(RefusedError, match=r"is missing|no manifest"):
        restored(path, tmp_path / "again", waiting="drop")
    assert tree(tmp_path) == ["b.tar", "outside"]


def test_members_that_the_manifest_does_not_name_are_not_written(made, tmp_path):
    place = tmp_path / "deep" / "er"
    place.mkdir(parents=True)
    names = ("../evil", "/tmp/shoal-evil", "keys/../../evil", "segments/evil", "keys/key-999")  # noqa: S108 - not written
    link = tarfile.TarInfo("parts")
    link.type, link.linkname = tarfile.SYMTYPE, str(tmp_path)
    path = written(place / "b.tar", made["newer"] | dict.fromkeys(names, b"evil"), extra=(link,))
    restored(path, place / "again", waiting="drop")
    for each in tmp_path.rglob("*"):
        assert not each.is_symlink()
        assert "evil" not in each.name
        assert each.name != "key-999"


def test_another_partys_files_are_refused_even_with_a_right_manifest(made, tmp_path):
    """The digests are right: somebody has put them there."""
    store = {"store.sqlite": made["analyzer"]["store.sqlite"]}
    path = written(tmp_path / "database.tar", noted(made["newer"] | store))
    with pytest.raises(StoreVersionError, match="this database belongs to the analyzer"):
        restored(path, tmp_path / "again", waiting="drop")
    keys = {name: made["stranger"][name] for name in made["newer"] if name.startswith("keys/")}
    path = written(tmp_path / "keys.tar", noted(made["newer"] | keys))
    with pytest.raises(RefusedError, match="its keys are those of"):
        restored(path, tmp_path / "again", waiting="drop")
    assert tree(tmp_path) == ["database.tar", "keys.tar"]


def changed(content, tmp_path, statement, *values):
    """A database in which somebody changed something."""
    path = tmp_path / "changed.sqlite"
    path.write_bytes(content)
    with sqlite3.connect(path) as database:
        database.execute(statement, values)
    database.close()
    content = path.read_bytes()
    path.unlink()
    return {"store.sqlite": content}


def test_a_survey_that_was_changed_in_a_backup_is_refused(made, tmp_path):
    """Otherwise a shuffler would release crowds of two, under the name that people agreed to."""
    content = made["newer"]["store.sqlite"]
    with sqlite3.connect(":memory:") as database:
        database.deserialize(content)
        (configuration,) = database.execute("SELECT configuration FROM surveys").fetchone()
    database.close()
    smaller = configuration.replace(b'"minimum":20', b'"minimum":2')
    assert smaller != configuration
    store = changed(content, tmp_path, "UPDATE surveys SET configuration = ?", smaller)
    path = written(tmp_path / "b.tar", noted(made["newer"] | store))
    with pytest.raises(UnreadableError, match="the configuration that its id is the hash of"):
        restored(path, tmp_path / "again", waiting="keep")
    assert tree(tmp_path) == ["b.tar"]


def test_the_digest_that_was_written_down_tells_a_changed_backup(made, tmp_path):
    """Nothing inside can: whoever changes the count of a batch can change the manifest too."""
    whole = written(tmp_path / "whole.tar", made["newer"])
    statement = "UPDATE batches SET valid = 20"
    store = changed(made["newer"]["store.sqlite"], tmp_path, statement)
    path = written(tmp_path / "b.tar", noted(made["newer"] | store))
    known = restored(whole, tmp_path / "whole", waiting="keep").manifest.digest
    with pytest.raises(RefusedError, match=f"its digest is [0-9a-f]+, not {known}"):
        restored(path, tmp_path / "again", waiting="keep", digest=known)
    assert not (tmp_path / "again").exists()
    restored(whole, tmp_path / "again", waiting="keep", digest=known)
