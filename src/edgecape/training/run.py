"""The folder of a run: resolved settings, where it came from, log, curves; and what a person sees of it."""

from __future__ import annotations

import hashlib
import json
import platform
import subprocess
import time
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
import torch

from edgecape import __version__
from edgecape.data.dataset import Dataset
from edgecape.errors import SettingsError
from edgecape.io.files import atomic_path, atomic_write
from edgecape.training.settings import TrainSettings

SETTINGS, LOG, CURVES = "settings.json", "log.jsonl", "curves.png"


def data_fingerprint(dataset: Dataset) -> str:
    """Short hash of all that a data set's labels say."""
    digest = hashlib.sha256()
    for category in dataset.categories:
        digest.update(repr(category).encode())
    for instance in dataset.instances:
        digest.update(f"{instance.category}{instance.image.name}{instance.box}".encode())
        digest.update(instance.keypoints.tobytes() + instance.visible.tobytes())
    return digest.hexdigest()[:16]


def code_version() -> str:
    """Package version, and the commit where it is run from a checkout."""
    command = ["git", "-C", str(Path(__file__).parent), "describe", "--always", "--dirty"]
    try:
        commit = subprocess.run(command, capture_output=True, text=True, timeout=5, check=True).stdout.strip()
    except (OSError, subprocess.SubprocessError):
        commit = "no checkout"
    return f"{__version__} ({commit})"


class Run:
    """Writes the run's files and its progress line; only the leading process writes."""

    def __init__(self, folder: Path, settings: TrainSettings, dataset: Dataset, leader: bool = True):
        self.folder, self.leader, self.batch = folder, leader, settings.batch
        self.entries: list[dict[str, Any]] = []
        self.validated = ""
        self.shown = 0.0
        resolved = json.loads(json.dumps({"settings": asdict(settings), "data": data_fingerprint(dataset)}))
        path = folder / SETTINGS
        if path.exists():
            before = json.loads(path.read_text())
            for what in ("settings", "data"):
                if before.get(what) != resolved[what]:
                    raise SettingsError(
                        f"{folder} holds a run with other {what}; choose another folder, or remove it to start anew"
                    )
        elif leader:
            machine = {"python": platform.python_version(), "torch": torch.__version__, "code": code_version()}
            with atomic_write(path) as file:
                json.dump(resolved | machine, file, indent=1)
        self.board = _tensorboard(folder) if leader else None

    def rewind(self, state: dict[str, Any] | None) -> None:
        """Forget what was logged after the checkpoint that the run goes on from."""
        path = self.folder / LOG
        if not path.exists() or not self.leader:
            return
        names = [phase["name"] for phase in json.loads((self.folder / SETTINGS).read_text())["settings"]["phases"]]
        reached = (-2, 0) if state is None else (int(state["phase"]), int(state["done"]))  # -2: before the start
        kept = []
        for line in path.read_text().splitlines():
            try:
                entry = json.loads(line)
            except ValueError:
                break  # the run was killed while writing this line
            phase = -1 if entry["phase"] == "start" else names.index(entry["phase"])
            if (phase, entry.get("step", 0)) <= reached:
                kept.append(entry)
        self.entries = kept
        with atomic_write(path) as file:
            file.writelines(json.dumps(entry) + "\n" for entry in kept)

    def step(self, phase: str, epoch: int, step: int, total: int, terms: dict[str, float], speed: float) -> None:
        """One line of the log; once a second, the line a person watches."""
        self._write({"phase": phase, "step": step + 1, **{name: round(value, 6) for name, value in terms.items()}})
        if self.board is not None:
            for name, value in terms.items():
                self.board.add_scalar(f"{phase}/{name}", value, step)
        now = time.monotonic()
        if now - self.shown < 1 and step + 1 < total:
            return
        self.shown = now
        left = time.strftime("%H:%M:%S", time.gmtime((total - step - 1) * self.batch / max(speed, 1e-9)))
        parts = " ".join(f"{name} {value:.3f}" for name, value in terms.items())
        line = f"{phase:>6} | epoch {epoch + 1} | step {step + 1}/{total} | {parts} | {speed:.1f} items/s | {left} left"
        print(f"\r{line}{self.validated}", end="\n" if step + 1 == total else "", flush=True)

    def note(self, **scores: Any) -> None:
        """Scores of a validation."""
        if not self.leader:
            return
        self._write({key: round(value, 4) if isinstance(value, float) else value for key, value in scores.items()})
        self.validated = f" | val mPCK {scores.get('refined_all', float('nan')):.1f}"
        listed = " ".join(f"{name} {value:.1f}" for name, value in scores.items() if isinstance(value, float))
        print(f"\n  validation after {scores['phase']} {scores.get('step', '')}: {listed}", flush=True)
        draw_curves(self.entries, self.folder / CURVES)

    def _write(self, entry: dict[str, Any]) -> None:
        self.entries.append(entry)
        with (self.folder / LOG).open("a") as file:
            file.write(json.dumps(entry) + "\n")


def _tensorboard(folder: Path) -> Any:
    try:
        from torch.utils.tensorboard import SummaryWriter
    except ImportError:
        return None
    return SummaryWriter(str(folder / "tensorboard"))


def draw_curves(entries: list[dict[str, Any]], path: Path) -> None:
    """The picture of a run: losses above, validation below, phases side by side."""
    from matplotlib.figure import Figure

    losses = [entry for entry in entries if "selection" not in entry]
    scores = [entry for entry in entries if "selection" in entry]
    offsets, phases = {"start": 0}, list[str]()
    for entry in losses:
        if entry["phase"] not in phases:
            offsets[entry["phase"]] = sum(max(e["step"] for e in losses if e["phase"] == earlier) for earlier in phases)
            phases.append(entry["phase"])
    figure = Figure(figsize=(9, 6), layout="constrained")
    above, below = figure.subplots(2, 1, sharex=True)
    for term in sorted({name for entry in losses for name in entry} - {"phase", "step"}):
        points = [(offsets[e["phase"]] + e["step"], e[term]) for e in losses if term in e]
        x, y = np.array(points, dtype=float).T
        window = max(1, len(y) // 100)
        smooth = np.convolve(y, np.ones(window) / window, mode="valid")
        above.plot(x[window - 1 :], smooth, label=term, linewidth=1)
    for name, style in (("refined", "-"), ("proposals", ":")):
        for group, colour in (("all", "tab:blue"), ("known", "tab:green"), ("new", "tab:red")):
            key = f"{name}_{group}"
            points = [(offsets.get(e["phase"], 0) + e.get("step", 0), e[key]) for e in scores if key in e]
            if points:
                below.plot(*np.array(points).T, style, color=colour, marker=".", label=f"{name}, {group}", linewidth=1)
    for axis in (above, below):
        for phase in phases[1:]:
            axis.axvline(offsets[phase], color="0.8", linewidth=1)
        if axis.lines:
            axis.legend(fontsize=7, ncols=3)
        axis.grid(alpha=0.3)
    above.set_ylabel("loss (smoothed)")
    below.set_ylabel("validation mPCK@5 (%)")
    below.set_xlabel("step" + (f" ({' | '.join(phases)})" if phases else ""))
    with atomic_path(path) as temporary:
        figure.savefig(temporary, dpi=120)
