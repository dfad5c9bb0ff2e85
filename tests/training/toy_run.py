"""Trains on drawn lamps; run by tests in processes of their own. Arguments: folder, photos, steps, seconds per step."""

from __future__ import annotations

import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import torch

import edgecape.training.loop as loop

from toy import lamps, store, training


def main(folder: str, photos: str, steps: str, pause: str) -> None:
    torch.set_num_threads(1)
    plain = loop.PhaseTrainer._step

    def slow(self, *arguments):
        time.sleep(float(pause))
        return plain(self, *arguments)

    loop.PhaseTrainer._step = slow  # type: ignore[method-assign]
    data = lamps(Path(photos), 6, ("lamp", "light"))
    cache = store(Path(photos) / "cache")
    settings = training(int(steps), initialisation="matching")
    loop.train(settings, data, cache, Path(folder), validation=data)


if __name__ == "__main__":
    main(*sys.argv[1:])
