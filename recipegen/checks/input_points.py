"""What is said of a matrix's points whose text and shape are right, but whose meaning is not."""

from __future__ import annotations

from recipegen.checks.input_meaning import input_rule

POINTS = (
    input_rule(
        "colocate",
        """An aggregated point asks for decode beside prefill.

        `colocate` lets decode workers begin on the GPUs that prefill workers leave free; a point with one role has nothing to put
        together.

        Mend: leave it out.
        """,
    ),
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
