"""A device answers a survey over a bad network, and its owner's policy has the last word."""

from __future__ import annotations

import tempfile

import httpx

import shoal
from shoal.service.client import Client, Policy, PolicyError, Settings
from shoal.service.keyring import Keyring, Protection
from shoal.service.survey import Open, Party


def main() -> None:
    """Two services inside this process, one person, and every second reply lost on the way."""
    with tempfile.TemporaryDirectory() as place:
        lists, parties, posted = {}, {}, []
        for role, path in (("shuffler", "keys"), ("analyzer", "analyzer")):
            ring = Keyring.create(f"{place}/{role}", role=role, protection=Protection.none())
            lists[path] = ring.list().to_bytes()
            parties[role] = Party(url=f"https://{role}.example", fingerprint=ring.fingerprint)
        survey = shoal.Survey.new(
            shoal.Choice("walked", ["yes", "no"], text="Did you walk yesterday?"),
            epsilon=0.5,
            minimum=1000,
            admission=Open(dishonest=0),
            name="walking",
            purpose="To plan footpaths.",
            **parties,
        )

        def services(request: httpx.Request) -> httpx.Response:
            if request.method == "GET":
                return httpx.Response(200, content=lists[request.url.path.split("/")[-1]])
            posted.append(request.content)
            if len(posted) % 2:
                raise httpx.ReadTimeout("the reply was lost", request=request)
            return httpx.Response(202, json={"reports": 1, "refused": []})

        network, quick = httpx.MockTransport(services), Settings(wait=0.01)
        with Client(f"{place}/mine", transport=network, settings=quick) as client:
            print(f"{client.report(survey, 'yes')}\nafter {len(posted)} tries,")
            print(f"the same {len(posted[0])} bytes each time: {len(set(posted)) == 1}\n")
            print(client.spent())
        with Client(f"{place}/hers", transport=network, policy=Policy(epsilon=0.1)) as client:
            try:
                client.report(survey, "no")
            except PolicyError as refused:
                print(f"\n{refused}")


if __name__ == "__main__":
    main()
