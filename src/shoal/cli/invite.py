"""``shoal invite``: invite people to a survey, and tell its shuffler which codes count."""

from __future__ import annotations

import os
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from shoal.cli import files
from shoal.cli.app import COLLECT, Commands, app
from shoal.cli.options import Needs, Options, Required, command, option
from shoal.cli.party import STORE, PartyOptions
from shoal.cli.render import answer, working
from shoal.errors import RefusedError
from shoal.explain.text import plural

if TYPE_CHECKING:
    from shoal.service.ops.invitations import CodesFile, Handed
    from shoal.service.shuffler.store import ShufflerStore
    from shoal.service.survey import Survey

_WHO = "Whom"
_WHERE = "Where the codes go"
_SHUFFLER = "The shuffler's directory, if it is on this machine: the codes are registered at once."

invite = typer.Typer(cls=Commands, help="Invitations: who may answer a survey, once each.")
app.add_typer(invite, name="invite", rich_help_panel=COLLECT)


class InviteOptions(Options):
    """Which survey, and who is told."""

    survey: Path = option("The survey.", name="FILE")
    csv: Path | None = option("The table of invitations, which is private.", _WHERE)
    codes: Path | None = option("File for the shuffler's operator, such as survey.codes.", _WHERE)
    shuffler: Path | None = option(_SHUFFLER, _WHERE, "DIR")
    store: str | None = STORE

    rules = (
        Required("codes", "the file for the shuffler's operator", ("shuffler",)),
        Needs("store", ("shuffler",), "the directory of the shuffler with this database"),
    )

    def check(self) -> None:
        """Files that can be written."""
        files.check(csv=self.csv, codes=self.codes, never=self.survey)

    def read(self) -> Survey:
        """The survey, which has to be one for people invited."""
        from shoal.service.survey.document import read_survey

        survey = read_survey(self.survey)
        if not survey.admission.code_bytes:
            raise RefusedError(
                f"{self.survey} needs no invitations: anybody may answer it (shoal survey "
                "new --entitled N makes a survey for invited people)"
            )
        return survey

    def write(self, told: CodesFile, *outputs: tuple[Path | None, files.Write]) -> None:
        """Tell the shuffler and write the files: all of it, or nothing."""
        codes = (self.codes, lambda path: path.write_bytes(told.to_bytes()))
        written = [each for each in (*outputs, codes) if each[0] is not None]
        with ExitStack() as stack:
            stack.callback(os.umask, os.umask(0o077))  # for this user's eyes
            if self.shuffler is not None:
                store = shuffler_store(stack, self.shuffler, self.store)
                if not written:
                    told.apply(store.codes)
                    return
                path, writer = written.pop()

                def last(target: Path) -> None:
                    """All files are on the disk before the shuffler knows, and named afterwards."""
                    writer(target)
                    told.apply(store.codes)

                written.append((path, last))
            files.write(*written)


def shuffler_store(stack: ExitStack, directory: Path, store: str | None) -> ShufflerStore:
    """Of a shuffler on this machine, which has the server's packages."""
    from shoal.service.ops.health import need_server

    need_server("shoal invite with a shuffler's directory", store)
    from shoal.service.ops.home import home_of, opened
    from shoal.service.shuffler.store import ShufflerStore

    made = stack.enter_context(opened(home_of(directory, store)))
    if not isinstance(made, ShufflerStore):
        raise RefusedError(f"{directory} is an analyzer's: only the shuffler has codes")
    return made


class MakeOptions(InviteOptions):
    """How many people, and what is written."""

    count: int | None = option("Number of people; default: all whom the survey entitles.", _WHO)
    first: int = option("Number of the first invitation.", _WHO, default=1)
    csv: Path = option(
        "The table of invitations, which is private; default: invitations.csv.",
        _WHERE,
        default=Path("invitations.csv"),
        show_default=False,
    )
    qr: Path | None = option("A page of QR codes, to print (.html).", _WHERE)

    def check(self) -> None:
        """No table is written over: it is all there is of people's invitations."""
        super().check()
        files.check(qr=self.qr)
        for path in (self.csv, self.qr):
            if path is not None and path.exists():
                raise RefusedError(f"{path} exists already: write to another file")


@command(invite)
def make(options: MakeOptions) -> None:
    """Make invitations: a private table of them, and codes for the shuffler.

    Needs no server. The analyzer's operator should not do this alone: it could invent people.
    """
    with working("inviting"):
        from shoal.service.admission import Invited
        from shoal.service.ops import invitations

        survey = options.read()
        admission = survey.admission
        assert isinstance(admission, Invited)  # noqa: S101 - as was looked at
        people = admission.entitled if options.count is None else options.count
        if people > admission.entitled:
            raise RefusedError(
                f"the survey entitles {admission.entitled:,} people, and --count is {people:,}"
            )
        handed = invitations.invite(survey, people, options.first)
        page = None if options.qr is None else invitations.qr_page(survey, handed)
        options.write(
            invitations.codes_to_add(survey, handed),
            files.text(options.csv, lambda: invitations.table(survey, handed)),
            files.text(options.qr, lambda: page or ""),
        )
    told = _told(options)
    answer(
        options,
        {"survey": str(survey.id), "people": people, "csv": str(options.csv), **_written(options)},
        f"{plural(people, 'invitation')} for survey {survey.id}",
        f"written to {options.csv}: private, because its readers can answer for these people",
        *([f"QR codes to print in {options.qr}: as private as the table"] * bool(options.qr)),
        *told,
    )


class WhoOptions(InviteOptions):
    """Whose invitation."""

    who: str = option("Its number in the table, or the invitation itself.", name="WHO")

    def handed(self) -> tuple[list[Handed], Handed]:
        """The table, if there is one, and the person."""
        from shoal.service.ops import invitations

        handed = [] if self.csv is None else invitations.read_table(self.csv)
        return handed, invitations.found(self.who, handed)


@command(invite)
def revoke(options: WhoOptions) -> None:
    """Revoke an invitation. A report that came with it stays, and nobody learns whether one did."""
    from shoal.service.ops import invitations

    survey = options.read()
    _, person = options.handed()
    told = invitations.CodesFile(survey=survey.id, revoke=tuple(person.hashes(survey)))
    options.write(told)
    answer(
        options,
        {"survey": str(survey.id), "number": person.number or None, **_written(options)},
        f"invitation{_numbered(person)} is revoked",
        *_told(options),
    )


@command(invite)
def replace(options: WhoOptions) -> None:
    """Replace a lost invitation by a new one; the old one no longer counts.

    Somebody who has answered cannot answer again with the new one, and nobody learns whether.
    """
    from shoal.service.admission import Invitation
    from shoal.service.ops import invitations

    survey = options.read()
    handed, person = options.handed()
    (new,) = Invitation.draw(1)
    table = invitations.replaced(handed, person, new)
    options.write(
        invitations.codes_to_replace(survey, person.invitation, new),
        files.text(options.csv, lambda: invitations.table(survey, table)),
    )
    address = invitations.link(survey, new)
    values = {"survey": str(survey.id), "number": person.number or None, "link": address}
    answer(
        options,
        {**values, "invitation": str(new), **_written(options)},
        f"invitation{_numbered(person)} is replaced by {new}",
        address,
        *_told(options),
    )


class AddOptions(PartyOptions):
    """Whose directory, and what is added."""

    directory: Path = option("The shuffler's directory.", name="DIR")
    file: Path = option("The file that shoal invite wrote with --codes.", name="CODES")


@command(invite)
def add(options: AddOptions) -> None:
    """Register codes at the shuffler: added, revoked or replaced ones, from a file of codes."""
    from shoal.service.ops.invitations import CodesFile

    try:
        data = options.file.read_bytes()
    except OSError as error:
        raise RefusedError(f"cannot read {options.file}: {error.strerror or error}") from error
    told = CodesFile.from_bytes(data, str(options.file))
    with ExitStack() as stack:
        store = shuffler_store(stack, options.directory, options.store)
        added = told.apply(store.codes)
        totals = store.codes.totals(told.survey)
    answer(
        options,
        {"survey": str(told.survey), "added": added, **totals.to_dict()},
        f"{plural(added, 'code')} more for survey {told.survey}",
        f"{totals.registered:,} of {totals.places:,} places have a code that counts",
    )


class ListOptions(PartyOptions):
    """Whose directory, and of which survey."""

    directory: Path = option("The shuffler's directory.", name="DIR")
    survey: str | None = option(
        "A survey's id; its first digits are enough.", name="ID", default=None
    )


@command(invite, name="list")
def list_totals(options: ListOptions) -> None:
    """How many codes there are, and how many are spent: totals, never which."""
    with ExitStack() as stack:
        store = shuffler_store(stack, options.directory, options.store)
        from shoal.service.ops.administration import survey_name

        named = None if options.survey is None else survey_name(store, options.survey)
        surveys = [
            each
            for each in store.surveys.all()
            if each.admission.code_bytes and named in (None, each.id)
        ]
        totals = {each.id: store.codes.totals(each.id) for each in surveys}
    lines = []
    for each in surveys:
        of = totals[each.id]
        counts = f"{of.registered:,} registered, {of.revoked:,} revoked, {of.replaced:,} replaced"
        lines += [f"{each.name} ({str(each.id)[:16]}): {of.entitled:,} people entitled"]
        lines += [f"  {of.places:,} codes at most: {counts}; {of.spent:,} spent"]
    values = [{"survey": str(name), **each.to_dict()} for name, each in totals.items()]
    nobody = "no survey here needs invitations"
    answer(options, {"surveys": values}, *(lines or [nobody]))


def _numbered(person: Handed) -> str:
    return f" {person.number}" if person.number else ""


def _written(options: InviteOptions) -> dict[str, object]:
    return {
        "codes": None if options.codes is None else str(options.codes),
        "registered": options.shuffler is not None,
    }


def _told(options: InviteOptions) -> list[str]:
    """What the shuffler knows, or how it learns of it."""
    if options.shuffler is not None:
        return [f"registered with the shuffler in {options.shuffler}"]
    return [f"next, the shuffler's operator: shoal invite add DIR {options.codes}"]
