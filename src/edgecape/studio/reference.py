"""/docs: the OpenAPI description as one plain page, which needs no script and nothing from elsewhere."""

from __future__ import annotations

import json
from html import escape
from typing import Any

Schema = dict[str, Any]


def render(api: Schema) -> str:
    """HTML of an OpenAPI description: requests by tag, then the shapes they speak of."""
    operations = [(method, path, what) for path, item in api["paths"].items() for method, what in item.items()]
    tags = dict.fromkeys(tag for _, _, what in operations for tag in what.get("tags", ["other"]))
    groups = "".join(
        f"<h2>{escape(tag)}</h2>"
        + "".join(_operation(*one) for one in operations if tag in one[2].get("tags", ["other"]))
        for tag in tags
    )
    shapes = "".join(_shape(name, schema) for name, schema in sorted(api["components"]["schemas"].items()))
    title = escape(api["info"]["title"])
    return f"""<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>{title}: API</title>
<link rel="stylesheet" href="/docs.css">
</head>
<body>
<main>
<h1>{title} <small>{escape(api["info"]["version"])}</small></h1>
{_text(api["info"]["description"])}
{_text("With a token, add -H 'Authorization: Bearer TOKEN' to the examples.")}
<p>For programs: <a href="/openapi.json">openapi.json</a>. For people: <a href="/">the studio</a>.</p>
{groups}
<h2>shapes</h2>
{shapes}
</main>
</body>
</html>
"""


def _operation(method: str, path: str, what: Schema) -> str:
    rows = [
        (f"<code>{escape(given['name'])}</code> in {escape(given['in'])}", _kind(given["schema"]), _about(given))
        for given in what.get("parameters", [])
    ]
    rows += [
        (f"body, <code>{escape(media)}</code>", _kind(content.get("schema", {})), "")
        for media, content in what.get("requestBody", {}).get("content", {}).items()
    ]
    for status, answer in what["responses"].items():
        for media, content in (answer.get("content") or {"nothing": {}}).items():
            told = _kind(content.get("schema", {}))
            rows.append((f"answer {escape(status)}, <code>{escape(media)}</code>", told, _about(answer)))
    call = f'<span class="{escape(method)}">{escape(method.upper())}</span> <code>{escape(path)}</code>'
    summary = f"<summary>{call} {escape(what.get('summary', ''))}</summary>"
    return f"<details>{summary}{_text(what.get('description', ''))}{_table(rows)}{_example(what)}</details>"


def _example(what: Schema) -> str:
    """The call as it is typed, and its answer."""
    lines = [sample["source"] for sample in what.get("x-codeSamples", [])]
    good = [
        content
        for status, answer in what["responses"].items()
        if status == "200"
        for content in answer["content"].values()
    ]
    lines += [json.dumps(content["example"], ensure_ascii=False) for content in good if "example" in content]
    return "".join(f"<pre>{escape(line)}</pre>" for line in lines)


def _shape(name: str, schema: Schema) -> str:
    needed = schema.get("required", ())
    rows = [
        (f"<code>{escape(field)}</code>{'' if field in needed else ' (optional)'}", _kind(value), _about(value))
        for field, value in schema.get("properties", {}).items()
    ]
    return f'<h3 id="{escape(name)}">{escape(name)}</h3>{_text(schema.get("description", ""))}{_table(rows)}'


def _kind(schema: Schema) -> str:
    """A schema in few words, with links to the shapes it refers to."""
    if "$ref" in schema:
        name = schema["$ref"].rsplit("/", 1)[-1]
        return f'<a href="#{escape(name)}">{escape(name)}</a>'
    if "anyOf" in schema:
        return " or ".join(_kind(one) for one in schema["anyOf"])
    if "enum" in schema or "const" in schema:
        return ", ".join(f"<code>{escape(str(one))}</code>" for one in schema.get("enum", [schema.get("const")]))
    if "prefixItems" in schema:
        return f"[{', '.join(_kind(one) for one in schema['prefixItems'])}]"
    if schema.get("type") == "array":
        return f"list of {_kind(schema.get('items', {}))}"
    if isinstance(schema.get("additionalProperties"), dict):
        return f"object of {_kind(schema['additionalProperties'])}"
    if schema.get("format") == "binary" or "contentMediaType" in schema:
        return "file"
    return escape(schema.get("title", "object") if "properties" in schema else schema.get("type", ""))


def _about(schema: Schema) -> str:
    return escape(schema.get("description", ""))


def _text(text: str) -> str:
    return "".join(f"<p>{escape(part)}</p>" for part in text.split("\n\n") if part.strip())


def _table(rows: list[tuple[str, str, str]]) -> str:
    lines = "".join(f'<tr><th scope="row">{name}</th><td>{kind}</td><td>{told}</td></tr>' for name, kind, told in rows)
    return f"<table>{lines}</table>" if rows else ""
