"""Texts that hide something, or that people read otherwise: refused where a survey comes in."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

import shoal
from command_kit import shoal as command
from factories import ANSWERS, example, several
from shoal.errors import InvalidArgumentError, RefusedError
from shoal.explain.text import visible
from shoal.questions.kinds import Groups
from shoal.service.survey import Survey
from shoal.service.survey.document import read_survey
from shoal.service.survey.items import Field
from shoal.service.survey.texts import check_field, check_texts, similar

HIDDEN = {
    "turned around": "no\u202eey",
    "isolated": "\u2066yes\u2069",
    "a mark of direction": "yes\u200f",
    "no width": "ye\u200bs",
    "a joiner in Latin": "ye\u200ds",
    "a joiner at the end": "می\u200c",
    "two joiners": "می\u200c\u200cخواهم",
    "a joiner between emoji and letters": "👩\u200dyes",
    "a mark of byte order": "\ufeffyes",
    "an escape": "yes\x1b[31m",
    "a line feed": "yes\nno",
    "a tab": "yes\tno",
    "a line separator": "yes\u2028no",
    "a soft hyphen": "y\xades",
    "a selector after a letter": "yes\ufe0f",
    "tags": "yes\U000e0061",
    "a filler": "yes\u3164",
    "a Latin control": "yes\x85",
}
SHOWN = [
    "می\u200cخواهم",  # Persian: I want
    "क्\u200dष",  # Devanagari
    "👩\u200d🌾",
    "👨\u200d👩\u200d👧",
    "❤\ufe0f\u200d🔥",
    "🏴\u200d☠\ufe0f",
    "1\ufe0f\u20e3",
    "\U0001f3f4\U000e0067\U000e0062\U000e0065\U000e006e\U000e0067\U000e007f",  # England
    "ᠮᠣᠩ\u180b",
    "¿Cuántos\u00a0hijos?",
    "naïve (œuvre) – „ja“",
    "日本語 한국어",
]
TWINS = [
    ("yes", "yеs"),  # Cyrillic е
    ("no", "nо"),
    ("AHA", "ΑΗΑ"),  # Greek
    ("Coca", "Сосa"),
    ("so", "sօ"),  # Armenian
    ("p\u0430y", "\u0440\u0430y"),  # both of Latin and Cyrillic letters
    ("\u0443\u0441", "\u04af\u0441"),  # both Cyrillic
    ("❤", "❤\ufe0f"),
    ("é", "е\u0301"),  # the accent apart
    ("yes", " yes"),
    ("one two", "one\u00a0two"),
    ("é", "e\u0301"),
]
APART = [
    ("Русский", "English", "Ελληνικά", "Հայերեն"),
    ("да", "нет", "no"),
    ("он", "она", "оно"),
    ("Yes", "yes"),
    ("½", "1/2", "1⁄2"),
    ("м², or m²", "м2, or m2"),
]


def field(answers, groups=None, by="?", missing="refuse"):
    """A question with these answers, and groups."""
    inside = groups and Groups("place", groups, text=by, missing=missing)
    return Field(shoal.Choice("q", answers, text="?", groups=inside, missing=missing))


@pytest.mark.parametrize("text", HIDDEN.values(), ids=HIDDEN)
def test_what_is_hidden_is_refused_in_every_text_of_a_survey(text):
    answers = ANSWERS[:3]
    for about in ({"name": text}, {"purpose": text}, {"question": text}):
        with pytest.raises(InvalidArgumentError, match="control characters, marks of direction"):
            check_texts(example(**about))
    for listed in (((*answers, text),), (answers, ("a", text)), (answers, ("a", "b"), text)):
        with pytest.raises(InvalidArgumentError):
            check_field(field(*listed))


@pytest.mark.parametrize("text", SHOWN)
def test_what_a_script_or_an_emoji_needs_is_not(text):
    check_texts(example(question=text, name=text, answers=(*ANSWERS[:3], text)))
    assert visible(text) == text


@pytest.mark.parametrize(("one", "other"), TWINS)
def test_answers_that_look_alike_are_refused(one, other):
    for listed in (((one, "x", other),), (("a", "b"), (one, other))):
        with pytest.raises(InvalidArgumentError, match="that look different from each other"):
            check_field(field(*listed))


@pytest.mark.parametrize("answers", APART, ids=str)
def test_answers_of_several_languages_are_not(answers):
    check_field(field(answers))


def test_letters_of_one_script_that_look_alike_are_a_warning():
    survey = example(answers=("1", "l", "O", "0"))
    check_texts(survey)
    assert list(similar(survey)) == [("1", "l"), ("O", "0")]
    assert list(similar(example(answers=("modem", "modern", "a", "b")))) == [("modem", "modern")]
    assert not list(similar(several()))


SKIPPING = [
    "I prefer not to say",
    " i  PREFER not to say",
    "I prefer n\u043et to say",  # Cyrillic о
    "(None)",
]


@pytest.mark.parametrize("text", SKIPPING)
def test_no_other_answer_reads_as_that_of_those_who_skip_a_question(tmp_path, text):
    """A document that somebody wrote by hand: ``survey new`` refuses the list already."""
    made = several()
    at = next(at for at, each in enumerate(made.questions) if each.may_be_skipped)
    asked = made.questions[at]
    changed = replace(asked.question, labels=(text, *asked.answers[1:-1]))
    item = replace(asked, question=changed)
    questions = (*made.questions[:at], item, *made.questions[at + 1 :])
    wrong = replace(made, questions=questions)
    file = tmp_path / "survey.json"
    file.write_bytes(wrong.to_bytes())
    with pytest.raises(RefusedError, match="added for those who skip it"):
        read_survey(file)
    with pytest.raises(InvalidArgumentError, match="added for those who skip it"):
        check_field(field(["a", text], missing="cell"))
    with pytest.raises(InvalidArgumentError, match=r"groups.*added for those who skip it"):
        check_field(field(["a", "b"], ["c", text], missing="cell"))
    assert Survey.from_bytes(wrong.to_bytes()) == wrong  # as stores do


def test_an_only_question_cannot_be_skipped_and_may_have_that_answer():
    check_texts(example(answers=("yes", "no", "I prefer not to say", "other")))


def test_no_way_in_takes_them_and_what_is_stored_is_read(tmp_path):
    wrong = example(answers=("yes", "yеs", "no", "other"))
    file = tmp_path / "survey.json"
    file.write_bytes(wrong.to_bytes())
    with pytest.raises(RefusedError, match="texts that mislead people"):
        read_survey(file)
    assert "mislead people" in command("survey", "check", file).refusal()
    assert Survey.from_bytes(wrong.to_bytes()) == wrong  # as stores do


# What `shoal run` writes of labels that nobody looked at.


def test_labels_of_data_are_harmless_to_people_and_exact_to_programs(tmp_path):
    labels = ["no\u202eno", "ye\u200bs", "re\x1b[31md", "می\u200cخواهم"]
    result = shoal.run({"answer\u202e": labels * 500}, epsilon=2)
    result.to_csv(tmp_path / "r.csv")
    (tmp_path / "r.html").write_text(result.to_html(), encoding="utf-8")
    for name in ("r.csv", "r.html"):
        text = (tmp_path / name).read_text(encoding="utf-8")
        assert not set(text) & set("\u202e\u200b\x1b")
        assert "no\ufffdno" in text
        assert "ye\ufffds" in text
        assert labels[3] in text
    exact = json.dumps(result.to_dict(), ensure_ascii=False)
    assert all(json.dumps(label, ensure_ascii=False) in exact for label in labels)
