"""Where a data set keeps its annotation files and its images."""

from __future__ import annotations

import os
from pathlib import Path

from edgecape.errors import DataError


def find_annotations(
    data: str | os.PathLike[str], images: str | os.PathLike[str] | None = None
) -> tuple[list[Path], Path]:
    """Annotation files and image folder of a file or of a folder.

    A folder has its files in itself or in annotations/, and its images in images/ or, as MP-100's guide has it, beside
    annotations/.
    """
    path = Path(data)
    if path.is_dir():
        root = path.parent if path.name == "annotations" else path
        files = _json_files(path / "annotations") or _json_files(path)
        if not files:
            raise DataError(f"folder {path} has no annotation files (.json or .json.gz), also not in annotations/")
    elif path.exists():
        root = path.parent.parent if path.parent.name == "annotations" else path.parent
        files = [path]
    else:
        raise DataError(f"{path} does not exist; give an annotation file or a folder that has some")
    if images is None:
        return files, root / "images" if (root / "images").is_dir() else root
    if not Path(images).is_dir():
        raise DataError(f"image folder {images} does not exist")
    return files, Path(images)


def _json_files(folder: Path) -> list[Path]:
    return sorted(path for path in folder.glob("*") if path.name.endswith((".json", ".json.gz")))
