"""What the schemas of files are made of: texts that match a pattern, counts, names, and the strict base of all models."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field, GetCoreSchemaHandler, ValidationError, ValidatorFunctionWrapHandler
from pydantic_core import CoreSchema, PydanticCustomError
from pydantic_core.core_schema import no_info_wrap_validator_function


@dataclass(frozen=True)
class Matching:
    """A text that matches a pattern; one that does not is refused by what was expected, in words, instead of the pattern."""

    pattern: str
    wanted: str
    most: int = 1000

    def __get_pydantic_core_schema__(self, source: object, make: GetCoreSchemaHandler) -> CoreSchema:
        return no_info_wrap_validator_function(self._check, {**make(source), "pattern": self.pattern, "max_length": self.most})

    def _check(self, value: object, match: ValidatorFunctionWrapHandler) -> object:
        try:
            return match(value)
        except ValidationError as error:
            if all(found["type"] == "string_pattern_mismatch" for found in error.errors()):
                raise PydanticCustomError("string_pattern_mismatch", "expected {wanted}", {"wanted": self.wanted}) from None
            raise


Count = Annotated[int, Field(ge=1, le=10_000_000)]
Size = Annotated[int, Field(ge=0, le=10_000_000)]
Name = Annotated[str, Matching(r"^[a-z0-9][a-z0-9._-]*$", "lower-case letters, digits and . _ -, a letter or digit first", most=100)]
EnvName = Annotated[str, Matching(r"^[A-Za-z_][A-Za-z0-9_]*$", "the name of a variable: letters, digits and _", most=100)]
FlagName = Annotated[
    str, Matching(r"^[a-z0-9][A-Za-z0-9_-]*(\.[A-Za-z0-9_-]+)*\+?$", "a flag without dashes in front, such as max-num-seqs", most=100)
]
Multiple = Annotated[float, Field(gt=0, le=1_000_000)]
PathText = Annotated[str, Matching(r"^[A-Za-z0-9._/][A-Za-z0-9._/+@=-]*$", "a path or a hub id: letters, digits and . _ / + @ = -", most=300)]
Duration = Annotated[str, Matching(r"^([0-9]{1,3}-([01]?[0-9]|2[0-3])|[0-9]{1,3}):[0-5][0-9]:[0-5][0-9]$", "H:MM:SS or D-HH:MM:SS")]

PythonClass = Annotated[str, Matching(r"^[A-Za-z_][A-Za-z0-9_]*(\.[A-Za-z_][A-Za-z0-9_]*)+$", "a class such as package.module.Class", most=200)]
WheelOrGit = Annotated[str, Matching(r"^[^\s'\"$`\\;-][^\s'\"$`\\;]*$", "a wheel or a git URL, without blanks, quotes, $ and ;", most=300)]


class Strict(BaseModel):
    """No unknown keys, no conversion between types."""

    model_config = ConfigDict(extra="forbid", strict=True, defer_build=True)
