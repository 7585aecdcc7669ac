"""One report an hour: a thief of the disk, or of the backups, learns neither when nor whose.

Every attack here has what it needs: the shuffler's files, its database with all that the server
says of its rows, its backups, and the table of invitations. It fails if each record, or each tag,
may be anybody's of those in the open batch.
"""

from __future__ import annotations

import re
import signal
import sqlite3
import subprocess
import tarfile
import time
from collections import Counter
from contextlib import closing
from hashlib import sha256
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import sqlalchemy as sa

from service.stores import rows_of
from service.test_admission import Class
from service_site import Shuffler, until_idle
from shoal.errors import RefusedError
from shoal.randomness import simulated
from shoal.service.admission import CODE_SPENT
from shoal.service.db import tables as common
from shoal.service.errors import MissingFileError, StoreUnavailableError
from shoal.service.keyring import Protection
from shoal.service.opening import Pool, tags_of
from shoal.service.ops.backup import back_up
from shoal.service.ops.facts import store_facts
from shoal.service.ops.home import Home
from shoal.service.ops.restore import restore
from shoal.service.shuffler import mixing, reports
from shoal.service.shuffler import tables as schema
from shoal.service.shuffler.mixing import CROWD, FULL, mixed, turned_over

PEOPLE = 6
PAGE = 4096


class Trickle(Class):
    """People who come one by one, each long after the one before was gathered."""

    @classmethod
    def of(cls, directory, url=None):
        made = super().of(directory, url=url)
        made.url = url
        made.sent, made.records, made.times = {}, {}, []
        # Who comes, in an order that is not that of the rows.
        made.people = sorted(range(PEOPLE), key=made.hash, reverse=True)
        made.gathering = made.worker(upkeep=3600)
        return made

    def come(self, person):
        (body,) = self.bodies([person])
        report = self.sent[person] = body[: self.wire.report_bytes]
        pair = self.keyring.pair(report[1])
        opened = Pool(0).open_reports(self.wire, pair, report).by_key
        (self.records[person],) = opened.values()
        self.times.append(time.time_ns())
        assert self.receive([body]) == (1, {})

    def gather(self):
        until_idle(self.gathering)
        assert self.store.reports.sweep()

    def all_come(self, then=lambda: None):
        for person in self.people:
            self.come(person)
            self.gather()
            then()

    def hash(self, person):
        (hashed,) = self.hashes([self.invitations[person]])
        return hashed

    def tag(self, person):
        (tag,) = tags_of(self.sent[person], len(self.sent[person]))
        return tag

    def parts(self):
        """What is in every part, by its path."""
        directory, size = self.store.batches.parts_directory, self.wire.opened_bytes
        found = {path: path.read_bytes() for path in directory.iterdir()}
        return {
            path: {data[at : at + size] for at in range(0, len(data), size)}
            for path, data in found.items()
        }

    def rows(self, query):
        with self.database.read() as connection:
            return [tuple(row) for row in connection.execute(sa.text(query))]


@pytest.fixture
def trickle(url, tmp_path):
    found = Trickle.of(tmp_path / "shuffler", url)
    yield found
    found.close()


# The five ways


def test_no_time_of_a_file_is_that_of_one_record(trickle):
    """Of whichever record a file has a time: it is one of all that there are."""
    trickle.all_come(then=lambda: time.sleep(0.03))  # several ticks of the file system's clock
    everybody = set(trickle.records.values())
    assert len(everybody) == PEOPLE
    (found,) = trickle.parts().items()
    path, inside = found
    assert inside == everybody
    status = path.stat()
    assert status.st_mtime_ns == 0
    assert status.st_ctime_ns > trickle.times[-1]


def test_no_order_of_rows_is_that_of_the_arrivals(trickle):
    """Neither of parts nor of what is recent; each row is where its bytes put it."""
    trickle.all_come()
    hashes, tags = map(trickle.hash, trickle.people), map(trickle.tag, trickle.people)
    hashes, tags = list(hashes), list(tags)
    assert rows_of(trickle.database, schema.parts) == 1
    if trickle.database.dialect.name == "postgresql":
        found = trickle.rows("SELECT hash FROM recent_codes ORDER BY ctid")
        assert [bytes(hashed) for (hashed,) in found] == sorted(hashes)
        found = trickle.rows("SELECT tag FROM recent_tags ORDER BY ctid")
        assert [bytes(tag) for (tag,) in found] == sorted(tags)
        return
    for table in (schema.parts, *schema.OF_PEOPLE, *schema.OF_REPORTS):
        with pytest.raises(StoreUnavailableError, match="no such column: rowid"):
            trickle.rows(f"SELECT rowid FROM {table.name}")  # noqa: S608 - our names
    content = Path(sa.make_url(trickle.url).database).read_bytes()
    pages = [content[start : start + PAGE] for start in range(0, len(content), PAGE)]
    for values in (tags, hashes):
        having = [page for page in pages if values[0] in page]
        assert having
        for page in having:  # cells go from its end to its beginning, as they were written
            written = sorted(values, key=page.find, reverse=True)
            assert written == sorted(values)


def test_no_transaction_is_one_person_s_alone(trickle):
    """What a server says of rows: by which transaction they are."""
    trickle.all_come()
    if trickle.database.dialect.name == "sqlite":  # which says nothing of the kind
        assert rows_of(trickle.database, schema.recent_codes) == PEOPLE
        return
    everybody = set(trickle.records.values())
    contents = {path.name: inside for path, inside in trickle.parts().items()}
    of_codes = "(SELECT hash, xmin FROM codes UNION ALL SELECT hash, xmin FROM recent_codes) one"
    of_tags = "(SELECT tag, xmin FROM tags UNION ALL SELECT tag, xmin FROM recent_tags) other"
    both = f"SELECT hash, name FROM {of_codes} JOIN parts ON one.xmin = parts.xmin"  # noqa: S608
    joined = trickle.rows(both)
    assert joined
    for _, part in joined:
        assert contents[part] == everybody
    assert {bytes(hashed) for hashed, _ in joined} == set(map(trickle.hash, trickle.people))
    both = f"SELECT hash, tag FROM {of_codes} JOIN {of_tags} USING (xmin)"  # noqa: S608
    pairs = Counter(bytes(hashed) for hashed, _ in trickle.rows(both))
    assert set(pairs.values()) == {PEOPLE}
    assert len(pairs) == PEOPLE


def text_of(path, place):
    """A backup: all of its bytes, and every row of its database, by table."""
    with tarfile.open(path) as archive:
        archive.extractall(place, filter="data")
    content = b"".join(each.read_bytes() for each in place.rglob("*") if each.is_file())
    if (place / "store.sqlite").exists():
        with closing(sqlite3.connect(place / "store.sqlite")) as made:
            tables = [name for (name,) in made.execute("SELECT name FROM sqlite_master")]
            tables = [name for name in tables if name in schema.METADATA.tables or name == "tags"]
            return content, {
                name: made.execute(f"SELECT * FROM {name}").fetchall()  # noqa: S608 - our names
                for name in tables
            }
    words = ["pg_restore", "--data-only", "--file=-", str(place / "store.dump")]
    text = subprocess.run(words, check=True, capture_output=True, text=True).stdout
    copies = re.findall(r"COPY public\.(\w+) \(.*?\) FROM stdin;\n(.*?)\\\.\n", text, re.DOTALL)
    return content, {
        name: [tuple(map(_unescaped, line.split("\t"))) for line in lines.splitlines()]
        for name, lines in copies
    }


def _unescaped(value):
    if value.startswith("\\\\x"):
        return bytes.fromhex(value[3:])
    return {"t": True, "f": False}.get(value, value)


@pytest.mark.usefixtures("programs")
def test_neighbouring_backups_do_not_lead_to_a_record(trickle, tmp_path):
    """Of two of them the second has one spent code more: no record, no tag, nothing that waits."""
    home = Home(directory=trickle.directory, role="shuffler", store=trickle.url)
    seen = []

    def copy():
        name = f"{len(seen)}.tar"
        made = back_up(home, tmp_path / name, clock=trickle.clock, keys=False)
        assert not made.manifest.waiting
        seen.append(text_of(made.path, tmp_path / f"{name}-content"))

    trickle.all_come(then=copy)
    trickle.come(10)
    copy()
    for content, rows in seen:
        for person in trickle.records:
            assert trickle.records[person] not in content
            assert trickle.sent[person][2:40] not in content
            assert trickle.tag(person) not in content
        for table in ("extents", "waiting_tags", "waiting_codes", "recent_tags", "tags"):
            assert rows.get(table, []) == []
        hashes = [row[1] for row in rows["recent_codes"]]
        assert hashes == sorted(hashes)
    spent = [{row[1] for row in rows["recent_codes"]} for _, rows in seen]
    assert [len(each) for each in spent] == [1, 2, 3, 4, 5, 6, 6]  # who took part it does tell


@pytest.mark.usefixtures("programs")
def test_such_a_backup_gives_up_what_waited_and_says_so(trickle, tmp_path, another_postgres_url):
    home = Home(directory=trickle.directory, role="shuffler", store=trickle.url)
    trickle.all_come()
    clock = trickle.clock
    made = back_up(home, tmp_path / "b.tar", clock=clock)
    facts = dict(made.document("is a backup").facts)
    assert facts["  open batches"].startswith("not in it")
    given = {"unlock": lambda _keys: Protection.none(), "clock": clock}
    postgresql = trickle.database.dialect.name == "postgresql"
    given["store"] = another_postgres_url if postgresql else None
    with pytest.raises(RefusedError, match=r"not in it; .*--waiting drop.*--with-waiting"):
        restore(made.path, tmp_path / "again", waiting="keep", **given)
    done = restore(made.path, tmp_path / "again", waiting="drop", **given)
    assert len(done.dropped) == 1
    trickle.close()
    again = Class(tmp_path / "again", clock, url=given["store"])
    again.survey, again.invitations = trickle.survey, trickle.invitations
    assert again.totals().spent == PEOPLE
    others = again.bodies(range(PEOPLE))
    assert again.receive(others) == (0, {CODE_SPENT: list(range(PEOPLE))})
    again.close()


def test_a_code_does_not_lead_to_a_tag(trickle):
    """Nothing in the database is made of both; who has both has nothing to compare with."""
    trickle.all_come()
    values = set()
    with trickle.database.read() as connection:
        for table in (*schema.METADATA.sorted_tables, common.tags):
            for row in connection.execute(sa.select(table)):
                values.update(
                    bytes(value) for value in row if isinstance(value, bytes | memoryview)
                )
    known = {trickle.hash(person) for person in range(60)} | set(map(trickle.tag, trickle.people))
    assert values <= known, "what else is there may be made of a code and a tag"
    for person in trickle.people:
        joined = b"shoal/1 bound" + trickle.code(person) + trickle.tag(person)
        assert sha256(joined).digest()[:16] not in values


def test_a_report_that_came_before_is_acknowledged_whatever_the_code(trickle):
    trickle.come(0)
    first = trickle.sent[0]
    trickle.come(1)
    for _ in range(2):
        assert trickle.receive([first + trickle.code(0)]) == (0, {})
        assert trickle.receive([first + trickle.code(1)]) == (0, {})
        assert trickle.receive([first + trickle.code(2)]) == (0, {})
        assert trickle.receive(trickle.bodies([0])) == (0, {CODE_SPENT: [0]})
        trickle.gather()
    assert trickle.totals().spent == 2


# A large batch is not written again and again


@pytest.fixture
def few(monkeypatch):
    """Crowds of ten, so that a test fills some."""
    monkeypatch.setattr(mixing, "CROWD", 10)
    monkeypatch.setattr(mixing, "FULL", 20)


@pytest.mark.parametrize("at_once", [1, 7, 30])
def test_parts_grow_by_all_that_comes_and_each_record_is_in_one(few, tmp_path, at_once):
    del few
    made = Shuffler.alone(tmp_path, minimum=2000, target=4000)
    size, everybody = made.wire.opened_bytes, 90
    rows = [number.to_bytes(4).rjust(size, b".") for number in range(everybody)]
    written, real = [0], reports.files.write_durably

    def write(path, data):
        written[0] += len(data) // size
        real(path, data)

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(reports.files, "write_durably", write)
        noise, length = made.forged(everybody, seed=2), made.wire.report_bytes
        for start in range(0, everybody, at_once):
            some = rows[start : start + at_once]
            made.receive(noise[start * length : (start + len(some)) * length])
            claim = made.store.reports.claim(10**6, 60)
            made.store.reports.finish(claim, {3: b"".join(some)})
            journal = made.store.reports
            assert journal.segments.erase(claim.extents, journal.needed) == []
    with made.database.read() as connection:
        rows_there = connection.execute(sa.select(schema.parts)).all()
    counts = {row.name: row[2] for row in rows_there}
    growths = {row.name: row.grows for row in rows_there}
    files = {path.name: path.read_bytes() for path in (tmp_path / "parts").iterdir()}
    assert {name: len(data) // size for name, data in files.items()} == counts
    data = b"".join(files.values())
    assert sorted(data[at : at + size] for at in range(0, len(data), size)) == rows
    assert min(counts.values()) >= 10
    (grows,) = {name for name, growing in growths.items() if growing}
    assert 10 <= counts[grows] < 20
    assert written[0] <= everybody + 19 * -(-everybody // at_once)
    recents, stay = rows_of(made.database, schema.recent_tags), rows_of(made.database, schema.tags)
    assert (recents + stay, 10 <= recents < 20) == (everybody, True)
    assert made.receive(noise) == 0  # wherever its tag is by now
    made.close()


def test_codes_leave_for_good_and_stay_spent(few, trickle):
    del few
    for start in range(0, 40, 5):
        assert trickle.receive(trickle.bodies(range(start, start + 5))) == (5, {})
        claim = trickle.store.reports.claim(100, 60)
        size = trickle.wire.opened_bytes
        trickle.store.reports.finish(claim, {3: bytes(size * claim.count)})
    lately = rows_of(trickle.database, schema.recent_codes)
    (spent,) = trickle.rows("SELECT count(*) FROM codes WHERE spent")
    assert (lately + spent[0], 10 <= lately < 20) == (40, True)
    assert trickle.totals().spent == 40
    assert trickle.receive(trickle.bodies(range(41))) == (1, {CODE_SPENT: list(range(40))})


def test_the_sizes_go_together():
    """What leaves is as many as a crowd at least, and so is what remains."""
    assert FULL - CROWD >= CROWD >= 1000
    remaining, leaving = turned_over(number.to_bytes(4) for number in range(FULL))
    assert (len(remaining), len(leaving)) == (CROWD, FULL - CROWD)
    assert sorted(remaining) == remaining
    assert sorted(leaving) == leaving
    assert turned_over([b"b", b"a"]) == ([b"a", b"b"], [])


def section(start, end, record_bytes):
    return SimpleNamespace(start=start, end=end, record_bytes=record_bytes)


def test_sections_stay_apart_and_whole(few):
    del few
    wire = SimpleNamespace(absent=None, sections=(section(0, 4, 2), section(4, 7, 3)))
    old = b"".join(b"a%d" % (i % 10) for i in range(40)) + b"".join(b"b%02d" % i for i in range(20))
    new = b"".join(b"c%d" % (i % 10) for i in range(30)) + b"".join(b"d%02d" % i for i in range(15))
    small, leaving = mixed(wire, [(old, 20), (new, 15)])
    assert (leaving[1], small[1]) == (25, 10)
    assert (len(leaving[0]), len(small[0])) == (25 * 7, 10 * 7)
    first = leaving[0][: 25 * 4] + small[0][: 10 * 4]
    second = leaving[0][25 * 4 :] + small[0][10 * 4 :]
    assert sorted(first[at : at + 2] for at in range(0, len(first), 2)) == sorted(
        [old[at : at + 2] for at in range(0, 80, 2)] + [new[at : at + 2] for at in range(0, 60, 2)]
    )
    assert sorted(second[at : at + 3] for at in range(0, len(second), 3)) == sorted(
        [old[at : at + 3] for at in range(80, 140, 3)]
        + [new[at : at + 3] for at in range(60, 105, 3)]
    )


def test_the_last_record_may_be_anywhere_and_anything_may_leave(few):
    """Six orders of three records, and whether the last of twenty leaves; 5.5 deviations."""
    del few
    wire, drawn = SimpleNamespace(absent=None, sections=(section(0, 1, 1),)), simulated(11)
    times = 6000
    orders = Counter(mixed(wire, [(b"ab", 2), (b"c", 1)], drawn)[0][0] for _ in range(times))
    assert len(orders) == 6
    assert all(abs(n - times / 6) < 5.5 * np.sqrt(times * 5 / 36) for n in orders.values())
    rows = [bytes([number]) for number in range(20)]
    stays = sum(rows[-1] in turned_over(rows, drawn)[0] for _ in range(times))
    assert abs(stays - times / 2) < 5.5 * np.sqrt(times / 4)
    small = sum(
        b"\x13" in mixed(wire, [(bytes(range(19)), 19), (b"\x13", 1)], drawn)[0][0]
        for _ in range(times)
    )
    assert abs(small - times / 2) < 5.5 * np.sqrt(times / 4)


def test_the_parts_of_an_older_version_are_written_together(trickle):
    """It made one for every gathering."""
    trickle.all_come()
    ((path, inside),) = trickle.parts().items()
    with trickle.database.write() as connection:
        (batch,) = connection.scalars(sa.select(schema.parts.c.batch))
        connection.execute(schema.parts.delete())
        for number, record in enumerate(sorted(inside)):
            name = f"{number:032x}-{number:032x}"
            (path.parent / name).write_bytes(record)
            row = {"name": name, "batch": batch, "count": 1, "grows": True}
            connection.execute(schema.parts.insert(), row)
    path.unlink()
    trickle.come(9)
    trickle.gather()
    (found,) = trickle.parts().values()
    assert found == set(trickle.records.values())


# Several workers, crashes, and files that are gone


def overtaken(monkeypatch, then):
    """Let something happen, once, between a new part and its commit."""
    real, calls = reports.failpoints.reached, []

    def reached(name):
        real(name)
        if name == "opening.part-written" and not calls:
            calls.append(name)
            then()

    monkeypatch.setattr(reports.failpoints, "reached", reached)


def finish_one(trickle):
    claim = trickle.store.reports.claim(1, 60)
    opened = Pool(0).open_reports(
        trickle.wire, trickle.keyring.pair(0), trickle.store.reports.read(claim)
    )
    trickle.store.reports.finish(claim, opened.by_key, counts=opened.counts)


def test_whoever_is_overtaken_begins_again(trickle, monkeypatch):
    trickle.come(0)
    trickle.gather()
    trickle.come(1)
    trickle.come(2)
    overtaken(monkeypatch, lambda: finish_one(trickle))
    finish_one(trickle)
    (found,) = trickle.parts().values()
    assert found == set(trickle.records.values())
    assert trickle.tallies() == {"opened": 3}
    assert rows_of(trickle.database, schema.recent_codes) == 3
    assert trickle.rows("SELECT valid FROM batches") == [(3,)]


def test_what_comes_when_a_batch_closes_is_the_next_one_s(trickle, monkeypatch):
    for person in range(20):
        trickle.come(person)
    trickle.gather()
    trickle.come(20)
    trickle.clock.advance(3700)
    closed = []
    overtaken(monkeypatch, lambda: closed.extend(trickle.store.batches.advance()))
    finish_one(trickle)
    assert [each.state for each in closed] == ["SEALED"]
    found = sorted(trickle.parts().values(), key=len)
    assert found == [{trickle.records[20]}, {trickle.records[each] for each in range(20)}]
    assert sorted(trickle.rows("SELECT state, valid FROM batches")) == [("OPEN", 1), ("SEALED", 20)]


def test_a_part_that_is_gone_is_waited_for(trickle):
    """Reports that come meanwhile stay where they are, and none is blamed."""
    trickle.come(0)
    trickle.gather()
    ((path, _),) = trickle.parts().items()
    content = path.read_bytes()
    path.unlink()
    trickle.come(1)
    claim = trickle.store.reports.claim(1, 5)
    opened = {3: trickle.records[1]}
    with pytest.raises(MissingFileError, match="1 reports"):
        trickle.store.reports.finish(claim, opened)
    trickle.clock.advance(6)
    for _ in range(12):
        trickle.gathering.step()
        trickle.clock.advance(700)
    assert trickle.tallies() == {"opened": 1}
    path.write_bytes(content)
    trickle.gather()
    (found,) = trickle.parts().values()
    assert found == set(trickle.records.values())


@pytest.mark.parametrize(
    "change", [lambda part: part[:-1], lambda part: part[:0], lambda part: part * 2]
)
def test_a_part_that_is_not_whole_is_lost_and_the_batch_goes_on(trickle, caplog, change):
    for person in range(3):
        trickle.come(person)
    trickle.gather()
    ((path, _),) = trickle.parts().items()
    path.write_bytes(change(path.read_bytes()))
    trickle.come(3)
    trickle.gather()
    trickle.come(4)
    trickle.gather()
    (found,) = trickle.parts().values()
    assert found == {trickle.records[person] for person in (3, 4)}
    assert not path.exists()
    assert trickle.rows("SELECT valid FROM batches") == [(2,)]
    assert trickle.tallies() == {"opened": 5, "damaged": 3}
    assert [each.levelname for each in caplog.records if each.msg == "reports_damaged"] == ["ERROR"]
    home = Home(directory=trickle.directory, role="shuffler", store=trickle.url)
    facts = store_facts(home, trickle.database, None)
    (opening,) = [fact for fact in facts if fact.name == "opening"]
    (told,) = [each for each in opening.findings() if each.check == "damaged reports"]
    assert told.detail.startswith("3 reports changed on the disk")
    for person in range(3):  # what was lost stays spent
        assert trickle.receive([trickle.sent[person] + trickle.code(person)]) == (0, {})


POINTS = ("claimed", "part-written", "after-commit", "part-replaced")


@pytest.mark.parametrize("point", POINTS)
def test_killed_while_it_writes_a_part_anew_nothing_is_lost_or_doubled(trickle, forks, point):
    trickle.come(0)
    trickle.gather()
    trickle.come(1)
    place = {"directory": str(trickle.directory), "url": trickle.url}
    asked = place | {"now": trickle.clock(), "point": f"opening.{point}"}
    assert forks.run("service_site.work", asked) == [(-signal.SIGKILL, None)]
    for person in (0, 1):
        assert trickle.receive([trickle.sent[person] + trickle.code(person)]) == (0, {})
    trickle.clock.advance(10)  # its lease is over
    trickle.come(2)
    trickle.gather()
    trickle.work()  # whose collection of garbage has no grace period
    (found,) = trickle.parts().values()
    assert found == set(trickle.records.values())
    assert trickle.tallies() == {"opened": 3}
    assert trickle.totals().spent == 3
