"""What ``shoal collect`` was asked."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from shoal import checks
from shoal.cli.options import RefusedError


@dataclass(frozen=True, kw_only=True)
class CollectAsked:
    """The options."""

    directory: Path
    survey: str | None
    token_file: Path | None
    again: str | None
    offline: bool
    store: str | None
    migrate: bool
    passphrase_file: Path | None
    key_file: Path | None
    processes: int
    watch: bool
    every: float
    report: Path | None
    csv: Path | None
    as_json: bool

    @property
    def tokens(self) -> Path:
        """The file with the tokens."""
        return self.token_file or self.directory / "token"

    def check(self) -> None:
        """Refuse what makes no sense together."""
        checks.count(0, processes=self.processes)
        checks.positive(every=self.every)
        if self.watch and self.offline:
            raise RefusedError("--watch and --offline exclude each other")
        if self.again is not None and self.offline:
            raise RefusedError("--again and --offline exclude each other: it has to be fetched")
        written = [name for name, path in self._outputs if path is not None]
        if self.watch and (written or self.as_json):
            named = " and ".join([*written, *["--json"] * self.as_json])
            raise RefusedError(f"--watch never ends: leave out {named}, and run it once more")

    @property
    def _outputs(self) -> tuple[tuple[str, Path | None], ...]:
        return ("--report", self.report), ("--csv", self.csv)
