"""What `make release` refuses: files that lack something, hold too much, or are not the tag's."""

from __future__ import annotations

import io
import json
import tarfile
import zipfile

import pytest

import components
import release
from repository import ROOT, project


def archive(path, files):
    """A file of this name that holds these files."""
    if path.suffix == ".whl":
        with zipfile.ZipFile(path, "w") as opened:
            for name, content in files.items():
                opened.writestr(name, content)
        return path
    with tarfile.open(path, "w:gz") as opened:
        for name, content in files.items():
            member = tarfile.TarInfo(name)
            member.size = len(content)
            opened.addfile(member, io.BytesIO(content))
    return path


@pytest.mark.parametrize("name", ["a.whl", "a.tar.gz", "a.tgz"])
def test_a_file_that_holds_what_it_should_passes(name, tmp_path):
    made = archive(tmp_path / name, {"shoal/__init__.py": b"x = 1\n", "shoal/py.typed": b""})
    told = release.check_names(made, {"shoal/__init__.py", "shoal/py.typed"})
    assert told == "2 files, 6 bytes unpacked"


@pytest.mark.parametrize(
    ("name", "content", "fault"),
    [
        ("shoal/notes.txt", b"", "shoal/notes.txt does not belong there"),
        ("shoal/__pycache__/a.pyc", b"", "shoal/__pycache__/a.pyc is a cache or a test"),
        ("shoal/tests/test_a.py", b"", "shoal/tests/test_a.py is a cache or a test"),
        ("shoal/a.js", f"//# {ROOT}/clients/a.ts".encode(), f"shoal/a.js has {ROOT}, a path of"),
    ],
)
def test_a_file_that_holds_more_is_refused(name, content, fault, tmp_path):
    made = archive(tmp_path / "a.whl", {name: content})
    with pytest.raises(release.ReleaseError, match=r"^a\.whl: ") as refused:
        release.check_names(made, set() if "belong" in fault else {name})
    assert fault in str(refused.value)


def test_a_test_of_distributions_is_no_test_of_ours():
    assert not release.UNWANTED.search("shoal/testing/tester.py")
    assert not release.UNWANTED.search("shoal/cli/test.py")


def test_a_wheel_without_the_scripts_is_refused(tmp_path):
    package = [name.removeprefix("src/") for name in release.tracked("src/shoal")]
    described = ("METADATA", "RECORD", "WHEEL", "entry_points.txt", "licenses/LICENSE")
    information = [f"shoal-{release.version()}.dist-info/{name}" for name in described]
    made = archive(tmp_path / "a.whl", dict.fromkeys([*package, *information], b""))
    with pytest.raises(release.ReleaseError) as refused:
        release.check_wheel(made)
    missing = [f"shoal/web/assets/{name} is missing" for name in sorted(release.ASSETS)]
    assert str(refused.value) == f"a.whl: {'; '.join(missing)}"


def test_another_version_somewhere_is_named(tmp_path, monkeypatch):
    kept = json.loads((release.CLIENT / "package.json").read_text())
    for name in ("package.json", "package-lock.json"):
        told = json.loads((release.CLIENT / name).read_text())
        (tmp_path / name).write_text(json.dumps(told | {"version": "0.0.9"}))
    monkeypatch.setattr(release, "CLIENT", tmp_path)
    with pytest.raises(release.ReleaseError) as refused:
        release.check_versions()
    assert f"src/shoal/__init__.py says {kept['version']}, but " in str(refused.value)
    assert "clients/browser/package.json says 0.0.9" in str(refused.value)


TAG = f"v{release.version()}"


@pytest.fixture
def git(monkeypatch):
    """What git says of a clean commit that has the tag of this version."""
    said = {"rev-parse": "abc\n", "status": "", "tag": f"{TAG}\n"}
    monkeypatch.setattr(release, "run", lambda *words: said[words[1]])
    return said


@pytest.mark.usefixtures("git")
def test_the_tag_of_this_version_has_its_date_in_the_changelog(tmp_path, monkeypatch):
    """Whatever is noted for the next one, which a release would have to move."""
    log = (release.ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    head, _, later = log.partition("## [Unreleased]")
    released = later[later.index("\n## [") :]
    (tmp_path / "CHANGELOG.md").write_text(f"{head}## [Unreleased]\n{released}", encoding="utf-8")
    version = release.version()
    monkeypatch.setattr(release, "ROOT", tmp_path)
    monkeypatch.setattr(release, "version", lambda: version)
    assert release.check_source(TAG) == f"commit abc, clean, tag {TAG}"


@pytest.mark.usefixtures("git")
@pytest.mark.parametrize(
    ("log", "fault"),
    [
        ("## [Unreleased]\n\n## [9.9.9] - 2030-01-31\n", None),
        ("## [Unreleased]\n\n### Fixed\n\n## [9.9.9] - 2030-01-31\n", "under \\[Unreleased\\]"),
        ("## [Unreleased]\n\n## [9.9.8] - 2030-01-31\n", "no section \\[9.9.9\\]"),
    ],
)
def test_the_changelog_is_that_of_the_version(log, fault, tmp_path, monkeypatch):
    monkeypatch.setattr(release, "ROOT", tmp_path)
    monkeypatch.setattr(release, "version", lambda: "9.9.9")
    monkeypatch.setattr(release, "run", lambda *words: "v9.9.9\n" if words[1] == "tag" else "")
    (tmp_path / "CHANGELOG.md").write_text(log)
    if fault is None:
        assert release.check_source("v9.9.9").endswith("tag v9.9.9")
    else:
        with pytest.raises(release.ReleaseError, match=fault):
            release.check_source("v9.9.9")


@pytest.mark.parametrize(
    ("tag", "said", "fault"),
    [
        ("v0.0.9", {}, "the tag is v0.0.9, and the version"),
        (TAG, {"tag": "v0.0.9\n"}, f"commit abc does not have the tag {TAG}"),
        (TAG, {"status": " M README.md\n"}, "uncommitted: README.md"),
    ],
)
def test_a_tag_of_something_else_is_refused(tag, said, fault, git):
    git |= said
    assert release.check_source(None).startswith("commit abc, ")
    with pytest.raises(release.ReleaseError, match=fault):
        release.check_source(tag)


def test_a_python_is_found_where_pyenv_keeps_it_if_the_one_on_the_path_does_not_start(
    tmp_path, monkeypatch
):
    """As a shim of pyenv is on the PATH of versions that are not switched on."""
    kept = tmp_path / "pyenv" / "versions" / "3.99.1" / "bin" / "python"
    shim = tmp_path / "path" / "python3.99"
    for path, text in ((kept, "echo 3.99.1"), (shim, "exit 127")):
        path.parent.mkdir(parents=True)
        path.write_text(f"#!/bin/sh\n{text}\n")
        path.chmod(0o755)
    monkeypatch.setenv("PYENV_ROOT", str(tmp_path / "pyenv"))
    monkeypatch.setenv("PATH", str(shim.parent))
    assert release.interpreter("3.99") == (str(kept), "3.99.1")
    assert release.interpreter("3.98") is None


def test_every_supported_python_is_checked():
    oldest = project()["requires-python"].removeprefix(">=")
    assert release.supported()[0] == oldest
    assert release.supported() == sorted(release.supported(), key=lambda each: int(each[2:]))


def test_a_command_that_fails_is_named_with_its_last_words(monkeypatch):
    monkeypatch.setattr(components, "recorded", lambda _name: None)
    with pytest.raises(release.ReleaseError, match=r"^sh -c .* failed with status 3:\n    because"):
        release.run("sh", "-c", "echo because; exit 3")
