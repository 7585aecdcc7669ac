"""Who operates a part of a survey, and by which key people recognise it."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import cast
from urllib.parse import urlsplit

from shoal.errors import InvalidArgumentError
from shoal.sealing import Plain
from shoal.service.survey.hosts import reachable, shortest, this_machine

_USUAL_PORTS = {"https": 443, "http": 80}
_ESCAPED = set('"<>^`{}')  # in a path, by browsers
_FINGERPRINT = re.compile(r"[0-9a-f]{64}")
LONGEST_URL = 2000


@dataclass(frozen=True, kw_only=True)
class Party:
    """A service: where it is, and the fingerprint of the key that signs its list of keys.

    The key itself is fetched from the service; what is in the survey decides whether it is the
    right one, so that nobody on the way can hand out keys of their own.
    """

    url: str
    fingerprint: str

    def __post_init__(self) -> None:
        if not _is_address(self.url):
            expected = (
                "an https address without query or user (http on this machine only), of a machine "
                "whose name can be one, in lower case"
            )
            raise InvalidArgumentError("url", self.url, expected)
        otherwise = _otherwise(self.url)
        if otherwise:
            raise InvalidArgumentError("url", self.url, f"{otherwise}, as browsers write it")
        if self.url.endswith("/") or len(self.url) > LONGEST_URL:
            expected = f"an address of at most {LONGEST_URL} characters without a slash at its end"
            raise InvalidArgumentError("url", self.url, expected)
        if not _FINGERPRINT.fullmatch(self.fingerprint):
            expected = "a fingerprint of 64 lower-case hexadecimal digits"
            raise InvalidArgumentError("fingerprint", self.fingerprint, expected)

    def configuration(self) -> dict[str, Plain]:
        """As plain values."""
        return {"url": self.url, "fingerprint": self.fingerprint}

    @classmethod
    def restored(cls, stored: Mapping[str, Plain]) -> Party:
        """From plain values."""
        texts = cast("Mapping[str, str]", stored)
        return cls(url=texts["url"], fingerprint=texts["fingerprint"])


def _is_address(url: str) -> bool:
    if not url.isascii() or not url.isprintable() or " " in url or set("?#@\\") & set(url):
        return False
    try:
        parts = urlsplit(url)
        _ = parts.port  # not a number up to 65535: ValueError
    except ValueError:
        return False
    host = parts.hostname or ""
    schemes = ("http://", "https://") if this_machine(host) else ("https://",)
    named = f"[{host}]" if ":" in host else host  # as it is written, but for the port
    written = parts.netloc in (named, f"{named}:{parts.port}")
    return url.startswith(schemes) and written and reachable(host)


def _otherwise(url: str) -> str:
    """How browsers would write an address that is one, if otherwise: they would ask another one."""
    parts = urlsplit(url)
    host = parts.hostname or ""
    if parts.port == _USUAL_PORTS[parts.scheme]:
        return f"an address without :{parts.port}, which {parts.scheme} has anyway"
    if ":" in host and host != shortest(host):
        return f"an address of the machine [{shortest(host)}]"
    segments = {segment.lower().replace("%2e", ".") for segment in parts.path.split("/")}
    if segments & {".", ".."}:
        return "an address without . or .. between slashes"
    if _ESCAPED & set(parts.path):
        return f"an address without any of {' '.join(sorted(_ESCAPED))}"
    return ""
