"""The JSON of each command: docs/schema has one JSON Schema a command, and docs/json.md gets its tables from there.

`python -m tests.schemas` writes the tables anew.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

from jsonschema import Draft202012Validator, ValidationError
from jsonschema.validators import extend
from referencing import Registry
from referencing.jsonschema import DRAFT202012

DOCS = Path(__file__).parents[1] / "docs"
PAGE = DOCS / "json.md"
SCHEMAS: dict[str, Any] = {path.stem: json.loads(path.read_text("utf-8")) for path in (DOCS / "schema").glob("*.json")}

_TYPES = {
    "string": "text",
    "integer": "number",
    "number": "fraction",
    "boolean": "bool",
    "object": "object",
    "array": "list",
    "null": "null",
}


def check(command: str, document: Any) -> None:
    """Raise ValidationError unless a document is what its schema says, with no key more and in that order."""
    _validator(command).validate(document)


@cache
def _validator(command: str) -> Any:
    whole = {f"{name}.json": DRAFT202012.create_resource(_merged(schema)) for name, schema in SCHEMAS.items()}
    registry: Registry[Any] = Registry().with_resources(whole.items())
    exact = extend(Draft202012Validator, {"properties": _in_order})
    return exact({"$ref": f"{command}.json"}, registry=registry)


def _in_order(validator: Any, properties: Any, document: Any, schema: Any) -> Iterator[ValidationError]:
    if isinstance(document, dict) and list(document) != [key for key in properties if key in document]:
        yield ValidationError(f"its keys are {list(document)}, documented are {list(properties)}")
    yield from Draft202012Validator.VALIDATORS["properties"](validator, properties, document, schema)


def _merged(schema: Any) -> Any:
    """A schema with the keys of those that it extends: the order is one of them all."""
    # By its "$schema" another validator would be chosen for it than ours.
    own = {key: value for key, value in schema.items() if key not in ("allOf", "$schema")}
    for extended in schema.get("allOf", ()):
        of = _resolved(extended["$ref"], schema)
        own["properties"] = of["properties"] | own["properties"]
        own["required"] = of["required"] + own["required"]
    return own


def _resolved(reference: str, schema: Any) -> Any:
    name, _, pointer = reference.partition("#")
    found = SCHEMAS[name.removesuffix(".json")] if name else schema
    for step in pointer.split("/")[1:]:
        found = found[step]
    return found


def page() -> str:
    """docs/json.md with the tables of the schemas: each from the link to its schema up to the next heading."""
    text = PAGE.read_text("utf-8")
    return (
        re.sub(
            r"^(\[JSON Schema\]\(schema/([\w-]+)\.json\)\n).*?(?=^## |\Z)",
            lambda found: "\n".join([found[1], *_tables(SCHEMAS[found[2]]), ""]),
            text,
            flags=re.MULTILINE | re.DOTALL,
        ).rstrip("\n")
        + "\n"
    )


def _tables(schema: Any) -> Iterator[str]:
    of = schema.get("items", schema)
    if "properties" in of:
        yield _table(of, schema)
    for name, part in schema.get("$defs", {}).items():
        if "properties" in part:
            yield f"{_lead(name, part, schema)}:\n"
            yield _table(part, schema)


def _lead(name: str, part: Any, schema: Any) -> str:
    if "title" in part:
        return str(part["title"])
    users: dict[str, bool] = {}
    for owner in (schema, schema.get("items", {}), *schema.get("$defs", {}).values()):
        for key, value in owner.get("properties", {}).items():
            if f'"#/$defs/{name}"' in json.dumps(value):
                users[key] = users.get(key, False) or value.get("type") == "array"
    keys = " and ".join(f"`{key}`" for key in users)
    return f"Each of {keys}" if any(users.values()) or len(users) > 1 else keys


def _table(of: Any, schema: Any) -> str:
    rows = [
        f"| `{key}` | {_type(value, schema)} | {_words(value)} |".replace("|  |", "| |")
        for key, value in of["properties"].items()
    ]
    return "\n".join(["| key | type | |", "|---|---|---|", *rows, ""])


def _words(value: Any) -> str:
    keys = ", ".join(f"`{key}`" for key in value.get("properties", {}))
    return ": ".join(words for words in (value.get("description"), keys) if words)


def _type(value: Any, schema: Any) -> str:
    if "anyOf" in value:
        return " or ".join(_type(one, schema) for one in value["anyOf"])
    if "$ref" in value:
        return _type(_resolved(value["$ref"], schema), schema)
    types = value["type"] if isinstance(value["type"], list) else [value["type"]]
    named = " or ".join(_TYPES[one] for one in types)
    items = value.get("items")
    return f"{named} of {_plural(_type(items, schema))}" if items else named


def _plural(named: str) -> str:
    return f"lists{named.removeprefix('list')}" if named.startswith("list") else f"{named}s"


if __name__ == "__main__":
    PAGE.write_text(page(), "utf-8")
