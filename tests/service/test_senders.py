"""Behind a proxy senders are told apart by what the proxy says, and by nothing else."""

from __future__ import annotations

import httpx
import pytest

from http_kit import BYTES, proxy_to, serving
from running_kit import Service, quick, reports
from service.test_admission import Class
from shoal.errors import InvalidArgumentError
from shoal.service.http.limits import Addresses, Limits
from shoal.service.http.problems import ProblemError
from shoal.service.ops.up import Embedded

PROXY = "127.0.0.8"
ATTACKER, PERSON = "127.0.0.66", "127.0.0.67"


def from_address(address):
    return httpx.Client(transport=httpx.HTTPTransport(local_address=address), timeout=60)


def named(*addresses):
    return [(b"shoal-sender", address.encode()) for address in addresses]


def test_a_whole_deployment_limits_who_sends_and_believes_nobody_else(tmp_path):
    """The attack: 999 made-up reports of one person, through the proxy or past it."""
    made = Embedded(directory=tmp_path / "both")
    made.make(quick("?", ("a", "b"), people=300), {"shuffler": 1, "analyzer": 2})
    sent, path = reports(made, 110), f"/v1/surveys/{made.survey().id}/reports"
    home = made.home("shuffler").directory
    words = ("serve", "shuffler", home, "--port", "0", "--proxy", PROXY)
    with Service(*words, log=tmp_path / "log") as service:
        intake = service.address()
        with (
            serving(proxy_to(intake, local_address=PROXY)) as proxy,
            serving(proxy_to(intake, local_address=PROXY, sender=None)) as silent,
            from_address(ATTACKER) as attacker,
            from_address(PERSON) as person,
        ):

            def post(client, where, body, *claims):
                headers = [*BYTES.items(), *(("Shoal-Sender", claim) for claim in claims)]
                return client.post(where + path, content=body, headers=headers).status_code

            assert post(attacker, proxy, 999 * sent[0]) == 429
            assert post(attacker, proxy, b"".join(sent[:100])) == 202
            assert post(attacker, proxy, sent[100]) == 429
            for number, claim in enumerate((PERSON, "203.0.113.1", "nonsense")):
                assert post(attacker, proxy, sent[101 + number], claim) == 429
                assert post(attacker, intake, sent[101 + number], claim) == 429, "past the proxy"
            assert post(person, proxy, sent[104]) == 202
            assert post(person, proxy, sent[105], ATTACKER) == 202
            assert post(person, silent, sent[106]) == 503
            answer = person.get(f"{silent}/v1/keys")
            assert answer.json()["type"] == "urn:shoal:problem:no_sender"
        assert service.stop() == 0
    kept = [path for path in tmp_path.rglob("*") if path.is_file()]
    for address in (ATTACKER, PERSON, "203.0.113.1"):
        assert not [path for path in kept if address.encode() in path.read_bytes()]


def test_people_invited_share_the_address_that_the_proxy_names(tmp_path):
    invited = Class.of(tmp_path)
    bodies, wrong = invited.bodies(range(60)), invited.reports(2)
    there = {"headers": [*BYTES.items(), ("Shoal-Sender", ATTACKER)], "address": PROXY}
    assert invited.ask(bodies[:59], app=invited.app(proxy=PROXY), **there).status_code == 202
    strict = there | {"app": invited.app(proxy=PROXY, address_refusals=1)}
    for report, status in ((wrong[0], 403), (wrong[1], 429)):
        assert invited.ask(report + report[:16], **strict).status_code == status
    assert invited.ask(bodies[59], **strict).status_code == 202
    invited.close()


@pytest.mark.parametrize(
    ("proxy", "peer", "headers", "sender"),
    [
        (None, "198.51.100.7", named("203.0.113.1"), "198.51.100.7"),
        ("198.51.100.7", "198.51.100.7", named("203.0.113.1"), "203.0.113.1"),
        ("198.51.100.7", "::ffff:198.51.100.7", named("2001:db8::1"), "2001:db8::1"),
        ("::ffff:198.51.100.7", "198.51.100.7", named("203.0.113.1"), "203.0.113.1"),
        ("::ffff:198.51.100.7", "::ffff:c633:6407", named("203.0.113.1"), "203.0.113.1"),
        ("::ffff:198.51.100.7", "198.51.100.8", named("203.0.113.1"), "198.51.100.8"),
        ("::ffff:198.51.100.0/120", "198.51.100.9", named("203.0.113.1"), "203.0.113.1"),
        ("::/0", "198.51.100.7", named("203.0.113.1"), "198.51.100.7"),
        ("198.51.100.0/24", "198.51.100.9", named("203.0.113.1"), "203.0.113.1"),
        ("198.51.100.7", "198.51.100.8", named("203.0.113.1"), "198.51.100.8"),
        ("2001:db8::/64", "2001:db8:0:1::1", named("203.0.113.1"), "2001:db8:0:1::1"),
        ("198.51.100.7", "198.51.100.7", [], None),
        ("198.51.100.7", "198.51.100.7", named("203.0.113.1", "203.0.113.2"), None),
        ("198.51.100.7", "198.51.100.7", named("203.0.113.1, 203.0.113.2"), None),
        ("198.51.100.7", "198.51.100.7", named("unix:"), None),
        ("198.51.100.7", "198.51.100.7", [(b"shoal_sender", b"203.0.113.1")], None),
    ],
)
def test_whose_word_is_believed(proxy, peer, headers, sender):
    addresses = Addresses(Limits(proxy=proxy))
    scope = {"type": "http", "client": (peer, 1), "headers": headers}
    if sender is not None:
        assert addresses.sender(scope) == sender
        return
    with pytest.raises(ProblemError) as caught:
        addresses.sender(scope)
    assert (caught.value.problem.kind, caught.value.problem.status) == ("no_sender", 503)


def test_this_machine_is_a_sender_as_any_other_where_the_proxy_is_known():
    assert Addresses(Limits()).key("127.0.0.1") is None
    assert Addresses(Limits(proxy=PROXY)).key("127.0.0.1") is not None


@pytest.mark.parametrize("wrong", ["proxy.example", "198.51.100.7/24", ""])
def test_a_proxy_has_an_address(wrong):
    with pytest.raises(InvalidArgumentError, match="an address or a network"):
        Limits(proxy=wrong)
