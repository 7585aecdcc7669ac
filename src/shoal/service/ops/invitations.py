"""What whoever invites writes: invitations for people, and hashes of codes for the shuffler.

The table of invitations is private: whoever reads it can answer in people's places. The file of
codes is for the shuffler's operator. It has hashes only, sorted, so that their order says nothing;
which of them are one person's nobody can tell, but for a file that speaks of one person alone.
"""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from shoal import checks
from shoal.errors import InvalidArgumentError, MissingExtraError, RefusedError
from shoal.explain.text import environment, render
from shoal.sealing import MalformedError, Plain, SurveyId, canonical
from shoal.service.admission import Invitation
from shoal.service.survey import Survey

if TYPE_CHECKING:
    from shoal.service.shuffler.codes import Codes

KIND, VERSION = "codes", 1
COLUMNS = ("number", "invitation", "link")


@dataclass(frozen=True)
class Handed:
    """An invitation, and the number it has in the table of whoever invites."""

    number: int
    invitation: Invitation

    def hashes(self, survey: Survey) -> list[bytes]:
        """Of the person's codes, in the order of the reports."""
        return self.invitation.code_hashes(survey.id, survey.reports_per_person)


@dataclass(frozen=True, kw_only=True)
class CodesFile:
    """What a shuffler is told of codes: which to add, to revoke, to replace by which."""

    survey: SurveyId
    add: tuple[bytes, ...] = ()
    revoke: tuple[bytes, ...] = ()
    replace: tuple[tuple[bytes, bytes], ...] = ()

    def to_bytes(self) -> bytes:
        """As it is written."""
        listed: dict[str, Plain] = {
            "kind": KIND,
            "version": VERSION,
            "survey": str(self.survey),
            "add": [each.hex() for each in sorted(self.add)],
            "revoke": [each.hex() for each in sorted(self.revoke)],
            "replace": [[old.hex(), new.hex()] for old, new in sorted(self.replace)],
        }
        return canonical(listed)

    @classmethod
    def from_bytes(cls, data: bytes, name: str) -> CodesFile:
        """As it was; ``name`` is the file's."""
        try:
            stored, read = json.loads(data), bytes.fromhex
            made = cls(
                survey=SurveyId.from_text(stored["survey"]),
                add=tuple(map(read, stored["add"])),
                revoke=tuple(map(read, stored["revoke"])),
                replace=tuple((read(old), read(new)) for old, new in stored["replace"]),
            )
            if made.to_bytes() == data:
                return made
        except (MalformedError, KeyError, TypeError, ValueError, AttributeError, RecursionError):
            pass
        raise RefusedError(f"{name} is not a file of codes from shoal invite")

    def apply(self, codes: Codes) -> int:
        """Do all that it says; how many codes were not there before. Again, it does nothing."""
        added = codes.add(self.survey, self.add) if self.add else 0
        if self.revoke:
            codes.revoke(self.survey, self.revoke)
        if self.replace:
            codes.replace(self.survey, dict(self.replace))
        return added


def invite(survey: Survey, people: int, first: int = 1) -> list[Handed]:
    """New invitations, numbered from ``first`` on."""
    if not survey.admission.code_bytes:
        expected = "a survey for invited people (shoal survey new --entitled N)"
        raise InvalidArgumentError("survey", survey.name, expected)
    drawn = enumerate(Invitation.draw(checks.count(count=people)), start=first)
    return [Handed(number, invitation) for number, invitation in drawn]


def codes_to_add(survey: Survey, handed: Sequence[Handed]) -> CodesFile:
    """What the shuffler is told of new invitations."""
    hashes = tuple(hashed for each in handed for hashed in each.hashes(survey))
    return CodesFile(survey=survey.id, add=hashes)


def codes_to_replace(survey: Survey, old: Invitation, new: Invitation) -> CodesFile:
    """What the shuffler is told when a person is invited anew."""
    reports = survey.reports_per_person
    pairs = zip(
        old.code_hashes(survey.id, reports), new.code_hashes(survey.id, reports), strict=True
    )
    return CodesFile(survey=survey.id, replace=tuple(pairs))


def link(survey: Survey, invitation: Invitation) -> str:
    """What a person is sent: what follows the # stays in their browser."""
    return f"{survey.analyzer.url}/answer/{survey.id}#{invitation}"


def table(survey: Survey, handed: Sequence[Handed]) -> str:
    """The table of invitations, as CSV."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(COLUMNS)
    for each in handed:
        writer.writerow((each.number, each.invitation, link(survey, each.invitation)))
    return text.getvalue()


def read_table(path: Path) -> list[Handed]:
    """A table of invitations, as it was written."""
    try:
        rows = list(csv.reader(io.StringIO(path.read_text(encoding="utf-8"))))
        if not rows or tuple(rows[0]) != COLUMNS:
            raise RefusedError(f"{path} is not a table of invitations: its columns differ")
        return [Handed(int(number), Invitation.read(text)) for number, text, _ in rows[1:]]
    except OSError as error:
        raise RefusedError(f"cannot read {path}: {error.strerror or error}") from error
    except (ValueError, InvalidArgumentError) as error:
        raise RefusedError(f"{path} is not a table of invitations, or was changed") from error


def found(who: str, handed: Sequence[Handed]) -> Handed:
    """The person of a number in the table, or of an invitation."""
    if who.isdecimal():
        for each in handed:
            if each.number == int(who):
                return each
        expected = "a number of the table of invitations" if handed else "a table with that number"
        raise InvalidArgumentError("who", who, expected)
    invitation = Invitation.read(who)
    numbers = [each.number for each in handed if each.invitation == invitation]
    return Handed(numbers[0] if numbers else 0, invitation)


def replaced(handed: Sequence[Handed], old: Handed, new: Invitation) -> list[Handed]:
    """The table with another invitation in the place of one."""
    return [
        replace(each, invitation=new) if each.invitation == old.invitation else each
        for each in handed
    ]


def qr_page(survey: Survey, handed: Sequence[Handed]) -> str:
    """A page to print and cut up: for each person a link as a QR code, and the invitation."""
    try:
        import segno
    except ImportError as error:
        raise MissingExtraError("drawing QR codes", "qr") from error
    drawn = []
    for each in handed:
        address = link(survey, each.invitation)
        code = segno.make_qr(address, error="m", boost_error=False)
        picture = code.svg_inline(scale=3, border=2, svgclass=None, lineclass=None)
        drawn.append((each, picture))
    made = environment(Path(__file__).parent)
    return render(made, "invitations.html", survey=survey, drawn=drawn)
