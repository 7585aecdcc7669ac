"""What is in deploy/ is linted, not run: it parses, and says what the real command understands."""

from __future__ import annotations

import configparser
import os
import re
import shlex
import shutil
import subprocess
import tomllib
from functools import cache
from ipaddress import ip_address, ip_network
from pathlib import Path

import pytest
import typer.main
import yaml
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from repository import PACKAGE, ROOT, text_files
from shoal.cli import app

DEPLOY = ROOT / "deploy"
SIDES = ("shuffler", "analyzer")
UNITS = sorted((DEPLOY / "systemd").glob("*.service"))
TIMERS = sorted((DEPLOY / "systemd").glob("*.timer"))
HARDENED = {
    "ProtectSystem": "strict",
    "NoNewPrivileges": "yes",
    "ProtectHome": "yes",
    "PrivateTmp": "yes",
    "UMask": "0077",
    "CapabilityBoundingSet": "",
    "RestrictSUIDSGID": "yes",
}
ABOUT_SENDERS = ("X-Forwarded-For", "X-Real-IP", "Forwarded", "User-Agent", "Referer")


def read(name):
    return (DEPLOY / name).read_text(encoding="utf-8")


@cache
def root():
    return typer.main.get_command(app)


def parse(words):
    """The parameters that the real command finds in these words; unknown options are refused."""
    command = root()
    context = command.make_context("shoal", [], resilient_parsing=True)
    while hasattr(command, "commands"):
        first = words[0]
        name, command, words = command.resolve_command(context, list(words))
        assert command is not None, f"there is no command {first}"
        group = hasattr(command, "commands")
        context = command.make_context(
            name, [] if group else list(words), parent=context, resilient_parsing=group
        )
    return context.params


def test_the_reader_of_commands_refuses_what_the_command_would():
    found = parse(["serve", "worker", "/data", "--processes", "2"])
    assert (str(found["directory"]), found["processes"]) == ("/data", 2)
    with pytest.raises(Exception, match="--proceses"):
        parse(["serve", "worker", "/data", "--proceses", "2"])
    with pytest.raises(AssertionError, match="srve"):
        parse(["srve", "worker", "/data"])


# Containers


@cache
def compose(side):
    return yaml.safe_load(read(f"{side}/compose.yaml"))


def commands(side):
    """What every container of ours runs."""
    services = compose(side)["services"]
    return {name: each["command"] for name, each in services.items() if each["image"] == "shoal"}


def test_two_projects_that_share_nothing():
    one, other = (compose(side) for side in SIDES)
    assert one["name"] != other["name"]
    for document in (one, other):
        # Volumes and networks are the project's own: none is external, none has a fixed name.
        for kind in ("volumes", "networks"):
            for made in document[kind].values():
                assert not {"external", "name"} & set(made)
    assert not {"analyzer"} & set(one["services"])
    assert not {"intake", "worker"} & set(other["services"])
    for side in SIDES:
        elsewhere = SIDES[1 - SIDES.index(side)]
        binds = [
            bind
            for service in compose(side)["services"].values()
            for bind in service.get("volumes", ())
        ]
        assert not [bind for bind in binds if elsewhere in bind or ".." in bind]


@pytest.mark.parametrize("side", SIDES)
def test_every_container_runs_a_command_that_there_is(side):
    found = commands(side)
    assert set(found) == (
        {"intake", "worker", "tools"} if side == "shuffler" else {"analyzer", "tools"}
    )
    for words in found.values():
        assert str(parse(words).get("directory", "/data")) == "/data"


@pytest.mark.parametrize("side", SIDES)
def test_containers_agree_on_ports_paths_and_names(side):
    document = compose(side)
    services = document["services"]
    front = "intake" if side == "shuffler" else "analyzer"
    given = {name: parse(words) for name, words in commands(side).items()}
    upstreams = re.findall(r"reverse_proxy (\S+)", read(f"{side}/Caddyfile"))
    assert upstreams == [f"{front}:{given[front]['port']}"]
    for name, found in given.items():
        assert "data:/data" in services[name]["volumes"]
        if "metrics_port" in found:
            assert f"127.0.0.1:{found['metrics_port']}/healthz" in str(
                services[name]["healthcheck"]
            )
        if found.get("passphrase_file") is not None:
            secret = Path(found["passphrase_file"]).name
            assert secret in services[name]["secrets"]
            assert secret in document["secrets"]
        store = services[name]["environment"]["SHOAL_STORE"]
        assert re.fullmatch(
            r"postgresql\+psycopg://shoal:\$\{\w+:\?[^}]*\}@postgres:5432/shoal", store
        )
    used = {
        volume.split(":")[0] for each in services.values() for volume in each.get("volumes", ())
    }
    assert {name for name in used if not name.startswith(".")} == set(document["volumes"])
    published = {name: each["ports"] for name, each in services.items() if "ports" in each}
    assert published == {"caddy": ["80:80", "443:443"]}
    assert services["postgres"]["networks"] == ["inside"]
    assert document["networks"]["inside"] == {"internal": True}
    host = f"{side.upper()}_HOST"
    assert host in services["caddy"]["environment"]
    assert f"{{${host}}} {{" in read(f"{side}/Caddyfile")


def test_the_image_is_made_of_what_there_is():
    text = read("Containerfile")
    images = re.findall(r"^FROM (\S+)", text, re.MULTILINE)
    assert images == ["${NODE_IMAGE}", "${PYTHON_IMAGE}", "${PYTHON_IMAGE}"]
    defaults = dict(re.findall(r"^ARG (\w+)=(\S+)$", text, re.MULTILINE))
    assert defaults == {"NODE_IMAGE": "node:22-slim", "PYTHON_IMAGE": "python:3.12-slim-trixie"}
    sources = re.findall(r"^COPY (?!--from)(.+) \S+$", text, re.MULTILINE)
    for name in " ".join(sources).split():
        assert (ROOT / name).exists(), name
    assert "USER 10001" in text
    assert 'ENTRYPOINT ["shoal"]' in text


def test_the_scripts_have_all_that_they_are_built_from():
    browser = ROOT / "clients" / "browser"
    stage = read("Containerfile").partition("npm run build")[0]
    for script in (browser / "src").rglob("*.ts"):
        for name in re.findall(r'from "(\.[^"]+)"', script.read_text(encoding="utf-8")):
            source = (script.parent / name).resolve()
            if not source.is_relative_to(browser):
                assert f"COPY {source.relative_to(ROOT).as_posix()} /source/" in stage


def test_the_lock_file_has_what_a_server_needs_by_hash_and_from_nowhere():
    text = read("requirements.lock")
    assert "://" not in text
    entries = re.split(r"^(?=[a-z])", text, flags=re.MULTILINE)[1:]
    locked = {}
    for entry in entries:
        name, version = re.match(r"([a-z0-9.-]+)==([^\s;]+)", entry).groups()
        assert re.search(r"--hash=sha256:[0-9a-f]{64}", entry), name
        locked[canonicalize_name(name)] = version
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    extras = project["optional-dependencies"]
    for text in (*project["dependencies"], *extras["server"], *extras["postgres"]):
        requirement = Requirement(text)
        version = locked[canonicalize_name(requirement.name)]
        assert requirement.specifier.contains(version), text


def test_images_come_without_a_host():
    for side in SIDES:
        for service in compose(side)["services"].values():
            assert re.fullmatch(r"[a-z]+(:\d+)?", service["image"])


# systemd


@cache
def unit(path):
    parser = configparser.RawConfigParser(strict=False, delimiters=("=",), comment_prefixes=("#",))
    parser.optionxform = str
    parser.read_string(path.read_text(encoding="utf-8"))
    return parser


@pytest.mark.parametrize("path", UNITS, ids=lambda path: path.name)
def test_a_unit_runs_a_command_that_there_is_and_little_else(path):
    service = unit(path)["Service"]
    for side in SIDES if "@" in path.name else [""]:
        words = shlex.split(service["ExecStart"].replace("%i", side))
        assert words[0] == "/opt/shoal/bin/shoal"
        found = parse(words[1:])
        directory = str(found.get("directory") or found["targets"][0])
        owner = service["User"].replace("%i", side)
        assert directory.removesuffix("/keys") == f"/var/lib/{owner}"
        if found.get("passphrase_file") is not None:
            assert str(found["passphrase_file"]) == "${CREDENTIALS_DIRECTORY}/passphrase"
            assert service["LoadCredential"].startswith("passphrase:/etc/shoal/")
    assert {name: service[name] for name in HARDENED} == HARDENED
    if "Restart" in service:
        assert service["Restart"] == "on-failure"
    else:
        assert service["Type"] == "oneshot"


def test_every_deployment_of_the_intake_counts_by_the_address_that_its_proxy_names():
    """What the threat model says of open surveys, in the unit, the containers and the page."""
    words = unit(DEPLOY / "systemd" / "shoal-shuffler.service")["Service"]["ExecStart"]
    page = text_files()[Path("docs/operate/two-operators.md")]
    typed = re.findall(r"^shuffler\$ shoal (serve shuffler .+)$", page, re.MULTILINE)
    started = [parse(shlex.split(words)[1:]), *(parse(shlex.split(line)) for line in typed)]
    assert [found["proxy"] for found in started] == ["127.0.0.1"] * 2
    inside, document = parse(commands("shuffler")["intake"]), compose("shuffler")
    (front,) = document["networks"]["front"]["ipam"]["config"]
    address = ip_address(document["services"]["caddy"]["networks"]["front"]["ipv4_address"])
    assert inside["proxy"] == str(address)
    assert address in ip_network(front["subnet"])
    assert address not in ip_network(front["ip_range"]), "nobody else gets it first"
    for found in (*started, inside):
        assert not found["behind_proxy"]
        assert found["address_reports"] == 100
    assert "header_up Shoal-Sender {remote_host}\n" in read("shuffler/Caddyfile")
    assert "proxy_set_header Shoal-Sender $remote_addr;" in read("nginx/shuffler.conf")
    for name in ("analyzer/Caddyfile", "nginx/analyzer.conf"):
        assert "Shoal-Sender" not in read(name), "the analyzer need not know"


def test_units_and_containers_use_the_same_ports():
    ports = {}
    for path in UNITS:
        found = parse(shlex.split(unit(path)["Service"]["ExecStart"])[1:])
        for name in ("port", "metrics_port"):
            if found.get(name):
                ports[path.stem, name] = found[name]
    assert len(set(ports.values())) == len(ports) == 5
    inside = [parse(words) for side in SIDES for words in commands(side).values()]
    named = {
        found[name] for found in inside for name in ("port", "metrics_port") if found.get(name)
    }
    assert named == set(ports.values())
    for side in SIDES:
        (port,) = re.findall(r"proxy_pass http://127\.0\.0\.1:(\d+);", read(f"nginx/{side}.conf"))
        assert int(port) == ports[f"shoal-{side}", "port"]


@pytest.mark.parametrize("path", TIMERS, ids=lambda path: path.name)
def test_every_timer_has_its_unit(path):
    assert path.with_suffix(".service") in UNITS
    timer = unit(path)
    assert timer["Timer"]["Persistent"] == "yes"
    assert timer["Install"]["WantedBy"] == "timers.target"


@pytest.mark.parametrize("side", SIDES)
def test_two_operators_install_the_units_and_places_that_they_use(side):
    """What the page enables or writes to was made in its first step, from files that there are."""
    first = text_files()[Path("docs/operate/install.md")]
    page = first + text_files()[Path("docs/operate/two-operators.md")]
    typed = re.findall(rf"^{side}\$ (.+)$", page.replace("\\\n>", ""), re.MULTILINE)
    copied = re.findall(r"\bsystemd/(shoal\S+)", " ".join(typed))
    installed = {path.name for name in copied for path in (DEPLOY / "systemd").glob(name)}
    assert all(any((DEPLOY / "systemd").glob(name)) for name in copied)
    enabled = [line for line in typed if line.startswith("sudo systemctl enable")]
    for name in (word for line in enabled for word in line.split()[4:]):
        file = re.sub(r"@\w+\.timer", "@.timer", name)
        assert (file if "@" in file else f"{file}.service") in installed
    for place in ("/etc/shoal", f"/var/lib/shoal-{side}", f"/var/backups/shoal-{side}"):
        assert re.search(rf"^{side}\$ sudo install -d .*{place}\b", first, re.MULTILINE), place


def test_systemd_itself_has_nothing_to_say(tmp_path):
    """Where it is installed: the units are right, and expose little."""
    analyze = shutil.which("systemd-analyze")
    if analyze is None:
        return
    for path in (*UNITS, *TIMERS):
        text = path.read_text(encoding="utf-8").replace("/opt/shoal/bin/shoal", "/bin/true")
        (tmp_path / path.name).write_text(text, encoding="utf-8")
    checked = [str(tmp_path / path.name) for path in (*UNITS, *TIMERS)]
    found = subprocess.run(
        [analyze, "verify", "--man=no", *checked], capture_output=True, text=True, check=False
    )
    ours = [line for line in found.stderr.splitlines() if "shoal" in line]
    assert (ours, found.returncode) == ([], 0)
    files = [str(tmp_path / path.name) for path in UNITS]
    exposed = subprocess.run(
        [analyze, "security", "--offline=yes", "--threshold=20", *files],
        capture_output=True,
        text=True,
        check=False,
    )
    assert exposed.returncode == 0, exposed.stdout


# Proxies


@pytest.mark.parametrize("side", SIDES)
def test_caddy_hands_on_nothing_about_senders_and_keeps_no_log(side):
    text = re.sub(r"#.*", "", read(f"{side}/Caddyfile"))
    assert text.count("{") == text.count("}")
    for name in ABOUT_SENDERS:
        assert f"header_up -{name}\n" in text
    assert not re.search(r"^\s*log\b", text, re.MULTILINE)
    assert re.search(r"max_size \d+MB", text)
    assert re.search(r"read_header \d+s\n\s*read_body \d+s", text)
    _asked("caddy", "validate", "--adapter", "caddyfile", "--config", f"{side}/Caddyfile")


@pytest.mark.parametrize("side", SIDES)
def test_nginx_hands_on_nothing_about_senders_and_keeps_no_log(side):
    text = re.sub(r"#.*", "", read(f"nginx/{side}.conf"))
    assert text.count("{") == text.count("}")
    statements = [line.strip() for line in text.splitlines() if line.strip()]
    assert all(line.endswith((";", "{", "}")) for line in statements)
    assert text.count("access_log off;") == text.count("error_log /dev/null emerg;") == 2
    assert "proxy_pass_request_headers off;" in text
    handed_on = set(re.findall(r"proxy_set_header (\S+)", text))
    assert not handed_on & set(ABOUT_SENDERS)
    assert re.findall(r"(\S+) \$remote_addr\b", text) == (
        ["Shoal-Sender"] if side == "shuffler" else []
    )
    assert "$proxy_add_x_forwarded_for" not in text
    assert re.search(r"client_max_body_size \d+m;", text)
    zones = dict(re.findall(r"limit_(req|conn)_zone \$shoal_sender zone=(\w+):", text))
    assert re.search(rf"limit_req zone={zones['req']} burst=\d+ nodelay;", text)
    assert re.search(rf"limit_conn {zones['conn']} \d+;", text)
    assert "limit_req_status 429;" in text
    assert "limit_conn_status 429;" in text


def _asked(program, *words):
    """What a program that may be installed says of a file."""
    found = shutil.which(program)
    if found is not None:
        hosts = {f"{side.upper()}_HOST": f"{side}.example" for side in SIDES}
        finished = subprocess.run(
            [found, *words],
            cwd=DEPLOY,
            env=os.environ | hosts,
            capture_output=True,
            text=True,
            check=False,
        )
        assert finished.returncode == 0, finished.stderr


# Alerts


def test_alerts_are_about_figures_that_there_are():
    rules = [
        rule
        for group in yaml.safe_load(read("prometheus-rules.yaml"))["groups"]
        for rule in group["rules"]
    ]
    names = [rule["alert"] for rule in rules]
    assert len(set(names)) == len(names) > 15
    source = "".join(
        path.read_text(encoding="utf-8") for path in (PACKAGE / "service" / "ops").glob("*.py")
    )
    for rule in rules:
        assert set(rule) <= {"alert", "expr", "for", "labels", "annotations"}
        assert rule["labels"]["severity"] in {"page", "ticket"}
        assert rule["expr"].count("(") == rule["expr"].count(")")
        for figure in re.findall(r"shoal_(\w+)", rule["expr"]):
            assert f'"{figure.removesuffix("_total")}"' in source, figure
    pages = ("docs/operate/incidents.md", "docs/operate/incidents-analyzer.md")
    told = "".join(text_files()[Path(page)] for page in pages)
    assert [name for name in names if f"`{name}`" not in told] == []
    _asked("promtool", "check", "rules", "prometheus-rules.yaml")


def test_it_is_said_that_nothing_here_was_run():
    assert "linted by the tests, and not run by them" in read("README.md")
    named = re.findall(r"\| `([^`]+)`(?:, `([^`]+)`)? \|", read("README.md"))
    for name in (each for pair in named for each in pair if each):
        assert (DEPLOY / name).exists(), name
