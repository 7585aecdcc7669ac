"""``shoal keys``: the keys and tokens of a shuffler or an analyzer, from the first to the last."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from shoal.cli.app import OPERATE, app, group
from shoal.cli.options import (
    Options,
    RefusedError,
    argument,
    choice,
    command,
    flag,
    option,
    whole,
)
from shoal.cli.party import (
    SECRETS,
    Directory,
    IdentityFile,
    Json,
    Kind,
    SecretOptions,
    Store,
    Suite,
    SuiteOption,
)
from shoal.cli.render import print_json, print_lines, working

if TYPE_CHECKING:
    from shoal.service.keyring import Inheritance, Keyring, Protection
    from shoal.service.running.home import Home

_WHAT = "What keys"
_TIMES = "How long"
_LOST = "After a loss"
_TOKEN = "What the token is for"  # noqa: S105 - a heading

keys = group("Keys of a shuffler or an analyzer: make, rotate, retire, look at them.")
app.add_typer(keys, name="keys", rich_help_panel=OPERATE)


class Role(StrEnum):
    """Who opens with the keys."""

    SHUFFLER = "shuffler"
    ANALYZER = "analyzer"


Ring = Annotated[Path, argument("The directory of the keys, or the one they are in.", "DIR")]


@dataclass(frozen=True, kw_only=True)
class NewOptions(SecretOptions):
    """Whose keys, how they are protected, and how long each is used."""

    directory: Annotated[Path, argument("The directory of the keys.", "DIR")]
    role: Annotated[Role, choice("Who opens with them.", _WHAT, Role)]
    suite: Annotated[
        list[Suite] | None,
        choice("Algorithms of the surveys to come; may be repeated.", _WHAT, Suite),
    ] = None
    kind: Annotated[
        Kind, choice("What protects secrets on the disk.", SECRETS, Kind, name="--protection")
    ] = Kind.PASSPHRASE
    key_file: Annotated[
        Path | None, option("With --protection keyfile; made if missing.", SECRETS, "FILE")
    ] = None
    cost: Annotated[
        int | None, whole("Of guessing a passphrase, as a power of two; 17.", SECRETS)
    ] = None
    active: Annotated[int, whole("Days that a key is handed out.", _TIMES)] = 30
    expired: Annotated[
        int, whole("Days that it still opens; more than any batch waits.", _TIMES)
    ] = 14
    listed: Annotated[
        int, whole("Days that a signed list is valid; more for an identity offline.", _TIMES)
    ] = 14
    identity: Annotated[
        Path | None, option("Of a ring that was lost, to go on with its surveys.", _LOST, "FILE")
    ] = None
    first_number: Annotated[
        int | None, whole("With --identity: above every number the lost ring had.", _LOST)
    ] = None
    json: Json = False

    def check(self) -> None:
        """Files for this protection only; an identity and a number, or neither."""
        self.check_kind(self.kind)
        if (self.identity is None) != (self.first_number is None):
            raise RefusedError(
                "--identity and --first-number go together: a number that the lost ring had must "
                "not be another key's"
            )

    def new_protection(self) -> Protection:
        """The protection of the new secrets; a key file is made too if it is missing."""
        from shoal.service.keyring import Protection

        if self.kind is Kind.NONE:
            return Protection.none()
        if self.key_file is not None:
            return Protection.key_file(self.key_file, make=True)
        cost = self.only("cost")
        return Protection.passphrase(self.passphrase(new=True), **cost)

    def inheritance(self) -> Inheritance | None:
        """What is left of a ring that was lost."""
        from shoal.service.keyring import Inheritance

        if self.identity is None or self.first_number is None:
            return None
        return Inheritance(identity=self.identity, first_number=self.first_number)


@command(keys)
def new(options: NewOptions) -> None:
    """Make the keys of a new shuffler or analyzer, and print what surveys say of them."""
    from shoal.service.keyring import Keyring, Schedule
    from shoal.service.keyring.schedule import DAY
    from shoal.service.keyring.words import new_document

    schedule = Schedule(
        active=options.active * DAY, expired=options.expired * DAY, listed=options.listed * DAY
    )
    protection = options.new_protection()
    with working("making keys"):
        ring = Keyring.create(
            options.directory,
            role=options.role.value,
            suites=tuple(suite.value for suite in options.suite or [Suite.X25519]),
            protection=protection,
            schedule=schedule,
            heir_of=options.inheritance(),
        )
    if options.json:
        print_json(ring.to_dict() | {"protection": options.kind.value})
    else:
        print_lines(new_document(ring, options.key_file))


@dataclass(frozen=True, kw_only=True)
class RingOptions(Options):
    """Which keys."""

    directory: Ring
    json: Json = False


@command(keys, name="list")
def listing(options: RingOptions) -> None:
    """Show the keys: states, ages, and what happens to each next. Needs no passphrase."""
    from shoal.service.keyring.words import advice, list_document

    ring = _locked(options.directory)
    if options.json:
        listed = [key.to_dict() for key in ring.list().keys]
        print_json(ring.to_dict() | {"keys": listed, "warnings": advice(ring)})
    else:
        print_lines(list_document(ring))


@command(keys)
def show(options: RingOptions) -> None:
    """Show the fingerprint, which goes into surveys. Needs no passphrase."""
    from shoal.service.keyring.words import document

    ring = _locked(options.directory)
    if options.json:
        print_json(ring.to_dict())
    else:
        print_lines(document(ring))


@dataclass(frozen=True, kw_only=True)
class RotateOptions(SecretOptions):
    """Which keys, and whether anything is changed."""

    directory: Ring
    suite: SuiteOption = None
    dry_run: Annotated[bool, flag("--dry-run", "Only say what would happen.", _WHAT)] = False
    identity: IdentityFile = None
    json: Json = False


@command(keys)
def rotate(options: RotateOptions) -> None:
    """Make new keys that take over within the hour. A running service does so by itself in time."""
    from shoal.service.keyring.words import rotation_document

    done = not options.dry_run
    ring = _opened(options) if done else _locked(options.directory)
    suites = ring.suites if options.suite is None else (options.suite.value,)
    if done:
        numbers = [ring.rotate(suite=suite).number for suite in suites]
        rotations = [ring.rotation(number) for number in numbers]
    else:
        rotations = list(ring.planned_rotations(suites))
    if options.json:
        changes = [
            {
                "new": each.new.to_dict(made=done),
                "replaced": [key.to_dict() for key in each.replaced],
            }
            for each in rotations
        ]
        print_json({"done": done, "rotations": changes})
    else:
        print_lines(rotation_document(rotations, done=done))


@dataclass(frozen=True, kw_only=True)
class RetireOptions(SecretOptions):
    """Which key."""

    directory: Ring
    number: Annotated[int, argument("The number of the key.", "NUMBER")]
    delete: Annotated[bool, flag("--delete", "Shred it now: what waits for it is lost.", _WHAT)] = (
        False
    )
    identity: IdentityFile = None
    json: Json = False


@command(keys)
def retire(options: RetireOptions) -> None:
    """Take a key out of use at once, because somebody else may have it."""
    from shoal.service.keyring.words import retired_document

    ring, number = _opened(options), options.number
    instead = ring.retire(number, delete=options.delete)
    left = next((key for key in ring.list().keys if key.number == number), None)
    if options.json:
        plain = None if left is None else left.to_dict()
        print_json({"retired": number, "left": plain, "instead": instead.to_dict()})
    else:
        print_lines(retired_document(ring, number, left, instead))


def _locked(directory: Path) -> Keyring:
    from shoal.service.keyring import Keyring
    from shoal.service.running.places import ring_directory

    return Keyring.open(ring_directory(directory), protection=None)


def _opened(options: RotateOptions | RetireOptions) -> Keyring:
    from shoal.service.keyring import Keyring
    from shoal.service.running.places import ring_directory

    directory, identity = ring_directory(options.directory), options.identity
    protection = options.protection(directory, identity)
    with working("opening the keys"):
        return Keyring.open(directory, protection=protection, identity=identity)


# ------------------------------------------------------------------------------------------ tokens


@dataclass(frozen=True, kw_only=True)
class TokenOptions(Options):
    """What a token is for, and how long."""

    directory: Directory
    survey: Annotated[
        str | None, option("For this survey alone (its first digits); all if none.", _TOKEN, "ID")
    ] = None
    days: Annotated[int, whole("How long it is valid.", _TOKEN)] = 365
    label: Annotated[str, option("A name to revoke it by (shoal keys revoke).", _TOKEN, "TEXT")] = (
        "token"
    )
    store: Store = None
    json: Json = False


@command(keys)
def token(options: TokenOptions) -> None:
    """Print a new token: of a shuffler to collect batches, of an analyzer to read results.

    It is printed once and kept as a hash: put it into a file that only its user may read.
    """
    home = _home("token", options.directory, options.store)
    from shoal.service.running import registering

    text, survey = registering.make_token(home, **options.only("survey", "days", "label"))
    if options.json:
        name = None if survey is None else str(survey.id)
        print_json({"token": text, "role": home.role, "survey": name, "days": options.days})
        return
    typer.echo(text)
    after = {
        "shuffler": "the analyzer's operator puts it into the file token of the analyzer's "
        "directory, mode 600",
        "analyzer": "a reader logs in with it at /dashboard/login, or sends it in the header "
        "Authorization: Bearer, to /v1/surveys/ID/results",
    }
    typer.echo(f"next: {after[home.role]}", err=True)  # what is piped is the token alone


@dataclass(frozen=True, kw_only=True)
class TokensOptions(Options):
    """Whose tokens."""

    directory: Directory
    store: Store = None
    json: Json = False


@command(keys)
def tokens(options: TokensOptions) -> None:
    """List the tokens that were made: label, what for, until when. The tokens nobody has."""
    home = _home("tokens", options.directory, options.store)
    from shoal.service.clock import system_clock
    from shoal.service.running import registering

    listed, now = registering.tokens_of(home), system_clock()
    if options.json:
        print_json({"tokens": [token.to_dict(now) for token in listed]})
    else:
        print_lines(registering.tokens_document(listed, now))


@dataclass(frozen=True, kw_only=True)
class RevokeOptions(Options):
    """Whose tokens, and which."""

    directory: Directory
    label: Annotated[str, argument("The label it was made with.", "LABEL")]
    store: Store = None
    json: Json = False


@command(keys)
def revoke(options: RevokeOptions) -> None:
    """Make the tokens of a label worthless, from now on and for good."""
    home = _home("revoke", options.directory, options.store)
    from shoal.cli.app import printable
    from shoal.explain.text import plural
    from shoal.service.running import registering

    revoked = registering.revoke_token(home, options.label)
    if options.json:
        print_json({"label": options.label, "revoked": revoked})
    else:
        label = printable(options.label)
        typer.echo(f"revoked {plural(revoked, 'token')} with the label {label}")


def _home(name: str, directory: Path, store: str | None) -> Home:
    from shoal.service.running.extras import need_party

    need_party(f"shoal keys {name}", store)
    from shoal.service.running import registering

    return registering.home_of(directory, store)
