"""Checks: one rule a function, over what is known before anything is submitted."""
