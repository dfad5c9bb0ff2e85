"""edgecape export: a model as ONNX graphs, to be used without torch."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import tyro
from tyro.conf import Positional, arg

from edgecape.runtime.onnx_runtime import FACTS, Precision


def export(
    out: Positional[Annotated[Path, arg(metavar="OUT")]], model: str | None = None, precision: Precision = "fp32"
) -> int:
    """Write a model as ONNX graphs, which need onnxruntime and no torch.

    Example: edgecape export fast-model; edgecape predict photos --support cow.json --model fast-model

    Args:
        out: Folder for the graphs.
        model: A model folder, hub id or official checkpoint; the default model if not given.
        precision: Of the weights: fp16 halves the files; int8 quarters them, takes less time and loses a little
            accuracy.
    """
    from edgecape.predictor import EdgeCape

    EdgeCape.from_pretrained(model, device="cpu").export(out, precision)
    size = sum(path.stat().st_size for path in (*out.glob("*.onnx"), out / FACTS))
    print(f"{out}: {size / 1e6:.0f} MB; use it with --model {out}")
    return 0


def main(arguments: list[str]) -> int:
    return tyro.cli(export, prog="edgecape export", args=arguments)
