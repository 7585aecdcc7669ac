"""A client of version 1, written from the wire format alone: nothing of Shoal is imported.

It must never change: devices in the field do not. Reads a survey, two public keys with their
numbers and one message a slot as JSON from standard input, and writes the report in hexadecimal.
"""

from __future__ import annotations

import json
import sys
from hashlib import sha256

from cryptography.hazmat.primitives.asymmetric.mlkem import MLKEM768PublicKey
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PublicKey
from cryptography.hazmat.primitives.hpke import AEAD, KDF, KEM, MLKEM768X25519PublicKey, Suite

KEMS = {"x25519-aes128gcm": KEM.X25519, "mlkem768x25519-aes128gcm": KEM.MLKEM768_X25519}


def public_key(suite, raw):
    """The key from its bytes: a point, or a lattice key of 1184 bytes and a point."""
    if suite == "x25519-aes128gcm":
        return X25519PublicKey.from_public_bytes(raw)
    lattice = MLKEM768PublicKey.from_public_bytes(raw[:1184])
    return MLKEM768X25519PublicKey(lattice, X25519PublicKey.from_public_bytes(raw[1184:]))


def sealed(suite, role, survey_id, key, message):
    """01, key number, HPKE of (01, length, message), bound to the role, the survey and the key."""
    raw, number = bytes.fromhex(key["public"]), key["number"]
    info = b"shoal/1 " + role + b"\x00" + survey_id + bytes([number])
    padded = b"\x01" + len(message).to_bytes(2, "big") + message
    hpke = Suite(KEMS[suite], KDF.HKDF_SHA256, AEAD.AES_128_GCM)
    return bytes([1, number]) + hpke.encrypt(padded, public_key(suite, raw), info=info)


def report(survey, shuffler, analyzer, messages, token=b""):
    """What is sent: every message sealed for the analyzer, all of them for the shuffler."""
    survey_id = sha256(survey).digest()
    told = json.loads(survey)
    suite = told["suite"]
    assert told["version"] == 1
    assert len(messages) == told["slots"]
    assert all(len(message) == told["message_bytes"] for message in messages)
    assert len(token) == told["token_bytes"]
    inner = [sealed(suite, b"inner", survey_id, analyzer, message) for message in messages]
    return sealed(suite, b"outer", survey_id, shuffler, b"".join(inner) + token)


def main():
    """From standard input to standard output."""
    asked = json.load(sys.stdin)
    messages = [bytes.fromhex(message) for message in asked["messages"]]
    made = report(
        asked["survey"].encode(),
        asked["shuffler"],
        asked["analyzer"],
        messages,
        bytes.fromhex(asked["token"]),
    )
    sys.stdout.write(made.hex())


if __name__ == "__main__":
    main()
