"""Several messages per person: the accuracy of a trusted curator, up to a constant."""

from __future__ import annotations
