"""What is said of a matrix or a profile whose text and shape are right, but whose meaning is not."""

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
POINTS = (
    input_rule(
        "topology-notation",
        """A topology cannot be read.

        The notation is TP, PP, DP with sizes (TP2DP4, TEP8, DEP16, TP8+EP), after the number of workers: 2xTP2DP4.

        Mend: take the near match that the message names.
        """,
    ),
    input_rule(
        "worker-gpus",
        """The GPUs of a worker are not TP x PP x DP.

        Other launchers find that out in the job: the process is refused, or GPUs stay idle for its whole run.

        Mend: correct `gpus`, or the topology.
        """,
        covers=(5,),
    ),
    input_rule(
        "roles",
        """A point has not the roles of a deployment.

        Prefill without decode gives an endpoint that never answers; `agg` beside them is a second deployment.

        Mend: give `prefill` and `decode`, or `agg` alone.
        """,
    ),
    input_rule(
        "concurrency-order",
        """Concurrencies do not rise, or repeat.

        The point's name and its buffers follow from the first and the last; a repeated one would overwrite its own results.

        Mend: sort them, each once.
        """,
    ),
    input_rule(
        "time-limit",
        """The time limit is too short to be one.

        Start and tear-down alone take minutes, and 0 is no limit at all for Slurm.

        Mend: give the hours that loading and measuring take.
        """,
    ),
    input_rule(
        "point-twice",
        """Two points have the same name.

        They would be rendered into the same folder, one over the other.

        Mend: merge their concurrencies, or change one.
        """,
    ),
    input_rule(
        "allow-point",
        """`allow` names a point that does not exist.

        Names follow from the content: after a change of topology or concurrency the entry would allow nothing, or stay for good.

        Mend: take the near match, or remove the name.
        """,
    ),
    input_rule(
        "placement",
        """A worker cannot be laid on the nodes.

        Replicas must fill nodes evenly: TP5 on nodes of 4 GPUs, or DP3 with two replicas a node, leave ranks without GPUs. Other
        launchers allocate too much, or fail when processes start.

        Mend: take sizes that divide into the node's GPUs.
        """,
        covers=(5, 6),
    ),
)
PROFILE = (
    input_rule(
        "profile-unreadable",
        """The cluster profile cannot be read.

        Without it the job would go to the wrong account, partition and paths; a profile is never dropped in silence.

        Mend: correct the path or the file's permissions.
        """,
    ),
    input_rule(
        "profile-record",
        """The profile in a run's record is damaged.

        It says where the run lies and how to ask about it.

        Mend: restore run.json from a copy, or follow the job by hand.
        """,
    ),
    input_rule(
        "profile-text",
        """A value of the profile holds a control character.

        It would begin a new line in site.env, or hide what is written.

        Mend: write one line of plain text.
        """,
    ),
    input_rule(
        "profile-name",
        """A name in the profile is none.

        Profiles are found by the name of their file, which must be the one inside; account, partition, QoS, reservation and interface
        go to Slurm and to scripts as single words.

        Mend: use letters, digits and . _ -; rename the file or the profile.
        """,
    ),
    input_rule(
        "profile-path",
        """A path of the profile cannot be used.

        Paths are read on login node, compute node and in the container: only absolute ones without '..' mean the same everywhere, and
        ':' or ',' part mounts and search paths.

        Mend: write the absolute path that it leads to.
        """,
    ),
    input_rule(
        "profile-sbatch",
        """An sbatch option is not a profile's or a matrix's to set.

        Nodes and tasks follow from the topology, the time limit from the point, output and comment from the run: a second word on the
        command line wins over the script, and the job that runs is not the one reviewed.

        Mend: set it where the message says; write other options by their long name.
        """,
    ),
    input_rule(
        "profile-srun",
        """An srun option is not a profile's or a matrix's to set.

        Every step has its own nodes, container and output. Slurm 25.11 reads `--key value` otherwise than `--key=value`, so only the
        latter is taken.

        Mend: write `--key=value`, and leave what job.sbatch gives to each step.
        """,
    ),
    input_rule(
        "profile-environment",
        """A variable of the profile belongs to the job, or has a key of its own.

        The job's scripts would see another value than the one they were made for.

        Mend: use the key that the message names, or another variable.
        """,
    ),
    input_rule(
        "profile-container",
        """A local cluster runs no containers.

        Containers come from Slurm's pyxis; without Slurm nothing would start them.

        Mend: set container.runtime to none, or scheduler to slurm.
        """,
    ),
)
