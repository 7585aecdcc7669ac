"""One measured number, and the limit it has to keep if it has one."""

from __future__ import annotations

from dataclasses import asdict, dataclass


@dataclass(frozen=True, kw_only=True)
class Result:
    """A number with its unit; at most, or at least, a limit. None could not be measured."""

    heading: str
    what: str
    value: float | None
    unit: str = "ms"
    at_most: float | None = None
    at_least: float | None = None
    note: str = ""

    @property
    def kept(self) -> bool:
        """Whether the limit is kept; a number without one cannot miss it, nor can no number."""
        if self.value is None:
            return True
        too_much = self.at_most is not None and self.value > self.at_most
        too_little = self.at_least is not None and self.value < self.at_least
        return not (too_much or too_little)

    @property
    def shown(self) -> str:
        """The number as it is printed."""
        if self.value is None:
            return "not measured"
        digits = 2 if self.value < 100 else 0
        return f"{self.value:,.{digits}f} {self.unit}"

    @property
    def verdict(self) -> str:
        """The limit, whether it was missed, and the note."""
        sign, limit = ("<=", self.at_most) if self.at_most is not None else (">=", self.at_least)
        text = "" if limit is None else f"{sign} {limit:g} {self.unit}"
        return f"{text:<12} {'' if self.kept else 'MISSED  '}{self.note}".rstrip()

    def to_dict(self) -> dict[str, object]:
        """Plain values for JSON."""
        return {**asdict(self), "kept": self.kept}
