"""What is drawn: how many kinds and objects, how large, and which."""

from __future__ import annotations

from dataclasses import dataclass

from edgecape.errors import SettingsError


@dataclass(frozen=True)
class Drawing:
    kinds: int = 100
    """Of objects."""
    objects: int = 24
    """Of each kind, each in a picture of its own."""
    size: int = 224
    """Pixels of a picture's side."""
    seed: int = 0
    """Another one draws others."""

    def check(self) -> None:
        if self.kinds < 1 or self.objects < 2 or self.size < 64 or self.seed < 0:
            raise SettingsError(
                "draw a kind or more, two objects or more of each, 64 pixels or more, from a seed of 0 or more"
            )
