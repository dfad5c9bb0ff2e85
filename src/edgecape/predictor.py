"""EdgeCape: images in, poses out. The only bridge between images and the network."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import Any, Literal, overload

import numpy as np
import torch
from numpy.typing import NDArray

from edgecape import geometry
from edgecape.calibration import Calibration
from edgecape.errors import AnnotationError, EdgeCapeError, WeightsError
from edgecape.io.images import RGB, load_image
from edgecape.model.aspects import Aspects, Shots, Turns, encode_turns, localise_best
from edgecape.model.backbone import Backbone, normalise_pixels
from edgecape.model.network import Network, SupportEncoding
from edgecape.model.pose_graph import PoseGraph
from edgecape.skeleton import adjacency, fully_connected, mirrored_order, pairs_of
from edgecape.types import Box, Pose, Prompt, Support, as_box
from edgecape.weights.backbones import fingerprint, load_backbone
from edgecape.weights.store import load_model, save_model

DEFAULT_MODEL = Path(__file__).parent / "pretrained"  # ships with the package


class EdgeCape:
    """A network with its backbone, ready for photos."""

    def __init__(
        self,
        network: Network,
        backbone: Backbone,
        backbone_fingerprint: str,
        calibration: Calibration | None = None,
        facts: dict[str, Any] | None = None,
        device: str | torch.device | None = None,
    ):
        self.device = torch.device(device or best_device())
        self.network = network.to(self.device).eval()
        self.backbone = backbone.to(self.device).eval()
        self.backbone_fingerprint = backbone_fingerprint
        self.calibration = calibration
        self.facts = facts or {}
        self.fingerprint = fingerprint(self.network.state_dict() | {"backbone": _as_tensor(backbone_fingerprint)})

    # --- loading and saving ------------------------------------------------------------------------------

    @classmethod
    def from_pretrained(
        cls,
        source: str | os.PathLike[str] | None = None,
        device: str | torch.device | None = None,
        phase: int | None = None,
    ) -> EdgeCape:
        """The default model, a saved folder, a hub id, or an official EdgeCape or GraphCape checkpoint (.pth).

        phase: of an official checkpoint that does not say it.
        """
        path = DEFAULT_MODEL if source is None else Path(source)
        if path.suffix in (".pth", ".pt"):
            return cls._from_official(path, phase, device)
        if not path.is_dir():
            path = _download(str(source))
        stored = load_model(path)
        network = Network(stored.settings)
        try:
            network.load_state_dict(stored.head)
        except RuntimeError as error:
            raise WeightsError(f"the weights in {path} do not fit its settings: {error}") from error
        backbone, found = load_backbone(stored.settings.backbone, stored.backbone)
        facts = dict(stored.facts)
        trained_on = facts.pop("backbone_fingerprint", None)
        if stored.backbone is not None:
            found = trained_on or found  # stored at its resampled grid, so it hashes to something else
        elif trained_on not in (None, found):
            import warnings

            warnings.warn(
                f"this head was trained on backbone {trained_on}, but {found} is used; results may differ", stacklevel=2
            )
        calibration = facts.pop("calibration", None)
        return cls(network, backbone, found, Calibration.from_dict(calibration) if calibration else None, facts, device)

    @classmethod
    def _from_official(cls, path: Path, phase: int | None, device: str | torch.device | None) -> EdgeCape:
        from edgecape.weights.official import read_official

        official = read_official(path, phase)
        network = Network(official.settings)
        network.load_state_dict(official.head)
        backbone, found = load_backbone(official.settings.backbone, official.backbone)
        return cls(network, backbone, found, facts={"converted_from": path.name}, device=device)

    def save_pretrained(
        self, folder: str | os.PathLike[str], with_backbone: bool = False, dtype: torch.dtype = torch.float32
    ) -> None:
        """Write config.json and model.safetensors; with_backbone makes the folder self-contained."""
        facts = {**self.facts, "backbone_fingerprint": self.backbone_fingerprint}
        if self.calibration is not None:
            facts["calibration"] = self.calibration.to_dict()
        backbone = self.backbone.checkpoint_state() if with_backbone else None
        save_model(folder, self.network.settings, self.network.state_dict(), facts, backbone, dtype)

    def push_to_hub(self, repo_id: str, **options: Any) -> str:
        """Upload to a model hub; options go to `huggingface_hub.HfApi.create_repo`."""
        import tempfile

        from huggingface_hub import HfApi

        api = HfApi()
        api.create_repo(repo_id, exist_ok=True, **options)
        with tempfile.TemporaryDirectory() as folder:
            self.save_pretrained(folder)
            return str(api.upload_folder(repo_id=repo_id, folder_path=folder))

    # --- prompts -----------------------------------------------------------------------------------------

    @torch.inference_mode()
    def prompt(self, supports: Support | Sequence[Support]) -> Prompt:
        """Encode one support, or several of the same keypoints (few-shot), once for all queries."""
        shots = [supports] if isinstance(supports, Support) else list(supports)
        K, names, skeleton = _agree(shots)
        looks = self.network.settings.looks
        frames, pixels = [], []
        for shot in shots:
            image = load_image(shot.image)
            height, width = image.shape[:2]
            box = shot.box or (0, 0, width, height)
            _check_inside(
                geometry.apply(self._transform(box), shot.keypoints) / (self.size[1], self.size[0]), shot, names
            )
            for size in looks:
                transform = self._transform(box, size)
                frames.append(geometry.warp(image, transform, self.size, antialias=True))
                pixels.append(geometry.apply(transform, shot.keypoints))
        visible = np.stack([_visible(shot) for shot in shots for _ in looks])
        prior = torch.from_numpy(fully_connected(K) if skeleton is None else adjacency(skeleton, K))

        def look(mirror: bool, turn: int) -> Shots:
            """The frames in a mirror, then turned; as `geometry` moves their keypoints."""
            chosen = slice(None, None, len(looks) if turn else None)
            way = geometry.quarter_turn(self.size, turn) @ geometry.mirror_transform(self.size, mirror)
            seen = [np.rot90(frame[:, ::-1] if mirror else frame, turn) for frame in frames[chosen]]
            return self._shots(seen, geometry.apply(way, np.stack(pixels)[chosen]))

        shown = torch.from_numpy(visible).to(self.device)[None]
        (first, other, _), *others = encode_turns(self.network, look, shown, prior.to(self.device)[None])
        turned = [one for aspects in others for one in aspects[:2] if one is not None]
        return Prompt(
            tokens=_numpy(first.tokens),
            prior=_numpy(first.graph.prior),
            weights=_numpy(first.graph.weights),
            graph=_numpy(first.graph.normalised),
            places=_numpy(first.places),
            skeleton=skeleton,
            names=names,
            shots=len(shots),
            model=self.fingerprint,
            mirror_tokens=None if other is None else _numpy(other.tokens),
            mirror_places=None if other is None else _numpy(other.places),
            turned_tokens=np.stack([_numpy(one.tokens) for one in turned]) if turned else None,
            turned_places=np.stack([_numpy(one.places) for one in turned]) if turned else None,
        )

    def _shots(self, frames: list[RGB], pixels: geometry.Points) -> Shots:
        """Frames and their keypoints (S, K, 2) in frame pixels → what the network takes, as a batch of one."""
        coordinates = torch.from_numpy((pixels / (self.size[1], self.size[0])).astype(np.float32))
        features = torch.cat([self._features(frames[start : start + 16]) for start in range(0, len(frames), 16)])
        return Shots(features[None], coordinates.to(self.device)[None])

    # --- prediction --------------------------------------------------------------------------------------

    @overload
    def predict(
        self,
        prompt: Prompt,
        images: Sequence[Any],
        boxes: Iterable[Any] | None = ...,
        batch: int = ...,
        errors: Any = ...,
    ) -> list[Any]: ...
    @overload
    def predict(
        self,
        prompt: Prompt,
        images: Iterator[Any],
        boxes: Iterable[Any] | None = ...,
        batch: int = ...,
        errors: Any = ...,
    ) -> Iterator[Any]: ...

    def predict(
        self,
        prompt: Prompt,
        images: Any,
        boxes: Iterable[Any] | None = None,
        batch: int = 8,
        errors: Literal["raise", "return"] = "raise",
    ) -> Any:
        """One Pose per image: paths, PIL images or RGB arrays.

        images: a list gives a list; an iterator gives an iterator that reads ahead one batch only, so any number
        of images fits in memory. boxes: one (x, y, w, h) per image, None for the whole image, or a list of boxes,
        which gives a list of poses for that image. errors: "return" puts the error in the place of a bad image's
        pose instead of raising it.
        """
        if prompt.model != self.fingerprint:
            raise AnnotationError("this prompt was made by another model; make it again with model.prompt(support)")
        if isinstance(images, (str, os.PathLike)) or hasattr(images, "mode") or _is_image_array(images):
            images = [images]
        stream = self._stream(prompt, iter(images), None if boxes is None else iter(boxes), batch, errors)
        return stream if isinstance(images, Iterator) else list(stream)

    def _stream(
        self,
        prompt: Prompt,
        images: Iterator[Any],
        boxes: Iterator[Any] | None,
        batch: int,
        errors: str,
    ) -> Iterator[Any]:
        turns = self._turns(prompt)
        while group := list(islice(images, batch)):
            prepared = [self._prepare(image, next(boxes, None) if boxes else None, errors) for image in group]
            crops = [crop for item in prepared if isinstance(item, list) for crop in item]
            poses = iter(self._locate(prompt, turns, crops, batch))
            for item in prepared:
                if isinstance(item, EdgeCapeError):
                    yield item
                elif isinstance(item, _Several):
                    yield [next(poses) for _ in item]
                else:
                    yield next(poses)

    def _prepare(self, source: Any, boxes: Any, errors: str) -> list[_Crop] | EdgeCapeError:
        """The crops of one image; the image itself is let go."""
        try:
            image = load_image(source)
            height, width = image.shape[:2]
            if boxes is None:
                return [self._crop(image, (0.0, 0.0, float(width), float(height)))]
            if np.ndim(boxes) == 1 and len(boxes) == 4:
                return [self._crop(image, as_box(boxes))]
            return _Several(self._crop(image, as_box(box)) for box in boxes)
        except EdgeCapeError as error:
            if errors == "raise":
                raise
            return error

    def _crop(self, image: RGB, box: Box) -> _Crop:
        transform = self._transform(box)
        return _Crop(geometry.warp(image, transform, self.size, antialias=True), transform, box)

    @torch.inference_mode()
    def _locate(self, prompt: Prompt, turns: Turns, crops: list[_Crop], batch: int) -> Iterator[Pose]:
        for start in range(0, len(crops), batch):
            part = crops[start : start + batch]
            frames = [crop.frame for crop in part]
            features, mirrored = self._features(frames), None
            if self.network.settings.mirror_query:
                mirrored = self._features([np.flip(frame, axis=1) for frame in frames])
            several = tuple(aspects.expand(len(part)) for aspects in turns)
            output = localise_best(self.network, features, several, mirrored)
            scores = self.scores(output).cpu().numpy()
            final, peaks = output.coordinates[-1].cpu().numpy(), output.proposals.peak.cpu().numpy()
            for index, crop in enumerate(part):
                yield Pose(
                    keypoints=self._to_photo(final[index], crop),
                    scores=scores[index].astype(np.float32),
                    box=crop.box,
                    proposals=self._to_photo(peaks[index], crop),
                    names=prompt.names,
                    skeleton=prompt.skeleton,
                )

    def scores(self, output: Any) -> torch.Tensor:
        """Probability (B, K) that a keypoint is right; without calibration, the share of similarity at its peak."""
        if self.calibration is not None:
            return self.calibration(output)
        from edgecape.calibration import score_features

        return torch.sigmoid(score_features(output)[..., 0])

    # --- small things ------------------------------------------------------------------------------------

    @property
    def size(self) -> tuple[int, int]:
        return self.backbone.settings.image_size

    def _transform(self, box: Box, scale: float = 1.0) -> geometry.Matrix:
        return geometry.crop_transform(box, self.size, scale)

    def _features(self, frames: list[RGB]) -> torch.Tensor:
        """Frames of uint8 → features (n, C, h, w)."""
        pixels = normalise_pixels(torch.from_numpy(np.stack(frames)).to(self.device))
        return self.backbone(pixels, self.network.adapter)

    def _to_photo(self, coordinates: NDArray[np.float32], crop: _Crop) -> NDArray[np.float32]:
        pixels = coordinates.astype(np.float64) * (self.size[1], self.size[0])
        return geometry.apply(geometry.inverse(crop.transform), pixels).astype(np.float32)

    def _turns(self, prompt: Prompt) -> Turns:
        def tensor(array: NDArray[np.float32]) -> torch.Tensor:
            return torch.from_numpy(array).to(self.device)[None]

        usable = torch.ones(1, len(prompt), dtype=torch.bool, device=self.device)
        found = PoseGraph(tensor(prompt.prior), tensor(prompt.weights), tensor(prompt.graph))
        given = SupportEncoding(tensor(prompt.tokens), usable, found, tensor(prompt.places))
        if prompt.mirror_tokens is None or prompt.mirror_places is None:
            return (Aspects(given),)
        pairs = pairs_of(prompt.names)
        order = torch.tensor(mirrored_order(len(prompt), pairs), device=self.device) if pairs else None
        tokens, places = [prompt.tokens, prompt.mirror_tokens], [prompt.places, prompt.mirror_places]
        if prompt.turned_tokens is not None and prompt.turned_places is not None:
            tokens, places = [*tokens, *prompt.turned_tokens], [*places, *prompt.turned_places]
        seen = [given._replace(tokens=tensor(t), places=tensor(p)) for t, p in zip(tokens, places, strict=True)]
        return tuple(Aspects(one, other, order) for one, other in zip(seen[::2], seen[1::2], strict=True))


class _Crop:
    """One frame of a photo and how it was cut."""

    __slots__ = ("box", "frame", "transform")

    def __init__(self, frame: RGB, transform: geometry.Matrix, box: Box):
        self.frame, self.transform, self.box = frame, transform, box


class _Several(list[_Crop]):
    """Crops of an image for which a list of boxes was given: its poses come as a list too."""


def best_device() -> str:
    if torch.cuda.is_available():
        return "cuda"
    return "mps" if torch.backends.mps.is_available() else "cpu"


def _download(source: str) -> Path:
    from huggingface_hub import snapshot_download

    from edgecape.weights.backbones import hub_reachable

    looks_local = os.sep in source.replace("/", os.sep, 1) or source.startswith((".", "~")) or "/" not in source
    if looks_local:
        raise WeightsError(
            f"there is no model at '{source}'; give a folder, a hub id (owner/name) or a .pth checkpoint"
        )
    try:
        return Path(snapshot_download(source, local_files_only=not hub_reachable()))
    except Exception as error:  # the hub client raises many kinds
        raise WeightsError(f"model '{source}' is neither a local folder nor to be had from the hub: {error}") from error


def _agree(shots: list[Support]) -> tuple[int, tuple[str, ...] | None, tuple[tuple[int, int], ...] | None]:
    """Number of keypoints, names and skeleton that all supports share."""
    if not shots:
        raise AnnotationError("a prompt needs at least one support; the list is empty")
    K = len(shots[0].keypoints)
    for number, shot in enumerate(shots):
        if len(shot.keypoints) != K:
            raise AnnotationError(
                f"support {number} has {len(shot.keypoints)} keypoints, the first has {K}; mark the same"
            )
    names = {shot.names for shot in shots if shot.names is not None}
    skeletons = {tuple(sorted(shot.skeleton)) for shot in shots if shot.skeleton is not None}
    if len(names) > 1 or len(skeletons) > 1:
        what = "names" if len(names) > 1 else "skeletons"
        raise AnnotationError(f"the supports have different {what}; give the same to all, or to one only")
    seen = np.stack([_visible(shot) for shot in shots]).any(axis=0)
    label = next(iter(names), None)
    if not seen.all():
        unseen = int(np.flatnonzero(~seen)[0])
        called = f"{unseen} ('{label[unseen]}')" if label else str(unseen)
        raise AnnotationError(f"keypoint {called} is visible in no support; mark it in one or leave it out")
    skeleton = next((shot.skeleton for shot in shots if shot.skeleton is not None), None)
    return K, label, skeleton


def _visible(shot: Support) -> NDArray[np.bool_]:
    assert shot.visible is not None
    return shot.visible


def _check_inside(placed: NDArray[np.float64], shot: Support, names: tuple[str, ...] | None) -> None:
    outside = _visible(shot) & ~((placed >= 0) & (placed <= 1)).all(axis=1)
    if outside.any():
        k = int(np.flatnonzero(outside)[0])
        called = f"{k} ('{names[k]}')" if names else str(k)
        raise AnnotationError(
            f"keypoint {called} at {tuple(np.round(shot.keypoints[k], 1).tolist())} lies outside the "
            f"{'box' if shot.box else 'image'}; correct it, enlarge the box, or mark it as not visible"
        )


def _is_image_array(value: Any) -> bool:
    return isinstance(value, np.ndarray) and (value.ndim == 2 or (value.ndim == 3 and value.shape[-1] in (1, 3, 4)))


def _as_tensor(text: str) -> torch.Tensor:
    return torch.tensor(list(text.encode()), dtype=torch.float32)


def _numpy(tensor: torch.Tensor) -> NDArray[np.float32]:
    return tensor[0].float().cpu().numpy().copy()
