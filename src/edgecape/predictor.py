"""EdgeCape: images in, poses out. Photos become frames here, frames become numbers in a runtime."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from itertools import islice
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, TypeAlias, TypeVar, overload

import numpy as np
from numpy.typing import ArrayLike, NDArray

from edgecape import geometry
from edgecape.arguments import is_box, is_listing, listed, with_boxes
from edgecape.checks import check_box, check_keypoints
from edgecape.errors import AnnotationError, EdgeCapeError, ImageError, PhotoError, SettingsError, brief
from edgecape.io.images import RGB, load_image
from edgecape.runtime.base import Crops, Effort, Located, Runtime, check_effort
from edgecape.runtime.onnx_runtime import OnnxRuntime, Precision, is_exported
from edgecape.skeleton import adjacency, flip_index, flip_pairs, fully_connected
from edgecape.types import Pose, Prompt, Support
from edgecape.values import Box, as_box

if TYPE_CHECKING:
    import torch
    from PIL.Image import Image

    from edgecape.runtime.torch_runtime import TorchRuntime

    Picture: TypeAlias = str | os.PathLike[str] | Image | NDArray[np.uint8]

Boxes: TypeAlias = "ArrayLike | Sequence[ArrayLike] | None"
"""Of one image: (x, y, w, h), a list of such boxes, or None for the whole image."""
Found: TypeAlias = "Pose | list[Pose] | EdgeCapeError"
"""Of one image: its pose, a list of poses if it had a list of boxes, or with errors="return" what was wrong with it."""

LARGEST_BATCH = 100_000  # more than any machine can hold
PROPAGATED = 8  # poses that `propagate` takes for supports (docs/experiments/propagation.md)
SURE = 0.8  # mean score of poses from which on nothing is gained by it


Given = TypeVar("Given")


class EdgeCape:
    """A model: `from_pretrained` loads one, `prompt` shows it a marked photo, `predict` finds the marks on others.

    Args:
        runtime: What computes; `from_pretrained` makes it.
    """

    def __init__(self, runtime: Runtime[Any]):
        self.runtime = runtime

    @classmethod
    def from_pretrained(
        cls,
        source: str | os.PathLike[str] | None = None,
        device: str | torch.device | None = None,
        phase: int | None = None,
    ) -> EdgeCape:
        """Load a model.

        Args:
            source: A saved folder, a hub id, or an official EdgeCape or GraphCape checkpoint (`.pth`); the default
                model if None. A folder that `edgecape export` wrote runs in onnxruntime, without torch.
            device: "cpu", "cuda", "mps", …; the best there is if None.
            phase: Of an official checkpoint that does not say it itself, 1 or 2.

        Raises:
            WeightsError: If weights are missing, damaged or of another kind; it says what to install where only the
                backbone is missing.
        """
        if source is not None and is_exported(source):
            return cls(OnnxRuntime(source))
        from edgecape.runtime.torch_runtime import TorchRuntime

        return cls(TorchRuntime.load(source, device, phase))

    def save_pretrained(self, folder: str | os.PathLike[str], with_backbone: bool = False) -> None:
        """Write config.json and model.safetensors.

        Args:
            folder: Made if it is not there.
            with_backbone: Also write the backbone, so that the folder needs no hub.
        """
        self.torch_runtime.save(folder, with_backbone)

    def export(self, folder: str | os.PathLike[str], precision: Precision = "fp32") -> None:
        """Write the model as ONNX graphs, for `EdgeCape.from_pretrained(folder)` without torch.

        Args:
            folder: For the graphs.
            precision: Of the weights; "fp16" halves the files; "int8" quarters them, takes less time and loses a
                little accuracy.
        """
        from edgecape.runtime.export import export

        export(self.torch_runtime, folder, precision)

    def push_to_hub(self, repo_id: str, **options: Any) -> str:
        """Upload to a model hub.

        Args:
            repo_id: Such as "me/my-model".
            options: For `huggingface_hub.HfApi.create_repo`.

        Returns:
            The address of the model there.
        """
        import tempfile

        from huggingface_hub import HfApi

        api = HfApi()
        api.create_repo(repo_id, exist_ok=True, **options)
        with tempfile.TemporaryDirectory() as folder:
            self.save_pretrained(folder)
            return str(api.upload_folder(repo_id=repo_id, folder_path=folder))

    def to(self, device: str | torch.device) -> EdgeCape:
        """Move the model to another device.

        Args:
            device: "cpu", "cuda", "mps", …
        """
        self.torch_runtime.to(device)
        return self

    @property
    def torch_runtime(self) -> TorchRuntime:
        """The runtime, for what only one in torch can do."""
        from edgecape.runtime.torch_runtime import TorchRuntime

        if not isinstance(self.runtime, TorchRuntime):
            raise SettingsError("this model does not run in torch; load it with EdgeCape.from_pretrained")
        return self.runtime

    @property
    def fingerprint(self) -> str:
        """Of weights and settings: which prompts it takes."""
        return self.runtime.fingerprint

    @property
    def facts(self) -> dict[str, Any]:
        """How the model came about: recipe, data, versions."""
        return self.runtime.training

    # --- prompts -----------------------------------------------------------------------------------------

    def prompt(self, supports: Support | Sequence[Support]) -> Prompt:
        """Encode one support, or several of the same keypoints (few-shot), once for all queries.

        Args:
            supports: Of several, each is compared with a photo on its own, and those that resemble it most have the
                most to say. Names, skeleton and symmetry may be given by one of them for all.

        Raises:
            AnnotationError: If supports contradict each other, or keypoints lie outside their photo or box.
            ImageError: If a photo cannot be read.
        """
        shots = _as_list(supports)
        names, skeleton = _shared(shots, "names", "names"), _shared(shots, "skeleton", "skeletons")
        symmetry = _shared(shots, "symmetry", "symmetries")
        seen = np.stack([shot.visible for shot in shots])
        usable: NDArray[np.bool_] = np.logical_or.reduce(seen)
        if not usable.any():
            raise AnnotationError("no keypoint is visible in any support; mark at least one")
        rendered = [self._shown(shot, names) for shot in shots]
        frames, coordinates = (np.stack(parts, axis=1) for parts in zip(*rendered, strict=True))
        K = len(usable)
        prior = fully_connected(K) if skeleton is None else adjacency(skeleton, K)
        pairs = flip_pairs(names) if symmetry is None else symmetry
        views, graph = self.runtime.encode(Crops(frames, coordinates, seen), prior)
        return Prompt(
            **views._asdict(),
            **graph._asdict(),
            usable=usable,
            flip_index=flip_index(K, pairs) if pairs else None,
            frames=frames,
            coordinates=coordinates,
            visible=seen,
            skeleton=skeleton,
            names=names,
            model=self.fingerprint,
        )

    def propagate(
        self,
        supports: Support | Sequence[Support],
        images: Picture | Iterable[Picture],
        boxes: Iterable[Boxes] | ArrayLike | None = None,
        number: int = PROPAGATED,
        batch_size: int = 8,
        effort: Effort = "auto",
    ) -> Prompt:
        """Encode supports together with photos that nobody marked: the poses that the model is surest of there serve
        as further supports. They show the object from more sides than one photo can. Where the model is sure of most
        poses already, nothing is added.

        Args:
            supports: As for `prompt`.
            images: Some of the photos of that kind of object, as for `predict`; a few dozen are enough. One that cannot
                be read is left out.
            boxes: Where to look on them, as for `predict`.
            number: How many poses to take at most.
            batch_size: As for `predict`.
            effort: As for `predict`.

        Returns:
            A prompt for these and all other photos of that kind of object. Scores of what is found with it are
            somewhat too high, because supports that were found agree with what is found by them.
        """
        if isinstance(number, bool) or not isinstance(number, (int, np.integer)) or number < 0:
            raise SettingsError(f"number is {brief(number)}; give a whole number of poses, 0 or more")
        shots = _as_list(supports)
        several, boxes = listed(images, boxes)
        looked_at, prompt = list(several), self.prompt(shots)
        found = self.predict(prompt, looked_at, boxes, batch_size, "return", effort)
        poses = [
            (pose, image)
            for image, of_image in zip(looked_at, found, strict=True)
            if not isinstance(of_image, EdgeCapeError)
            for pose in (of_image if isinstance(of_image, list) else [of_image])
        ]
        if not poses or np.mean([pose.score for pose, _ in poses]) >= SURE:
            return prompt
        surest = sorted(poses, key=lambda one: one[0].score, reverse=True)[:number]
        added = [support for pose, image in surest if (support := _as_support(pose, image)) is not None]
        return self.prompt([*shots, *added])

    def _shown(self, shot: Support, names: tuple[str, ...] | None) -> tuple[NDArray[np.uint8], NDArray[np.float32]]:
        """A support in all sizes the model wants: frames (L, h, w, 3) and the keypoints (L, K, 2) in them."""
        with _named(shot.image):
            return self._seen(shot, names)

    def _seen(self, shot: Support, names: tuple[str, ...] | None) -> tuple[NDArray[np.uint8], NDArray[np.float32]]:
        photo = load_image(shot.image)
        height, width = photo.shape[:2]
        check_keypoints(shot.keypoints, shot.visible, (width, height), names)
        if shot.box is not None:
            check_box(shot.box, (width, height))
        pyramid, size = geometry.Pyramid(photo), self.runtime.size
        box = shot.box or (0.0, 0.0, float(width), float(height))
        usual = geometry.crop_transform(box, size)
        _check_inside(_in_frame(usual, shot.keypoints, size), shot, names)
        crops = [geometry.crop_transform(box, size, scale) for scale in self.runtime.scales]
        placed = np.stack([_in_frame(crop, shot.keypoints, size) for crop in crops])
        return np.stack([pyramid.warp(crop, size) for crop in crops]), placed.astype(np.float32)

    # --- prediction --------------------------------------------------------------------------------------

    @overload
    def predict(
        self, prompt: Prompt, images: Iterator[Picture], *, batch_size: int = ..., effort: Effort = ...
    ) -> Iterator[Pose]: ...
    @overload
    def predict(
        self, prompt: Prompt, images: Picture | Sequence[Picture], *, batch_size: int = ..., effort: Effort = ...
    ) -> list[Pose]: ...
    @overload
    def predict(
        self,
        prompt: Prompt,
        images: Iterator[Picture],
        boxes: Iterable[Boxes] | None = ...,
        batch_size: int = ...,
        errors: Literal["raise", "return"] = ...,
        effort: Effort = ...,
    ) -> Iterator[Found]: ...
    @overload
    def predict(
        self,
        prompt: Prompt,
        images: Picture | Sequence[Picture],
        boxes: Iterable[Boxes] | ArrayLike | None = ...,
        batch_size: int = ...,
        errors: Literal["raise", "return"] = ...,
        effort: Effort = ...,
    ) -> list[Found]: ...

    def predict(
        self,
        prompt: Prompt,
        images: Any,
        boxes: Any = None,
        batch_size: int = 8,
        errors: Literal["raise", "return"] = "raise",
        effort: Effort = "auto",
    ) -> Any:
        """Find the keypoints of a prompt on photos.

        Args:
            prompt: Made by `prompt` of the same model.
            images: Paths, PIL images or RGB uint8 arrays (height, width, 3), one or many. An iterator gives an iterator
                that reads ahead one batch only, so any number of images fits in memory.
            boxes: Where to look, in pixels: (x, y, w, h) for each image, None for a whole image, or a list of boxes,
                which gives a list of poses for that image.
            batch_size: Images that pass the network at once. It may change the last digit of a coordinate.
            errors: "raise" the first error, or "return" it in the place of the bad image's pose and go on.
            effort: "fast" takes one pass of the backbone and one view of the supports, "best" two passes and all views,
                "auto" decides for each image; `Pose.effort` says which way was taken.

        Returns:
            A `Pose` for each image in order, or a list of poses where a list of boxes was given. A keypoint that no
            support shows comes back as nan with score 0.

        Raises:
            ImageError: If a photo cannot be read.
            AnnotationError: If boxes do not fit the photos, or the prompt was made by another model.
        """
        if not isinstance(prompt, Prompt):
            remedy = "; make one of it with model.prompt(support)" if isinstance(prompt, Support) else ""
            raise AnnotationError(f"predict takes a prompt first, got a {type(prompt).__name__}{remedy}")
        if prompt.model != self.fingerprint:
            raise AnnotationError("this prompt was made by another model; make it again with model.prompt(support)")
        whole = isinstance(batch_size, (int, np.integer)) and not isinstance(batch_size, bool)
        if not whole or not 1 <= batch_size <= LARGEST_BATCH:
            raise SettingsError(f"batch_size is {brief(batch_size)}; give a whole number from 1 to {LARGEST_BATCH}")
        if not isinstance(errors, str) or errors not in ("raise", "return"):
            raise SettingsError(f"errors is {brief(errors)}; it can be 'raise' or 'return'")
        check_effort(effort)
        images, boxes = listed(images, boxes)
        paired = with_boxes(images, boxes)
        stream = self._stream(prompt, paired, batch_size, errors, effort)
        return stream if isinstance(images, Iterator) else list(stream)

    def _stream(
        self, prompt: Prompt, images: Iterator[tuple[Any, Any]], batch_size: int, errors: str, effort: Effort
    ) -> Iterator[Found]:
        for prepared in _ahead(self._prepared(images, batch_size, errors)):
            crops = [crop for item in prepared if isinstance(item, list) for crop in item]
            poses = iter(self._locate(prompt, crops, batch_size, effort))
            for item in prepared:
                if isinstance(item, EdgeCapeError):
                    yield item
                elif isinstance(item, _Several):
                    yield [next(poses) for _ in item]
                else:
                    yield next(poses)

    def _prepared(
        self, images: Iterator[tuple[Any, Any]], batch_size: int, errors: str
    ) -> Iterator[list[list[_Crop] | EdgeCapeError]]:
        """Batches of images, read and cropped."""
        while group := list(islice(images, batch_size)):
            yield [self._prepare(image, boxes, errors) for image, boxes in group]

    def _prepare(self, source: Any, boxes: Any, errors: str) -> list[_Crop] | EdgeCapeError:
        """The crops of one image; the image itself is let go. Whatever goes wrong here is a failure of this image."""
        try:
            with _named(source):
                return self._crops(load_image(source), boxes)
        except EdgeCapeError as failure:
            if errors == "raise":
                raise
            return failure

    def _crops(self, image: RGB, boxes: Any) -> list[_Crop]:
        pyramid = geometry.Pyramid(image)
        height, width = image.shape[:2]
        if boxes is None:
            return [self._crop(pyramid, (0.0, 0.0, float(width), float(height)))]
        single = is_box(boxes)
        if not single and not is_listing(boxes):
            raise AnnotationError(f"the boxes of an image are (x, y, w, h), a list of such or None, got {brief(boxes)}")
        given: Iterable[Any] = [boxes] if single else boxes
        wanted = [as_box(box) for box in given]
        for box in wanted:
            check_box(box, (width, height))
        crops = (self._crop(pyramid, box) for box in wanted)
        return list(crops) if single else _Several(crops)

    def _crop(self, pyramid: geometry.Pyramid, box: Box) -> _Crop:
        transform = geometry.crop_transform(box, self.runtime.size)
        return _Crop(pyramid.warp(transform, self.runtime.size), transform, box)

    def _locate(self, prompt: Prompt, crops: list[_Crop], batch_size: int, effort: Effort) -> Iterator[Pose]:
        for start in range(0, len(crops), batch_size):
            part = crops[start : start + batch_size]
            found = self.runtime.locate(np.stack([crop.frame for crop in part]), prompt, effort)
            yield from (self._pose(prompt, crop, Located(*one)) for crop, *one in zip(part, *found, strict=True))

    def _pose(self, prompt: Prompt, crop: _Crop, found: Located) -> Pose:
        """Coordinates of one frame → pixels of its photo."""
        back = geometry.inverse(crop.transform)
        height, width = self.runtime.size

        def placed(coordinates: NDArray[np.float32]) -> NDArray[np.float32]:
            pixels = geometry.apply(back, coordinates.astype(np.float64) * (width, height))
            return np.where(prompt.usable[:, None], pixels, np.nan).astype(np.float32)

        return Pose(
            keypoints=placed(found.coordinates),
            scores=np.where(prompt.usable, found.scores, 0).astype(np.float32),
            box=crop.box,
            proposals=placed(found.proposals),
            names=prompt.names,
            skeleton=prompt.skeleton,
            effort="best" if found.best else "fast",
        )


class _Crop(NamedTuple):
    """One frame of a photo and how it was cut."""

    frame: RGB
    transform: geometry.Matrix
    box: Box


def _ahead(items: Iterator[Given]) -> Iterator[Given]:
    """The same items, the next one made in a thread while this one is used."""
    with ThreadPoolExecutor(max_workers=1) as pool:
        end = object()
        waiting: Future[Any] = pool.submit(next, items, end)
        while (item := waiting.result()) is not end:
            waiting = pool.submit(next, items, end)
            yield item


class _Several(list[_Crop]):
    """Crops of an image for which a list of boxes was given: its poses come as a list too."""


def _shared(shots: list[Support], attribute: str, plural: str) -> Any:
    """What supports say of their keypoints: one of them may say it for all, two may not contradict each other."""
    said = [getattr(shot, attribute) for shot in shots if getattr(shot, attribute) is not None]
    if len({value if attribute == "names" else tuple(sorted(value)) for value in said}) > 1:
        raise AnnotationError(f"the supports have different {plural}; give the same to all, or to one only")
    return said[0] if said else None


def _as_list(supports: Any) -> list[Support]:
    """One support or several of the same keypoints."""
    if not isinstance(supports, (Support, Iterable)):
        raise AnnotationError(f"a prompt is made of supports, got {brief(supports)}")
    shots = [supports] if isinstance(supports, Support) else list(supports)
    if not shots:
        raise AnnotationError("a prompt needs at least one support; the list is empty")
    for number, shot in enumerate(shots):
        if not isinstance(shot, Support):
            raise AnnotationError(f"a prompt is made of supports, got a {type(shot).__name__}")
        mine, first = len(shot.keypoints), len(shots[0].keypoints)
        if mine != first:
            raise AnnotationError(f"support {number} has {mine} keypoints, the first has {first}; mark the same")
    return shots


def _as_support(pose: Pose, image: Any) -> Support | None:
    """What was found on a photo, as if it had been marked; None if none of it lies in the photo."""
    height, width = load_image(image).shape[:2]
    inside = pose.found & np.logical_and.reduce((pose.keypoints >= 0) & (pose.keypoints <= (width, height)), axis=1)
    return Support(image, pose.keypoints, visible=inside, box=pose.box) if inside.any() else None


@contextmanager
def _named(source: Any) -> Iterator[None]:
    """Whatever goes wrong with one image inside the block is an error that names it and keeps the cause."""
    called = f"image {source}" if isinstance(source, (str, os.PathLike)) else "an image"
    try:
        yield
    except ImageError:
        raise  # names it already
    except EdgeCapeError as error:
        raise type(error)(f"{called}: {error}") from error
    except Exception as error:
        raise PhotoError(f"{called} could not be used: {type(error).__name__}: {brief(str(error))}") from error


def _in_frame(transform: geometry.Matrix, points: NDArray[np.float32], size: tuple[int, int]) -> NDArray[np.float64]:
    """Photo pixels (K, 2) → coordinates in [0, 1] of a frame."""
    return geometry.apply(transform, points) / (size[1], size[0])


def _check_inside(placed: NDArray[np.float64], shot: Support, names: tuple[str, ...] | None) -> None:
    """That the crop round a box shows the keypoints."""
    outside = shot.visible & ~((placed >= 0) & (placed <= 1)).all(axis=1)
    if shot.box and outside.any():
        k = int(np.flatnonzero(outside)[0])
        called = f"{k} ('{names[k]}')" if names else str(k)
        raise AnnotationError(
            f"keypoint {called} at {tuple(np.round(shot.keypoints[k], 1).tolist())} lies outside the box; correct it, "
            "enlarge the box, or mark it as not visible"
        )
