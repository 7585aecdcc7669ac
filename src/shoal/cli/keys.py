"""``shoal keys``: the keys and tokens of a shuffler or an analyzer, from the first to the last."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Literal, get_args

import typer

from shoal import checks
from shoal.cli.app import OPERATE, Commands, app, printable
from shoal.cli.options import Needs, Options, command, option, read_choice
from shoal.cli.party import SECRETS, X25519, Kind, PartyOptions, SecretOptions, Suite
from shoal.cli.render import answer, working
from shoal.explain.text import plural
from shoal.service.clock import system_clock

if TYPE_CHECKING:
    from shoal.service.keyring import Keyring

_WHAT = "What keys"
_TIMES = "How long"
_LOST = "After a loss"
_TOKEN = "What the token is for"  # noqa: S105 - a heading

keys = typer.Typer(
    cls=Commands, help="Keys of a shuffler or an analyzer: make, rotate, retire, look at them."
)
app.add_typer(keys, name="keys", rich_help_panel=OPERATE)


Role = Literal["shuffler", "analyzer"]  # who opens with the keys
_RING = option("The directory with the keys, or its parent.", name="DIR")


class RingOptions(Options):
    """Which keys."""

    directory: Path = _RING


class OpenRingOptions(SecretOptions, Options):
    """Which keys, and what opens them."""

    directory: Path = _RING

    def open(self) -> Keyring:
        """The keys, opened."""
        from shoal.service.keyring import Keyring
        from shoal.service.ops.home import ring_directory

        directory = ring_directory(self.directory)
        protection = self.protection(directory)
        with working("opening the keys"):
            return Keyring.open(directory, protection=protection, identity=self.identity)


class NewOptions(SecretOptions, Options):
    """Whose keys, how they are protected, and how long each is used."""

    directory: Path = option("The directory of the keys.", name="DIR")
    role: Role = option("Which party uses them.", _WHAT, default=...)
    suite: list[str] | None = option(
        "Suite of algorithms for surveys to come; may be repeated.",
        _WHAT,
        "|".join(get_args(Suite)),
        parser=partial(read_choice, get_args(Suite)),
    )
    kind: Kind = option(
        "How secrets are protected on disk.", SECRETS, name="--protection", default="passphrase"
    )
    key_file: Path | None = option("With --protection keyfile; created if missing.", SECRETS)
    cost: int | None = option(
        "Cost of guessing a passphrase, as a power of two; default: 17.", SECRETS
    )
    active: int = option("Days for which a key is handed out to devices.", _TIMES, default=30)
    expired: int = option(
        "Days for which it still decrypts afterwards; longer than any batch waits.",
        _TIMES,
        default=14,
    )
    listed: int = option(
        "Days for which a signed list of keys is valid; more if the identity is kept offline.",
        _TIMES,
        default=14,
    )
    identity: Path | None = option("Identity of a lost key ring, to continue its surveys.", _LOST)
    first_number: int | None = option(
        "With --identity: number of the first key, higher than any in the lost key ring.", _LOST
    )

    rules = (
        Needs("identity", ("first_number",), "a key must not reuse a number of the lost key ring"),
        Needs("first_number", ("identity",), "numbers start at 1 unless a key ring was lost"),
    )


@command(keys)
def new(options: NewOptions) -> None:
    """Make the keys of a new shuffler or analyzer, and print the fingerprint for surveys."""
    from shoal.service.keyring import Keyring, Schedule
    from shoal.service.keyring.key_list import DAY
    from shoal.service.keyring.words import new_document

    schedule = Schedule(
        active=options.active * DAY, expired=options.expired * DAY, listed=options.listed * DAY
    )
    protection = options.protection_of(options.kind, new=True, **options.only("cost"))
    with working("making keys"):
        ring = Keyring.create(
            options.directory,
            role=options.role,
            suites=tuple(options.suite or [X25519]),
            protection=protection,
            schedule=schedule,
            identity=options.identity,
            first_number=options.first_number or 0,
        )
    values = ring.to_dict() | {"protection": options.kind}
    answer(options, values, str(new_document(ring, options.key_file)))


@command(keys, name="list")
def listing(options: RingOptions) -> None:
    """Show the keys: states, ages, and what happens to each next. Needs no passphrase."""
    from shoal.service.keyring.words import advice, list_document

    ring = _locked(options.directory)
    keys = [key.to_dict() for key in ring.list().keys]
    values = ring.to_dict() | {"keys": keys, "warnings": advice(ring)}
    answer(options, values, str(list_document(ring)))


@command(keys)
def show(options: RingOptions) -> None:
    """Show the fingerprint, which goes into surveys. Needs no passphrase."""
    from shoal.service.keyring.words import document

    ring = _locked(options.directory)
    answer(options, ring, str(document(ring)))


class RotateOptions(OpenRingOptions):
    """Which keys, and whether anything is changed."""

    suite: Suite | None = option("Only keys for these algorithms.", _WHAT)
    dry_run: bool = option("Only show what would happen.", _WHAT)


@command(keys)
def rotate(options: RotateOptions) -> None:
    """Make new keys that take over within the hour. A running service rotates its keys itself."""
    from shoal.service.keyring.words import rotation_document

    done = not options.dry_run
    ring = options.open() if done else _locked(options.directory)
    suites = ring.suites if options.suite is None else (options.suite,)
    if done:
        numbers = [ring.rotate(suite=suite).number for suite in suites]
        rotations = [ring.rotation(number) for number in numbers]
    else:
        rotations = list(ring.planned_rotations(suites))
    changes = [
        {"new": each.new.to_dict(made=done), "replaced": [key.to_dict() for key in each.replaced]}
        for each in rotations
    ]
    values = {"done": done, "rotations": changes}
    answer(options, values, str(rotation_document(rotations, done=done)))


class RetireOptions(OpenRingOptions):
    """Which key."""

    number: int = option("The number of the key.", name="NUMBER")
    delete: bool = option("Delete it now: reports that were sealed with it are lost.", _WHAT)


@command(keys)
def retire(options: RetireOptions) -> None:
    """Take a key out of use at once, because somebody else may have it."""
    from shoal.service.keyring.words import retired_document

    ring, number = options.open(), options.number
    instead = ring.retire(number, delete=options.delete)
    left = next((key for key in ring.list().keys if key.number == number), None)
    values = {
        "retired": number,
        "left": None if left is None else left.to_dict(),
        "instead": instead.to_dict(),
    }
    answer(options, values, str(retired_document(ring, number, left, instead)))


def _locked(directory: Path) -> Keyring:
    from shoal.service.keyring import Keyring
    from shoal.service.ops.home import ring_directory

    return Keyring.open(ring_directory(directory), protection=None)


# ------------------------------------------------------------------------------------------ tokens


class TokenOptions(PartyOptions):
    """What a token is for, and how long."""

    survey: str | None = option(
        "Valid for this survey only (its first digits); default: all surveys.", _TOKEN, "ID"
    )
    days: int = option("For how long it is valid.", _TOKEN, default=365)
    label: str = option(
        "A name to revoke it by (shoal keys revoke).", _TOKEN, "TEXT", default="token"
    )


@command(keys, server="shoal keys token")
def token(options: TokenOptions) -> None:
    """Print a new token: from a shuffler to collect batches, from an analyzer to read results.

    It is printed once and stored as a hash: put it into a file that only its user may read.
    """
    with options.opened() as (home, store):
        from shoal.service.keyring.key_list import DAY
        from shoal.service.ops.administration import survey_name

        lifetime = checks.count(days=options.days) * DAY
        survey = None if options.survey is None else survey_name(store, options.survey)
        text = store.tokens.add(options.label, survey, lifetime)
    name = None if survey is None else str(survey)
    values = {"token": text, "role": home.role, "survey": name, "days": options.days}
    answer(options, values, text)
    after = {
        "shuffler": (
            "the analyzer's operator saves it as the file token in the analyzer's directory, "
            "mode 600"
        ),
        "analyzer": "a reader logs in with it at /dashboard/login, or sends it in the header "
        "Authorization: Bearer, to /v1/surveys/ID/results",
    }
    if not options.json:
        typer.echo(f"next: {after[home.role]}", err=True)  # what is piped is the token alone


@command(keys, server="shoal keys tokens")
def tokens(options: PartyOptions) -> None:
    """List tokens: label, survey, and until when. The tokens themselves are not stored."""
    with options.opened() as (_, store):
        listed = store.tokens.listed()
    from shoal.service.ops.administration import tokens_document

    now = system_clock()
    values = {"tokens": [token.to_dict(now) for token in listed]}
    answer(options, values, str(tokens_document(listed, now)))


class RevokeOptions(PartyOptions):
    """Whose tokens, and which."""

    label: str = option("The label it was made with.", name="LABEL")


@command(keys, server="shoal keys revoke")
def revoke(options: RevokeOptions) -> None:
    """Revoke the tokens of a label, from now on and for good."""
    with options.opened() as (_, store):
        from shoal.service.ops.administration import revoke_token

        revoked = revoke_token(store, options.label)
    values = {"label": options.label, "revoked": revoked}
    text = f"revoked {plural(revoked, 'token')} with the label {printable(options.label)}"
    answer(options, values, text)
