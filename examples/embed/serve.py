"""Another site that asks an analyzer's question: one script tag, under a strict policy.

    shoal up trial --port 8700            # in one terminal
    python examples/embed/serve.py http://127.0.0.1:8701

The page allows scripts of its own and of the analyzer, and requests to the analyzer and to the
survey's shuffler. It allows no inline script and no inline style, and needs none.
"""

from __future__ import annotations

import argparse
import json
import sys
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.request import urlopen

HERE = Path(__file__).parent
TYPES = {".html": "text/html; charset=utf-8", ".css": "text/css; charset=utf-8"}


class Site(BaseHTTPRequestHandler):
    """Two files, one of them filled in."""

    analyzer = shuffler = survey = ""

    def do_GET(self) -> None:
        """The page, or its style."""
        name = "index.html" if self.path == "/" else self.path.removeprefix("/")
        if name not in {"index.html", "site.css"}:
            self.send_error(404)
            return
        text = (HERE / name).read_text(encoding="utf-8")
        if name == "index.html":
            text = text.replace("{analyzer}", self.analyzer).replace("{survey}", self.survey)
        self.send_response(200)
        self.send_header("Content-Type", TYPES[Path(name).suffix])
        self.send_header("Content-Security-Policy", self.policy())
        self.end_headers()
        self.wfile.write(text.encode())

    def policy(self) -> str:
        """What the page may load and ask."""
        return (
            f"default-src 'none'; script-src {self.analyzer}; style-src 'self'; img-src data:; "
            f"connect-src {self.analyzer} {self.shuffler}; base-uri 'none'; form-action 'none'"
        )

    def log_message(self, *_words: object) -> None:
        """Write nothing down about who came."""


def asked(analyzer: str, path: str) -> dict[str, object]:
    """A document of the analyzer's."""
    with urlopen(f"{analyzer}{path}", timeout=10) as answer:  # noqa: S310 - the address is ours
        found: dict[str, object] = json.load(answer)
    return found


def filled(analyzer: str) -> None:
    """Let the page ask the analyzer's first survey."""
    try:
        listed = asked(analyzer, "/v1/surveys")["surveys"]
        if not listed:
            sys.exit(f"the analyzer at {analyzer} has no survey")
        Site.analyzer, Site.survey = analyzer, listed[0]["survey"]  # type: ignore[index]
        Site.shuffler = str(asked(analyzer, f"/v1/surveys/{Site.survey}/promise")["shuffler"])
    except (OSError, ValueError, KeyError, TypeError) as error:
        sys.exit(f"no analyzer answers at {analyzer}: {error}")


def main() -> None:
    """Serve the page until Ctrl-C."""
    parser = argparse.ArgumentParser(
        usage=argparse.SUPPRESS,
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("analyzer", help="its address, http://127.0.0.1:8701")
    parser.add_argument("port", nargs="?", type=int, default=8800, help="of this site; 8800")
    given = parser.parse_args()
    filled(given.analyzer.rstrip("/"))
    try:
        server = ThreadingHTTPServer(("127.0.0.1", given.port), Site)
    except (OSError, OverflowError) as error:
        sys.exit(f"port {given.port} cannot be used, name another one: {error}")
    print(f"http://127.0.0.1:{server.server_port}/", flush=True)
    try:
        server.serve_forever()
    except KeyboardInterrupt:
        print("ended")


if __name__ == "__main__":
    main()
