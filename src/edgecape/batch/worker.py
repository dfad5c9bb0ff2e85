"""One shard: photos through the predictor, drawn if that is wanted, and the part written. The same for every engine."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from itertools import tee
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from edgecape.batch.manifest import Listed, Run, Shard
from edgecape.batch.outputs import drawn_name
from edgecape.batch.parts import Outcome, whole_part, write_part
from edgecape.batch.queries import content_digest, fetched
from edgecape.drawing import draw_poses, save_picture
from edgecape.errors import EdgeCapeError, ImageError
from edgecape.formats.labels import check_text
from edgecape.io import images, video
from edgecape.io.images import RGB
from edgecape.types import Box

if TYPE_CHECKING:
    from edgecape.predictor import EdgeCape

READERS = 4  # photos that are fetched and read at once, while others are being looked at
In = TypeVar("In")
Out = TypeVar("Out")


@dataclass(frozen=True, eq=False)
class _Item:
    """A photo or frame on its way; `outcome` says what is known of it so far."""

    outcome: Outcome
    image: Any = None  # a file, or a frame
    boxes: list[Box] | None = None
    held: ExitStack = field(default_factory=ExitStack)  # the copy of a photo that lies in a store


class Worker:
    """Holds one model; all else comes from the run's output."""

    def __init__(self, run: Run, estimator: EdgeCape, draw: bool, batch_size: int | None = None, names: bool = False):
        """draw: photos, with the names of keypoints if those are wanted."""
        self.run, self.estimator, self.draw, self.names = run, estimator, draw, names
        self.batch_size = batch_size or run.batch_size
        self.prompt, self.boxes = run.prompt(), run.boxes()

    def do(self, shard: Shard) -> Iterator[Outcome]:
        """Each photo's outcome as it comes; when all have come the part is there, and its pictures."""
        part = whole_part(self.run, shard)
        if part is None:
            yield from write_part(self.run, shard, self._predicted(shard), self.draw)
        elif self.draw and not part.drawn:
            number = self.run.list_of(shard)
            yield from write_part(self.run, shard, (self._drawn_later(x, number) for x in part), self.draw)
        else:
            yield from part

    # --- from photos to outcomes ---------------------------------------------------------------------------

    def _predicted(self, shard: Shard) -> Iterator[Outcome]:
        is_film = shard.members[0].frames is not None
        items = self._frames(shard) if is_film else ahead(self._photo, shard.members, READERS)
        return (self._outcome(item, found) for item, found in self._answers(items))

    def _answers(self, items: Iterator[_Item]) -> Iterator[tuple[_Item, Any]]:
        """Each with what the predictor says of it, in order."""
        waiting: deque[_Item] = deque()  # taken by the predictor and not answered yet
        while True:
            try:
                for found in self._stream(items, waiting):
                    while waiting[0].outcome.failed is not None:
                        yield waiting.popleft(), None
                    yield waiting.popleft(), found
            except Exception:  # of a kind that nobody foresaw: alone, each photo shows whether it is the cause
                if not waiting:  # no photo is
                    raise
                alone = [(item, self._alone(item)) for item in waiting]
                waiting.clear()
                yield from alone
                continue
            yield from ((item, None) for item in waiting)
            return

    def _stream(self, items: Iterator[_Item], waiting: deque[_Item]) -> Iterator[Any]:
        def taken() -> Iterator[_Item]:
            for item in items:
                waiting.append(item)
                if item.outcome.failed is None:
                    yield item

        pictures, boxes = tee(taken())
        return self.estimator.predict(
            self.prompt,
            (item.image for item in pictures),
            (item.boxes for item in boxes),
            batch_size=self.batch_size,
            errors="return",
            effort=self.run.wanted.effort,
        )

    def _alone(self, item: _Item) -> Any:
        if item.outcome.failed is not None:
            return None
        try:
            effort = self.run.wanted.effort
            found = self.estimator.predict(self.prompt, [item.image], [item.boxes], errors="return", effort=effort)
            return found[0]
        except Exception as error:
            return f"image {item.outcome.file} cannot be done: {type(error).__name__}: {error}"

    def _outcome(self, item: _Item, found: Any) -> Outcome:
        """From what the predictor says: a pose, poses, or what was wrong; nothing if that was known before."""
        with item.held:
            if item.outcome.failed is not None:
                return item.outcome
            try:
                if isinstance(found, (str, EdgeCapeError)):
                    raise ImageError(str(found))
                poses = tuple(found) if isinstance(found, list) else (found,)
                if not isinstance(item.image, Path):
                    return replace(item.outcome, size=item.image.shape[1::-1], poses=poses)
                outcome = replace(item.outcome, size=images.image_size(item.image), poses=poses)
                if self.draw:
                    self._draw(outcome, item.image)
                return outcome
            except ImageError as error:
                return replace(item.outcome, failed=str(error).replace(str(item.image), item.outcome.file))

    def _draw(self, outcome: Outcome, photo: Path) -> None:
        picture = draw_poses(photo, outcome.poses, names=self.names)
        with self.run.output.writing(drawn_name(outcome.file)) as path:
            save_picture(path, picture)

    def _drawn_later(self, outcome: Outcome, number: int) -> Outcome:
        if outcome.failed is None and outcome.frame is None and self.run.is_newest(outcome.file, number):
            try:
                with fetched(outcome.file) as path:
                    self._draw(outcome, path)
            except ImageError as error:  # it is gone, or another since
                return replace(outcome, size=None, poses=(), failed=str(error))
        return outcome

    # --- from lists to photos ------------------------------------------------------------------------------

    def _photo(self, listed: Listed) -> _Item:
        blank = Outcome(listed.file, None, listed.bytes, listed.mtime, None)
        held = ExitStack()
        try:
            check_text(listed.file)  # result files cannot hold every name: found out now, not when all is done
            boxes = None if self.boxes is None else self.boxes.find(listed.file)
            path = held.enter_context(fetched(listed.file))
            if path == Path(listed.file):  # it may have been replaced since it was listed
                facts = path.stat()
                blank = replace(blank, bytes=facts.st_size, mtime=facts.st_mtime_ns)
            return _Item(replace(blank, digest=content_digest(path)), path, boxes, held)
        except FileNotFoundError:
            return _Item(replace(blank, failed=f"image {listed.file} does not exist"))
        except Exception as error:  # whatever it is, it ends this photo only
            return _Item(replace(blank, failed=_said(error, listed)))

    def _frames(self, shard: Shard) -> Iterator[_Item]:
        (listed,) = shard.members
        blank = Outcome(listed.file, None, listed.bytes, listed.mtime, None)
        try:
            check_text(listed.file)
            with fetched(listed.file) as path:
                for number, frame in enumerate(video.read_frames(path, shard.first, shard.stop), start=shard.first):
                    yield self._frame(replace(blank, frame=number), frame)
        except Exception as error:  # as above
            yield _Item(replace(blank, failed=_said(error, listed)))

    def _frame(self, blank: Outcome, frame: RGB) -> _Item:
        try:
            boxes = None if self.boxes is None else self.boxes.find(blank.entry_name)
            return _Item(blank, frame, boxes)
        except EdgeCapeError as error:
            return _Item(replace(blank, failed=str(error)))


def _said(error: Exception, listed: Listed) -> str:
    known = isinstance(error, EdgeCapeError)
    return str(error) if known else f"{listed.file} cannot be read: {type(error).__name__}: {error}"


def ahead(function: Callable[[In], Out], things: Iterable[In], number: int) -> Iterator[Out]:
    """As map, in order, but `number` of them are under way before they are asked for."""
    with ThreadPoolExecutor(number) as pool:
        coming: deque[Future[Out]] = deque()
        for thing in things:
            coming.append(pool.submit(function, thing))
            if len(coming) > number:
                yield coming.popleft().result()
        while coming:
            yield coming.popleft().result()
