"""How long one training step takes, as a multiple of one DINOv2-S forward of one image (t_b) in the same run.

    python benchmarks/training_speed.py [--steps 7]

Batch 16, features as from the cache, 20 keypoints at most, the network of the paper. The reference implementation needs
28, 48 and 46 t_b for phases 1, 2 and 3 with K padded to 100, and 2.5, 3.5 and 2.7 GB.
"""

from __future__ import annotations

import argparse
import resource
import statistics
import subprocess
import sys
import time
from dataclasses import replace

import numpy as np

BATCH, CHANNELS, GRID = 16, 384, 16


def one_phase(name: str, dropout: float, steps: int) -> tuple[float, float, float]:
    """Median seconds of a step, seconds of a backbone forward, and peak memory in GB, of this process."""
    import torch

    from edgecape.model.backbone import Backbone
    from edgecape.model.network import Network
    from edgecape.model.settings import BackboneSettings, NetworkSettings
    from edgecape.training.objective import Objective
    from edgecape.training.sampler import Batch
    from edgecape.training.settings import PHASES
    from edgecape.weights.backbones import backbone_config

    torch.manual_seed(0)
    settings = BackboneSettings()
    backbone = Backbone(backbone_config(settings.name), settings).eval()
    image = torch.zeros(1, 3, 224, 224)

    def timed(work) -> float:
        start = time.perf_counter()
        work()
        return time.perf_counter() - start

    with torch.inference_mode():
        forward = statistics.median([timed(lambda: backbone(image)) for _ in range(9)][2:])
    phase = PHASES[name]
    objective = Objective(
        Network(replace(NetworkSettings(), graph=phase.graph, bias=phase.bias, dropout=dropout)), phase, backbone
    ).train()
    learning = [parameter for parameter in objective.parameters() if parameter.requires_grad]
    optimiser = torch.optim.Adam(learning, lr=1e-5)
    rng = np.random.default_rng(0)
    K = 20
    sizes = rng.integers(8, K + 1, BATCH)
    visible = torch.from_numpy(np.arange(K)[None] < sizes[:, None])
    prior = (torch.rand(BATCH, K, K) < 0.1).float()
    batch = Batch(
        query=torch.randn(BATCH, CHANNELS, GRID, GRID),
        support=torch.randn(BATCH, 1, CHANNELS, GRID, GRID),
        coordinates=torch.rand(BATCH, 1, K, 2),
        visible=visible,
        prior=((prior + prior.transpose(1, 2)) > 0).float(),
        target=torch.rand(BATCH, K, 2),
        weight=visible,
    )
    hidden = visible & (torch.rand(BATCH, K) < 0.5)

    def step() -> None:
        loss = torch.stack(list(objective(batch, hidden).values())).sum()
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()

    seconds = statistics.median([timed(step) for _ in range(steps + 2)][2:])
    return seconds, forward, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--steps", type=int, default=7)
    parser.add_argument("--phase", help=argparse.SUPPRESS)
    parser.add_argument("--dropout", type=float, default=0.1, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.phase:
        print(*one_phase(options.phase, options.dropout, options.steps))
        return
    print(f"{'phase':<8}{'dropout':>9}{'step':>10}{'t_b':>10}{'step / t_b':>12}{'peak memory':>14}")
    for dropout in (0.1, 0.0):
        for phase in ("base", "graph", "bias"):  # a process each, so that its peak memory is its own
            command = [
                sys.executable,
                __file__,
                "--phase",
                phase,
                "--dropout",
                str(dropout),
                "--steps",
                str(options.steps),
            ]
            words = subprocess.run(command, capture_output=True, text=True, check=True).stdout.split()
            seconds, forward, memory = map(float, words[-3:])
            ratio = seconds / forward
            print(f"{phase:<8}{dropout:>9}{seconds:>9.2f}s{forward:>9.3f}s{ratio:>12.1f}{memory:>11.2f} GB", flush=True)


if __name__ == "__main__":
    main()
