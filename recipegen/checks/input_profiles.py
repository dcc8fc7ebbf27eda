"""What is said of a cluster's profile whose text and shape are right, but whose meaning is not."""

from __future__ import annotations

from recipegen.checks.input_meaning import input_rule

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
