from __future__ import annotations

import hashlib
import json
import re
from itertools import pairwise
from random import Random
from typing import Any

import pytest

from recipegen.engine.tiny_model import SPACE, tiny_model_files

DRAWN = range(1000, 2000)
"""The ids that a mocker's random output is made of."""

FILES = tiny_model_files(context_length=10240)


def read(name: str, files: dict[str, bytes] = FILES) -> Any:
    return json.loads(files[name])


MODEL = read("tokenizer.json")["model"]
WORDS: list[str] = list(MODEL["vocab"])
RANKS = {tuple(pair): rank for rank, pair in enumerate(MODEL["merges"])}


def byte_pairs(piece: str) -> list[str]:
    """The textbook rule, written independently: join the most urgent neighbours until none are left."""
    parts = list(piece)
    while pairs := [(RANKS[pair], at) for at, pair in enumerate(pairwise(parts)) if pair in RANKS]:
        _, at = min(pairs)
        parts[at : at + 2] = ["".join(parts[at : at + 2])]
    return parts


def encode(text: str) -> list[int]:
    """Ids of a plain ASCII text: split before the spaces, as byte-level tokenizers do, then join pairs."""
    pieces = [piece.replace(" ", SPACE) for piece in re.findall(r" ?[a-z]+", text)]
    return [MODEL["vocab"][part] for piece in pieces for part in byte_pairs(piece)]


def decode(ids: list[int]) -> str:
    return "".join(WORDS[number] for number in ids).replace(SPACE, " ")


def test_the_bytes_do_not_change() -> None:
    digest = hashlib.sha256()
    for name, data in sorted(FILES.items()):
        digest.update(name.encode() + b"\0" + data)
    assert digest.hexdigest() == "1a32074da6c50bf083462efe7417f81425527e41649cc1f6139b83de678be550"
    assert tiny_model_files(context_length=10240) == FILES
    assert all(data.isascii() and data.endswith(b"}\n") for data in FILES.values())


def test_ids_are_numbered_without_gaps() -> None:
    assert list(MODEL["vocab"].values()) == list(range(5299))
    assert read("config.json")["vocab_size"] == 5299


@pytest.mark.parametrize("number", [DRAWN[0], 1234, DRAWN[-1]])
def test_a_drawn_id_is_a_whole_word(number: int) -> None:
    assert re.fullmatch(SPACE + "[a-z]{4}", WORDS[number])


def test_every_drawn_id_comes_back_as_itself() -> None:
    assert [encode(decode([number])) for number in DRAWN] == [[number] for number in DRAWN]


def test_any_run_of_drawn_ids_comes_back_as_itself() -> None:
    drawn = Random(1).choices(DRAWN, k=2000)
    assert encode(decode(drawn)) == drawn


def test_the_library_agrees() -> None:
    tokenizers = pytest.importorskip("tokenizers", reason="the tokenizers library comes with the extra [sim]")
    tokenizer = tokenizers.Tokenizer.from_str(FILES["tokenizer.json"].decode())
    drawn = Random(2).choices(DRAWN, k=2000)
    assert tokenizer.encode(tokenizer.decode(drawn)).ids == drawn
    assert tokenizer.encode("<|im_end|>").ids == [read("config.json")["eos_token_id"]]
    text = "any text, é and \U0001f600\n"
    assert tokenizer.decode(tokenizer.encode(text).ids) == text


def test_the_context_is_the_recipes() -> None:
    files = tiny_model_files(context_length=4096)
    assert read("config.json", files)["max_position_embeddings"] == 4096
    assert read("tokenizer_config.json", files)["model_max_length"] == 4096
    assert files["tokenizer.json"] == FILES["tokenizer.json"]


@pytest.mark.parametrize("length", [0, -1])
def test_a_context_that_would_check_nothing_is_refused(length: int) -> None:
    with pytest.raises(ValueError, match="let every prompt through"):
        tiny_model_files(context_length=length)


def test_the_end_token_is_stated_where_each_reader_looks() -> None:
    assert read("config.json")["eos_token_id"] == read("generation_config.json")["eos_token_id"] == 2
    assert read("tokenizer_config.json")["eos_token"] == WORDS[2]


def test_the_chat_template_writes_every_message() -> None:
    jinja2 = pytest.importorskip("jinja2")
    template = jinja2.Environment(autoescape=False).from_string(read("tokenizer_config.json")["chat_template"])
    messages = [{"role": "system", "content": "be brief"}, {"role": "user", "content": "hi"}]
    assert template.render(messages=messages, add_generation_prompt=True) == (
        "<|im_start|>system\nbe brief<|im_end|>\n<|im_start|>user\nhi<|im_end|>\n<|im_start|>assistant\n"
    )
