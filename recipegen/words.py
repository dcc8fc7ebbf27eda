"""The words of an engine's command and the variables of its environment."""

from __future__ import annotations

from dataclasses import dataclass

from recipegen.errors import NOWHERE, Source
from recipegen.settings import Value


@dataclass(frozen=True, kw_only=True)
class Flag:
    """An engine flag, resolved; `derivation` tells how a derived value came about, in numbers, `source` where it was written."""

    name: str
    value: Value
    derivation: str = ""
    source: Source = NOWHERE

    @property
    def words(self) -> tuple[str, ...]:
        """`--name value ...` as a command line has it; True is the bare flag, False its negative."""
        if isinstance(self.value, bool):
            return (f"--{self.name}" if self.value else f"--no-{self.name}",)
        values = self.value if isinstance(self.value, tuple) else (self.value,)
        return (f"--{self.name}", *map(str, values))


@dataclass(frozen=True)
class Placeholder:
    """A value that is known only in the job: an address, a port, a rank; a shell variable of that name.

    `before` and `after` is the text around it, in the same word.
    """

    name: str
    before: str = ""
    after: str = ""

    def filled(self, value: str) -> str:
        """The word, once the value is known."""
        return f"{self.before}{value}{self.after}"

    def __str__(self) -> str:
        return self.filled(f"${{{self.name}}}")


Word = str | Placeholder
"""One word of a command line, or the value of a variable."""


@dataclass(frozen=True, kw_only=True)
class EnvVar:
    """An environment variable of a worker process, of the recipe or added by the launcher; `note` says why."""

    name: str
    value: Word
    note: str = ""
    launcher: bool = False
    source: Source = NOWHERE
