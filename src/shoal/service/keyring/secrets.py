"""Secrets at rest: in files for one owner's eyes, encrypted or plainly not, shredded at last.

A ring's secrets are in one file each: the identity, and every key that is not deleted::

    {"what": ..., "protection": "passphrase", "scrypt": {...}, "nonce": hex, "sealed": hex}
    {"what": ..., "protection": "keyfile", "salt": hex, "nonce": hex, "sealed": hex}
    {"what": ..., "protection": "none", "secret": hex}

AES-256-GCM; its key comes from the passphrase by scrypt (Percival, Josefsson, RFC 7914), whose cost
is written beside it, or from the key file by HKDF-SHA256. Everything but the secret itself is
authenticated with it, so that a file cannot stand in for another.

Files are written whole or not at all, one writer at a time. Shredding writes random bytes over a
file before its name goes. On a disk that writes in place that destroys it. A solid state disk, a
file system that copies on write, a snapshot or a backup keeps what was there before; against those,
only encryption with a secret kept elsewhere helps.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import stat
import tempfile
import time
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, cast

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF
from cryptography.hazmat.primitives.kdf.scrypt import Scrypt

from shoal import checks, randomness
from shoal.errors import InvalidArgumentError
from shoal.sealing import KeyPair, MalformedError, Plain, PublicKey, canonical, parsed
from shoal.service.keyring.errors import DamagedKeyringError, KeyringError
from shoal.service.keyring.key_list import ROLES, Identity, Role

FILE_MODE, DIRECTORY_MODE = 0o600, 0o700
LARGEST_FILE = 1 << 20
LOCK = "lock"
TEMPORARY = ".new"
IDENTITY = "identity"
_KEYS = "key-[0-9][0-9][0-9]"
_IDENTITY_OF, _KEY_OF = "identity of the {}", "key {} of the {}"
_OTHERS = 0o077
_GROUP_READS = 0o040
_ROOT = 0
_TIMEOUT, _PAUSE = 30.0, 0.02

DEFAULT_COST = 17  # n = 2^17, r = 8, p = 1: 128 MiB and about half a second
LOWEST_COST, HIGHEST_COST = 10, 20
_COSTS = {1 << cost for cost in range(LOWEST_COST, HIGHEST_COST + 1)}
SHORTEST_KEY_FILE = 32
VARIABLE = "SHOAL_PASSPHRASE"  # of the environment
_BLOCK, _LANES = 8, 1
_SALT_BYTES, _NONCE_BYTES, _KEY_BYTES = 16, 12, 32
_KEY_FILE_INFO = b"shoal/1 keyfile"


def fresh_bytes(length: int) -> bytes:
    """Unpredictable bytes."""
    return randomness.secure().words(-(-length // 8)).tobytes()[:length]


@contextmanager
def disk(doing: str) -> Iterator[None]:
    """What the disk refuses is a ring that cannot be used."""
    try:
        yield
    except OSError as error:
        raise KeyringError(f"cannot {doing}: {error.strerror or error}") from error


def exposed(path: Path) -> int | None:
    """The mode of a file or directory, if others may read or change it."""
    status = path.stat()
    mode = stat.S_IMODE(status.st_mode)
    others = mode & _OTHERS
    if others == _GROUP_READS and status.st_uid == _ROOT and _is_credential(path):
        return None
    return mode if others else None


def _is_credential(path: Path) -> bool:
    """Whether systemd handed the file to this process (``LoadCredential``).

    It is root's then, and an access control list lets the service's user read it: the rights of
    whoever the list names are shown as the group's, which has none.
    """
    handed = os.environ.get("CREDENTIALS_DIRECTORY")
    return handed is not None and path.resolve().parent == Path(handed).resolve()


def check_private(path: Path, *, known: str | None = None) -> None:
    """Refuse a file or directory that others may read or change.

    ``known`` is what they have if they read it, where it is not keys.
    """
    mode = exposed(path)
    if mode is not None:
        advised = DIRECTORY_MODE if path.is_dir() else FILE_MODE
        then = "retire the keys in it"
        if known is not None:
            then = (
                f"assume that they know {known}: then move it away from the keys, and from backups"
            )
        raise KeyringError(
            f"{path} is open to other users (mode {mode:04o}); run chmod {advised:o} {path} "
            f"and, if anybody else could have read it, {then}"
        )


def read_private(path: Path, *, known: str | None = None) -> bytes:
    """The content of a file that nobody else may read; ``known`` names it, if it is not keys."""
    with disk(f"read {path}"):
        check_private(path, known=known)
        with path.open("rb") as source:
            content = source.read(LARGEST_FILE + 1)
    if len(content) > LARGEST_FILE:
        raise KeyringError(f"cannot read {path}: it has more than {LARGEST_FILE} bytes")
    return content


def read_passphrase(path: Path) -> str:
    """The first line of a file that nobody else may read."""
    try:
        lines = read_private(path, known="the passphrase").decode("utf-8").splitlines()
    except UnicodeDecodeError:
        raise KeyringError(f"cannot read {path}: it is not text in UTF-8") from None
    if not lines or not lines[0]:
        raise KeyringError(f"cannot read {path}: its first line should be a passphrase")
    return lines[0]


def write_private(path: Path, content: bytes) -> None:
    """Put a file there, whole and durable; whatever had its name is replaced in one step."""
    temporary = path.with_name(path.name + TEMPORARY)
    with disk(f"write {path}"):
        shred(temporary)  # what a process that died here left behind
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
        with os.fdopen(os.open(temporary, flags, FILE_MODE), "wb") as target:
            target.write(content)
            target.flush()
            os.fsync(target.fileno())
        temporary.replace(path)
        sync_directory(path.parent)


def shred(path: Path) -> None:
    """Write over a file and remove it; one that is gone already is no error."""
    with disk(f"shred {path}"), suppress(FileNotFoundError):
        with path.open("r+b") as target:
            target.write(fresh_bytes(path.stat().st_size))
            target.flush()
            os.fsync(target.fileno())
        path.unlink()
        sync_directory(path.parent)


def sync_directory(path: Path) -> None:
    """Wait until the names in a directory are on the disk."""
    handle = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


@contextmanager
def new_directory(directory: Path) -> Iterator[Path]:
    """A directory that is there complete, or not at all; what is made above it is private too."""
    if directory.exists() and (not directory.is_dir() or any(directory.iterdir())):
        raise KeyringError(f"{directory} is not empty; keys go into a directory of their own")
    with disk(f"write to {directory}"):
        missing = [each for each in directory.parents if not each.exists()]
        for each in reversed(missing):
            each.mkdir(mode=DIRECTORY_MODE, exist_ok=True)
        place = Path(tempfile.mkdtemp(prefix=f".{directory.name}-", dir=directory.parent))
        try:
            yield place
            place.replace(directory)
            sync_directory(directory.parent)
        except KeyringError as error:  # under the name that was asked for
            raise KeyringError(str(error).replace(str(place), str(directory))) from error
        finally:
            shutil.rmtree(place, ignore_errors=True)


@contextmanager
def locked(path: Path, *, timeout: float = _TIMEOUT) -> Iterator[None]:
    """Alone among all threads and processes that lock this file; the system frees dead ones."""
    with disk(f"lock {path}"):
        handle = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, FILE_MODE)
    try:
        deadline = time.monotonic() + timeout
        while True:
            try:
                fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                if time.monotonic() > deadline:
                    raise KeyringError(
                        f"another process has locked {path} for {timeout:g} seconds; try "
                        "again, or find that process (fuser, lsof)"
                    ) from None
            time.sleep(_PAUSE)
        yield
    finally:
        os.close(handle)


class Protection:
    """How the secrets of a ring are written and read; one object serves one ring.

    ``Protection.none``, ``Protection.passphrase`` and ``Protection.key_file`` make one.

    Example:
        >>> Protection.none().kind
        'none'
    """

    kind: ClassVar[str] = "none"
    wrong: ClassVar[str]  # what is said of the owner's secret if it does not open a file

    @staticmethod
    def none() -> Protection:
        """Secrets in the clear: whoever reads the directory has them."""
        return Protection()

    @staticmethod
    def passphrase(text: str, *, cost: int = DEFAULT_COST) -> Protection:
        """Under a passphrase; ``cost`` is the binary logarithm of scrypt's n for what is new."""
        return _Passphrase(text, cost)

    @staticmethod
    def key_file(path: Path, *, make: bool = False) -> Protection:
        """Under the content of a file: at least 32 unpredictable bytes, kept elsewhere.

        A file that is missing is made if ``make`` says so.
        """
        if make and not path.exists():
            write_private(path, fresh_bytes(SHORTEST_KEY_FILE))
        return _KeyFile(read_private(path, known="the key file"), path)

    def closed(self, header: dict[str, Plain], secret: bytes) -> dict[str, Plain]:
        """What a file says: the header, and the secret under this protection."""
        return header | {"secret": secret.hex()}

    def opened(self, stored: Mapping[str, Any]) -> bytes:
        """The secret in what ``closed`` wrote."""
        return bytes.fromhex(stored["secret"])


class _Encrypted(Protection, ABC):
    """AES-256-GCM under a key that some parameters and the owner's secret give."""

    def __init__(self, parameters: dict[str, Plain]) -> None:
        self._fresh = parameters
        self._derived: dict[bytes, AESGCM] = {}

    @abstractmethod
    def _derive(self, parameters: Mapping[str, Any]) -> bytes: ...

    def _cipher(self, parameters: Mapping[str, Any]) -> AESGCM:
        """Deriving is slow on purpose: files written by one object share their parameters."""
        name = canonical(parameters)
        if name not in self._derived:
            self._derived[name] = AESGCM(self._derive(parameters))
        return self._derived[name]

    def closed(self, header: dict[str, Plain], secret: bytes) -> dict[str, Plain]:
        nonce = fresh_bytes(_NONCE_BYTES)
        header = header | self._fresh | {"nonce": nonce.hex()}
        sealed = self._cipher(self._fresh).encrypt(nonce, secret, canonical(header))
        return header | {"sealed": sealed.hex()}

    def opened(self, stored: Mapping[str, Any]) -> bytes:
        header = {name: value for name, value in stored.items() if name != "sealed"}
        beside = {"what", "protection", "nonce"}
        parameters = {name: value for name, value in header.items() if name not in beside}
        cipher = self._cipher(parameters)
        nonce, sealed = bytes.fromhex(stored["nonce"]), bytes.fromhex(stored["sealed"])
        secret = cipher.decrypt(nonce, sealed, canonical(header))
        self._fresh = parameters  # what is written next costs no second derivation
        return secret


class _Passphrase(_Encrypted):
    kind = "passphrase"
    wrong = "this is not its passphrase (or the file is damaged)"

    def __init__(self, text: str, cost: int) -> None:
        checks.refuse(not text, "a passphrase that is not empty", passphrase="")
        expected = f"{LOWEST_COST} <= cost <= {HIGHEST_COST}"
        checks.refuse(not LOWEST_COST <= cost <= HIGHEST_COST, expected, cost=cost)
        self._text = text.encode()
        salt = fresh_bytes(_SALT_BYTES).hex()
        super().__init__({"scrypt": {"n": 1 << cost, "r": _BLOCK, "p": _LANES, "salt": salt}})

    def _derive(self, parameters: Mapping[str, Any]) -> bytes:
        scrypt = parameters["scrypt"]
        n, r, p = scrypt["n"], scrypt["r"], scrypt["p"]
        if (r, p) != (_BLOCK, _LANES) or n not in _COSTS:
            message = f"scrypt with n={n}, r={r}, p={p}"
            raise ValueError(message)
        return Scrypt(bytes.fromhex(scrypt["salt"]), _KEY_BYTES, n, r, p).derive(self._text)


class _KeyFile(_Encrypted):
    kind = "keyfile"
    wrong = "this is not its key file (or the file is damaged)"

    def __init__(self, content: bytes, path: Path) -> None:
        if len(content) < SHORTEST_KEY_FILE:
            expected = f"at least {SHORTEST_KEY_FILE} unpredictable bytes in {path}"
            raise InvalidArgumentError("key file", f"{len(content)} bytes", expected)
        self._content = content
        super().__init__({"salt": fresh_bytes(_SALT_BYTES).hex()})

    def _derive(self, parameters: Mapping[str, Any]) -> bytes:
        salt = bytes.fromhex(parameters["salt"])
        return HKDF(SHA256(), _KEY_BYTES, salt, _KEY_FILE_INFO).derive(self._content)


def _stored(path: Path, what: str | None = None) -> dict[str, Any]:
    """What a file says of its secret; of any, or of the one it should hold."""
    try:
        stored = cast("dict[str, Any]", parsed(read_private(path)))
    except MalformedError as error:
        raise DamagedKeyringError(path, f"expected {error.expected}") from None
    if what is not None and stored.get("what") != what:
        raise DamagedKeyringError(path, f"it holds {stored.get('what')}, not {what}")
    return stored


@dataclass(frozen=True)
class Secrets:
    """The secrets of one ring; without a protection it knows only which there are."""

    directory: Path
    role: Role
    protection: Protection | None
    identity_path: Path

    @property
    def can_sign(self) -> bool:
        """Whether the identity is here and may be read."""
        return self.protection is not None and self.identity_path.exists()

    def identity(self) -> Identity:
        """What signs the list."""
        path = self.identity_path
        if not path.exists():
            raise KeyringError(
                f"the list of keys must be signed, and there is no identity at {path}; give "
                "it with --identity FILE"
            )
        (other,) = (role for role in ROLES if role != self.role)
        if _stored(path).get("what") == _IDENTITY_OF.format(other):
            why = f"it is the identity of the {other}, and the role here is {self.role}"
            advice = f"name the {self.role}'s, or take the other role"
            raise KeyringError(f"cannot open {path}: {why}; {advice}")
        return Identity(self.role, self._opened(_IDENTITY_OF.format(self.role), path))

    def pair(self, number: int, public: PublicKey | None = None) -> KeyPair:
        """A key that opens; with ``public``, none that has another public half."""
        path = self.path(number)
        raw = self._opened(_KEY_OF.format(number, self.role), path)
        try:
            pair = KeyPair.from_secret(raw, number=number)
        except InvalidArgumentError as error:
            raise DamagedKeyringError(path, f"expected {error.expected}") from None
        if public is not None and pair.public != public:
            raise DamagedKeyringError(self.directory, f"key {number} is not the one in the list")
        return pair

    def write(self, secret: Identity | KeyPair) -> None:
        """Keep it, before anybody hears of it."""
        path, what = self.identity_path, _IDENTITY_OF.format(self.role)
        if isinstance(secret, KeyPair):
            number = secret.public.number
            path, what = self.path(number), _KEY_OF.format(number, self.role)
        protection = self.protection
        assert protection is not None  # noqa: S101 - a locked ring makes no keys
        header: dict[str, Plain] = {"what": what, "protection": protection.kind}
        write_private(path, canonical(protection.closed(header, secret.raw)))

    def trouble(self, number: int) -> str | None:
        """Why a key cannot be read from its file, as far as is seen without opening it."""
        path = self.path(number)
        try:
            if not path.stat().st_size:
                return "is empty"
            stored = _stored(path, _KEY_OF.format(number, self.role))
        except FileNotFoundError:
            return "is gone"
        except DamagedKeyringError as error:
            return f"is damaged ({error.why})"
        except KeyringError as error:
            return f"cannot be read ({error})"
        written = stored.get("secret") or stored.get("sealed")
        return None if written else "is damaged (there is no secret in it)"

    def numbers(self) -> list[int]:
        """Of the keys that there are files of."""
        return [int(path.name.removeprefix("key-")) for path in key_files(self.directory)]

    def shred_unfinished(self) -> None:
        """Destroy what a process that died was writing."""
        for path in self.directory.glob(f"*{TEMPORARY}"):
            shred(path)

    def path(self, number: int) -> Path:
        """Where a key is kept."""
        return self.directory / f"key-{number:03d}"

    def _opened(self, what: str, path: Path) -> bytes:
        """The secret in a file that was written for this purpose."""
        protection = self.protection
        if protection is None:
            raise KeyringError(
                f"the secrets in {self.directory} are locked; open the key ring with its "
                "passphrase or key file"
            )
        stored = _stored(path, what)
        if stored.get("protection") != protection.kind:
            kinds = f"protected by {stored.get('protection')}, and {protection.kind} was given"
            raise KeyringError(f"cannot open {path}: it is {kinds}")
        try:
            return protection.opened(stored)
        except InvalidTag:
            raise KeyringError(f"cannot open {path}: {protection.wrong}") from None
        except (KeyError, TypeError, ValueError) as error:
            raise DamagedKeyringError(path, f"its fields are not as written ({error})") from None


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
            return str(_stored(path).get("protection"))
        except DamagedKeyringError as error:  # the others may be whole, and are protected alike
            damage = damage or error
    raise damage or no_keys(directory)
