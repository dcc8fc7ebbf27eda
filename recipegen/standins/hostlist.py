"""Slurm's notation for lists of hosts: `local-[01-03,07]`."""

from __future__ import annotations

import re


def expand(text: str) -> list[str]:
    """Return the hosts in their order; ValueError when the text is none of Slurm's."""
    hosts: list[str] = []
    for part in re.split(r",(?![^\[]*\])", text) if text else []:
        found = re.fullmatch(r"([^\[\],]*)(?:\[(\d+(?:-\d+)?(?:,\d+(?:-\d+)?)*)\])?([^\[\],]*)", part)
        if not found:
            raise ValueError(f"Invalid hostlist: {text}")
        prefix, ranges, suffix = found[1], found[2], found[3]
        hosts += [f"{prefix}{number}{suffix}" for number in _numbers(ranges)] if ranges else [part]
    return hosts


def compress(hosts: list[str]) -> str:
    """Return hosts of one prefix and increasing number as Slurm writes them, any others separated by commas."""
    parts = [re.fullmatch(r"(.*?)(\d+)", host) for host in hosts]
    found = [part for part in parts if part]
    if len(hosts) < 2 or len(found) != len(hosts) or len({(part[1], len(part[2])) for part in found}) != 1:
        return ",".join(hosts)
    ranges: list[list[str]] = []
    for part in found:
        if ranges and int(ranges[-1][-1]) + 1 == int(part[2]):
            ranges[-1] = [ranges[-1][0], part[2]]
        else:
            ranges.append([part[2]])
    return f"{found[0][1]}[{','.join('-'.join(one) for one in ranges)}]"


def _numbers(ranges: str) -> list[str]:
    numbers = []
    for one in ranges.split(","):
        low, _, high = one.partition("-")
        numbers += [str(n).zfill(len(low)) for n in range(int(low), int(high or low) + 1)]
    return numbers
