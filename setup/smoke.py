"""Use an installed Shoal as somebody would who has nothing but the package.

    python -I smoke.py VERSION [--server] [--offline]

Runs in the environment it is started from, in an empty directory. ``--server`` also runs a
collection over HTTP. ``--offline`` says that this process has no network: loopback is switched on,
and nothing else may be there. Prints what was done, a line each; the first thing that is wrong ends
it.
"""

from __future__ import annotations

import json
import os
import socket
import struct
import subprocess
import sys
from importlib import metadata, resources
from pathlib import Path

PATIENCE = 300  # seconds for one command
SCRIPTS = ("survey.js", "offline.js", "dashboard.js")
_UP = 0x8914, 0x1  # Linux: SIOCSIFFLAGS, IFF_UP


class BrokenError(Exception):
    """What does not work, in a sentence."""


def only_loopback() -> str:
    """Switch loopback on in a network namespace that has nothing else."""
    import fcntl

    names = [name for _, name in socket.if_nameindex()]
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as any_socket:
        request, flag = _UP
        fcntl.ioctl(any_socket, request, struct.pack("16sh14x", b"lo", flag))
        try:
            any_socket.connect(("192.0.2.1", 9))  # an address of nobody: only a route is looked for
        except OSError:
            return f"no network but {', '.join(names)}"
    raise BrokenError("there is a way to the network, although there should be none")


def library(version: str) -> str:
    """The installed package, its version, its types, and one number of the README."""
    import shoal

    place = Path(shoal.__file__)
    expect(place.is_relative_to(sys.prefix), f"shoal was imported from {place}")
    expect(shoal.__version__ == version, f"shoal.__version__ is {shoal.__version__}")
    told = metadata.version("shoal")
    expect(told == version, f"the metadata says version {told}")
    expect((place.parent / "py.typed").is_file(), "py.typed is missing: nobody sees the types")
    for name in shoal.__all__:
        getattr(shoal, name)
    epsilon = round(shoal.amplify(local_epsilon=4, n=100_000, delta=1e-6).epsilon, 4)
    expect(epsilon == 0.1182, f"amplify gives {epsilon}, not 0.1182")
    return f"{len(shoal.__all__)} names, ε = {epsilon}"


def commands(version: str) -> str:
    """``shoal plan`` and ``shoal run`` on a table of 3,000 people."""
    expect(version in shoal("--version"), "shoal --version says something else")
    shown = shoal("plan", "--epsilon", "1", "--n", "3e3", "--categories", "3")
    expect("grr" in shown, f"shoal plan does not offer grr: {shown[:200]}")
    rows = "\n".join(["color", *(("red", "red", "blue")[i % 3] for i in range(3000))])
    Path("people.csv").write_text(rows + "\n", encoding="utf-8")
    words = ("people.csv", "--column", "color", "--epsilon", "1")
    shown = shoal("run", *words, "--report", "report.html")
    expect("red" in shown, f"shoal run shows no chart: {shown[:200]}")
    page = Path("report.html").read_text(encoding="utf-8")
    expect("privacy-statement" in page, "the report lacks its privacy statement")
    return "plan, run, a report"


def server(_version: str) -> str:
    """The scripts of the pages, and a whole collection with 200 simulated people."""
    assets = resources.files("shoal.web") / "assets"
    missing = [name for name in SCRIPTS if not (assets / name).is_file()]
    expect(not missing, f"the pages lack {', '.join(missing)}")
    told = json.loads(shoal("up", "here", "--simulate", "200", "--once", "--json"))
    expect("scripts are missing" not in str(told["notes"]), "shoal up misses the pages' scripts")
    (batch,) = told["results"]["batches"]
    expect(batch["valid"] == 200, f"shoal up counts {batch['valid']} people, not 200")
    return "scripts of the pages, shoal up with 200 people"


def shoal(*words: str) -> str:
    """What the installed command prints."""
    command = [str(Path(sys.executable).parent / "shoal"), *words]
    done = subprocess.run(
        command, capture_output=True, text=True, timeout=PATIENCE, check=False, encoding="utf-8"
    )
    told = " ".join(done.stderr.split())[-500:]
    expect(done.returncode == 0, f"shoal {words[0]} ends with status {done.returncode}: {told}")
    return done.stdout


def expect(holds: bool, otherwise: str) -> None:  # noqa: FBT001 - an assertion that is never off
    """Stop with this sentence unless it holds."""
    if not holds:
        raise BrokenError(otherwise)


def main(words: list[str]) -> int:
    """Do all of it; 1 and a sentence where something is wrong."""
    version = words[0]
    os.environ |= {"COLUMNS": "100", "MPLBACKEND": "Agg", "PYTHONIOENCODING": "utf-8"}
    try:
        if "--offline" in words:
            sys.stdout.write(f"{only_loopback()}\n")
        for check in (library, commands, *([server] if "--server" in words else [])):
            sys.stdout.write(f"{check(version)}\n")
            sys.stdout.flush()
    except BrokenError as broken:
        sys.stderr.write(f"{broken}\n")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
