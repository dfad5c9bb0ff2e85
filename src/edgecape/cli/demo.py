"""edgecape demo: see it work."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import tyro
from tyro.conf import arg


def demo(
    output: Annotated[Path, arg(aliases=("-o",))] = Path("demo-output"),
    support: Path | None = None,
    query: tuple[Path, ...] = (),
    model: str | None = None,
) -> int:
    """Find keypoints on bundled pictures, or on pictures of yours, and draw what happened.

    Example: edgecape demo

    Example: edgecape demo --support cow.json --query cow2.jpg cow3.jpg

    Args:
        output: Folder for the pictures.
        support: A marked photo of yours: our small JSON, COCO, LabelMe or another label file.
        query: Photos of yours to find its keypoints on.
        model: A model folder, hub id or official checkpoint; the default model if not given.
    """
    from edgecape.errors import AnnotationError
    from edgecape.examples import Example, all_examples
    from edgecape.formats.supports import read_supports
    from edgecape.io.images import load_image

    if (support is None) != (not query):
        raise AnnotationError("a demo on your own pictures needs both --support and --query")
    if support is None:
        examples = all_examples()
    else:
        shown = read_supports(support).supports[0]
        examples = [Example(support.stem, "your photos", shown, tuple(load_image(path) for path in query))]

    print("loading the model …", flush=True)
    from edgecape.drawing import save_picture, story
    from edgecape.io.files import write_json
    from edgecape.predictor import EdgeCape

    estimator = EdgeCape.from_pretrained(model)
    for example in examples:
        prompt = estimator.prompt(example.support)
        poses = estimator.predict(prompt, list(example.queries))
        picture = output / f"{example.name}.png"
        save_picture(picture, story(example.support, prompt, list(zip(example.queries, poses, strict=True))))
        found = [pose.to_dict() for pose in poses]
        content = {"names": prompt.names, "skeleton": prompt.skeleton, "graph": prompt.graph.tolist(), "poses": found}
        write_json(output / f"{example.name}.json", content, indent=1)
        print(f"  {picture}: {example.about}", flush=True)
    print(f"pictures and keypoints are in {output.resolve()}")
    print("next: edgecape demo --support YOUR.json --query PHOTO …, or edgecape predict --help")
    return 0


def main(arguments: list[str]) -> int:
    return tyro.cli(demo, prog="edgecape demo", args=arguments)
