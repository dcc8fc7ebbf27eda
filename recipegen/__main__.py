"""`python -m recipegen`."""

from __future__ import annotations

from recipegen.cli import main

main(prog_name="recipegen")
