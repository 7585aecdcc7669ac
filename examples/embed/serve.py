"""Another site that asks an analyzer's question: one script tag, under a strict policy.

    shoal up trial --port 8700            # in one terminal
    python examples/embed/serve.py http://127.0.0.1:8701

The page allows scripts of its own and of the analyzer, and requests to the analyzer and to the
survey's shuffler. It allows no inline script and no inline style, and needs none.
"""

from __future__ import annotations

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


def main() -> None:
    """Serve the page until Ctrl-C."""
    analyzer = sys.argv[1].rstrip("/")
    port = int(sys.argv[2]) if len(sys.argv) > 2 else 8800
    listed = asked(analyzer, "/v1/surveys")["surveys"]
    Site.analyzer, Site.survey = analyzer, listed[0]["survey"]  # type: ignore[index]
    Site.shuffler = str(asked(analyzer, f"/v1/surveys/{Site.survey}/promise")["shuffler"])
    server = ThreadingHTTPServer(("127.0.0.1", port), Site)
    print(f"http://127.0.0.1:{server.server_port}/", flush=True)
    server.serve_forever()


if __name__ == "__main__":
    main()
