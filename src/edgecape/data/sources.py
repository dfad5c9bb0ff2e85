"""The data sets that MP-100 takes its images from, and finding an image in the folder of one of them.

A folder is indexed once and may be laid out in any way: an image is found by its file name. Where one name means
several files, its folders and then the picture's size decide; what stays ambiguous is said to be, not guessed.

CarFusion's images are named after ids that its converter gave them: sequence × 10⁸ + camera × 10⁵ + frame. The number
of a sequence was its place in a directory listing, which differs from machine to machine. So camera_frame.jpg is looked
for in all sequences, and the one whose labels (gt/camera_frame.txt) have the annotated keypoints is it.

Frames of fly and locust are found by their keypoints too, where the HDF5 file they come in is there.
"""

from __future__ import annotations

import filecmp
import os
import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from edgecape.errors import ImageError
from edgecape.io import mp100
from edgecape.io.images import image_size

FRAME = re.compile(r"(\d+)_(\d+)\.jpe?g")  # camera and frame, as CarFusion names its images
ARCHIVE = "annotation_data_release.h5"  # in which DeepPoseKit-Data keeps its frames


@dataclass(frozen=True)
class Source:
    """A data set that MP-100 takes images from."""

    key: str
    title: str
    group: str  # MP-100's super-category, as in the cross super-category experiments
    url: str
    terms: str
    wanted: str  # which part of the download
    inside: tuple[str, ...] | None = None
    """Where names alone are ambiguous: folders in one of which an image has to lie, if not in MP-100's own folder."""


SOURCES = {
    source.key: source
    for source in (
        Source(
            "coco",
            "COCO 2017",
            "body",
            "https://cocodataset.org/#download",
            "free download; photos under Flickr terms",
            "train2017",
        ),
        Source(
            "300w",
            "300W",
            "face",
            "https://ibug.doc.ic.ac.uk/resources/300-W/",
            "free download; research only",
            "helen, lfpw, afw and ibug with their trainset and testset folders",
        ),
        Source(
            "aflw",
            "AFLW",
            "face",
            "https://www.tugraz.at/institute/icg/research/team-bischof/learning-recognition-surveillance/downloads/aflw",
            "on request; non-commercial research",
            "data/flickr/0, 2 and 3; MP-100 calls the folder amur_tiger_body",
        ),
        Source(
            "onehand10k",
            "OneHand10K",
            "hand",
            "https://www.yangangwang.com/papers/WANG-MCC-2018-10.html",
            "on request; non-commercial research",
            "Train/source",
            ("train",),
        ),
        Source(
            "deepfashion2",
            "DeepFashion2",
            "clothes",
            "https://github.com/switchablenorms/DeepFashion2",
            "a form gives the password; non-commercial research",
            "train/image; not the older DeepFashion",
            ("train",),
        ),
        Source(
            "ap10k",
            "AP-10K",
            "animal_body",
            "https://github.com/AlexTheBad/AP-10K",
            "free download",
            "data",
        ),
        Source(
            "macaquepose",
            "MacaquePose",
            "animal_body",
            "https://www.pri.kyoto-u.ac.jp/datasets/macaquepose/index.html",
            "free download; see its page for the terms",
            "v1/images",
        ),
        Source(
            "fly",
            "Vinegar Fly (DeepPoseKit-Data)",
            "animal_body",
            "https://github.com/jgraving/DeepPoseKit-Data",
            "free download; Apache-2.0",
            "datasets/fly/annotation_data_release.h5, or its frames as numbered by MMPose (which shuffles them)",
            ("fly",),
        ),
        Source(
            "locust",
            "Desert Locust (DeepPoseKit-Data)",
            "animal_body",
            "https://github.com/jgraving/DeepPoseKit-Data",
            "free download; Apache-2.0",
            "datasets/locust/annotation_data_release.h5, or its frames as numbered by MMPose (which shuffles them)",
            ("locust",),
        ),
        Source(
            "cub200",
            "CUB-200-2011",
            "animal_body",
            "https://www.vision.caltech.edu/datasets/cub_200_2011/",
            "free download; non-commercial research",
            "images; not the older CUB-200 of 2010",
        ),
        Source(
            "carfusion",
            "CarFusion",
            "vehicle",
            "http://www.cs.cmu.edu/~ILIM/projects/IM/CarFusion/cvpr2018/index.html",
            "on request; research",
            "train and test with the folders images_jpg and gt of every sequence",
            (),
        ),
        Source(
            "animalweb",
            "AnimalWeb",
            "animal_face",
            "https://fdmaproject.wordpress.com/author/fdmaproject/",
            "free download; see its page for the terms",
            "animal_dataset_v1_clean_check",
        ),
        Source(
            "keypoint5",
            "Keypoint-5",
            "furniture",
            "https://github.com/jiajunwu/3dinn",
            "free download; see its page for the terms",
            "keypoint-5.zip, with a folder for each of its five kinds",
            (),
        ),
    )
}


def group(category_id: int) -> str:
    """MP-100's super-category: body, face, hand, animal_body, animal_face, clothes, furniture or vehicle."""
    return SOURCES[mp100.KINDS[category_id - 1].source].group


@dataclass(frozen=True)
class Wanted:
    """An image of MP-100."""

    file_name: str
    size: tuple[int, int] | None
    points: frozenset[tuple[int, int]]  # of its marked keypoints

    @property
    def folder(self) -> str:
        return self.file_name.split("/")[0]

    @property
    def source(self) -> Source:
        return SOURCES[mp100.BY_FOLDER[self.folder].source]


@dataclass(frozen=True)
class SourceFolder:
    root: Path
    files: dict[str, list[Path]]  # by lower-case name
    frames: dict[tuple[int, int], list[Path]]  # by CarFusion's camera and frame

    def folders_of(self, path: Path) -> set[str]:
        """Names of the folders a file lies in, from the one above the root downwards."""
        names = (*self.root.absolute().parts[-2:], *path.relative_to(self.root).parts[:-1])
        return {name.lower() for name in names}


def index_folder(root: Path) -> SourceFolder:
    """All files below a folder; links are followed, each folder once."""
    index = SourceFolder(root, {}, {})
    visited: set[str] = set()
    for folder, folders, names in os.walk(root, followlinks=True):
        real = os.path.realpath(folder)
        if real in visited:
            folders.clear()
            continue
        visited.add(real)
        folders.sort()
        for name in sorted(names):
            path = Path(folder, name)
            index.files.setdefault(name.lower(), []).append(path)
            frame = FRAME.fullmatch(name.lower())
            if frame:
                index.frames.setdefault((int(frame[1]), int(frame[2])), []).append(path)
    return index


def find(image: Wanted, folder: SourceFolder) -> tuple[list[Path], str]:
    """The file that an image (or the archive that it) is in a source: one path; several if that is ambiguous; none,
    and why."""
    source, name = image.source, PurePosixPath(image.file_name)
    if source.key in ("fly", "locust"):  # labels in the archive are better evidence than a number
        archives = [path for path in folder.files.get(ARCHIVE, []) if source.key in folder.folders_of(path)]
        if archives:
            return archives, ""
    candidates = [path for path in folder.files.get(name.name.lower(), []) if path.is_file()]
    why = f"not below {folder.root}"
    if source.inside is not None:
        allowed = {image.folder, *source.inside}
        if candidates:
            why = f"{candidates[0]} has the name, but is in no folder called {' or '.join(sorted(allowed))}"
        candidates = [path for path in candidates if allowed & folder.folders_of(path)]
    if candidates:
        return _narrow(image, candidates, folder), ""
    if source.key == "carfusion":
        return _find_carfusion(image, folder)
    return [], why


def _narrow(image: Wanted, candidates: list[Path], folder: SourceFolder) -> list[Path]:
    tail = tuple(part.lower() for part in PurePosixPath(image.file_name).parts[1:])
    tests: tuple[Callable[[Path], bool], ...] = (
        lambda path: tuple(part.lower() for part in path.parts[-len(tail) :]) == tail,
        lambda path: image.folder in folder.folders_of(path),
        lambda path: size_of(path) == image.size,
    )
    for test in tests:
        if len(candidates) > 1:
            candidates = [path for path in candidates if test(path)] or candidates
    first = candidates[0]
    return [first] if all(same_content(first, path) for path in candidates[1:]) else candidates


def _find_carfusion(image: Wanted, folder: SourceFolder) -> tuple[list[Path], str]:
    number = PurePosixPath(image.file_name).stem
    if not number.isdigit():
        return [], f"{number} is not a number as CarFusion's converter gives"
    camera, frame = int(number) // 10**5 % 10**3, int(number) % 10**5
    candidates = folder.frames.get((camera, frame), [])
    if not candidates:
        return [], f"no {camera}_{frame}.jpg in any sequence below {folder.root}"
    # half of the points is far more than chance gives, and forgives labels that were corrected since
    proven = [path for path in candidates if 2 * len(image.points & _labels(path)) > len(image.points)]
    return proven, f"{candidates[0]} is that camera and frame, but its gt folder does not have the annotated keypoints"


def _labels(path: Path) -> set[tuple[int, int]]:
    """Keypoints that CarFusion's own labels have for an image: lines of x, y, keypoint, object, visibility."""
    try:
        lines = (path.parent.parent / "gt" / f"{path.stem}.txt").read_text().splitlines()
        rows = [line.split(",") for line in lines if line.strip()]
        return {(int(float(x)), int(float(y))) for x, y, *_ in rows}
    except (OSError, ValueError):
        return set()


def size_of(path: Path) -> tuple[int, int] | None:
    try:
        return image_size(path)
    except ImageError:
        return None


def same_content(first: Path, second: Path) -> bool:
    try:
        return first.samefile(second) or filecmp.cmp(first, second)
    except OSError:
        return False
