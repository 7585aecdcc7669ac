"""The reference of the HTTP APIs is what the services answer from."""

from __future__ import annotations

import routes
from repository import ROOT

PAGE = (ROOT / "docs/reference/http.md").read_text(encoding="utf-8")


def test_the_page_is_generated_from_the_documents():
    assert routes.page() == PAGE, "run python setup/routes.py > docs/reference/http.md"


def test_every_route_parameter_status_and_member_is_on_it():
    for name in routes.PARTIES:
        document = routes.document_of(name)
        for operation in routes.openapi.operations(document):
            (method,) = operation.methods - {"HEAD"}
            heading = f"### {name}: {method} {operation.path}\n"
            assert heading in PAGE
            section = PAGE.partition(heading)[2].partition("\n### ")[0]
            for status in operation.document["responses"]:
                assert f"| {status} |" in section
        for title, schema in document["components"]["schemas"].items():
            section = PAGE.partition(f"#### {name}: {title}\n")[2].partition("\n#")[0]
            assert all(f"| `{member}` |" in section for member in schema["properties"])
            lacking = [
                member
                for member, what in schema["properties"].items()
                if not what.get("description")
            ]
            assert lacking == [], f"{title} of the {name}: describe these members"
