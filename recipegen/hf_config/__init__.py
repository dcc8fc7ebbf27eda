"""Reads a model's `config.json`, as the Hugging Face hub has it, and writes the data file that describes the model here."""

from __future__ import annotations

from recipegen.hf_config.data_file import format_model, make_key
from recipegen.hf_config.json_source import read_total_size
from recipegen.hf_config.reading import Reading, read, read_config

__all__ = ["Reading", "format_model", "make_key", "read", "read_config", "read_total_size"]
