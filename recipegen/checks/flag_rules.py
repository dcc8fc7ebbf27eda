"""Rules over engine flags: of the names and values of settings, and of the flags of a role together."""

from __future__ import annotations

from collections.abc import Iterator

from recipegen.checks.finding import Fault, Severity
from recipegen.checks.flag_env_rules import misspelt_variable
from recipegen.checks.flag_name_rules import NAME_RULES, unless_owned
from recipegen.checks.flag_value_rules import VALUE_RULES
from recipegen.checks.rule import AnyRule, Rule, rule
from recipegen.checks.views import RoleView, SettingView
from recipegen.errors import Source
from recipegen.model import Flag
from recipegen.role_flags import json_keys, switch


@rule("flag-mixed-json", Severity.ERROR)
def mixed_json(view: RoleView) -> Iterator[Fault]:
    """A JSON argument is given both whole and by dotted keys.

    vLLM makes one JSON value of all dotted keys of a flag and puts it last, where it replaces the whole one: `compilation-config:
    {cudagraph_mode: NONE}` with `compilation-config.max_cudagraph_capture_size: 8` loses the mode, and nothing says so.

    Mend: write all keys in one way; a later layer of the matrix replaces a flag, it does not merge into it.
    Source: vLLM `utils/argparse_utils.py` `FlexibleArgumentParser.parse_args`; the same in 0.26 to 0.29.
    """
    whole = {flag.name: flag for flag in view.role.flags if "." not in flag.name}
    for flag in view.role.flags:
        head, dot, _ = flag.name.partition(".")
        if dot and head in whole:
            message = f"'{flag.name}' replaces all that '{head}' says as a whole, without a word"
            yield Fault(_place(flag, view), message, "write all keys in one way")


@rule("flag-two-spellings", Severity.ERROR)
def two_spellings(view: RoleView) -> Iterator[Fault]:
    """One flag is given twice, under two names.

    Of a flag and its `no-` form, or of a name and its alias, the last on the command line counts, and recipegen sorts flags by name:
    which of the two holds is an accident.

    Mend: keep one.
    Source: vLLM `utils/argparse_utils.py` `FlexibleArgumentParser.parse_args`, which warns of a flag written twice under one name only.
    """
    first: dict[tuple[str, ...], Flag] = {}
    for flag in view.role.flags:
        if use := view.catalogue.find(flag.name):
            one = first.setdefault((use.spec.name, *use.keys), flag)
            if one is not flag:
                yield Fault(_place(flag, view), f"'{flag.name}' and '{one.name}' are one flag, and only the last written counts", "keep one of them")


@rule("flag-build", Severity.NOTE)
def other_build(view: RoleView) -> Iterator[Fault]:
    """The flags of the declared build are not known, and those of the nearest release are used.

    A flag that came or went between the two is judged wrongly: what is found is a warning where the builds are not of one release.
    Where the matrix names no build, the newest that is known stands for it.

    Mend: name the build as `runtime.vllm`; make its own flags with `recipegen flags extract`, from its wheel or from what
    `vllm serve --help=all` prints in its container, or name the release that it equals in `recipegen/data/builds.yaml`.
    Source: the shipped flags of vLLM 0.26 to 0.29.
    """
    catalogue = view.catalogue
    if not catalogue.exact:
        message = f"the flags of vLLM {catalogue.asked} are not known; they are checked against those of {catalogue.version}"
        mend = "`recipegen flags extract` makes the flags of a build; one that equals a release is named in data/builds.yaml"
        if not catalogue.asked:
            message, mend = f"`runtime.vllm` is left out; flags are checked against those of {catalogue.version}", "name the build that the image has"
        yield Fault(_build_place(view), message, mend)


@rule("flag-eager-graphs", Severity.WARNING)
def eager_graphs(view: RoleView) -> Iterator[Fault]:
    """Eager execution is asked for beside CUDA graphs.

    `enforce-eager` wins: vLLM switches compilation and CUDA graphs off, with one line in the log. Decode steps then pay for every
    kernel's launch, and the figures are not those of the graphs that the recipe seems to ask for.

    Mend: remove `enforce-eager`, or the mode.
    Source: vLLM 0.26 to 0.29, `config/vllm.py` `VllmConfig.__post_init__`.
    """
    mode = json_keys(view.role, "compilation-config").get("cudagraph_mode")
    if switch(view.role, "enforce-eager") and mode is not None and str(mode).upper() not in {"NONE", "0"}:
        message = f"`enforce-eager` switches CUDA graphs off, whatever `cudagraph_mode: {mode}` of compilation-config says"
        yield Fault(view.at("enforce-eager"), message, "remove one of the two")


SETTING_RULES: tuple[Rule[SettingView], ...] = tuple(unless_owned(one) for one in (*NAME_RULES, *VALUE_RULES))
ROLE_RULES: tuple[Rule[RoleView], ...] = (mixed_json, two_spellings, other_build, eager_graphs, misspelt_variable)
RULES: tuple[AnyRule, ...] = (*SETTING_RULES, *ROLE_RULES)


def _place(flag: Flag, view: RoleView) -> Source:
    return flag.source if flag.source.file else view.role.source


def _build_place(view: RoleView) -> Source:
    """Where the software is pinned, or the file as a whole: the same for all points."""
    pinned = view.recipe.runtime.vllm_source
    return pinned if pinned.file else Source(view.recipe.source.file)
