"""EdgeCape: mark keypoints on one photo of any object, get them on every other.

>>> from edgecape import EdgeCape, Support
>>> model = EdgeCape.from_pretrained()
>>> prompt = model.prompt(Support("cow1.jpg", keypoints=[(x, y), ...], skeleton=[(0, 1), ...]))
>>> poses = model.predict(prompt, ["cow2.jpg", "cow3.jpg"])
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from edgecape.errors import EdgeCapeError

if TYPE_CHECKING:
    from edgecape.predictor import EdgeCape
    from edgecape.types import Pose, Prompt, Support

__version__ = "0.1.0"
__all__ = ["EdgeCape", "EdgeCapeError", "Pose", "Prompt", "Support"]


def __getattr__(name: str) -> Any:
    """Heavy parts are imported when they are first used, so that `import edgecape` and the command line start fast."""
    if name == "EdgeCape":
        from edgecape.predictor import EdgeCape

        return EdgeCape
    if name in ("Pose", "Prompt", "Support"):
        from edgecape import types

        return getattr(types, name)
    raise AttributeError(f"module 'edgecape' has no attribute '{name}'")
