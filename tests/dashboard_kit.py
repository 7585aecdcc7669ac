"""What the tests of the dashboard share: an analyzer with pages, and a reader of HTML."""

from __future__ import annotations

import re
from contextlib import contextmanager
from html.parser import HTMLParser

import httpx

from http_kit import serving
from shoal.service.analyzer.app import AnalyzerPages, analyzer_app
from shoal.service.http.limits import Limits
from shoal.web import assets
from shoal.web.background import Progress
from shoal.web.dashboard import Dashboard

PATIENT = 300.0  # seconds: nothing is left for the next page
HALF = Progress(reachable=True, quarters=2, closes_in=3)
VOID = {"meta", "link", "input", "line", "rect", "circle", "path"}


class Page(HTMLParser):
    """Elements with their attributes, and the text of each element that has an id."""

    def __init__(self, text):
        super().__init__()
        self.elements, self.text, self.of = [], "", {}
        self._open = []
        self.feed(text)
        self.close()
        assert not self._open

    def name(self, _tag, attributes):
        return attributes.get("id")

    def handle_starttag(self, tag, attrs):
        assert tag not in VOID, f"{tag} is not closed"
        self.elements.append((tag, dict(attrs)))
        self._open.append((tag, self.name(tag, dict(attrs))))

    def handle_startendtag(self, tag, attrs):
        assert tag in VOID, f"{tag} is never empty"
        self.elements.append((tag, dict(attrs)))

    def handle_endtag(self, tag):
        opened, _ = self._open.pop()
        assert opened == tag

    def handle_data(self, data):
        if "\n" in data and data.isspace():  # between two lines of a template
            return
        data = re.sub(r"\s*\n\s*", " ", data)
        if not self._open or self._open[-1][0] not in {"script", "style"}:
            self.text += data
        for _, name in self._open:
            if name is not None:
                self.of[name] = self.of.get(name, "") + data

    def all(self, tag, **having):
        return [
            attributes
            for name, attributes in self.elements
            if name == tag and having.items() <= attributes.items()
        ]

    def links(self):
        return [attributes["href"] for attributes in self.all("a")]


def dashboard_of(analyzer, *, ask=lambda _survey: HALF, limits=None, **settings):
    """A dashboard that waits for all that it asks and computes."""
    pages = AnalyzerPages(
        store=analyzer.store, keyring=analyzer.keyring, limits=limits or Limits(), **settings
    )
    return Dashboard(pages, ask=ask, timeout=PATIENT)


@contextmanager
def shown(analyzer, *, public_results=False, **settings):
    """A client of an analyzer with its dashboard."""
    dashboard = dashboard_of(analyzer, public_results=public_results, **settings)
    app = analyzer_app(
        analyzer.store,
        analyzer.keyring,
        public_results=public_results,
        pages=[assets.ROUTE, *dashboard.routes()],
    )
    with serving(app) as url, client_of(url) as client:
        yield client


def client_of(url):
    return httpx.Client(base_url=url, timeout=60, trust_env=False)


def login(client, token, **headers):
    return client.post("/dashboard/login", data={"token": token}, headers=headers)
