"""Sections → one HTML file with everything inside: to be read offline, printed, in the light and in the dark."""

from __future__ import annotations

import os
from collections.abc import Sequence
from html import escape

from edgecape.experiments.section import Cell, Figure, Section, Table, Value
from edgecape.io.files import atomic_write

STYLE = """
:root { --ink: #1d2430; --soft: #5c6675; --line: #dfe3e9; --ground: #ffffff; --card: #f6f7f9; --mark: #1f6fd6;
  --clear: #0b7a4b; }
@media (prefers-color-scheme: dark) { :root { --ink: #e6e9ee; --soft: #9aa4b2; --line: #333a45; --ground: #14171c;
  --card: #1c2027; --mark: #6ea8ff; --clear: #4fd39a; } }
@media print { :root { --ink: #000; --soft: #444; --line: #ccc; --ground: #fff; --card: #fff; --mark: #000;
  --clear: #000; } nav { display: none; } section { break-before: page; } figure, table { break-inside: avoid; }
  details > * { display: block; } main { max-width: none; } }
* { box-sizing: border-box; }
body { margin: 0; background: var(--ground); color: var(--ink); line-height: 1.5;
  font: 16px/1.55 system-ui, -apple-system, "Segoe UI", Roboto, "Noto Sans", "DejaVu Sans", sans-serif; }
main { max-width: 62rem; margin: 0 auto; padding: 2.5rem 1.25rem 5rem; }
h1 { font-size: 2rem; line-height: 1.2; margin: 0 0 .4rem; letter-spacing: -.01em; }
h2 { font-size: 1.4rem; margin: 0 0 .2rem; letter-spacing: -.01em; }
h3 { font-size: 1rem; margin: 1.6rem 0 .4rem; }
p { margin: .4rem 0; } .soft { color: var(--soft); } a { color: var(--mark); text-decoration: none; }
a:hover { text-decoration: underline; }
nav { display: flex; flex-wrap: wrap; gap: .3rem .9rem; margin: 1.2rem 0 0; padding: .8rem 0;
  border-block: 1px solid var(--line); font-size: .9rem; }
section { margin-top: 3.2rem; } .name { color: var(--soft); font: .8rem ui-monospace, "DejaVu Sans Mono", monospace; }
.claim { border-left: 3px solid var(--line); padding-left: .8rem; color: var(--soft); }
ul.found { margin: .8rem 0; padding-left: 1.2rem; } ul.found li { margin: .15rem 0; }
.wide { overflow-x: auto; } table { border-collapse: collapse; font-size: .86rem; font-variant-numeric: tabular-nums;
  width: 100%; }
th { text-align: right; font-weight: 600; color: var(--soft); vertical-align: bottom; }
th, td { padding: .34rem .6rem; border-bottom: 1px solid var(--line); } td { text-align: right; }
th:first-child, td:first-child { text-align: left; padding-left: 0; } td:first-child { font-weight: 500; }
.ci { display: block; color: var(--soft); font-size: .74rem; white-space: nowrap; } .clear { color: var(--clear);
  font-weight: 700; }
.note { color: var(--soft); font-size: .8rem; }
figure { margin: 1.4rem 0; padding: 1rem; background: var(--card); border-radius: 10px; overflow-x: auto; }
figure svg, figure img { display: block; width: 100%; height: auto; } figure svg { max-width: 46rem; margin: 0 auto; }
figcaption { color: var(--soft); font-size: .85rem; margin-top: .7rem; } figcaption b { color: var(--ink); }
details { margin-top: 1rem; font-size: .85rem; } summary { cursor: pointer; color: var(--soft); }
dl { display: grid; grid-template-columns: max-content 1fr; gap: .2rem .9rem; margin: .6rem 0; }
dt { color: var(--soft); } dd { margin: 0; overflow-wrap: anywhere; }
code { font: .82rem ui-monospace, "DejaVu Sans Mono", monospace; }
"""


def write_report(
    path: str | os.PathLike[str], sections: Sequence[Section], title: str, notes: Sequence[str] = ()
) -> None:
    with atomic_write(path) as file:
        file.write(page(sections, title, notes))


def page(sections: Sequence[Section], title: str, notes: Sequence[str] = ()) -> str:
    names = [f"{section.name}-{number}" for number, section in enumerate(sections)]
    several = len({section.done["regime"] for section in sections}) > 1
    links = " ".join(
        f'<a href="#{name}">{escape(section.name)}{escape(_regime(section)) if several else ""}</a>'
        for name, section in zip(names, sections, strict=True)
    )
    said = "".join(f'<p class="soft">{escape(note)}</p>' for note in notes)
    body = "".join(_section(section, name, several) for section, name in zip(sections, names, strict=True))
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>{escape(title)}</title><style>{STYLE}</style></head>\n"
        f"<body><main><header><h1>{escape(title)}</h1>{said}<nav>{links}</nav></header>{body}</main></body></html>\n"
    )


def _regime(section: Section) -> str:
    return f" ({section.done['regime'].split(':')[0]})"


def _section(section: Section, name: str, several: bool) -> str:
    found = "".join(f"<li>{escape(line)}</li>" for line in section.findings)
    notes = "".join(f'<p class="note">{escape(note)}</p>' for note in section.notes)
    details = "".join(
        f"<dt>{escape(key)}</dt><dd>{_code(text) if key == 'command' else escape(text)}</dd>"
        for key, text in section.done.items()
    )
    label = section.name + (_regime(section) if several else "")
    return (
        f'\n<section id="{name}"><span class="name">{escape(label)}</span><h2>{escape(section.title)}</h2>'
        f'<p class="claim">The paper: {escape(section.claim)}</p>'
        + (f'<ul class="found">{found}</ul>' if found else "")
        + "".join(map(_figure, section.figures))
        + "".join(map(_table, section.tables))
        + notes
        + f"<details open><summary>how this was made</summary><dl>{details}</dl></details></section>"
    )


def _code(text: str) -> str:
    return f"<code>{escape(text)}</code>"


def _figure(figure: Figure) -> str:
    drawn = figure.svg or f'<img alt="{escape(figure.title)}" src="data:image/jpeg;base64,{figure.picture}">'
    return f"<figure>{drawn}<figcaption><b>{escape(figure.title)}.</b> {escape(figure.caption)}</figcaption></figure>"


def _table(table: Table) -> str:
    heads = "".join(f"<th>{escape(column)}</th>" for column in table.columns)
    rows = "".join(f"<tr>{''.join(map(_cell, row))}</tr>" for row in table.rows)
    note = f'<p class="note">{escape(table.note)}</p>' if table.note else ""
    return f'<h3>{escape(table.title)}</h3><div class="wide"><table><tr>{heads}</tr>{rows}</table></div>{note}'


def _cell(cell: Cell) -> str:
    if not isinstance(cell, Value):
        return f"<td>{escape(cell)}</td>"
    number = " ".join(part for part in (cell.number, cell.deviation) if part)
    shown = f'<span class="clear">{escape(number)}</span>' if cell.is_clear else escape(number)
    interval = f'<span class="ci">{escape(cell.interval)}</span>' if cell.interval else ""
    return f"<td>{shown}{interval}</td>"
