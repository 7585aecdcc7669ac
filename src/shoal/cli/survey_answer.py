"""From what ``shoal survey`` was asked to a survey."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path

from shoal.cli.files import read_list
from shoal.cli.options import RefusedError
from shoal.cli.survey_asked import SurveyAsked
from shoal.planning import Plan
from shoal.planning.planner import messages_limit
from shoal.protocols.base import Device
from shoal.sealing import MalformedError, SurveyId, parsed
from shoal.sealing.identity import LARGEST_CONFIGURATION
from shoal.service.clock import system_clock
from shoal.service.keyring.identity import fingerprint
from shoal.service.keyring.index import NAME
from shoal.service.keyring.schedule import Role
from shoal.service.survey import Batches, Party, Survey, complaint
from shoal.service.survey.design import Design, least_minimum, telling_minimum, tells_nothing
from shoal.service.survey.promise import Terms
from shoal.service.survey.survey import LONGEST_TEXT

_FINGERPRINT = re.compile(r"[0-9a-f]{64}")
_KEY_BYTES = 32
_DAY = 86_400


def answer(asked: SurveyAsked) -> Survey:
    """The survey that was asked for."""
    labels = _labels(asked)
    begins = system_clock() if asked.starts is None else asked.starts
    question = asked.question or ""
    return _design(asked, labels).survey(
        name=question[:LONGEST_TEXT] if asked.name is None else asked.name,
        question=question,
        purpose=asked.purpose or "",
        answers=labels,
        not_before=begins,
        not_after=begins + asked.days * _DAY,
        suite=asked.suite.value,
        shuffler=_party("shuffler", asked.shuffler or "", asked.shuffler_key or ""),
        analyzer=_party("analyzer", asked.analyzer or "", asked.analyzer_key or ""),
    )


def enough(asked: SurveyAsked, made: Survey) -> int:
    """A minimum with which a survey that tells nothing would tell something; 0 if none is needed.

    Or if none was found: for several reports of one person looking for it takes too long.
    """
    if made.reports_per_person > 1 or not tells_nothing(made.device, made.batches.minimum):
        return 0
    return telling_minimum(_design(asked, _labels(asked))) or 0


def check_place(out: Path | None, made: Survey) -> None:
    """Refuse to write over another survey: its file is all there is of it."""
    if out is None or not out.exists():
        return
    data = _bytes_of(out)
    try:
        found = parsed(data)
    except MalformedError:
        return
    if found.get("kind") == "survey" and data != made.to_bytes():
        raise RefusedError(f"{out} holds another survey: write to another file, or delete it")


def _labels(asked: SurveyAsked) -> tuple[str, ...]:
    return () if asked.categories is None else tuple(read_list(asked.categories))


def _design(asked: SurveyAsked, labels: tuple[str, ...]) -> Design:
    given = None if asked.plan is None else _planned(asked.plan, asked, len(labels))
    epsilon = asked.epsilon or 0.0
    minimum = asked.minimum
    if minimum is None and given is not None:
        terms = Terms(
            delta=asked.delta,
            reports_per_person=asked.reports_per_person,
            dishonest=asked.dishonest,
            participation=asked.participation,
        )
        minimum = least_minimum(given, epsilon=epsilon, terms=terms)
    least = minimum or 0
    return Design(
        epsilon=epsilon,
        delta=asked.delta,
        batches=Batches(
            minimum=least,
            target=2 * least if asked.target is None else asked.target,
            max_age=asked.max_age,
            small=asked.small.value,
        ),
        categories=len(labels) if asked.bounds is None else None,
        bounds=asked.bounds,
        reports_per_person=asked.reports_per_person,
        dishonest=asked.dishonest,
        participation=asked.participation,
        local_epsilon_cap=asked.local_epsilon_cap,
        messages_cap=messages_limit(asked.messages_cap, asked.randomizer),
        choose=asked.randomizer,
        given=given,
    )


def _planned(path: Path, asked: SurveyAsked, answers: int) -> Device:
    found = Plan.load(path)
    question = found.question
    if (question.categories or 0) != answers or question.bounds != asked.bounds:
        raise RefusedError(f"{path} is a plan for another question: {_kind(found)}")
    return found.randomizer


def _kind(plan: Plan) -> str:
    question = plan.question
    if question.categories is not None:
        return f"one of {question.categories} answers"
    if question.bounds is not None:
        return f"a number from {question.bounds[0]:g} to {question.bounds[1]:g}"
    return f"a vector of {question.dimension} coordinates"


def _party(role: Role, url: str, key: str) -> Party:
    return Party(url=url.rstrip("/"), fingerprint=_fingerprint(role, key))


def _fingerprint(role: Role, key: str) -> str:
    """The fingerprint as it is, or from a file: itself, or the list of keys that it names.

    A directory stands for the list in it, or in its directory of keys.
    """
    if _FINGERPRINT.fullmatch(key):
        return key
    given = Path(key)
    path = next((p for p in (given, given / NAME, given / "keys" / NAME) if p.is_file()), None)
    if path is None:
        expected = (
            f"expected --{role}-key to be 64 hexadecimal digits or a file with them, or the "
            f"{role}'s list of keys (its directory of keys will do)"
        )
        raise RefusedError(f"{expected}, got {key!r}")
    data = _bytes_of(path)
    text = data.decode("ascii", errors="replace").strip()
    if _FINGERPRINT.fullmatch(text):
        return text
    try:
        document = parsed(data)
        public = bytes.fromhex(str(document.get("identity", "")))
    except (MalformedError, ValueError):
        document, public = {}, b""
    if len(public) != _KEY_BYTES:
        raise RefusedError(f"{path} holds neither a fingerprint nor a list of keys")
    listed = document.get("list")
    whose = listed.get("role", role) if isinstance(listed, Mapping) else role
    if whose != role:
        raise RefusedError(f"--{role}-key {path} has the keys of the {whose}, not of the {role}")
    return fingerprint(role, public)


def read(path: Path, name: str | None = None) -> Survey:
    """The survey in a file; with a name, only the one that has it."""
    try:
        found = Survey.from_bytes(_bytes_of(path))
    except MalformedError as error:
        message = f"{complaint(error, str(path))}; ask for the original"
        raise RefusedError(message) from None
    if name is not None and SurveyId.from_text(name) != found.id:
        raise RefusedError(f"{path} is another survey: its name is {found.id}")
    return found


def _bytes_of(path: Path) -> bytes:
    try:
        with path.open("rb") as file:
            return file.read(LARGEST_CONFIGURATION + 1)
    except OSError as error:
        raise RefusedError(f"cannot read {path}: {error.strerror or error}") from error
