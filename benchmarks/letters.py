"""The same model and data for Headroom and for TRL: eight digits are asked, a letter from A to D is right.

The model is untaught: it answers with up to 32 tokens, ends one in seventeen answers earlier, and is right in about a
quarter of them, so that every group has something to teach. Tokens are digits, and letters behind a sign and a space.
"""

import json
import random
from pathlib import Path

LETTERS = "ABCD"
VOCABULARY_SIZE = 512
PAD, EOS, THINK, END_THINK = "<pad>", "<eos>", "<think>", "</think>"


def vocabulary() -> list[str]:
    """All tokens."""
    words = [PAD, EOS, THINK, END_THINK, *"0123456789"]
    signs = map(chr, range(0x4E00, 0x4E00 + VOCABULARY_SIZE))
    words += [f"{sign} {letter}" for sign in signs for letter in LETTERS]
    return words[:VOCABULARY_SIZE]


def make_model(folder: Path, *, hidden: int = 128, layers: int = 4, heads: int = 4, mlp: int = 256) -> int:
    """A Qwen2-shaped model with random weights, float32; returns its number of parameters (default 0.79 million)."""
    import torch
    from tokenizers import Regex, Tokenizer, decoders, models, pre_tokenizers
    from transformers import Qwen2Config, Qwen2ForCausalLM

    words = vocabulary()
    torch.manual_seed(0)
    config = Qwen2Config(
        vocab_size=len(words),
        hidden_size=hidden,
        intermediate_size=mlp,
        num_hidden_layers=layers,
        num_attention_heads=heads,
        num_key_value_heads=heads,
        max_position_embeddings=256,
        tie_word_embeddings=False,
        pad_token_id=0,
        eos_token_id=1,
        bos_token_id=None,
    )
    model = Qwen2ForCausalLM(config)
    model.save_pretrained(folder)
    tokenizer = Tokenizer(models.WordLevel({word: index for index, word in enumerate(words)}))
    tokenizer.pre_tokenizer = pre_tokenizers.Split(Regex(r"\d|. [A-D]"), behavior="isolated")
    tokenizer.decoder = decoders.Fuse()
    tokenizer.add_special_tokens([PAD, EOS, THINK, END_THINK])
    tokenizer.save(str(folder / "tokenizer.json"))
    settings = {"tokenizer_class": "PreTrainedTokenizerFast", "eos_token": EOS, "pad_token": PAD}
    (folder / "tokenizer_config.json").write_text(json.dumps(settings))
    return sum(parameter.numel() for parameter in model.parameters())


def write_data(file: Path, count: int) -> None:
    """JSON lines with prompt and answer."""
    draw = random.Random(0)
    rows = [
        {"prompt": "".join(draw.choices("0123456789", k=8)), "answer": draw.choice(LETTERS)}
        for _ in range(count)
    ]
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text("".join(json.dumps(row) + "\n" for row in rows))


def is_right(response: str, answer: str) -> bool:
    """Whether the response ends with the letter; the rule that the task `choice` has for such texts."""
    return response.rstrip().endswith(answer)
