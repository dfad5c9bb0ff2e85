"""edgecape convert: official checkpoint → model folder."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import tyro
from tyro.conf import Positional, arg


def convert(
    checkpoint: Positional[Annotated[Path, arg(metavar="CHECKPOINT.pth")]],
    output: Positional[Annotated[Path, arg(metavar="OUT")]],
    phase: int | None = None,
    with_backbone: bool = True,
) -> int:
    """Turn an official EdgeCape (phase 1, 2, 3) or GraphCape checkpoint into a model folder.

    Example: edgecape convert 1shot_split1.pth edgecape-split1

    Args:
        checkpoint: The official .pth file.
        output: Folder to write config.json and safetensors to.
        phase: 1 or 2, where the file does not say it itself.
        with_backbone: Store the checkpoint's own backbone too, so that the folder is complete.
    """
    from edgecape.errors import SettingsError
    from edgecape.predictor import EdgeCape

    if (output / "config.json").exists():
        raise SettingsError(f"{output} holds a model already; choose another folder")
    model = EdgeCape.from_pretrained(checkpoint, device="cpu", phase=phase)
    model.save_pretrained(output, with_backbone=with_backbone)
    settings = model.torch_runtime.network.settings
    print(f"{output}: graph {settings.graph}, bias {settings.bias}, backbone {settings.backbone.name}")
    print(f'use it with EdgeCape.from_pretrained("{output}") or edgecape predict --model {output} …')
    return 0


def main(arguments: list[str]) -> int:
    return tyro.cli(convert, prog="edgecape convert", args=arguments)
