"""A ring's secrets in their files, one each: the identity and every key that is not deleted."""

from __future__ import annotations

from pathlib import Path

from shoal.errors import InvalidArgumentError
from shoal.sealing import KeyPair
from shoal.service.keyring import files
from shoal.service.keyring.errors import (
    DamagedKeyringError,
    IdentityOfflineError,
    KeyringError,
    WrongSecretError,
)
from shoal.service.keyring.identity import Identity
from shoal.service.keyring.protection import Protection, check_written, kind_of, what_of
from shoal.service.keyring.schedule import ROLES, Role

IDENTITY = "identity"
_KEYS = "key-[0-9][0-9][0-9]"


class SecretFiles:
    """The secrets of one ring; without a protection it knows only which there are."""

    def __init__(
        self,
        directory: Path,
        role: Role,
        protection: Protection | None,
        identity: Path | None = None,
    ) -> None:
        self._directory = directory
        self._role = role
        self._protection = protection
        self.identity_path = identity or directory / IDENTITY

    @property
    def locked(self) -> bool:
        """Whether nothing may be read."""
        return self._protection is None

    @property
    def can_sign(self) -> bool:
        """Whether the identity is here and may be read."""
        return self._protection is not None and self.identity_path.exists()

    def identity(self) -> Identity:
        """What signs the list."""
        if not self.identity_path.exists():
            raise IdentityOfflineError(self.identity_path)
        protection = self._unlocked()
        self._refuse_other_party()
        raw = protection.opened(self._identity_name, self.identity_path)
        return Identity(self._role, raw)

    def _refuse_other_party(self) -> None:
        (other,) = (role for role in ROLES if role != self._role)
        if what_of(self.identity_path) == _identity_name(other):
            why = f"it is the identity of the {other}, and the role here is {self._role}"
            advice = f"name the {self._role}'s, or take the other role"
            raise WrongSecretError(self.identity_path, f"{why}; {advice}")

    def write_identity(self, identity: Identity) -> None:
        """Keep it."""
        content = self._unlocked().protected(self._identity_name, identity.raw)
        files.write_private(self.identity_path, content)

    def pair(self, number: int) -> KeyPair:
        """A key that opens."""
        path = self.path(number)
        raw = self._unlocked().opened(self._name(number), path)
        try:
            return KeyPair.from_secret(raw, number=number)
        except InvalidArgumentError as error:
            raise DamagedKeyringError(path, f"expected {error.expected}") from None

    def write_pair(self, pair: KeyPair) -> None:
        """Keep it, before anybody hears of it."""
        number = pair.public.number
        content = self._unlocked().protected(self._name(number), pair.raw)
        files.write_private(self.path(number), content)

    def is_there(self, number: int) -> bool:
        """Whether there is a file of a key with something in it: a glance, for every report."""
        try:
            return self.path(number).stat().st_size > 0
        except OSError:
            return False

    def trouble(self, number: int) -> str | None:
        """Why a key cannot be read from its file, as far as is seen without opening it."""
        path = self.path(number)
        if not path.exists():
            return "is gone"
        if not self.is_there(number):
            return "is empty"
        try:
            check_written(self._name(number), path)
        except DamagedKeyringError as error:
            return f"is damaged ({error.why})"
        except KeyringError as error:
            return f"cannot be read ({error})"
        return None

    def shred(self, number: int) -> None:
        """Destroy it."""
        files.shred(self.path(number))

    def numbers(self) -> list[int]:
        """Of the keys that there are files of."""
        return [int(path.name.removeprefix("key-")) for path in key_files(self._directory)]

    def shred_unfinished(self) -> None:
        """Destroy what a process that died was writing."""
        for path in self._directory.glob(f"*{files.TEMPORARY}"):
            files.shred(path)

    def _unlocked(self) -> Protection:
        if self._protection is None:
            raise KeyringError(
                f"the secrets in {self._directory} are locked; open the ring with its passphrase "
                "or key file"
            )
        return self._protection

    def path(self, number: int) -> Path:
        """Where a key is kept."""
        return self._directory / f"key-{number:03d}"

    def _name(self, number: int) -> str:
        return f"key {number} of the {self._role}"

    @property
    def _identity_name(self) -> str:
        return _identity_name(self._role)


def _identity_name(role: Role) -> str:
    return f"identity of the {role}"


def key_files(directory: Path) -> list[Path]:
    """The files of keys, in the order of their numbers."""
    return sorted(directory.glob(_KEYS))


def no_keys(directory: Path) -> KeyringError:
    """What is said of a directory without a ring in it."""
    return KeyringError(f"there are no keys in {directory}; make some: shoal keys new {directory}")


def protection_kind(directory: Path, identity: Path | None = None) -> str:
    """How the secrets of a ring are protected: none, passphrase or keyfile."""
    places = [identity or directory / IDENTITY, *key_files(directory)]
    damage: KeyringError | None = None
    for path in filter(Path.is_file, places):
        try:
            return kind_of(path)
        except DamagedKeyringError as error:  # the others may be whole, and are protected alike
            damage = damage or error
    raise damage or no_keys(directory)
