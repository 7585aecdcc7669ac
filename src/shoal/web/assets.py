"""Scripts and styles, as files of this package: served under a name that changes with them.

Styles are part of the source. Scripts are built from ``clients/browser`` into ``assets/`` of a
clone, and are in whatever is installed from it afterwards. Where they were not built, pages say so
and show what they can without them.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache
from hashlib import sha256
from pathlib import Path

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from shoal.service.http.problems import Problem, ProblemError
from shoal.service.ops.health import Finding, ok, warn

PATH = "/assets/"
BUILT = Path(__file__).parent / "assets"
WRITTEN = Path(__file__).parent
SCRIPTS = ("survey.js", "offline.js", "dashboard.js")
BUILD = "run make browser in a clone of Shoal, then pip install '.[server]' there (again)"
NOT_BUILT = (
    "This page's script is missing: Shoal was installed here without it. The analyzer's "
    f"operator can fix that: {BUILD}."
)
_MEDIA = {".js": "text/javascript; charset=utf-8", ".css": "text/css; charset=utf-8"}
_NAME = re.compile(r"[a-z][a-z0-9-]*\.(js|css)")
_FOREVER = "public, max-age=31536000, immutable"
_ASK_AGAIN = "no-cache"
_DIGITS = 16


@dataclass(frozen=True)
class Asset:
    """One file as it is now."""

    name: str
    body: bytes
    digest: str

    @property
    def media_type(self) -> str:
        """What it is."""
        return _MEDIA[Path(self.name).suffix]

    @property
    def address(self) -> str:
        """Where a page finds exactly this one."""
        return f"{PATH}{self.name}?v={self.digest}"

    def response(self, request: Request, *, cache: str = _ASK_AGAIN, **headers: str) -> Response:
        """The answer with it; nothing but its headers for whoever has it already."""
        tag = f'"{self.digest}"'
        always = {
            "ETag": tag,
            "Cache-Control": cache,
            "X-Content-Type-Options": "nosniff",
            **{name.replace("_", "-").title(): value for name, value in headers.items()},
        }
        if tag in request.headers.get("if-none-match", ""):
            return Response(status_code=304, headers=always)
        return Response(self.body, media_type=self.media_type, headers=always)


def asset(name: str) -> Asset | None:
    """The script or style of that name; None if there is none, or it was not built."""
    if not _NAME.fullmatch(name):
        return None
    path = (WRITTEN if name.endswith(".css") else BUILT) / name
    try:
        stat = path.stat()
        return _read(path, stat.st_mtime_ns, stat.st_size)
    except OSError:
        return None


@lru_cache(maxsize=32)
def _read(path: Path, _changed: int, _size: int) -> Asset:
    """A file, read again when it was written again."""
    body = path.read_bytes()
    return Asset(path.name, body, sha256(body).hexdigest()[:_DIGITS])


def unbuilt() -> tuple[str, ...]:
    """The scripts that this installation does not have."""
    return tuple(name for name in SCRIPTS if asset(name) is None)


def finding() -> Finding:
    """Whether the pages have their scripts, as ``shoal doctor`` says it."""
    lacking = unbuilt()
    if not lacking:
        return ok("pages", "their scripts are installed")
    without = f"installed without {', '.join(lacking)}: nobody can answer in a browser"
    return warn("pages", without, BUILD)


def missing(detail: str) -> ProblemError:
    """Nothing is at an address, and why."""
    return ProblemError(Problem("no_such_path", 404, detail))


async def served(request: Request) -> Response:
    """A script or a style; for good, if it is asked for by its digest."""
    file = asset(request.path_params["name"])
    if file is None:
        raise missing(f"there is no such file, or it was not built: {BUILD}")
    exact = request.query_params.get("v") == file.digest
    return file.response(request, cache=_FOREVER if exact else _ASK_AGAIN)


ROUTE = Route(f"{PATH}{{name}}", served, name="asset")
