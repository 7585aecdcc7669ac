"""Names of machines: which can be reached at all, and which are nobody's but one's own.

A name is written in one way, so that lists of allowed machines can be compared with it: labels of
lower-case letters, digits and hyphens (RFC 1123), other letters in their ASCII form (RFC 3492), or
an address of the Internet Protocol without a zone.

>>> reachable("shuffler.example"), reachable("Shuffler.example"), reachable("1.2.3.400")
(True, False, False)
>>> public("shuffler.example"), public("169.254.169.254"), public("localhost")
(True, False, False)
"""

from __future__ import annotations

import re
import unicodedata
from ipaddress import IPv4Address, IPv6Address, ip_address

_LABEL = re.compile(r"[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?")
_NUMBER = re.compile(r"[0-9]+|0x[0-9a-f]*")
_LONGEST = 253
_FOREIGN = "xn--"
_INSIDE = ("localhost", "local", "internal", "home.arpa")  # names of no public machine
_THIS_MACHINE = {"localhost", "127.0.0.1", "::1"}


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
