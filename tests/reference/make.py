"""Write released.npz from the reference tensors beside the repository:

    python tests/reference/make.py ../shared/golden/head_seed0

Only outputs of the released code and small inputs are copied. Its weights and features are drawn again, compared with
the reference, and only what differs is kept: the values that were rounded to another float16 neighbour. If any differs
by more than that, nothing is written.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

import released
from released import SHOTS, K

OUTPUTS = {
    "coordinates": ("final_output", np.s_[:, :, :K]),  # (layers, B, K, 2)
    "proposals": ("initial_proposals_for_loss", np.s_[:, :K]),
    "graph": ("adj", np.s_[:, 1, :K, :K]),  # Ã; before it comes the diagonal of usable keypoints
    "similarity": ("similarity_map", np.s_[:, :K]),
}


def per_shot(inputs: Any, name: str, shots: int) -> NDArray[Any]:
    return np.stack([inputs[f"{name}_{shot}"][:, :K] for shot in range(shots)], axis=1)


def released_run(folder: Path) -> dict[str, Any]:
    found: dict[str, Any] = {}
    state = torch.load(folder / "head_phase3_state_fp16.pt", weights_only=True)
    head = {key: tensor.numpy() for key, tensor in state.items()}
    features: dict[str, NDArray[np.float16]] = {}
    for shots in SHOTS:
        inputs, name = np.load(folder / f"inputs_{shots}shot.npz"), f"{shots}shot"
        features[f"{name}/query"] = inputs["feature_q"]
        features |= {f"{name}/support_{shot}": inputs[f"feature_s_{shot}"] for shot in range(shots)}
        found[f"{name}/joints"] = per_shot(inputs, "joints_s", shots)[..., :2]
        found[f"{name}/seen"] = per_shot(inputs, "target_weight_s", shots)[..., 0] > 0
        found[f"{name}/usable"] = inputs["mask_s"][:, :K, 0] > 0
        found["skeletons"] = inputs["skeletons"]
        maps = released.keypoint_maps(found[f"{name}/joints"], found[f"{name}/seen"])
        if not np.array_equal(maps, per_shot(inputs, "target_s", shots)):
            raise ValueError(f"the keypoint maps at {shots} shots are not what the keypoints give")
        for phase in (1, 2, 3):
            outputs = np.load(folder / f"golden_phase{phase}_{shots}shot.npz")
            for ours, (theirs, part) in OUTPUTS.items():
                if ours != "similarity" or phase == 3:  # which is the same in all phases, and most of the file
                    found[f"phase{phase}/{name}/{ours}"] = outputs[theirs][part]
    found["shapes"] = json.dumps({key: values.shape for key, values in head.items()})
    drawn = released.draw_head({key: values.shape for key, values in head.items()}) | released.draw_features()
    for key, values in (head | features).items():
        moves = released.moves(drawn[key], values)
        if len(moves):
            found[f"moves/{key}"] = moves
    return found | {
        "digest/head": released.digest(head.values()),
        "digest/features": released.digest(features.values()),
    }


if __name__ == "__main__":
    np.savez_compressed(released.FILE, **released_run(Path(sys.argv[1])))
