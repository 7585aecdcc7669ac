"""Real browsers, whose every request goes through a gate that writes it down; and Node."""

from __future__ import annotations

import importlib.util
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from typing import NamedTuple
from urllib.parse import urlsplit

import httpx
import pytest

import components
import scripts
from repository import ROOT

AXE = ROOT / "clients" / "browser" / "node_modules" / "axe-core" / "axe.min.js"
PHONE = {"viewport": {"width": 375, "height": 667}, "has_touch": True, "is_mobile": True}
DESKTOP = {"viewport": {"width": 1280, "height": 800}}
PATIENCE = 60_000  # milliseconds, on a machine that has other work
_HOP_BY_HOP = {"connection", "content-length", "host", "keep-alive", "proxy-connection"}


class Node(NamedTuple):
    """Where Node and npm are."""

    node: str
    npm: str


def node():
    """Node and npm; a test without them is skipped, with the reason that the set-up wrote down."""
    found = components.recorded("node")
    if found is None:
        pytest.skip(f"needs Node: {components.reason('node')}")
    return Node(*found)


def chromium_path():
    """A Chromium; a test without one is skipped, with the reason that the set-up wrote down."""
    found = components.recorded("chromium")
    if found is None:
        pytest.skip(f"needs Chromium: {components.reason('chromium')}")
    return found[0]


def built_scripts():
    """The pages' scripts are built, and from the sources that are here."""
    if not scripts.is_built():
        node()
        why = components.reason("browser")
        if (components.ENVIRONMENT / ".browser-missing").exists():
            pytest.skip(f"needs the scripts of the pages: {why}")
        pytest.fail("the scripts of the pages are not those of clients/browser: run make browser")


@contextmanager
def chromium():
    """A browser of its own, without a window and with an empty profile."""
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path=chromium_path(), headless=True, args=list(components.CHROMIUM_FLAGS)
        )
        try:
            yield browser
        finally:
            browser.close()


@dataclass(frozen=True)
class Passed:
    """A request that wanted out of a browser, and the status of its answer; 0 if it got none."""

    method: str
    url: str
    headers: dict[str, str] = field(repr=False)
    body: bytes = field(repr=False)
    status: int

    @property
    def origin(self):
        parts = urlsplit(self.url)
        return f"{parts.scheme}://{parts.netloc}"

    @property
    def path(self):
        return urlsplit(self.url).path


class Gate:
    """The only way out of a browser: a proxy that knows whom it may ask, and what was asked.

    It stands below the browser's own machinery, so that nothing escapes it: not what a service
    worker asks, nor what the browser asks by itself. Other hosts than the known ones get no answer.
    """

    def __init__(self, *origins):
        self.origins = set(origins)
        self.passed: list[Passed] = []
        self.is_open = True
        self.loses_answers = False  # what is posted arrives, and the answer does not
        self.changes = {}  # how the bodies of answers are changed, by the end of their path

    @property
    def strangers(self):
        """Whom a browser asked that it had no business with."""
        return sorted({each.origin for each in self.passed} - self.origins)

    def posts(self):
        """What was posted, answered or not."""
        return [each for each in self.passed if each.method == "POST"]

    def wait_for_post(self, page, *, seconds=60):
        """Let the page go on until something was posted, and has arrived."""
        for _ in range(50 * seconds):
            if self.posts():
                return
            page.wait_for_timeout(20)
        raise AssertionError(f"nothing was posted in {seconds} seconds")

    def _changed(self, path, body):
        for end, change in self.changes.items():
            if path.endswith(end):
                return change(body)
        return body

    def answer(self, client, method, url, headers, body):
        """The answer to a request, or None where there is none."""
        parts = urlsplit(url)
        answer = None
        if self.is_open and f"{parts.scheme}://{parts.netloc}" in self.origins:
            answer = _asked(client, method, url, headers=headers, content=body)
        if self.loses_answers and method == "POST":
            answer = None
        self.passed.append(
            Passed(method, url, headers, body, 0 if answer is None else answer.status_code)
        )
        if answer is None:
            return None
        return answer.status_code, answer.headers, self._changed(parts.path, answer.content)

    @contextmanager
    def listening(self):
        """Its address, while this lasts."""
        with httpx.Client(timeout=60, trust_env=False) as client, _served(_Handler) as server:
            server.gate, server.client = self, client
            yield _origin(server)


@contextmanager
def _served(handler):
    """A server of this machine, in a thread."""
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        server.daemon_threads = True
        thread = Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
        thread.start()
        try:
            yield server
        finally:
            server.shutdown()
            thread.join(60)


def _origin(server):
    return f"http://127.0.0.1:{server.server_address[1]}"


def _asked(client, method, url, **what):
    try:
        return client.request(method, url, **what)
    except httpx.HTTPError:  # nobody is there any more
        return None


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *_):
        pass

    def handle_one_request(self):
        try:
            super().handle_one_request()
        except ConnectionError:  # the browser went away
            self.close_connection = True

    def pass_on(self):
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        headers = {
            name: value for name, value in self.headers.items() if name.lower() not in _HOP_BY_HOP
        }
        gate = self.server.gate
        answer = gate.answer(self.server.client, self.command, self.path, headers, body)
        if answer is None:
            self.close_connection = True
        else:
            self._send(*answer)

    def _send(self, status, headers, content):
        self.send_response(status)
        self.send_header("Connection", "close")  # a browser asks again by itself on one used before
        for name, value in headers.multi_items():
            if name not in {"content-encoding", "content-length", "transfer-encoding"}:
                self.send_header(name, value)
        if status not in {204, 304}:
            self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(content)

    def do_CONNECT(self):
        self.server.gate.passed.append(Passed("CONNECT", f"https://{self.path}", {}, b"", 0))
        self.close_connection = True

    do_GET = do_HEAD = do_POST = do_OPTIONS = pass_on  # noqa: N815 - as the library calls them


@contextmanager
def embedding_site(analyzer, shuffler, survey):
    """The site of the example that embeds a survey; its origin."""
    path = ROOT / "examples" / "embed" / "serve.py"
    spec = importlib.util.spec_from_file_location("embedding_site", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    parts = {"analyzer": analyzer, "shuffler": shuffler, "survey": str(survey)}
    with _served(type("Site", (module.Site,), parts)) as server:
        yield _origin(server)


class Visitor:
    """Somebody with a browser of their own: nothing stored, and a gate before it."""

    def __init__(self, context, gate):
        self.context = context
        self.gate = gate
        self.page = context.new_page()
        self.complaints: list[str] = []
        context.on("weberror", lambda each: self.complaints.append(str(each.error)))
        context.on("console", self._heard)

    def _heard(self, message):
        if message.type == "error":
            self.complaints.append(message.text)

    def stops(self):
        """No network, as the browser sees it and in truth."""
        self.gate.is_open = False
        self.context.set_offline(True)

    def goes_on(self):
        """The network is back."""
        self.gate.is_open = True
        self.context.set_offline(False)


@contextmanager
def visitor(browser, *origins, **options):
    """Somebody who may talk to these origins. Whoever else was asked fails the test."""
    gate = Gate(*origins)
    with gate.listening() as address:
        # Addresses of this machine would otherwise go past a proxy.
        proxy = {"server": address, "bypass": "<-loopback>"}
        context = browser.new_context(**({"proxy": proxy, "locale": "en-GB"} | DESKTOP | options))
        context.set_default_timeout(PATIENCE)
        try:
            yield Visitor(context, gate)
        finally:
            context.close()
    if gate.strangers:
        pytest.fail(f"asked others: {gate.strangers}")


def axe(page):
    """What axe-core finds wrong with a page that hurts: each rule, and the elements that break it.

    Its script is put in by the browser's own tools, which no policy of the page forbids.
    """
    if not AXE.is_file():
        node()
        pytest.fail("axe-core is not installed: run make browser")
    if not page.evaluate("'axe' in window"):
        page.evaluate(AXE.read_text(encoding="utf-8"))
    asked = "axe.run(document, {resultTypes: ['violations']})"
    found = page.evaluate(f"async () => (await {asked}).violations")
    return [
        f"{each['impact']} {each['id']}: {each['help']}: {wrong['html']}"
        for each in found
        if each["impact"] in {"serious", "critical"}
        for wrong in each["nodes"]
    ]


def store_of(page, database="shoal"):
    """All that a page has in IndexedDB, store by store; bytes as lists of numbers."""
    return page.evaluate(_DUMP, database)


_DUMP = """async (name) => {
  const bytes = (value) => Array.from(new Uint8Array(value));
  const plain = (value) => value instanceof ArrayBuffer ? bytes(value)
    : ArrayBuffer.isView(value) ? bytes(value.slice().buffer)
    : Array.isArray(value) ? value.map(plain)
    : value && typeof value === "object"
      ? Object.fromEntries(Object.entries(value).map(([key, each]) => [key, plain(each)]))
    : typeof value === "bigint" ? String(value) : value;
  const done = (request) => new Promise((resolve, reject) => {
    request.onsuccess = () => resolve(request.result);
    request.onerror = () => reject(request.error);
  });
  const names = (await indexedDB.databases()).map((each) => each.name);
  if (!names.includes(name)) return {};
  const database = await done(indexedDB.open(name));
  const found = {};
  for (const store of database.objectStoreNames) {
    const rows = database.transaction(store).objectStore(store).getAll();
    found[store] = plain(await done(rows));
  }
  database.close();
  return found;
}"""
