"""Write the reference of both HTTP APIs, from the documents that the services answer from.

python setup/routes.py > docs/reference/http.md
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from typing import Any

from shoal.service.analyzer import app as analyzer
from shoal.service.http import openapi
from shoal.service.shuffler import app as shuffler

HEAD = """\
# HTTP API

Every route of the shuffler and of the analyzer with its parameters and responses, generated from
the OpenAPI 3.1 documents that both serve at `/openapi.json`. What the services do with a request,
and why, is on the pages of [the shuffler](shuffler-api.md) and [the analyzer](analyzer-api.md).
Errors are problem documents (RFC 9457) with a `code`.
"""
PARTIES = {"shuffler": shuffler, "analyzer": analyzer}


def page() -> str:
    """The whole reference."""
    return "\n".join([HEAD, *(line for name in PARTIES for line in _party(name))])


def document_of(party: str) -> dict[str, Any]:
    """The OpenAPI document that a party serves."""
    return openapi.read(str(PARTIES[party].__file__))


def _party(name: str) -> Iterator[str]:
    document = document_of(name)
    yield f"## The {name}\n\n{document['info']['description']}\n"
    operations = [
        (method.upper(), path, about)
        for path, methods in document["paths"].items()
        for method, about in methods.items()
    ]
    yield from _table(
        ("route", "token", "purpose"),
        [
            (
                f"[{method} `{path}`](#{_anchor(f'{name}: {method} {path}')})",
                "bearer" if "security" in about else "none",
                about["summary"],
            )
            for method, path, about in operations
        ],
    )
    for method, path, about in operations:
        yield f"### {name}: {method} {path}\n\n{about['summary']}\n"
        if "description" in about:
            yield about["description"] + "\n"
        token = "bearer" if "security" in about else "none"
        scripts = "yes" if about.get("x-cross-origin") else "no"
        yield f"Token: {token}. Open to scripts of other sites: {scripts}.\n"
        yield from _parameters(name, document, about)
        yield from _body(name, document, about)
        yield from _responses(name, document, about)
    yield from _schemas(name, document)


def _parameters(party: str, document: dict[str, Any], about: dict[str, Any]) -> Iterator[str]:
    if "parameters" not in about:
        return
    rows = [resolved(document, each) for each in about["parameters"]]
    yield from _table(
        ("parameter", "in", "required", "meaning"),
        [
            (
                f"`{row['name']}`",
                row["in"],
                "yes" if row.get("required") else "no",
                f"{row['description']} {_type(party, row['schema'])}",
            )
            for row in rows
        ],
    )


def _body(party: str, document: dict[str, Any], about: dict[str, Any]) -> Iterator[str]:
    if "requestBody" not in about:
        return
    body = resolved(document, about["requestBody"])
    kinds = [f"`{kind}` ({_type(party, what['schema'])})" for kind, what in body["content"].items()]
    yield f"Body: {', '.join(kinds)}\n"


def _responses(party: str, document: dict[str, Any], about: dict[str, Any]) -> Iterator[str]:
    rows = []
    for status, response in sorted(about["responses"].items()):
        whole = resolved(document, response)
        kinds = [
            f"`{kind}`: {_type(party, what['schema'])}"
            for kind, what in whole.get("content", {}).items()
        ]
        rows.append((status, whole["description"], "; ".join(kinds)))
    yield from _table(("status", "meaning", "content"), rows)


def _schemas(name: str, document: dict[str, Any]) -> Iterator[str]:
    yield f"### {name}: objects\n"
    for title, schema in sorted(document["components"]["schemas"].items()):
        yield f"#### {name}: {title}\n"
        if "description" in schema:
            yield schema["description"] + "\n"
        required = schema.get("required", ())
        yield from _table(
            ("member", "required", "type", "meaning"),
            [
                (
                    f"`{member}`",
                    "yes" if member in required else "no",
                    _type(name, what),
                    what.get("description", ""),
                )
                for member, what in schema.get("properties", {}).items()
            ],
        )


def resolved(document: dict[str, Any], part: dict[str, Any]) -> dict[str, Any]:
    """The part of the document that a reference names, or the part itself."""
    if "$ref" not in part:
        return part
    node: Any = document
    for key in part["$ref"].removeprefix("#/").split("/"):
        node = node[key]
    return dict(node)


def _type(party: str, schema: dict[str, Any]) -> str:
    """A schema in a few words."""
    if "$ref" in schema:
        title = schema["$ref"].rpartition("/")[2]
        return f"[{title}](#{_anchor(f'{party}: {title}')})"
    for choice in ("anyOf", "oneOf"):
        if choice in schema:
            return " or ".join(_type(party, each) for each in schema[choice])
    if "enum" in schema:
        return " or ".join(f"`{value}`" for value in schema["enum"])
    if "const" in schema:
        return f"`{schema['const']}`"
    kind = schema.get("type", "any")
    if isinstance(kind, list):
        return " or ".join(kind)
    if kind == "array" and "items" in schema:
        return f"array of {_type(party, schema['items'])}"
    if "pattern" in schema:
        return f"{kind} `{schema['pattern']}`"
    if kind == "object" and "properties" in schema:
        return "object with " + ", ".join(f"`{member}`" for member in schema["properties"])
    return str(kind)


def _anchor(heading: str) -> str:
    """How a heading is linked to: as on GitHub."""
    return re.sub(r"[^\w -]", "", heading.lower()).replace(" ", "-")


def _table(head: tuple[str, ...], rows: list[tuple[str, ...]]) -> Iterator[str]:
    filled = [i for i in range(len(head)) if any(row[i] for row in rows)]
    if not filled:
        return
    lines = [[line[i] for i in filled] for line in (head, ("---",) * len(head), *rows)]
    cells = [" | ".join(cell.replace("|", "\\|").strip() for cell in line) for line in lines]
    yield "\n".join(f"| {line} |" for line in cells) + "\n"


if __name__ == "__main__":
    sys.stdout.write(page())
