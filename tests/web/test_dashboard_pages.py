"""What the pages say is what was published; whatever a survey's words are, they stay words."""

from __future__ import annotations

import io
import json
import re
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import numpy as np
import polars as pl
import pytest
import sqlalchemy as sa

from dashboard_kit import Page, dashboard_of, login, shown
from factories import DAY
from service_site import HOUR, START, Analyzer, sealed
from shoal.explain.text import measured, up
from shoal.mechanisms.grid import Duchi
from shoal.mechanisms.response import RandomizedResponse
from shoal.service.admission import Invited
from shoal.service.analyzer import tables as schema
from shoal.service.analyzer.collect import release
from shoal.service.analyzer.results import ResultCache, written
from shoal.service.db import tables as common
from shoal.service.keyring import Keyring, Protection
from shoal.service.survey import Batches, Party
from shoal.service.survey.promise import if_made_up
from shoal.web import assets, dashboard
from shoal.web.charts import Curve, Timeline
from shoal.web.rendering import templates

FIRST, SECOND, SMALL, LIE = "11" * 16, "22" * 16, "33" * 16, "44" * 16
HOSTILE = "<script>alert(1)</script>\"'><img src=x onerror=alert(2)> $\\frac$ \u202e &amp;"
LONG = "W" * 200
MANY = 60


@pytest.fixture(scope="module")
def analyzer(tmp_path_factory):
    made = Analyzer(tmp_path_factory.mktemp("analyzer") / "a")
    ring = Keyring.create(
        made.directory / "shuffler",
        role="shuffler",
        protection=Protection.none(),
        clock=made.clock,
    )
    made.plain = made.asking(
        device=RandomizedResponse(k=3, epsilon=2.0),
        epsilon=2.0,
        dishonest=0.1,
        shuffler=Party(url="http://localhost:1", fingerprint=ring.fingerprint),
    )
    made.store.key_lists.keep(ring.list())
    made.send(made.plain, [0] * 60 + [1] * 30 + [2] * 10, batch=FIRST)
    records = sealed(made.plain, made.keyring, [0] * 50 + [1] * 30, seed=2)
    made.shuffler.put(made.plain, [*records[:-5], *records[:5]], batch=SECOND)
    made.send(made.plain, [0] * 20, batch=SMALL, seed=3)
    made.shuffler.put(made.plain, records, batch=LIE, lies={"batch": FIRST})
    collected(made, made.plain)
    made.hostile = published(
        made,
        [0] * 40 + [1] * 30 + [2] * 30,
        name=HOSTILE,
        question=f"{HOSTILE} {LONG}",
        purpose=f"{HOSTILE}\n{LONG}",
        answers=(HOSTILE, LONG, "مرحبا"),
    )
    hours = Duchi(low=0.0, high=24.0, epsilon=1.0)
    made.number = published(made, np.linspace(4.0, 10.0, 80), answers=(), device=hours)
    made.many = published(
        made,
        [7] * 200 + [11] * 150 + list(range(MANY)),
        device=RandomizedResponse(k=MANY, epsilon=4.0),
        answers=tuple(f"town {place}" for place in range(MANY)),
        batches=Batches(minimum=400, target=500, max_age=DAY),
        epsilon=1.5,
    )
    invited = Invited(entitled=300, dishonest=4)
    made.invited = published(made, [0] * 80 + [1] * 40, admission=invited, epsilon=2.0)
    made.withheld = published(made, [0] * 20)
    made.empty = made.asking(name="empty")
    made.early = made.asking(name="early", not_before=START + 40 * DAY, not_after=START + 10**12)
    made.over = made.asking(name="over", not_before=START - 40 * DAY, not_after=START - 2 * DAY)
    yield made
    made.close()


def published(made, values, **changes):
    """A survey with a batch of these answers."""
    survey = made.asking(**changes)
    made.send(survey, values)
    collected(made, survey)
    return survey


def collected(made, survey):
    """What is collected is not offered to the next survey."""
    made.collect(survey)
    for path in made.shuffler.directory.glob("*.*"):
        path.unlink()


@pytest.fixture(scope="module")
def client(analyzer):
    with shown(analyzer) as made:
        login(made, analyzer.store.tokens.add("all", None, 400 * DAY))
        yield made


def path(survey, rest=""):
    return f"/dashboard/surveys/{survey.id}{rest}"


def page(client, survey, rest=""):
    answer = client.get(path(survey, rest))
    assert answer.status_code == 200
    return Page(answer.text)


def test_when_it_was_last_published_is_told_to_the_hour(client, analyzer):
    text = client.get(path(analyzer.plain)).text
    assert "<dt>last published in the hour from</dt>" in text
    assert re.search(r"in the hour from</dt>\s*<dd><time[^>]*>[-0-9]{10} [0-9]{2}:00 UTC", text)


def test_an_unknown_survey_is_told_of_without_advice_for_operators(client):
    answer = client.get("/dashboard/surveys/abc")
    assert answer.status_code == 404
    assert "shoal survey add" not in answer.text


def rounded(estimate, part):
    margin = 50 * (estimate["high"] - estimate["low"])
    return f"{measured(100 * estimate[part], margin)} %"


def every_page(analyzer):
    yield "/dashboard"
    yield "/dashboard/login"
    yield "/dashboard/nothing"
    for survey in analyzer.store.surveys.all():
        yield path(survey)
        yield path(survey, "?order=asked&page=7")
        for each in analyzer.store.results.survey(survey.id).batches:
            yield path(survey, f"/batches/{each.batch}")


def test_every_page_keeps_the_rules(analyzer, client):
    for address in every_page(analyzer):
        answer = client.get(address)
        policy = answer.headers["content-security-policy"]
        assert "default-src 'none'; script-src 'self'; style-src 'self'" in policy
        assert "unsafe" not in policy
        assert answer.headers["x-content-type-options"] == "nosniff"
        assert answer.headers["referrer-policy"] == "no-referrer"
        assert answer.headers["cache-control"] == "no-store"
        _check(Page(answer.text), address)


def _check(found, address):
    assert found.elements[0] == ("html", {"lang": "en"})
    assert len(found.all("h1")) == 1, address
    assert len(found.all("main")) == 1
    names = [attributes["id"] for _, attributes in found.elements if "id" in attributes]
    assert len(names) == len(set(names)), address
    for tag, attributes in found.elements:
        assert "style" not in attributes
        assert not any(name.startswith("on") for name in attributes)
        assert tag not in {"img", "iframe", "object", "style", "base"}
        for name in ("src", "href", "action"):
            place = attributes.get(name, "/")
            assert place.startswith(("/", "#", "data:,")), place
            assert not place.startswith("//")
        if tag == "svg":
            assert {"aria-label", "aria-hidden"} & set(attributes)
        if "aria-labelledby" in attributes:
            assert attributes["aria-labelledby"] in names
    assert all("src" in attributes for attributes in found.all("script"))
    regions = [each["aria-label"] for _, each in found.elements if each.get("role") == "region"]
    assert len(regions) == len(set(regions))


def test_hostile_words_are_words(analyzer, client):
    found, harmless = page(client, analyzer.hostile), HOSTILE.replace("\u202e", "\ufffd")
    assert harmless in found.text
    assert f"{harmless} {LONG}" in found.of["heading"]
    titles = [label["title"] for label in found.all("span", **{"class": "label"})]
    assert titles.count(harmless) == 1
    assert harmless in Page(client.get("/dashboard").text).text
    assert "\u202e" not in client.get(path(analyzer.hostile, "/download/report.html")).text
    drawn = client.get(path(analyzer.hostile, "/download/chart.svg")).text
    assert "<script" not in drawn
    assert "onerror" not in re.sub(r">[^<]*<", "><", drawn)
    names = client.get(path(analyzer.hostile, "/download/chart.svg")).headers
    assert names["content-disposition"].startswith('attachment; filename="')
    assert "sandbox" in names["content-security-policy"]


def test_the_numbers_are_those_of_the_results(analyzer, client):
    found = page(client, analyzer.plain)
    told = analyzer.store.results.survey(analyzer.plain.id)
    whole, both = told.combined(), [each for each in told.documents if each["withheld"] is None]
    assert len(both) == 2
    for name in ("valid", "honest"):
        assert f"{sum(each[name] for each in both):,}" in found.of["funnel"]
    assert f"{sum(each['reports'] for each in both):,}" in found.of["funnel"]
    for estimate in whole["estimates"]:
        bar = next(
            each
            for each in found.all("div")
            if each.get("aria-label", "").startswith(f"{estimate['answer']}: ")
        )
        assert rounded(estimate, "share") in bar["aria-label"]
        assert rounded(estimate, "low") in bar["aria-label"]
        assert float(bar["data-value"]) == pytest.approx(100 * estimate["share"], rel=1e-5)
        assert rounded(estimate, "high") in found.of["table"]
    assert up(told.life["epsilon"]) in found.of["budget"]
    assert up(told.life["analyzer_epsilon"]) in found.of["budget"]
    assert f"{100 * whole['bias_bound']:.3g} percentage points" in found.of["found"]
    assert "dishonest reports assumed: 10 %" in found.of["admission"]


def test_operators_see_states_reasons_keys_and_what_was_left_out(analyzer, client):
    found = page(client, analyzer.plain)
    assert "withheld: 20 valid reports" in found.of["batches"]
    assert "Refused" in found.of["batches"]
    assert LIE[:8] in found.of["batches"]
    assert "records that are in this batch more than once5" in found.of["rejected"]
    assert found.of["keys"].count("active") == 2
    assert "expires in" in found.of["keys"]
    assert "The list was not fetched yet" in page(client, analyzer.empty).of["keys"]


def test_advice_where_somebody_has_to_act_on_keys(analyzer, client):
    before = analyzer.clock.now
    try:
        analyzer.clock.advance(31 * DAY)
        login(client, analyzer.store.tokens.add("later", None, 400 * DAY))
        found = page(client, analyzer.plain)
        assert "no longer valid" in found.of["keys"]
        assert "Key 0 is overdue" in found.of["keys"]
        assert "it was valid until" in found.of["keys"]
    finally:
        analyzer.clock.now = before
        login(client, analyzer.store.tokens.add("again", None, 400 * DAY))


def test_who_must_collude(analyzer, client):
    survey = analyzer.plain
    found = page(client, survey).of["collusion"]
    assert up(survey.guarantee(50).epsilon) in found
    assert f"local ε₀ = {up(2.0)}" in found
    assert "the analyzer and 5 fake people beside the 5 counted on" in found
    assert "a crowd of 4 at least" in found


def test_a_batch_without_any_guarantee_is_not_left_out_of_who_learns_what(analyzer):
    kept = analyzer.store.results.survey(analyzer.plain.id)
    least = f"ε ≤ {up(analyzer.plain.guarantee(50).epsilon)}"

    def analyzer_alone(**life):
        panels = templates().get_template("panels.html").module
        shown = Page(panels.collusion(replace(kept, life={**kept.life, **life}), None))
        return shown.of["collusion"].partition("the analyzer alone")[2].partition("the shuffler")[0]

    assert "nothing" not in analyzer_alone()
    lost = analyzer_alone(analyzer_epsilon=None, opened=3)
    assert f"{least}; nothing in a batch that was withheld" in lost
    assert analyzer_alone(analyzer_epsilon=None, opened=0).endswith(least)


def test_a_mean_has_its_chart_and_table(analyzer, client):
    found = page(client, analyzer.number)
    combined = analyzer.store.results.survey(analyzer.number.id).combined()["mean"]
    mean = measured(combined["mean"], (combined["high"] - combined["low"]) / 2)
    assert mean in found.of["found"]
    assert "sum" in found.of["found"]
    assert "Sorted" not in found.of["found"]
    assert mean in page(client, analyzer.number, f"/batches/{FIRST}").of["found"]


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("empty", "The chart appears here with the first batch"),
        ("withheld", "every batch that came was withheld"),
    ],
)
def test_without_a_result_the_page_says_so(analyzer, client, name, said):
    found = page(client, getattr(analyzer, name))
    assert said in found.of["found"]
    assert "nothing so far" in found.of["budget"]
    assert "ε lost so farnone (promised: at most " in found.of["heading"]
    assert "What is promised before anything is published" in found.of["privacy"]
    assert not any("chart" in place for place in found.links())


def test_intervals_claim_no_more_than_the_noise(analyzer, client):
    said = "among those who answered, and counts the noise alone: not who happened to answer, and"
    for survey, what in ((analyzer.plain, "a fraction"), (analyzer.number, "the mean")):
        found = page(client, survey)
        assert f"A 95 % interval is of {what} {said} not false reports." in found.of["found"]
        written = client.get(path(survey, "/download/report.html")).text
        assert f"A 95 % interval is of {what} {said} not false reports." in written
    found = page(client, analyzer.plain)
    assert "95 % interval, of the noise alone" in found.of["chart"]
    assert "more than all smaller ones, beyond the noise" in found.of["chart"]
    for address in every_page(analyzer):
        assert "surely" not in client.get(address).text
    drawn = client.get(path(analyzer.plain, "/download/chart.svg")).text
    assert "95 % intervals, of the noise alone, among those who answered" in drawn


def test_the_limit_and_what_the_noise_keeps_have_a_name_each(analyzer, client):
    survey = analyzer.plain
    kept = survey.guarantee(survey.batches.minimum).epsilon
    budget = page(client, survey).of["budget"]
    assert f"promised at mostε = {up(survey.epsilon)}at" in budget
    assert f"at the smallest crowdε = {up(kept)}lost" in budget


def test_remarks_on_a_result_stand_under_a_heading(analyzer, client):
    said = page(client, analyzer.plain).of["privacy"]
    assert re.search(r"What it assumes.*Notes2 batches", said)


def test_who_may_report_is_said_beside_every_result(analyzer, client):
    survey = analyzer.plain
    anybody = page(client, survey)
    assert "Crowd assumed, not checked. " in anybody.of["found"]
    batch = page(client, survey, f"/batches/{FIRST}")
    assert "Crowd assumed, not checked. " in batch.of["found"]
    said = anybody.of["admission"]
    assert "Anybody: crowd assumed, not checked." in said
    smallest = min(each.valid for each in analyzer.store.results.survey(survey.id).batches[:2])
    assert f"{smallest:,} valid reports of the smallest published batch" in said
    for made_up in if_made_up(survey.devices, survey.terms, smallest):
        percent = f"{int(100 * made_up.fraction)} % ({made_up.reports})"
        assert f"{percent}{made_up.left}ε = {up(made_up.epsilon)}" in said
    assert "crowd assumed, not checked" in anybody.of["privacy"]
    drawn = client.get(path(survey, "/download/chart.svg")).text  # where lines break
    assert "(crowd assumed" in drawn
    assert "checked)<" in drawn
    people = page(client, analyzer.invited)
    assert "300 people who were invited, once each." in people.of["admission"]
    assert "The inviter is trusted to make up no people." in people.of["admission"]
    assert "dishonest people assumed: at most 4" in people.of["admission"]
    assert "the shuffler and the inviter" in people.of["collusion"]
    assert "the analyzer and the inviter, with " in people.of["collusion"]
    assert "not checked" not in people.text
    least = page(client, analyzer.empty).of["admission"]
    assert f"{analyzer.empty.batches.minimum:,} valid reports of the smallest crowd" in least


def test_states_of_a_survey(analyzer, client):
    found = Page(client.get("/dashboard").text)
    assert found.text.count("collecting") == 7
    assert "not started early" in found.text
    assert "over over" in found.text
    for survey in (analyzer.early, analyzer.over):
        assert "No batch is open" in page(client, survey).of["crowd"]


def test_many_answers_are_folded_and_in_either_order(analyzer, client):
    found = page(client, analyzer.many)
    bars = [each["data-value"] for each in found.all("div") if "data-value" in each]
    assert len(bars) == MANY
    assert [float(bar) for bar in bars] == sorted(map(float, bars), reverse=True)
    assert f"{MANY - 20} more answers" in found.of["chart"]
    labels = [each["title"] for each in found.all("span", **{"class": "label"})]
    assert labels[0] == "town 7"
    assert labels[:2] == ["town 7", "town 11"]
    assert found.all("svg", **{"class": "sign apart"})  # drawn: not every font has the sign
    assert "≠" not in found.text
    assert "cannot be told from nobody" in found.of["chart"]
    asked = page(client, analyzer.many, "?order=asked")
    labels = [each["title"] for each in asked.all("span", **{"class": "label"})]
    assert labels == list(analyzer.many.answers)


def test_the_table_of_a_chart_is_folded_however_short(analyzer, client):
    for survey in (analyzer.plain, analyzer.many):
        (table,) = page(client, survey).all("details", id="table")
        assert "open" not in table


def test_the_smallest_answer_is_compared_with_none(analyzer, client):
    found = page(client, analyzer.plain)
    first, *_, last = [each["aria-label"] for each in found.all("div") if "data-value" in each]
    assert first.endswith("; more than the answers with smaller fractions, beyond the noise")
    assert "smaller fractions" not in last
    assert found.of["table"].count("–") == 1


def test_a_batch_shows_its_own_document(analyzer, client):
    document = analyzer.document(analyzer.plain, SECOND)
    found = page(client, analyzer.plain, f"/batches/{SECOND}")
    assert SECOND in found.text
    for estimate in document["estimates"]:
        assert rounded(estimate, "share") in found.of["found"]
        limits = f"{rounded(estimate, 'low')} to {rounded(estimate, 'high')}"
        assert limits in found.of["found"]
    assert up(document["epsilon"]) in found.text


def test_files_are_what_programs_get(analyzer, client):
    told = analyzer.store.results.survey(analyzer.plain.id)

    def file(name):
        answer = client.get(path(analyzer.plain, f"/download/{name}"))
        assert answer.status_code == 200
        assert answer.headers["cache-control"] == "no-store"
        assert f'-{name}"' in answer.headers["content-disposition"]
        return answer.content

    assert file("results.csv").decode() == told.to_csv()
    assert file("results.json") == written(told.to_dict())
    assert file("chart.svg").startswith(b"<?xml")
    assert file("chart.png").startswith(b"\x89PNG")
    assert b"privacy-statement" in file("report.html")
    guarantee = json.loads(file("statement.json"))["guarantee"]
    assert guarantee["epsilon"] == told.life["epsilon"]
    table = pl.read_parquet(io.BytesIO(file("results.parquet")))
    assert table.height == 3 * 3 + 1
    whole = table.filter(pl.col("batch") == "all")
    assert whole["fraction"].to_list() == [each["share"] for each in told.combined()["estimates"]]
    assert table.filter(pl.col("status") == "withheld")["fraction"].to_list() == [None]
    numbers = client.get(path(analyzer.number, "/download/results.parquet")).content
    assert pl.read_parquet(io.BytesIO(numbers))["mean"].null_count() == 0
    assert client.get(path(analyzer.number, "/download/chart.png")).status_code == 200


def test_files_are_made_once_for_a_version():
    kept, made = ResultCache(most=2), []  # two of one byte each

    def make(name):
        return lambda: made.append(name) or name.encode()

    assert kept.get("s", "a", (1,), make("a")) == b"a"
    assert kept.get("s", "a", (1,), make("b")) == b"a"
    assert kept.get("s", "a", (2,), make("c")) == b"c"
    kept.get("s", "d", (2,), make("d"))
    kept.get("s", "e", (2,), make("e"))
    assert kept.get("s", "a", (2,), make("f")) == b"f"
    assert made == ["a", "c", "d", "e", "f"]
    assert kept.get("s", "g", (2,), lambda: b"larger") == b"larger"
    assert list(kept._entries) == [("s", "g")]


def test_a_file_that_takes_long_keeps_no_other_survey_waiting():
    kept = ResultCache()

    def slow():
        return kept.get("b", "file", (1,), lambda: b"meanwhile")

    with ThreadPoolExecutor(1) as other:
        made = kept.get("a", "file", (1,), lambda: other.submit(slow).result(30) + b", slowly")
    assert made == b"meanwhile, slowly"


def test_the_version_changes_with_what_is_published(analyzer, client):
    survey = analyzer.asking(name="watched")
    address = path(survey, "/version")
    first = client.get(address)
    tag = first.headers["etag"]
    assert first.json()["version"] == tag.strip('"')
    (main,) = page(client, survey).all("main")
    assert main["data-version"] == first.json()["version"]
    again = client.get(address, headers={"If-None-Match": tag})
    assert (again.status_code, again.content) == (304, b"")
    analyzer.send(survey, [0] * 60, batch="55" * 16)
    collected(analyzer, survey)
    after = client.get(address, headers={"If-None-Match": tag})
    assert after.status_code == 200
    assert after.headers["etag"] != tag
    (main,) = page(client, survey).all("main")
    assert main["data-version"] == after.json()["version"]


def test_a_long_list_of_batches_has_pages(analyzer, client):
    survey = analyzer.asking(name="long")
    _copied(analyzer, survey, dashboard.BATCHES + 20)
    found = page(client, survey)
    listed = [place for place in found.links() if "/batches/" in place]
    assert len(listed) == dashboard.BATCHES
    assert "page 1 of 2" in found.of["batches"]
    more = page(client, survey, "?page=2")
    rest = [place for place in more.links() if "/batches/" in place]
    assert len(rest) == 20
    assert not set(rest) & set(listed)
    assert len(set(rest) | set(listed)) == dashboard.BATCHES + 20
    last = page(client, survey, "?page=999")
    assert last.of["batches"] == more.of["batches"]
    assert page(client, survey, "?page=-3").of["batches"] == found.of["batches"]


def _copied(analyzer, survey, many):
    """The same batch again and again, an hour apart."""
    analyzer.send(survey, [0] * 60, batch="00" * 16)
    collected(analyzer, survey)
    names = [f"{place:032x}" for place in range(1, many)]
    with analyzer.database.write() as connection:
        number = connection.execute(
            sa.select(common.surveys.c.number).where(common.surveys.c.id == survey.id.digest)
        ).scalar()
        for table in (schema.collections, schema.ledger):
            query = sa.select(table).where(table.c.survey == number)
            row = dict(connection.execute(query).mappings().one())
            connection.execute(sa.insert(table), [{**row, "batch": name} for name in names])
        document = analyzer.document(survey, "00" * 16)
        hours = [document["published"] + HOUR * place for place in range(1, many)]
        rows = [
            {
                "survey": number,
                "batch": name,
                "document": written({**document, "batch": name, "published": hour}),
                "published": hour,
            }
            for name, hour in zip(names, hours, strict=True)
        ]
        connection.execute(sa.insert(schema.results), rows)


def test_without_its_script_a_page_says_what_to_run(client, monkeypatch, tmp_path):
    monkeypatch.setattr(assets, "BUILT", tmp_path)
    found = Page(client.get("/dashboard/login").text)
    assert not found.all("script")
    assert "make browser" in found.text
    (tmp_path / "dashboard.js").write_text("/* built */")
    built = Page(client.get("/dashboard/login").text)
    (script,) = built.all("script")
    assert client.get(script["src"]).text == "/* built */"
    assert "make browser" not in built.text


def test_the_curve_marks_what_it_should():
    points = [(100, 1.0), (1000, 0.3), (10_000, 0.1)]
    marks = [(100, "minimum 100"), (1000, "target 1,000")]
    drawn = Curve(points=points, published=[(500, 0.5)] * 3, marks=marks, promised=1.0)
    ((place, _),) = drawn.dots
    assert place == pytest.approx(50 * np.log10(5), abs=0.1)
    assert [x for x, _ in drawn.line] == pytest.approx([0, 50, 100])
    heights = [y for _, y in drawn.line]
    assert heights == sorted(heights)
    shown = Page(templates().get_template("graphs.html").module.curve(drawn))
    assert len(shown.all("circle")) == 1
    lines = shown.all("line", **{"class": "curve"})
    assert [line["x1"] for line in lines] == ["0.000%", "50.000%"]
    assert "minimum 100" in shown.text


def test_a_timeline_has_few_steps_however_long_it_is():
    hours = [HOUR * place for place in range(0, 24 * 400, 5)]
    made = Timeline.of(hours, hours[:3])
    assert (sum(made.published), sum(made.withheld)) == (len(hours), 3)
    assert len(made.published) <= 61
    assert made.step == 7 * DAY
    assert Timeline.of([HOUR], []).name == "hour"


def test_dashboards_of_one_machine_do_not_share_cookies(analyzer, tmp_path):
    other = Analyzer(tmp_path / "b")
    cookies = {dashboard_of(each).access.cookie for each in (analyzer, other)}
    other.close()
    assert len(cookies) == 2


def test_a_survey_without_a_name_is_called_by_its_question_once(analyzer, client):
    survey = analyzer.asking(name="Why?", question="Why?")
    found = page(client, survey)
    assert found.of["heading"].count("Why?") == 1
    assert " · " not in found.of["heading"]
    assert Page(client.get("/dashboard").text).text.count("Why?") == 1
    assert analyzer.plain.name in page(client, analyzer.plain).of["heading"]


def test_held_batches_are_a_number_for_everybody_and_a_reason_for_the_operator(tmp_path):
    made = Analyzer(tmp_path / "held")
    survey = made.asking(not_before=START - DAY, not_after=START + 30 * DAY)
    made.send(survey, [0] * 60 + [1] * 30 + [2] * 10, batch=SECOND)
    made.flood(survey, batch=FIRST)
    made.collect(survey)
    address, name = f"/dashboard/surveys/{survey.id}", "of 3 estimated fractions are below 0"
    with shown(made, public_results=True) as client:

        def page():
            return Page(client.get(address).text).of["batches"]

        assert "1 batch held" in page()
        assert name not in page()
        assert client.get(f"{address}/batches/{FIRST}").status_code == 404
        files = [f"{address}/download/results.{kind}" for kind in ("json", "csv", "parquet")]
        assert client.get(files[0]).json()["held"][0]["batch"] == FIRST
        login(client, made.store.tokens.add("me", None, 3600))
        assert f"11111111{'3 ' + name}" in page()
        version = client.get(f"{address}/version").json()
        release(made.store, survey, FIRST)
        assert client.get(f"{address}/version").json() != version
        assert "1 batch held" not in page()
        despite = "eleased by the operator despite: 3 " + name
        assert despite in page()
        assert despite in Page(client.get(f"{address}/batches/{FIRST}").text).of["found"]
        whole = Page(client.get(address).text)
        assert f"Batch 11111111 was r{despite}" in whole.of["found"]
        for path in (
            *files[:2],
            f"{address}/download/report.html",
            f"{address}/download/statement.json",
        ):
            assert despite in client.get(path).text, path
        table = pl.read_parquet(io.BytesIO(client.get(files[2]).content))
        warned = table.filter(pl.col("warning").is_not_null())["batch"].unique()
        assert sorted(warned) == [FIRST, "all"]
        assert "despite" in client.get(f"{address}/download/chart.svg").text
    made.close()
