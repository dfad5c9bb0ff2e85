"""edgecape status: how far a run is."""

from __future__ import annotations

import json
from dataclasses import asdict
from typing import Annotated

import tyro
from tyro.conf import FlagCreatePairsOff, Positional, arg


def status(
    output: Positional[Annotated[str, arg(metavar="OUT")]],
    as_json: Annotated[bool, FlagCreatePairsOff, arg(name="json")] = False,
) -> int:
    """Say what of a run is done, what failed and what is left, also while it goes on and from any machine.

    Example: edgecape status out

    Example: edgecape status s3://bucket/out --json

    Exit code: 0 all is done, 1 something failed or is left, 2 bad input.

    Args:
        output: Folder of the results, or a place in an object store.
        as_json: Print a JSON object.
    """
    from edgecape.batch.locking import holders
    from edgecape.batch.manifest import MANIFEST, Run
    from edgecape.batch.survey import survey
    from edgecape.errors import DataError
    from edgecape.io.storage import open_folder

    place = open_folder(output)
    run = Run.open(place)
    if run is None:
        raise DataError(f"{output} holds no run: it has no {MANIFEST}")
    state = survey(run)
    at_work = holders(place)
    facts = {
        "done": state.done,
        "failed": state.failed,
        "left": state.left,
        "parts_left": len(state.missing),
        "damaged": state.damaged,
        "at_work": at_work,
        "looked_for": asdict(run.wanted),
    }
    if as_json:
        print(json.dumps(facts, ensure_ascii=False))
    else:
        print(f"{state.done} done, {len(state.failed)} failed, {state.left} left in {len(state.missing)} parts")
        said = {"at work": at_work, "damaged": state.damaged, "failed": list(state.failed.values())}
        for label, line in ((label, line) for label, lines in said.items() for line in lines):
            print(f"{label}: {line}")
    return int(bool(state.failed or state.missing))


def main(arguments: list[str]) -> int:
    return tyro.cli(status, prog="edgecape status", args=arguments)
