"""Pages for people, served by the analyzer: a survey to answer, and a dashboard to watch it.

They are plain HTML from the server; small scripts, built from ``clients/browser``, add what a page
cannot do by itself. Nothing is fetched from anywhere else.
"""

from __future__ import annotations
