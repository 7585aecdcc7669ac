"""Reports that a browser seals in a second: one answer's two envelopes, one after the other.

The module that seals is bundled as it is for the pages and run in a real Chromium; one report of
those that are counted is opened again here. Time is the clock's: a browser encrypts in threads.
"""

from __future__ import annotations

import base64
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
from result import Result

from shoal.mechanisms.response import RandomizedResponse
from shoal.questions.kinds import Choice
from shoal.sealing import KeyPair
from shoal.service.survey import Batches, Item, Open, Party, Survey
from shoal.service.wire import Wire

ROOT = Path(__file__).resolve().parent.parent
CLIENT = ROOT / "clients" / "browser"
LEAST = 150.0  # reports a second
REPORTS, ROUNDS = 200, 5
ADDRESS = "http://127.0.0.1:1/"  # answered here; a browser seals only on a page that it trusts
_HEADING = "in the browser"
_BUNDLE = """
import { build } from "esbuild";
const made = await build({
  stdin: {
    contents: 'import { seal } from "./src/sealing.js"; globalThis.seal = seal;',
    resolveDir: ".",
  },
  bundle: true, minify: true, format: "iife", target: "es2022", write: false,
});
process.stdout.write(made.outputFiles[0].text);
"""
_RUN = """async ({survey, message, keys, reports}) => {
  const bytes = (text) => Uint8Array.from(atob(text), (letter) => letter.charCodeAt(0));
  const key = ({raw, number}) => ({raw: bytes(raw), number});
  const both = {analyzer: key(keys.analyzer), shuffler: key(keys.shuffler)};
  let sealed;
  const begun = performance.now();
  for (let i = 0; i < reports; i++) {
    sealed = await seal(bytes(survey), bytes(message), 1, both);
  }
  return {seconds: (performance.now() - begun) / 1000, sealed: [...sealed]};
}"""


def everything() -> Iterator[Result]:
    """The best of some rounds; nothing where there is no browser to measure in."""
    what = "reports sealed a second"
    try:
        script = _bundled()
        rate = _rate(script)
    except (ImportError, LookupError, OSError, subprocess.CalledProcessError) as error:
        yield Result(heading=_HEADING, what=what, value=None, note=f"{error}")
        return
    yield Result(heading=_HEADING, what=what, value=rate, unit="/s", at_least=LEAST)


def _components() -> tuple[str, str]:
    """Node and Chromium, as the set-up found them."""
    sys.path.append(str(ROOT / "setup"))
    import components

    found = {name: components.recorded(name) for name in ("node", "chromium")}
    for name, paths in found.items():
        if paths is None:
            raise LookupError(f"no {name}: {components.reason(name)}")
    node, chromium = (paths[0] for paths in found.values() if paths)
    return node, chromium


def _bundled() -> str:
    """The module as one script."""
    node, _chromium = _components()
    command = [node, "--input-type=module", "--eval", _BUNDLE]
    return subprocess.run(  # noqa: S603 - the bundler of the pages
        command, cwd=CLIENT, capture_output=True, text=True, check=True
    ).stdout


def _survey() -> Survey:
    party = Party(url="https://example.org", fingerprint="0" * 64)
    return Survey(
        name="bench",
        purpose="A measurement.",
        questions=(
            Item(
                Choice("answer", ["a", "b", "c", "d"], text="Which?", missing="refuse"),
                RandomizedResponse(k=4, epsilon=1.0),
            ),
        ),
        batches=Batches(minimum=1000, target=1000, max_age=86_400),
        epsilon=1.0,
        delta=1e-6,
        admission=Open(dishonest=0),
        not_before=0,
        not_after=2_000_000_000,
        shuffler=party,
        analyzer=Party(url="https://example.org", fingerprint="1" * 64),
    )


def _rate(script: str) -> float:
    from playwright.sync_api import sync_playwright

    _node, chromium = _components()
    import components

    survey = _survey()
    wire = Wire.of(survey)
    pairs = {role: KeyPair.generate(number=0) for role in ("analyzer", "shuffler")}
    message = np.zeros(wire.sections[0].message_bytes, dtype=np.uint8).tobytes()
    asked = {
        "survey": _text(bytes.fromhex(str(survey.id))),
        "message": _text(message),
        "keys": {
            role: {"raw": _text(pair.public.raw), "number": 0} for role, pair in pairs.items()
        },
        "reports": REPORTS,
    }
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path=chromium, args=list(components.CHROMIUM_FLAGS)
        )
        page = browser.new_page()
        page.route(ADDRESS, lambda route: route.fulfill(body="<!doctype html><title>x</title>"))
        page.goto(ADDRESS)
        page.evaluate(script)
        rounds = [page.evaluate(_RUN, asked) for _ in range(ROUNDS)]
        browser.close()
    for done in rounds:
        _number, records = wire.open_report(bytes(done["sealed"]), pairs["shuffler"])
        (record,) = wire.sections[0].split(records)
        if wire.sections[0].open_record(record, pairs["analyzer"]) != message:
            raise RuntimeError("what the browser sealed opens to something else")
    return max(REPORTS / done["seconds"] for done in rounds)


def _text(raw: bytes) -> str:
    return base64.b64encode(raw).decode()
