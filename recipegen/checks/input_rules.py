"""What is said of input that cannot be used: the rules that reading a matrix or a profile, and following it to a plan, hold."""

from __future__ import annotations

from recipegen.checks.input_meaning import MATRIX, input_rule
from recipegen.checks.input_points import POINTS
from recipegen.checks.input_profiles import PROFILE
from recipegen.checks.rule import RuleText

_TEXT = (
    input_rule(
        "text-size",
        """The file is too large.

        A matrix of thousands of points stays far below the limit of 4 MiB; a larger file is a log, an archive or an attack, and reading
        it would only take time.

        Mend: name the right file; split a matrix into leaf folders.
        """,
    ),
    input_rule(
        "text-encoding",
        """The file is not UTF-8.

        YAML is UTF-8; what other encodings hold would reach names, paths and scripts as other characters than those on the screen.

        Mend: save the file as UTF-8.
        """,
    ),
    input_rule(
        "text-control",
        """The file holds control characters, or marks that reorder text.

        What is reviewed would not be what runs: an escape can hide a line on the terminal, a bidirectional mark can turn a value round,
        a lone carriage return can overwrite one. In a job name or a directive such a character begins a line of its own in the script.

        Mend: delete the character; line ends are LF or CR LF.
        """,
    ),
)
_YAML = (
    input_rule(
        "yaml-syntax",
        """The file is not YAML.

        Nothing after the place can be judged.

        Mend: as the message says; most often a missing space after ':', a quote that is not closed, or a wrong indentation.
        """,
    ),
    input_rule(
        "yaml-tab",
        """A tab stands where YAML wants spaces.

        YAML forbids tabs in indentation, and editors show them with different widths.

        Mend: indent with spaces.
        """,
    ),
    input_rule(
        "yaml-tag",
        """A value carries a tag.

        Tags such as !!python/object/apply make careless readers run code while they load the file. A recipe is plain data: what a value
        is, its text says.

        Mend: take the tag away; quote what shall be text.
        """,
    ),
    input_rule(
        "yaml-alias",
        """An anchor or alias cannot be used.

        An alias without anchor means nothing, one within its own value never ends, and aliases of aliases let a small file stand for
        millions of values: a launcher that expands them hangs before it says a word.

        Mend: correct the name, or write the value out.
        """,
    ),
    input_rule(
        "yaml-depth",
        """Values are nested too deep.

        No recipe nests more than a handful of levels; thousands of them only exhaust whoever reads the file.

        Mend: check the brackets.
        """,
    ),
    input_rule(
        "yaml-duplicate",
        """A key stands twice in one mapping.

        Most YAML readers keep the last and drop the first without a word; which one was meant shows in the job, if at all.

        Mend: leave one of the two.
        """,
    ),
    input_rule(
        "yaml-merge",
        """A merge key '<<' is used.

        YAML 1.2 has no merge keys: readers of 1.1 merge, others see a key called '<<'.

        Mend: write the keys out; `common` holds what all roles share.
        """,
    ),
    input_rule(
        "yaml-key",
        """A key is not text.

        Keys that YAML reads as a number, as true or as nothing are other keys to other readers.

        Mend: quote the key.
        """,
    ),
    input_rule(
        "yaml-scalar",
        """A value means different things to different YAML readers.

        YAML 1.1 reads `1:30:00` as 5400, `no` as false and `010` as 8; 1.2 reads text, text and 10. A time limit of 5400 is 90 hours to
        Slurm, which counts in minutes.

        Mend: quote what is text; write numbers in plain decimals.
        """,
    ),
    input_rule(
        "yaml-document",
        """The file holds directives, or more than one document.

        Only the first document would count, and the rest be lost without a word.

        Mend: one file, one document, no '%' lines.
        """,
    ),
    input_rule(
        "yaml-mapping",
        """The file is empty, or is no mapping.

        A matrix or a profile is 'key: value' at its top level.

        Mend: name the right file; begin with `schema:`.
        """,
    ),
    input_rule(
        "more-problems",
        """There are more problems than are listed.

        A hundred are shown, the rest is counted.

        Mend: mend the first ones; often the others go with them.
        """,
    ),
)
_SCHEMA = (
    input_rule(
        "schema-unknown-key",
        """A key is not known.

        A misspelt key that is dropped leaves its default in force: the job runs, with another setting than the one on the screen. A
        profile that was dropped as a whole for one such key sent jobs to the wrong partition.

        Mend: take the near match that the message names, or remove the key.
        """,
        covers=(1, 4),
    ),
    input_rule(
        "schema-missing",
        """A key is missing.

        What it decides has no default that would be right. Without a time limit Slurm takes the partition's, without concurrencies
        there is nothing to measure once the model is loaded.

        Mend: add the key.
        """,
    ),
    input_rule(
        "schema-type",
        """A value is of the wrong kind.

        Text where a number belongs (`two`), a number where text belongs (5400 for a time limit, which Slurm takes for minutes): other
        launchers carry it into the job, where it fails after the start, or is cut to something else.

        Mend: write the kind that the message expects; quotes make text.
        """,
    ),
    input_rule(
        "schema-value",
        """A value is of the right kind but not allowed.

        It is out of range, not among the choices, or holds characters that are not safe in a script, a path or a Slurm directive: a
        name with a newline would add a line to the batch script, one with '$(...)' run a command.

        Mend: take what the message expects.
        """,
    ),
)
INPUT_RULES: tuple[RuleText, ...] = (*_TEXT, *_YAML, *_SCHEMA, *MATRIX, *POINTS, *PROFILE)
"""Every id that a Problem of a matrix or a profile may carry. All are errors, and none can be allowed."""
