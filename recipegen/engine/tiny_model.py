"""The model that mockers serve: a tokenizer and a configuration without weights, small enough to travel with a simulated bundle.

The ids 1000 to 1999 must be whole words. A mocker draws its output from them, and a client that is told no counts re-tokenises the text
it received. Only where each id is one space-led word that the tokenizer finds again as exactly that id does it count what was generated;
with an ordinary vocabulary such random pieces run together, and lengths and throughputs come out wrong by factors.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from itertools import product

SPECIAL_TOKENS = ("<|endoftext|>", "<|im_start|>", "<|im_end|>")
"""Ids 0, 1 and 2. The template marks messages with the last two; the card of a model without an end token is refused."""

SYLLABLES = tuple(map("".join, product("bdfghjklmnprst", "aeiou")))
"""The 70 halves of words. Two of them make 4900 words, ids 399 to 5298, which hold all that a mocker can draw."""

SPACE = "\u0120"
"""How byte-level tokenizers write a space; each word begins with one, so that the text splits where the ids do."""

CHAT_TEMPLATE = (
    "{% for message in messages %}<|im_start|>{{ message['role'] }}\n{{ message['content'] }}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)


def tiny_model_files(*, context_length: int) -> dict[str, bytes]:
    """The files of the model's folder by name, the same bytes everywhere.

    `context_length` is the recipe's max-model-len. A frontend whose card carries it answers 400 to a prompt that leaves no room for a token,
    so that no prompt larger than its cache reaches a mocker, which would neither answer it nor stop taking memory. A card of 0 checks nothing.
    """
    if context_length < 1:
        raise ValueError(f"a context of {context_length} tokens would let every prompt through")
    return {
        "config.json": _json(_config(context_length)),
        "generation_config.json": _json({"eos_token_id": _id_of("<|im_end|>")}),
        "tokenizer.json": _json(_tokenizer()),
        "tokenizer_config.json": _json(_tokenizer_config(context_length)),
    }


def _config(context_length: int) -> dict[str, object]:
    """What Dynamo and transformers read of a configuration; layers and heads only have to be consistent."""
    return {
        "architectures": ["LlamaForCausalLM"],
        "model_type": "llama",
        "vocab_size": len(_vocabulary()),
        "max_position_embeddings": context_length,
        "hidden_size": 64,
        "intermediate_size": 128,
        "num_hidden_layers": 2,
        "num_attention_heads": 4,
        "num_key_value_heads": 2,
        "head_dim": 16,
        "bos_token_id": _id_of("<|im_start|>"),
        "eos_token_id": _id_of("<|im_end|>"),
    }


def _tokenizer_config(context_length: int) -> dict[str, object]:
    return {
        "tokenizer_class": "PreTrainedTokenizerFast",
        "bos_token": "<|im_start|>",
        "eos_token": "<|im_end|>",
        "pad_token": "<|endoftext|>",
        "model_max_length": context_length,
        "clean_up_tokenization_spaces": False,
        "chat_template": CHAT_TEMPLATE,
    }


def _tokenizer() -> dict[str, object]:
    """A byte-level BPE tokenizer: any text has ids, and a run of our words has one id for each."""
    byte_level = {"type": "ByteLevel", "trim_offsets": True, "use_regex": True}
    return {
        "version": "1.0",
        "truncation": None,
        "padding": None,
        "added_tokens": [_special_token(token) for token in SPECIAL_TOKENS],
        "normalizer": None,
        "pre_tokenizer": {**byte_level, "add_prefix_space": False},
        "post_processor": None,
        "decoder": {**byte_level, "add_prefix_space": True},
        "model": {
            "type": "BPE",
            "dropout": None,
            "unk_token": None,
            "continuing_subword_prefix": None,
            "end_of_word_suffix": None,
            "fuse_unk": False,
            "byte_fallback": False,
            "ignore_merges": False,
            "vocab": {token: number for number, token in enumerate(_vocabulary())},
            "merges": list(_merges()),
        },
    }


def _special_token(token: str) -> dict[str, object]:
    return {
        "id": _id_of(token),
        "content": token,
        "single_word": False,
        "lstrip": False,
        "rstrip": False,
        "normalized": False,
        "special": True,
    }


def _id_of(special: str) -> int:
    return SPECIAL_TOKENS.index(special)


def _vocabulary() -> list[str]:
    """All tokens in the order of their ids: the special ones, the bytes, and what each merge makes."""
    return [*SPECIAL_TOKENS, *_byte_alphabet(), *map("".join, _merges())]


def _merges() -> Iterator[tuple[str, str]]:
    """Pairs to join, the most urgent first: letters to syllables, a space to a first syllable, and that to a second one."""
    yield from ((syllable[0], syllable[1]) for syllable in SYLLABLES)
    yield from ((SPACE, syllable) for syllable in SYLLABLES)
    yield from ((SPACE + first, second) for first, second in product(SYLLABLES, SYLLABLES))


def _byte_alphabet() -> list[str]:
    """The characters that byte-level tokenizers write for the bytes 0 to 255: a visible Latin-1 one for itself, from U+0100 on for the rest."""
    visible = {*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)}
    spare = iter(range(0x100, 0x200))
    return [chr(byte if byte in visible else next(spare)) for byte in range(256)]


def _json(value: object) -> bytes:
    """Compact ASCII JSON in the order written here, which no version of Python lays out differently."""
    return json.dumps(value, ensure_ascii=True, separators=(",", ":")).encode("ascii") + b"\n"
