"""Build the browser's scripts from clients/browser, if they are not built yet.

    python setup/scripts.py [--if-possible]

They go into the package, and that of the calculator into the documentation. Packages are installed
when the lock file is newer than they are, and scripts are built when any source is other than at
the last build. With ``--if-possible``, a machine without Node or without a way to Node packages is
no failure: ``.browser-missing`` in the environment says why.
"""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import components

ROOT = Path(__file__).resolve().parent.parent
CLIENT = ROOT / "clients" / "browser"
ASSETS = ROOT / "src" / "shoal" / "web" / "assets"
SCRIPTS = ("survey.js", "offline.js", "dashboard.js")
CALCULATOR = ROOT / "docs" / "_static" / "calculator.js"
STYLES = ROOT / "src" / "shoal" / "web"
LOOKALIKES = ROOT / "src" / "shoal" / "service" / "survey" / "lookalikes.txt"
_NOT_SOURCES = {"node_modules", "dist", "test"}


def fingerprint() -> str:
    """A hash of everything the scripts are made from."""
    digest = hashlib.sha256()
    for path in sorted(_sources()):
        content = path.read_bytes()
        digest.update(f"{os.path.relpath(path, CLIENT)} {len(content)}\n".encode() + content)
    return digest.hexdigest()


def _sources() -> Iterator[Path]:
    for directory, below, names in os.walk(CLIENT):
        below[:] = [name for name in below if name not in _NOT_SOURCES]
        yield from (Path(directory) / name for name in names)
    yield from STYLES.glob("*.css")  # the embedded survey brings its own
    yield LOOKALIKES


def is_built() -> bool:
    """Whether the scripts in the package and of the documentation are those of the sources."""
    try:
        built = (components.ENVIRONMENT / ".browser").read_text(encoding="utf-8").strip()
    except FileNotFoundError:
        return False
    files = [*(ASSETS / name for name in SCRIPTS), CALCULATOR]
    return built == fingerprint() and all(file.is_file() for file in files)


def installed() -> bool:
    """Whether npm has installed what the lock file says."""
    theirs, ours = CLIENT / "node_modules" / ".package-lock.json", CLIENT / "package-lock.json"
    return theirs.is_file() and theirs.stat().st_mtime >= ours.stat().st_mtime


def install(npm: str) -> None:
    """Install the packages of the lock file; MissingError if they cannot be had."""
    done = _run(npm, "ci", "--prefer-offline", "--fetch-retries=1")
    if done.returncode:
        said = [line for line in done.stderr.splitlines() if "warn" not in line]
        raise components.MissingError(f"npm ci failed: {' '.join(said)[:500]}")


def build() -> int:
    """Build what is not built; the status of what failed."""
    found = components.recorded("node")
    if found is None:
        raise components.MissingError(components.reason("node"))
    node, npm = found
    if not installed():
        components.say("installing the packages of clients/browser")
        install(npm)
    components.say("building the browser's scripts")
    done = _run(node, "build.mjs")
    sys.stdout.write(done.stdout)
    if done.returncode:
        sys.stderr.write(done.stderr)
        return done.returncode
    (components.ENVIRONMENT / ".browser").write_text(f"{fingerprint()}\n", encoding="utf-8")
    return 0


def _run(program: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    """In clients/browser, where Node's own directory is the first that programs are looked for."""
    path = f"{Path(program).parent}{os.pathsep}{os.environ.get('PATH', '')}"
    return components.run((program, *arguments), cwd=CLIENT, env=os.environ | {"PATH": path})


def main(options: list[str]) -> int:
    """Build, unless that was done; say why not, where it cannot be."""
    lacking = components.ENVIRONMENT / ".browser-missing"
    if is_built():
        return 0
    try:
        status = build()
    except components.MissingError as missing:
        lacking.write_text(f"{missing}\n", encoding="utf-8")
        components.say(f"the browser's scripts are not built: {missing}")
        return 0 if "--if-possible" in options else 1
    if status == 0:
        lacking.unlink(missing_ok=True)
    return status


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
