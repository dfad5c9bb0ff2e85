"""Label Studio: the JSON export of a project, and predictions to import into one.

Units: percent of the photo's width and height. A keypoint is a region of type "keypointlabels"; a "rectanglelabels"
region is a box, labelled with the category, and parent (parentID, or a relation) of the object's keypoints. Keypoints
without parent are one object. Visibility: a keypoint that is not there has no place; no more is told. Label Studio
keeps regions inside the photo: keypoints outside are left out, and boxes are cut.

The export knows neither edges nor an order of keypoints: names are in the order of the labelling configuration if it
lies beside the file under the same name with .xml, where the writer puts it, else of first appearance.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, unquote, urlsplit
from xml.etree import ElementTree

import numpy as np
from numpy.typing import NDArray

from edgecape.errors import DataError
from edgecape.formats import shared
from edgecape.formats.labels import LabelledImage, LabelledObject, LabelSet
from edgecape.io.files import atomic_write, read_json
from edgecape.io.images import SUFFIXES

DIGITS = 8  # decimals of a percentage: an error of at most 0.0005 px in a photo of 10 000 000 px
POINT_SIZE = 0.5  # percent, how Label Studio draws a keypoint

Region = dict[str, Any]


def write(
    path: str | os.PathLike[str],
    label_sets: Sequence[LabelSet],
    model_version: str = "edgecape",
    image_prefix: str = "",
) -> None:
    """Tasks with predictions, and beside them, with .xml, the labelling configuration a project needs to take them.

    image_prefix: what stands before the file names in Label Studio, for example "/data/local-files/?d=photos/". In a
    photo with several objects each gets a box, the smallest round its keypoints if it has none.
    """
    labels = shared.only(label_sets, "Label Studio")
    tasks = (
        {"data": {"image": image_prefix + image.file}, "predictions": [_prediction(labels, image, model_version)]}
        for image in labels.images
    )
    with atomic_write(path) as file:
        file.writelines(shared.json_items(tasks))
        file.write("\n")
    with atomic_write(Path(path).with_suffix(".xml")) as file:
        file.write(labelling_configuration(labels))


def labelling_configuration(labels: LabelSet) -> str:
    """The interface to set up in a project (Settings, Labeling Interface, Code)."""
    view = ElementTree.Element("View")
    ElementTree.SubElement(view, "Image", name="image", value="$image")
    points = ElementTree.SubElement(view, "KeyPointLabels", name="keypoints", toName="image")
    for index, name in enumerate(labels.names):
        ElementTree.SubElement(points, "Label", value=name, model_index=str(index))
    boxes = ElementTree.SubElement(view, "RectangleLabels", name="boxes", toName="image")
    ElementTree.SubElement(boxes, "Label", value=labels.category)
    ElementTree.indent(view)
    return ElementTree.tostring(view, encoding="unicode") + "\n"


def _prediction(labels: LabelSet, image: LabelledImage, model_version: str) -> Region:
    scores = [thing.score for thing in image.objects if thing.score is not None]
    grouped = len(image.objects) > 1
    result = [
        region
        for number, thing in enumerate(image.objects, start=1)
        for region in _regions(thing, labels, *image.size("Label Studio"), f"object{number}", grouped)
    ]
    prediction: Region = {"model_version": model_version, "result": result}
    return prediction | {"score": shared.rounded_score(float(np.clip(np.mean(scores), 0, 1)))} if scores else prediction


def _regions(thing: LabelledObject, labels: LabelSet, width: int, height: int, id_: str, grouped: bool) -> list[Region]:
    thing = thing.inside(width, height)
    common = {"to_name": "image", "original_width": width, "original_height": height, "image_rotation": 0}
    regions: list[Region] = []
    box = thing.extent if grouped else thing.box
    if box is not None:
        corner, side = _percent(np.reshape(box, (2, 2)), width, height)
        sides = dict(zip(("x", "y", "width", "height"), (*corner, *side), strict=True))
        regions.append(
            common
            | {"id": id_, "type": "rectanglelabels", "from_name": "boxes"}
            | {"value": sides | {"rotation": 0, "rectanglelabels": [labels.category]}}
            | ({} if thing.score is None else {"score": shared.rounded_score(thing.score)})
        )
    places = _percent(thing.keypoints, width, height)
    for index in np.flatnonzero(thing.visible).tolist():
        x, y = places[index]
        value: Region = {"x": x, "y": y, "width": POINT_SIZE, "keypointlabels": [labels.names[index]]}
        regions.append(
            common
            | {"id": f"{id_}-{index}", "type": "keypointlabels", "from_name": "keypoints", "value": value}
            | ({} if box is None else {"parentID": id_})
            | ({} if thing.scores is None else {"score": shared.rounded_score(thing.scores[index])})
        )
    return regions


def _percent(pairs: NDArray[Any], width: int, height: int) -> list[list[float]]:
    return (pairs.astype(np.float64) / (width, height) * 100).round(DIGITS).tolist()


def read(path: str | os.PathLike[str]) -> list[LabelSet]:
    """Of each task its newest annotation that was not cancelled, or else its first prediction."""
    path = Path(path)
    tasks = read_json(path)
    if not is_labelstudio(tasks):
        raise DataError(
            f"{path} is not a Label Studio export: it should be a list of tasks, each with data and annotations"
        )
    names, categories = _configured(path.with_suffix(".xml"))
    results: list[list[Region]] = []
    for number, task in enumerate(tasks):
        with shared.reading(_where(path, task, number)):
            results.append(_result(task))
            for region in results[-1]:
                value = region.get("value") or {}
                names |= dict.fromkeys(map(shared.text, value.get("keypointlabels") or ()))
                categories |= dict.fromkeys(map(shared.text, value.get("rectanglelabels") or ()))
    if not names:
        raise DataError(f"{path} has no region of type 'keypointlabels', so no keypoints")
    order = {name: index for index, name in enumerate(names)}
    images = []
    for number, (task, regions) in enumerate(zip(tasks, results, strict=True)):
        with shared.reading(_where(path, task, number)):
            sized: Region = next((region for region in regions if "original_width" in region), {})
            width, height = (sized["original_width"], sized["original_height"]) if sized else (None, None)
            images.append(LabelledImage(_file(task["data"]), width, height, tuple(_objects(regions, order))))
    with shared.reading(path):
        category = next(iter(categories)) if len(categories) == 1 else "object"
        return [LabelSet(tuple(names), None, category, images, path.parent)]


def is_labelstudio(content: Any) -> bool:
    tasks = content if isinstance(content, list) else []
    return bool(tasks) and all(isinstance(task, dict) and "data" in task for task in tasks)


def _where(path: Path, task: Region, number: int) -> str:
    return f"{path}: task {task.get('id', f'number {number}')}"


def _configured(path: Path) -> tuple[dict[str, None], dict[str, None]]:
    """Names and categories of the labelling configuration, if it is there."""
    if not path.is_file():
        return {}, {}
    try:
        content = path.read_bytes()
        if b"<!DOCTYPE" in content:  # declares what the rest is made of, without end if it likes
            raise ValueError("it has a document type declaration")
        view = ElementTree.fromstring(content)
    except (OSError, ValueError, ElementTree.ParseError) as error:
        raise DataError(f"{path} is not a labelling configuration: {error}") from None
    points, boxes = view.iterfind(".//KeyPointLabels/Label"), view.iterfind(".//RectangleLabels/Label")
    return {label.get("value", ""): None for label in points}, {label.get("value", ""): None for label in boxes}


def _result(task: Region) -> list[Region]:
    made = [one for one in task.get("annotations") or task.get("completions") or () if not one.get("was_cancelled")]
    if made:
        return max(made, key=lambda one: str(one.get("created_at") or ""))["result"]
    predicted = task.get("predictions") or ()
    return predicted[0]["result"] if predicted else []


def _file(data: Region) -> str:
    """The photo as it is called on disk, where the address tells: uploads and local files lose what is before it."""
    texts = [value for value in data.values() if isinstance(value, str)]
    photos = [text for text in texts if unquote(text).lower().endswith(SUFFIXES)]
    address = data.get("image") or (photos[0] if len(photos) == 1 else texts[0] if len(texts) == 1 else None)
    if not isinstance(address, str):
        raise ValueError(f"data has no `image` and does not tell which of {sorted(data)} is the photo")
    if address.startswith("/data/local-files/"):
        return shared.plain_path(parse_qs(urlsplit(address).query)["d"][0])
    if address.startswith("/data/upload/"):
        return unquote(address).split("/", 4)[-1]
    return shared.plain_path(address)


def _objects(regions: list[Region], order: dict[str, int]) -> list[LabelledObject]:
    """Objects with at least one keypoint; rectangles alone are somebody else's labels."""
    boxes = {region["id"]: region for region in regions if region.get("type") == "rectanglelabels"}
    points = [region for region in regions if region.get("type") == "keypointlabels"]
    related: dict[str, list[str]] = {}
    for region in regions:
        if region.get("type") == "relation":
            related.setdefault(region["from_id"], []).append(region["to_id"])
            related.setdefault(region["to_id"], []).append(region["from_id"])
    members: dict[str | None, list[Region]] = {}
    for region in (region for region in points if region["value"].get("keypointlabels")):
        parents = [region.get("parentID"), *related.get(region.get("id", ""), ())]
        members.setdefault(next((parent for parent in parents if parent in boxes), None), []).append(region)
    if len(boxes) == 1 and set(members) == {None}:
        members = {next(iter(boxes)): members[None]}
    return [_object(members[key], boxes.get(key or ""), order) for key in (*boxes, None) if key in members]


def _object(points: list[Region], box: Region | None, order: dict[str, int]) -> LabelledObject:
    marks = (
        (shared.text(region["value"]["keypointlabels"][0]), _pixels(region, "x", "y"), region.get("score"), False)
        for region in points
    )
    facts = {} if box is None else {"score": box.get("score")}
    if box is not None and not box["value"].get("rotation"):  # a turned rectangle is no box
        facts["box"] = shared.box_or_none((*_pixels(box, "x", "y"), *_pixels(box, "width", "height")))
    return shared.from_marks(marks, order, "make each object's keypoints children of its rectangle", **facts)


def _pixels(region: Region, first: str, second: str) -> tuple[float, float]:
    value = region["value"]
    return value[first] / 100 * region["original_width"], value[second] / 100 * region["original_height"]
