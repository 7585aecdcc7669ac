"""Who operates a part of a survey: where it is, and by which key people recognise it.

The name of a machine is written in one way, so that lists of allowed machines can be compared with
it: labels of lower-case letters, digits and hyphens (RFC 1123), other letters in their ASCII form
(RFC 3492), or an address of the Internet Protocol without a zone.

>>> reachable("shuffler.example"), reachable("Shuffler.example"), reachable("1.2.3.400")
(True, False, False)
>>> public("shuffler.example"), public("169.254.169.254"), public("localhost")
(True, False, False)
"""

from __future__ import annotations

import re
import unicodedata
from dataclasses import dataclass
from ipaddress import IPv4Address, IPv6Address, ip_address
from urllib.parse import urlsplit

from shoal.errors import InvalidArgumentError

_USUAL_PORTS = {"https": 443, "http": 80}
_ESCAPED = set('"<>^`{}')  # in a path, by browsers
_FINGERPRINT = re.compile(r"[0-9a-f]{64}")
LONGEST_URL = 2000
_LABEL = re.compile(r"[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?")
_NUMBER = re.compile(r"[0-9]+|0x[0-9a-f]*")
_LONGEST = 253
_FOREIGN = "xn--"
_INSIDE = ("localhost", "local", "internal", "home.arpa")  # names of no public machine
_THIS_MACHINE = {"localhost", "127.0.0.1", "::1"}


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


def reachable(host: str) -> bool:
    """Whether the name can be one of a machine."""
    if _address(host) is not None:
        return True
    labels = host.split(".")
    return (
        len(host) <= _LONGEST
        and not _NUMBER.fullmatch(labels[-1])  # an address, and not a right one
        and all(_LABEL.fullmatch(label) and _decodes(label) for label in labels)
    )


def shortest(host: str) -> str:
    """An IPv6 address as browsers write it.

    >>> shortest("2001:db8:0:0:1::1"), shortest("::ffff:1.2.3.4")
    ('2001:db8::1:0:0:1', '::ffff:102:304')
    """
    address = IPv6Address(host)
    if address.ipv4_mapped is None:
        return address.compressed
    number = int(address.ipv4_mapped)  # some versions of Python write these with dots
    return f"::ffff:{number >> 16:x}:{number & 0xFFFF:x}"


def this_machine(host: str) -> bool:
    """Whether it is the machine that asks: what is sent there passes no network."""
    return host in _THIS_MACHINE


def public(host: str) -> bool:
    """Whether it names a machine of the open network, as far as the name tells."""
    address = _address(host)
    if address is None:
        inside = any(host == name or host.endswith(f".{name}") for name in _INSIDE)
        return "." in host and not inside
    inner = getattr(address, "ipv4_mapped", None) or address
    return inner.is_global and not inner.is_multicast


def _address(host: str) -> IPv4Address | IPv6Address | None:
    if "%" in host or host != host.lower():
        return None
    try:
        return ip_address(host)
    except ValueError:
        return None


def _decodes(label: str) -> bool:
    """Whether a label in ASCII form stands for letters, digits and marks, written in one way."""
    if not label.startswith(_FOREIGN):
        return True
    try:
        text = label.removeprefix(_FOREIGN).encode("ascii").decode("punycode")
        again = text.encode("punycode").decode("ascii")
    except (UnicodeError, ValueError, OverflowError):
        return False
    plain = unicodedata.normalize("NFC", text) == text == text.lower()
    letters = all(unicodedata.category(letter)[0] in "LMN" or letter in "-·" for letter in text)
    return again == label.removeprefix(_FOREIGN) and not text.isascii() and plain and letters
