import json
from pathlib import Path

import pytest

from training.chat import ChatTemplate, ChatTemplateError
from training.codec import Codec
from training.models import ModelError
from training.pretrain import EOS
from training.tasks.arithmetic import make_prompt


def test_text_comes_back(toy_model: Path) -> None:
    codec = Codec(toy_model)
    text = make_prompt(37, 58).text + "78153509</think>95"

    assert codec.decode(codec.encode(text)) == text
    assert len(codec.encode("<think></think>")) == 2


def test_end_of_sequence_is_not_text(toy_model: Path) -> None:
    codec = Codec(toy_model)

    assert codec.decode(codec.encode(f"95{EOS}")) == "95"


def test_end_of_thinking_is_found(toy_model: Path) -> None:
    codec = Codec(toy_model)

    assert codec.end_of_thinking(codec.encode("15,9</think>9</think>")) == 4
    assert codec.end_of_thinking(codec.encode("15,9")) is None


@pytest.mark.parametrize(
    ("template", "is_open"),
    [
        ("{{ messages[0].content }}<|assistant|><think>", True),
        ("{{ messages[0].content }}<|assistant|><think>\n\n", True),
        ("{{ messages[0].content }}<|assistant|>", False),
        ("{{ messages[0].content }}<|assistant|><think>\n\n</think>\n\n", False),  # thinking is switched off
    ],
)
def test_a_template_that_opens_the_thinking_is_noticed(
    chat_model: Path, template: str, is_open: bool
) -> None:
    write_chat_config(chat_model, template)
    codec = Codec(chat_model, chat_template=True)

    assert codec.opens_thinking(codec.encode_prompt("Think within <think> and </think>.")) is is_open
    assert codec.opens_thinking(codec.encode("Say <think>, but do not")) is False


def test_what_the_vocabulary_lacks_is_an_error(toy_model: Path) -> None:
    with pytest.raises(ValueError, match="cannot spell 'time is up'"):
        Codec(toy_model).encode("time is up")


# What real templates do: roles, bos and eos, loops with a default system message, controls, JSON, a date, generation.
CHATML = """{{ bos_token }}{% if messages[0].role != 'system' %}<|system|>
Be brief.{{ eos_token }}
{% endif %}
{% for message in messages %}
    {%- if message.role not in ['system', 'user', 'assistant'] %}
        {{- raise_exception('unknown role') }}
    {%- endif %}
<|{{ message.role }}|>
{% if message.role == 'assistant' %}{% generation %}{{ message.content }}{% endgeneration %}{% else %}
{{ message.content | trim }}{% endif %}{{ eos_token }}
    {%- if loop.last %}{% break %}{% endif %}
{% endfor %}
{{ {'é': messages[0].content} | tojson }} {{ strftime_now('%Y') }}
{% if add_generation_prompt %}<|assistant|>
{% endif %}"""


@pytest.fixture
def chat_model(tmp_path: Path) -> Path:
    """Folder with a byte-level tokenizer and a chat template."""
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers

    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    vocabulary = {character: number for number, character in enumerate(alphabet)}
    tokenizer = Tokenizer(models.BPE(vocabulary, []))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.add_special_tokens(["<s>", "</s>", "<|user|>", "<|assistant|>", "<|system|>"])
    tokenizer.save(str(tmp_path / "tokenizer.json"))
    write_chat_config(tmp_path, CHATML)
    (tmp_path / "config.json").write_text(json.dumps({"eos_token_id": len(vocabulary) + 1}))
    return tmp_path


def write_chat_config(folder: Path, template: object) -> None:
    config = {
        "tokenizer_class": "PreTrainedTokenizerFast",
        "bos_token": "<s>",
        "eos_token": {"content": "</s>", "__type": "AddedToken", "special": True},
        "add_bos_token": True,
        "chat_template": template,
    }
    (folder / "tokenizer_config.json").write_text(json.dumps(config))


@pytest.mark.parametrize("text", ["What is 1 + 1?", "  <b>ünï\n\n'quoted' \"too\" {{ 7 * 7 }}  ", "<|user|>"])
def test_prompt_is_tokenized_as_transformers_does(chat_model: Path, text: str) -> None:
    from transformers import AutoTokenizer

    messages = [{"role": "user", "content": text}]
    theirs = AutoTokenizer.from_pretrained(chat_model).apply_chat_template(
        messages, add_generation_prompt=True, return_dict=False
    )

    assert Codec(chat_model, chat_template=True).encode_prompt(text) == theirs


def test_without_the_option_the_prompt_is_the_text(chat_model: Path) -> None:
    codec = Codec(chat_model)

    assert codec.encode_prompt("1 + 1?") == codec.encode("1 + 1?")


@pytest.mark.parametrize(
    "template", [[{"name": "rag", "template": "no"}, {"name": "default", "template": "A"}]]
)
def test_template_among_several_and_in_a_file_of_its_own(tmp_path: Path, template: list) -> None:
    write_chat_config(tmp_path, template)
    assert ChatTemplate(tmp_path).render("x") == "A"

    (tmp_path / "chat_template.jinja").write_text("{{ messages[0].content }}!")
    assert ChatTemplate(tmp_path).render("x") == "x!"


@pytest.mark.parametrize(
    "template",
    [
        "{{ ''.__class__.__mro__[1].__subclasses__() }}",  # the way out of templates that are not confined
        "{{ messages.append(1) }}",
        "{{ 1 / 0 }}",
    ],
)
def test_template_is_confined(tmp_path: Path, template: str) -> None:
    write_chat_config(tmp_path, template)

    with pytest.raises(ChatTemplateError, match="the chat template of .* fails"):
        ChatTemplate(tmp_path).render("x")


def test_a_tokenizer_that_cannot_be_used_is_named(tmp_path: Path) -> None:
    (tmp_path / "tokenizer.json").write_text("{}")

    with pytest.raises(ModelError, match=r"tokenizer\.json cannot be used: "):
        Codec(tmp_path)
