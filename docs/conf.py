"""The documentation site: ``make docs`` builds it from the pages beside this file.

Sphinx with MyST reads the same Markdown that a repository browser shows; the theme is that of
NumPy, SciPy and pandas. The site needs no network: scripts, fonts and the search index are files of
its own.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import sys
from pathlib import Path

from docutils import nodes
from sphinx.application import Sphinx

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "src"))

import shoal  # noqa: E402 - found by the line above

project = "Shoal"
author = "The Shoal contributors"
copyright = f"2026, {author}"  # noqa: A001 - the name that Sphinx reads
version = release = shoal.__version__
language = "en"

extensions = [
    "myst_nb",
    "sphinx.ext.autodoc",
    "sphinx.ext.napoleon",
    "sphinx_copybutton",
    "sphinx_design",
    "sphinx_external_toc",
]
external_toc_path = "_toc.yml"
exclude_patterns = ["_build", "**/.ipynb_checkpoints"]
smartquotes_action = "D"  # dashes only: quotation marks are as they were typed
suppress_warnings = ["myst.header"]  # examples of a page may begin with a deeper heading

myst_enable_extensions = ["colon_fence"]
myst_heading_anchors = 4

# Notebooks are run when the site is built, unless neither they nor the library have changed.
SOURCES = sorted((HERE.parent / "src").rglob("*.py"))
LIBRARY = hashlib.sha256(b"".join(path.read_bytes() for path in SOURCES)).hexdigest()[:16]
nb_execution_mode = os.environ.get("SHOAL_DOCS_NOTEBOOKS", "cache")
nb_execution_cache_path = str(HERE / "_build" / "notebooks" / LIBRARY)
nb_execution_raise_on_error = True
nb_execution_timeout = 300
nb_merge_streams = True
# Their kernels are reached from this machine only, and would warn that others could listen.
KERNELS = HERE / "_build" / "kernels" / "profile_default"
KERNELS.mkdir(parents=True, exist_ok=True)
(KERNELS / "ipython_kernel_config.json").write_text(json.dumps({"IPKernelApp": {"log_level": 40}}))
os.environ["IPYTHONDIR"] = str(KERNELS.parent)

autodoc_typehints = "description"
autodoc_typehints_description_target = "documented"
autodoc_member_order = "bysource"
napoleon_numpy_docstring = False
napoleon_preprocess_types = False
napoleon_use_ivar = True  # attributes as one list, as parameters are

copybutton_prompt_text = r">>> |\.\.\. |\$ "
copybutton_prompt_is_regexp = True

html_theme = "pydata_sphinx_theme"
html_title = "Shoal"
templates_path = ["_templates"]
html_static_path = ["_static"]
html_css_files = ["site.css"]
html_favicon = "_static/logo.svg"
html_sourcelink_suffix = ""  # a notebook is downloaded under its own name
html_theme_options = {
    "logo": {"text": "Shoal", "image_light": "_static/logo.svg", "image_dark": "_static/logo.svg"},
    "header_links_before_dropdown": 8,
    "collapse_navigation": True,  # the buttons that unfold it have no name
    "navigation_with_keys": False,
    "show_prev_next": True,
    "show_toc_level": 2,
    "secondary_sidebar_items": ["page-toc", "sourcelink"],
    "footer_start": ["copyright"],
    "footer_end": [],
    "pygments_light_style": "a11y-high-contrast-light",
    "pygments_dark_style": "a11y-high-contrast-dark",
}

# Files at the top of the repository that the site includes: links to them lead to their pages.
INCLUDED = {
    "CHANGELOG.md": "develop/changelog.md",
    "CONTRIBUTING.md": "develop/contributing.md",
    "SECURITY.md": "develop/security.md",
    "deploy/README.md": "operate/deploy.md",
}
_OUTSIDE = re.compile(r"\]\((?:\.\./)+(" + "|".join(map(re.escape, INCLUDED)) + r")(?=[#)])")


def _link_to_pages(_app: Sphinx, _name: str, source: list[str]) -> None:
    source[0] = _OUTSIDE.sub(lambda link: f"](/{INCLUDED[link[1]]}", source[0])


def _find_options(app: Sphinx, doctree: nodes.document) -> None:
    """Options of commands are found by the search, each in its row of the table."""
    if app.env.docname != "reference/commands":
        return
    standard = app.env.domains.standard_domain
    for section in doctree.findall(nodes.section):
        program = section.next_node(nodes.title).astext()
        for row in section.findall(nodes.row):
            option = row.next_node(nodes.literal)
            if option is not None and option.astext().startswith("--"):
                name = option.astext().split()[0]
                anchor = nodes.make_id(f"{program} {name}")
                row["ids"].append(anchor)
                standard.add_program_option(program, name, app.env.docname, anchor)


def setup(app: Sphinx) -> None:
    """Called by Sphinx."""
    app.connect("source-read", _link_to_pages)
    app.connect("doctree-read", _find_options)
