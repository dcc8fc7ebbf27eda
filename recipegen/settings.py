"""What an author set: engine flags, environment variables and formulas, each with its places in the file."""

from __future__ import annotations

from dataclasses import dataclass

from recipegen.errors import NOWHERE, Source

Value = str | int | float | bool | tuple[str | int | float, ...]
"""What an engine flag can hold: a JSON argument is its text, `True` a bare flag, a tuple several values of one flag."""


@dataclass(frozen=True)
class KeyPlace:
    """Where a key of a JSON argument, written as a mapping, and its value stand; `path` are the keys that lead to it."""

    path: tuple[str | int, ...]
    key: Source
    value: Source


@dataclass(frozen=True, kw_only=True)
class Setting:
    """One `args`, `env` or `derive` entry as the author wrote it; `None` removes an inherited one.

    `source` is the place of the value, `key_source` that of the name; `places` those within a value that is a mapping.
    """

    name: str
    value: Value | None
    source: Source
    key_source: Source = NOWHERE
    places: tuple[KeyPlace, ...] = ()

    @property
    def name_place(self) -> Source:
        """Where the name stands, or the value where that is not known."""
        return self.key_source if self.key_source.file else self.source

    def place_of(self, path: tuple[str | int, ...], *, key: bool = False) -> Source:
        """Where the value at `path` within a mapping stands, or its key; the nearest that is known above it else."""
        for length in range(len(path), 0, -1):
            for place in self.places:
                if place.path == path[:length]:
                    return place.key if key else place.value
        return self.source


@dataclass(frozen=True, kw_only=True)
class RoleSettings:
    """What the author set for a role: engine flags, environment, and flags given by a formula; and where that begins."""

    args: tuple[Setting, ...] = ()
    env: tuple[Setting, ...] = ()
    derive: tuple[Setting, ...] = ()
    source: Source = NOWHERE


def merge_settings(*layers: RoleSettings) -> RoleSettings:
    """Return the settings of several layers; a later layer's word on a name wins over both args and derive of an earlier."""
    args: dict[str, Setting] = {}
    derive: dict[str, Setting] = {}
    env: dict[str, Setting] = {}
    for layer in layers:
        for setting in layer.args:
            derive.pop(setting.name, None)
            args[setting.name] = setting
        for setting in layer.derive:
            args.pop(setting.name, None)
            derive[setting.name] = setting
        env |= {setting.name: setting for setting in layer.env}
    return RoleSettings(args=tuple(args.values()), env=tuple(env.values()), derive=tuple(derive.values()))
