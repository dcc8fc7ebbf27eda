"""What is said of a matrix whose text and shape are right, but whose meaning is not; of its points, `input_points` tells."""

from __future__ import annotations

import inspect

from recipegen.checks.rule import RuleText


def input_rule(id: str, text: str, *, covers: tuple[int, ...] = ()) -> RuleText:  # noqa: A002
    """Make a rule that no function checks: input is refused where it is read."""
    return RuleText(id=id, text=inspect.cleandoc(text), covers=covers)


MATRIX = (
    input_rule(
        "model-unknown",
        """There is no such model.

        `model` is a file of recipegen/data/models/, and so is the `architecture` of a model that the matrix pins itself: without its
        numbers nothing can be sized, and without its pin nothing be reproduced.

        Mend: take the near match, or add the model's file; or write `model: {repo: ORG/NAME, revision: ...}`.
        """,
    ),
    input_rule(
        "hardware-unknown",
        """There is no such hardware.

        `hardware` is a file of recipegen/data/hardware/: it says how many GPUs a node has and how many nodes an NVLink domain.

        Mend: take the near match, or add the file.
        """,
    ),
    input_rule(
        "dynamo-source",
        """The source of Dynamo does not fit how it is installed.

        `wheel` and `git` need to know what to install, `present` and `pip` would leave a source unused: the job would run another
        Dynamo than the one named.

        Mend: add `source`, take it away, or change `install`.
        """,
    ),
    input_rule(
        "frontend-single",
        """Something is said of nginx, and there is one front end.

        nginx stands before several front ends only. What is said of it would have no effect, and nobody would notice.

        Mend: set `frontend.replicas` to 2 or more, or leave it out.
        """,
    ),
    input_rule(
        "session-header",
        """Sessions are told apart by a header that is no session's.

        Requests of one value go to one front end. `Host` has one value for all clients, so that one front end gets everything;
        `Content-Length` and the like have another for each request, so that a session is spread.

        Mend: name a header that clients set for this, such as `X-Dynamo-Session-ID`.
        """,
    ),
    input_rule(
        "path-traversal",
        """A path climbs by '..'.

        What it leads to depends on where it is read from, and that may be outside of what was reviewed.

        Mend: write the path that it leads to.
        """,
    ),
    input_rule(
        "env-reserved",
        """An environment variable belongs to the job, the shell or Slurm.

        The job's scripts need it for themselves: a recipe that sets PATH or NODE_RANK breaks them in ways that show only when engines
        start. Of bash's own names some lose their value (SECONDS), and some are read as arithmetic, which runs code (RANDOM).

        Mend: choose another name; what the launcher sets is set through the topology or the profile.
        """,
    ),
    input_rule(
        "env-value",
        """The value of an environment variable holds control characters.

        A newline in a value splits listings of the environment, in logs and in `srun --export`, into lines that look like other
        variables.

        Mend: write one line of text.
        """,
    ),
    input_rule(
        "flag-owned",
        """A flag of an engine or of the front end is decided elsewhere.

        Parallel sizes follow from the topology, addresses, ranks and ports from the nodes, model and context length from their own
        keys; what all of Dynamo's processes must agree on, the job gives. A second word on them would be dropped without notice, or
        break the rendezvous when engines start.

        Mend: set it where the message says.
        """,
    ),
    input_rule(
        "flag-twice",
        """One engine flag is set twice.

        `a_b` and `a-b` are the same flag, and so are one in `args` and one in `derive`: vLLM would be given both, and take the last.

        Mend: leave one of the two.
        """,
    ),
    input_rule(
        "flag-value",
        """An engine flag has a value that no flag can have.

        An empty text or list gives a flag without its value; the engine's parser would take the next flag for it, at worker start.

        Mend: give a value; null takes back an inherited one.
        """,
    ),
    input_rule(
        "speculation-twice",
        """Speculation is set by `mtp` and by flags.

        The two could differ between prefill and decode, which NIXL's handshake does not notice and the first request does.

        Mend: leave `mtp`, or set it to 0 and keep the flags.
        """,
    ),
    input_rule(
        "kv-events",
        """KV events are asked for where there are none, or twice.

        Decode workers publish none. Where `kv_events` and a flag both decide, vLLM takes the last: a port that no job keeps free, and
        the router would see nothing of a worker whose port another one has.

        Mend: as the message says.
        Source: Dynamo 1.0 to 1.2 `dynamo/vllm/args.py` create_kv_events_config.
        """,
    ),
    input_rule(
        "formula",
        """A derived flag cannot be computed.

        Its formula does not parse, uses a name that is not known there, divides by zero, or gives a negative size.

        Mend: correct the formula; names that are known are listed in the message.
        """,
    ),
    input_rule(
        "block-size-unknown",
        """No block size is known for the cache's type.

        Prefill and decode of a hybrid model settle on different block sizes when their TP differs, and the first transfer fails after
        hours of loading. For a cache of unknown element size the common one cannot be derived.

        Mend: set `block-size` on both sides.
        """,
    ),
)
