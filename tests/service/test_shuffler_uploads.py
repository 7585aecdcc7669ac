"""Uploads come in by a route, or before any route is looked at: nobody can tell which."""

from __future__ import annotations

import pytest

from factories import DAY
from http_kit import BYTES, refusal_of
from shoal.service.errors import StoreUnavailableError
from shoal.service.shuffler.intake import GroupCommit, Intake
from shoal.service.shuffler.reports import Reports
from shoal.service.shuffler.store import ShufflerStore


class Forgetful(dict):
    """Surveys of which none is met."""

    def __setitem__(self, path, row):
        pass


class Ways:
    """Two applications on one store: one has met the survey, the other never meets any."""

    def __init__(self, shuffler, monkeypatch, **limits):
        self.shuffler, self.observed = shuffler, shuffler.observed
        self.direct, self.routed = shuffler.app(**limits), shuffler.app(**limits)
        shuffler.ask(app=self.direct)
        assert self.direct.intake.surveys
        self.taken = []
        answer = Intake.answer

        async def counted(uploads, *given):
            self.taken.append(uploads)
            await answer(uploads, *given)

        monkeypatch.setattr(Intake, "answer", counted)
        monkeypatch.setattr(self.routed.intake, "surveys", Forgetful())

    def same(self, **given):
        """The status, once it is known that all of the answer is the same either way."""
        found, seen = [], []
        for app in (self.direct, self.routed):
            self.observed.clear()
            answer = self.shuffler.ask(app=app, **given)
            found.append((answer.status_code, answer.headers.raw, answer.content))
            seen.append([one for one in self.observed if one[0] != "commit_seconds"])
        assert found[0] == found[1]
        assert seen[0] == seen[1]
        assert set(self.taken) == {self.direct.intake}
        return found[0][0]


def test_what_is_kept_and_what_is_refused_is_answered_alike(shuffler, monkeypatch):
    ways = Ways(shuffler, monkeypatch, reports=3, body_bytes=2000)
    one, two = shuffler.reports(2)
    stranger = bytes([1, 99]) + one[2:]
    other = bytes([9]) + one[1:]
    statuses = {
        202: [{"content": body} for body in (one, one + two, stranger, other + one)],
        400: [
            *({"content": body} for body in (b"", b"x", one[:-1], one + b"x")),
            {"content": one, "headers": BYTES | {"Content-Length": "-1"}},
        ],
        413: [
            {"content": bytes(2001)},
            {"content": 4 * one},
            {"content": one, "headers": BYTES | {"Content-Length": "9" * 30}},
        ],
        415: [
            {"content": one, "headers": headers}
            for headers in (
                {},
                {"Content-Type": "application/json"},
                BYTES | {"Content-Encoding": "gzip"},
            )
        ],
    }
    for status, given in statuses.items():
        assert {ways.same(**each) for each in given} == {status}
    spelled = {"Content-Type": "Application/Octet-Stream; x=y", "Content-Encoding": "identity"}
    assert ways.same(content=two, headers=spelled) == 202


@pytest.mark.parametrize("moment", [-2 * DAY, 31 * DAY])
def test_a_closed_survey(shuffler, monkeypatch, moment):
    ways = Ways(shuffler, monkeypatch)
    (report,) = shuffler.reports(1)
    shuffler.clock.advance(moment)
    assert ways.same(content=report) == 403


def test_a_survey_that_was_removed_under_a_running_server(shuffler, tmp_path):
    app = shuffler.app()
    shuffler.ask(app=app)
    assert app.intake.surveys  # and so it is taken for known
    (directory,) = {path.parent for path in tmp_path.rglob("segments")}
    other = ShufflerStore(shuffler.database, directory, shuffler.clock)
    other.surveys.remove(shuffler.survey.id)
    (one,) = shuffler.reports(1)
    for _ in range(2):
        answer = shuffler.ask(one, app=app)
        assert refusal_of(answer) == (404, "unknown_survey")
        assert answer.json()["detail"].endswith("this service does not collect for it")
        assert "shoal " not in answer.json()["detail"]
    other.close()


def test_too_much_from_one_place(shuffler, monkeypatch):
    ways = Ways(shuffler, monkeypatch, address_rate=0.001, address_burst=3)
    found = [ways.same(content=shuffler.forged(2), address="203.0.113.7") for _ in range(3)]
    assert found == [202, 429, 429]


def test_a_line_that_is_full(shuffler, monkeypatch):
    ways = Ways(shuffler, monkeypatch, waiting_bytes=10)
    assert ways.same(content=shuffler.forged(1)) == 503


@pytest.mark.parametrize(
    ("error", "status"), [(StoreUnavailableError("writing", "full"), 503), (KeyError("x"), 500)]
)
def test_what_goes_wrong_behind_it(shuffler, monkeypatch, error, status):
    def broken(*_):
        raise error

    ways = Ways(shuffler, monkeypatch)
    with monkeypatch.context() as patch:
        patch.setattr(Reports, "receive", broken)
        assert ways.same(content=shuffler.forged(1)) == status
    assert ways.same(content=shuffler.forged(1)) == 202


def test_a_defect_reaches_the_servers_log(shuffler, monkeypatch):
    async def broken(*_):
        raise ZeroDivisionError

    ways = Ways(shuffler, monkeypatch)
    monkeypatch.setattr(GroupCommit, "commit", broken)

    with pytest.raises(ZeroDivisionError):
        shuffler.ask(shuffler.forged(1), app=ways.direct, raises=True)


def test_keys_come_and_go_at_once(shuffler, monkeypatch):
    ways = Ways(shuffler, monkeypatch)
    (good,) = shuffler.reports(1)
    new = bytes([1, 1]) + good[2:]

    def refused(body):
        return len(shuffler.ask(body, app=ways.direct).json()["refused"])

    assert (refused(good), refused(new)) == (0, 1)
    shuffler.keyring.rotate()
    shuffler.clock.advance(2 * 3600)
    shuffler.keyring.tick()
    assert refused(new) == 0
    shuffler.keyring.retire(0, delete=True)
    assert (refused(good), refused(new)) == (1, 0)


@pytest.mark.parametrize("damage", ["gone", "empty"])
def test_what_could_not_be_opened_is_not_acknowledged(shuffler, monkeypatch, damage):
    ways = Ways(shuffler, monkeypatch)
    report = shuffler.reports(1)[0]
    path = shuffler.keyring.directory / "key-000"
    secret = path.read_bytes()
    path.write_bytes(b"") if damage == "empty" else path.unlink()
    assert ways.same(content=report) == 503
    assert shuffler.store.reports.waiting_keys() == set()
    path.write_bytes(secret)
    assert ways.same(content=report) == 202


def test_a_burst_from_one_network_is_told_to_the_operator_without_its_address(shuffler, caplog):
    app = shuffler.app(address_reports=1000)
    now = [0.0]
    app.intake.bursts.timer = lambda: now[0]
    for address in ("203.0.113.7", "127.0.0.1"):
        assert shuffler.ask(shuffler.forged(150), app=app, address=address)
    shuffler.observed.clear()
    now[0] = 3600.0
    shuffler.ask(shuffler.forged(1), app=app, address="203.0.113.8")
    assert [one for one in shuffler.observed if one[0] == "network_share"] == [
        ("network_share", 0.75, "")
    ]
    (record,) = (each for each in caplog.records if each.getMessage() == "burst_from_one_network")
    assert "203.0.113" not in str(vars(record))
