"""mkdocs: equations as MathML, which browsers draw by themselves; nothing is fetched from elsewhere.

`$$ … $$` on lines of their own stand alone, $`…`$ stand in the text: both are what code hosts show too.
"""

from __future__ import annotations

import re
from typing import Any

ALONE = re.compile(r"^\$\$\n(.*?)^\$\$$", re.MULTILINE | re.DOTALL)
INLINE = re.compile(r"\$`([^`]+)`\$")


def on_page_markdown(markdown: str, **_: Any) -> str:
    from latex2mathml.converter import convert

    alone = ALONE.sub(
        lambda found: f'<div class="equation">{convert(found[1].strip(), display="block")}</div>', markdown
    )
    return INLINE.sub(lambda found: f"<span>{convert(found[1])}</span>", alone)
