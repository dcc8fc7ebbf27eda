"""Sizes that follow from a model, a topology and a workload; pure arithmetic with sources."""
