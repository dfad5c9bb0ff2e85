"""A model as ONNX graphs, which `onnx_runtime.py` runs without torch.

features: frames → features; encode: the support side; fast and best: the query side. They are traced from the
modules that predict in torch, so there is nothing to keep alike by hand.
"""

from __future__ import annotations

import os
import tempfile
import warnings
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.export import Dim

from edgecape.errors import require
from edgecape.io.files import atomic_write, write_json
from edgecape.matching.multiview import UPRIGHT_VIEWS, MultiView, SupportViews
from edgecape.matching.scores import Calibration, probabilities
from edgecape.model.backbone import Backbone, normalise_pixels
from edgecape.model.pose_graph import PoseGraph
from edgecape.runtime.onnx_runtime import FACTS, FORMAT, Facts, Precision
from edgecape.runtime.torch_runtime import TorchRuntime

OPSET = 20
BACKBONE = "features"  # of the graphs, the one that takes most of the time


class FeaturesGraph(nn.Module):
    def __init__(self, backbone: Backbone):
        super().__init__()
        self.backbone = backbone

    def forward(self, frames: Tensor) -> Tensor:
        return self.backbone(normalise_pixels(frames))


class EncodeGraph(nn.Module):
    """One view of all crops."""

    def __init__(self, multiview: MultiView):
        super().__init__()
        self.multiview = multiview

    def forward(self, features: Tensor, places: Tensor, seen: Tensor, prior: Tensor) -> tuple[Tensor, ...]:
        tokens, means, graph = self.multiview.encode_view(features[None], places[None], seen[None], prior[None])
        return (tokens[0], means[0], *(matrix[0] for matrix in graph))


class CompareGraph(nn.Module):
    def __init__(self, multiview: MultiView, calibration: Calibration | None, fast: bool):
        super().__init__()
        self.multiview, self.calibration, self.fast = multiview, calibration, fast

    def forward(
        self,
        features: Tensor,
        tokens: Tensor,
        places: Tensor,
        usable: Tensor,
        prior: Tensor,
        weights: Tensor,
        graph: Tensor,
        flip_index: Tensor,
    ) -> tuple[Tensor, ...]:
        pose_graph = PoseGraph(prior[None], weights[None], graph[None])
        support = SupportViews(tokens[None], places[None], usable[None], pose_graph, flip_index)
        estimate = self.multiview(features, support.expand(features.shape[0]), self.fast)
        scores = probabilities(estimate, self.calibration)
        return estimate.output.coordinates[-1], scores, estimate.output.proposals.peak, estimate.clear


def export(runtime: TorchRuntime, folder: str | os.PathLike[str], precision: Precision = "fp32") -> None:
    """Writes features.onnx, encode.onnx, fast.onnx and best.onnx, and what is known of the model last: a folder with
    that is complete. precision: of the weights; fp16 halves the files, int8 quarters them, and the backbone computes
    with it."""
    require("onnx", "exporting a model", "onnxruntime", "onnxscript")
    folder = Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    runtime.to("cpu")
    for name, (module, inputs, dims) in _graphs(runtime).items():
        with atomic_write(folder / f"{name}.onnx", "wb") as file:
            file.write(_at(precision, _traced(module, inputs, dims), name == BACKBONE))
    facts = Facts(
        size=runtime.size,
        fingerprint=runtime.fingerprint,
        training=runtime.training,
        scales=runtime.scales,
        views=runtime.views,
        query_views=runtime.query_views,
        precision=precision,
    )
    write_json(folder / FACTS, {"format": FORMAT, **facts._asdict()}, indent=1)


def _graphs(runtime: TorchRuntime) -> dict[str, tuple[nn.Module, dict[str, Tensor], dict[str, Any]]]:
    """Each with inputs of some size, and which of their dimensions may have another."""
    multiview, (height, width) = runtime.multiview, runtime.size
    V, R = len(runtime.views), len(runtime.query_views)
    N, K, L, S = 4, 5, 2, 3  # no two alike where both may vary, and none is 1, which would be taken for fixed
    with torch.no_grad():
        features = runtime.folded(torch.zeros(1, 3, height, width))[0]
    free = ("count", "keypoints", "sizes", "shots")
    count, keypoints, sizes, shots = (Dim(name, min=1) for name in free)

    def flags(*shape: int) -> Tensor:
        return torch.ones(shape, dtype=torch.bool)

    graph = torch.rand(3, K, K)
    compare = {
        "usable": flags(K),
        **dict(zip(("prior", "weights", "graph"), graph, strict=True)),
        "flip_index": torch.arange(K),
    }
    square = {0: keypoints, 1: keypoints}
    compare_dims = {"usable": {0: keypoints}, **dict.fromkeys(("prior", "weights", "graph"), square)}
    compare_dims["flip_index"] = {0: keypoints}

    def query(views: int, passes: int) -> tuple[dict[str, Tensor], dict[str, Any]]:
        inputs = {
            "features": features.expand(N, passes, -1, -1, -1).clone(),
            "tokens": torch.rand(S if multiview.apart else 1, views, K, runtime.network.settings.width),
            "places": torch.rand(S if multiview.apart else 1, views, K, 2),
        }
        of_supports = {0: shots, 2: keypoints} if multiview.apart else {2: keypoints}
        dims = {"features": {0: count}, "tokens": of_supports, "places": of_supports}
        return inputs | compare, dims | compare_dims

    return {
        BACKBONE: (
            FeaturesGraph(runtime.folded),
            {"frames": torch.zeros(N, height, width, 3, dtype=torch.uint8)},
            {"frames": {0: count}},
        ),
        "encode": (
            EncodeGraph(multiview),
            {
                "features": features.expand(S, L, -1, -1, -1).clone(),
                "places": torch.rand(S, L, K, 2),
                "seen": flags(S, L, K),
                "prior": graph[0],
            },
            {
                "features": {0: shots, 1: sizes},
                "places": {0: shots, 1: sizes, 2: keypoints},
                "seen": {0: shots, 1: sizes, 2: keypoints},
                "prior": square,
            },
        ),
        "fast": (CompareGraph(multiview, runtime.calibration, True), *query(min(V, UPRIGHT_VIEWS), 1)),
        "best": (CompareGraph(multiview, runtime.calibration, False), *query(V, R)),
    }


def _traced(module: nn.Module, inputs: dict[str, Tensor], dims: dict[str, Any]) -> Any:
    with warnings.catch_warnings(), torch.no_grad():
        warnings.simplefilter("ignore")  # about what the exporter does inside
        program = torch.onnx.export(
            module.eval(),
            kwargs=inputs,
            dynamic_shapes=dims,
            opset_version=OPSET,
            dynamo=True,
            optimize=False,  # loses constants of clamps; onnxruntime does the same work when it loads a graph
            verbose=False,
        )
    assert program is not None
    model = program.model_proto
    for value in model.graph.input:  # a size that the trace took for a constant would show on the first other one only
        free = dims.get(value.name, {})
        fixed = [axis for axis in free if not value.type.tensor_type.shape.dim[axis].dim_param]
        assert not fixed, f"axes {fixed} of {value.name} became constants"
    return model


def _at(precision: Precision, model: Any, backbone: bool) -> bytes:
    with tempfile.TemporaryDirectory() as folder:
        path, whole = Path(folder) / "small.onnx", Path(folder) / "simple.onnx"
        _simplify(model, whole)
        if precision == "fp32":
            return whole.read_bytes()
        if precision == "int8" and backbone:
            _quantise(whole, path)
            return path.read_bytes()
        return _small(whole, precision)


def _simplify(model: Any, path: Path) -> None:
    """Constants computed and functions inlined, for any processor; so that it need not be done at every start."""
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.log_severity_level = 3  # errors only
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_ENABLE_BASIC
    options.optimized_model_filepath = str(path)
    onnxruntime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])


def _quantise(path: Path, target: Path) -> None:
    """Weights of matrix products as int8, one scale for each output; activations are quantised as they come, so that
    products take half the time and less."""
    import logging

    from onnxruntime.quantization import QuantType, quantize_dynamic

    logging.getLogger().addFilter(quiet := lambda record: "pre-processing" not in record.getMessage())  # done before
    try:
        quantize_dynamic(path, target, ["MatMul", "Gemm"], weight_type=QuantType.QInt8, per_channel=True)
    finally:
        logging.getLogger().removeFilter(quiet)


def _small(path: Path, precision: Precision) -> bytes:
    """Weights as float16, or as int8 with one scale for each output. The runtime turns them back once, when it loads
    them: the same arithmetic, a half or a quarter of the file."""
    import numpy as np
    import onnx
    from onnx import TensorProto, helper, numpy_helper

    model = onnx.load(str(path))
    graph, restoring = model.graph, []
    for tensor in list(graph.initializer):
        name, values = tensor.name, numpy_helper.to_array(tensor)
        if tensor.data_type != TensorProto.FLOAT or values.size < 1024 or values.ndim < 2:
            continue
        if precision == "fp16":
            stored, restored = values.astype(np.float16), name
        else:
            convolution = values.ndim == 4  # outputs are its first axis, and the last one of all else
            inputs = (1, 2, 3) if convolution else tuple(range(values.ndim - 1))
            scale = np.abs(values).max(axis=inputs, keepdims=True) / 127 + np.finfo(np.float32).tiny
            stored, restored = np.rint(values / scale).astype(np.int8), f"{name}.whole"
            graph.initializer.append(numpy_helper.from_array(scale, f"{name}.scale"))
        tensor.CopyFrom(numpy_helper.from_array(stored, f"{name}.{precision}"))
        restoring.append(helper.make_node("Cast", [tensor.name], [restored], to=TensorProto.FLOAT))
        if restored != name:
            restoring.append(helper.make_node("Mul", [restored, f"{name}.scale"], [name]))
    nodes = [*restoring, *graph.node]
    del graph.node[:]
    graph.node.extend(nodes)
    return bytes(model.SerializeToString())
