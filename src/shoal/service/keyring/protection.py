"""Secrets at rest: encrypted under a passphrase or a key file, or plainly not.

::

    {"what": ..., "protection": "passphrase", "scrypt": {...}, "nonce": hex, "sealed": hex}
    {"what": ..., "protection": "keyfile", "salt": hex, "nonce": hex, "sealed": hex}
    {"what": ..., "protection": "none", "secret": hex}

AES-256-GCM; its key comes from the passphrase by scrypt (Percival, Josefsson, RFC 7914), whose cost
is written beside it, or from the key file by HKDF-SHA256. Everything but the secret itself is
authenticated with it, so that a file cannot stand in for another.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from pathlib import Path
from typing import Any, ClassVar, cast

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF
from cryptography.hazmat.primitives.kdf.scrypt import Scrypt

from shoal.errors import InvalidArgumentError
from shoal.sealing import MalformedError, Plain, canonical, parsed
from shoal.service.keyring import files
from shoal.service.keyring.errors import DamagedKeyringError, WrongSecretError
from shoal.service.keyring.identity import fresh_bytes

DEFAULT_COST = 17  # n = 2^17, r = 8, p = 1: 128 MiB and about half a second
LOWEST_COST, HIGHEST_COST = 10, 20
SHORTEST_KEY_FILE = 32
_BLOCK, _LANES = 8, 1
_SALT_BYTES, _NONCE_BYTES, _KEY_BYTES = 16, 12, 32
_KEY_FILE_INFO = b"shoal/1 keyfile"


class Protection(ABC):
    """How secrets are written and read; one object serves one ring's whole directory."""

    kind: ClassVar[str]

    @staticmethod
    def none() -> Protection:
        """Secrets in the clear: whoever reads the directory has them."""
        return _Unprotected()

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
            files.write_private(path, fresh_bytes(SHORTEST_KEY_FILE))
        return _KeyFile(files.read_private(path, known="the key file"), path)

    def protected(self, what: str, secret: bytes) -> bytes:
        """A file's content; ``what`` names the secret."""
        return canonical({"what": what, "protection": self.kind} | self._closed(what, secret))

    def opened(self, what: str, path: Path) -> bytes:
        """The secret in a file that was written for this purpose."""
        stored = _stored(path)
        if stored.get("protection") != self.kind:
            expected = f"it is protected by {stored.get('protection')}, and {self.kind} was given"
            raise WrongSecretError(path, expected)
        if stored.get("what") != what:
            raise DamagedKeyringError(path, f"it holds {stored.get('what')}, not {what}")
        try:
            return self._opened(stored, path)
        except (KeyError, TypeError, ValueError) as error:
            raise DamagedKeyringError(path, f"its fields are not as written ({error})") from None

    @abstractmethod
    def _closed(self, what: str, secret: bytes) -> dict[str, Plain]: ...

    @abstractmethod
    def _opened(self, stored: Mapping[str, Any], path: Path) -> bytes: ...


class _Unprotected(Protection):
    kind = "none"

    def _closed(self, what: str, secret: bytes) -> dict[str, Plain]:
        del what
        return {"secret": secret.hex()}

    def _opened(self, stored: Mapping[str, Any], path: Path) -> bytes:
        del path
        return bytes.fromhex(stored["secret"])


class _Encrypted(Protection):
    """AES-256-GCM under a key that some parameters and the owner's secret give."""

    wrong: ClassVar[str]

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

    def _closed(self, what: str, secret: bytes) -> dict[str, Plain]:
        nonce = fresh_bytes(_NONCE_BYTES)
        header = {"what": what, "protection": self.kind} | self._fresh | {"nonce": nonce.hex()}
        sealed = self._cipher(self._fresh).encrypt(nonce, secret, canonical(header))
        return header | {"sealed": sealed.hex()}

    def _opened(self, stored: Mapping[str, Any], path: Path) -> bytes:
        header = {name: value for name, value in stored.items() if name != "sealed"}
        beside = {"what", "protection", "nonce"}
        parameters = {name: value for name, value in header.items() if name not in beside}
        cipher = self._cipher(parameters)
        nonce, sealed = bytes.fromhex(stored["nonce"]), bytes.fromhex(stored["sealed"])
        try:
            secret = cipher.decrypt(nonce, sealed, canonical(header))
        except InvalidTag:
            raise WrongSecretError(path, self.wrong) from None
        self._fresh = parameters  # what is written next costs no second derivation
        return secret


class _Passphrase(_Encrypted):
    kind = "passphrase"
    wrong = "this is not its passphrase (or the file is damaged)"

    def __init__(self, text: str, cost: int) -> None:
        if not text:
            raise InvalidArgumentError("passphrase", "", "a passphrase that is not empty")
        if not LOWEST_COST <= cost <= HIGHEST_COST:
            expected = f"{LOWEST_COST} <= cost <= {HIGHEST_COST}"
            raise InvalidArgumentError("cost", cost, expected)
        self._text = text.encode()
        salt = fresh_bytes(_SALT_BYTES).hex()
        super().__init__({"scrypt": {"n": 1 << cost, "r": _BLOCK, "p": _LANES, "salt": salt}})

    def _derive(self, parameters: Mapping[str, Any]) -> bytes:
        given = parameters["scrypt"]
        n, r, p = given["n"], given["r"], given["p"]
        if (r, p) != (_BLOCK, _LANES) or n not in {
            1 << cost for cost in range(LOWEST_COST, HIGHEST_COST + 1)
        }:
            message = f"scrypt with n={n}, r={r}, p={p}"
            raise ValueError(message)
        return Scrypt(bytes.fromhex(given["salt"]), _KEY_BYTES, n, r, p).derive(self._text)


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


def kind_of(path: Path) -> str:
    """How the secret in a file is protected."""
    return str(_stored(path).get("protection"))


def what_of(path: Path) -> str:
    """What the secret in a file is, as it says of itself."""
    return str(_stored(path).get("what"))


def check_written(what: str, path: Path) -> None:
    """Refuse a file that cannot hold this secret, as far as is seen without opening it."""
    stored = _stored(path)
    if stored.get("what") != what:
        raise DamagedKeyringError(path, f"it holds {stored.get('what')}, not {what}")
    if not (stored.get("secret") or stored.get("sealed")):
        raise DamagedKeyringError(path, "there is no secret in it")


def _stored(path: Path) -> dict[str, Any]:
    try:
        return cast("dict[str, Any]", parsed(files.read_private(path)))
    except MalformedError as error:
        raise DamagedKeyringError(path, f"expected {error.expected}") from None
