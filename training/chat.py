"""A model's chat template, rendered as transformers does, with jinja2's sandbox alone."""

import json
from datetime import datetime
from functools import cached_property
from pathlib import Path
from typing import Any

from training.whole_files import read_json


class ChatTemplateError(ValueError):
    """The model has no chat template, or one that cannot be rendered."""


class ChatTemplate:
    """The template of a model folder: chat_template.jinja, else `chat_template` in tokenizer_config.json."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        config = read_json(folder / "tokenizer_config.json")
        self._source = _template_of(folder, config)
        if not self._source:
            raise ChatTemplateError(f"{folder} has no chat template (rollout.chat_template asks for one)")
        tokens = {name: value for name, value in config.items() if name.endswith("_token")}
        self._special = {
            name: value["content"] if isinstance(value, dict) else value
            for name, value in tokens.items()
            if isinstance(value, str) or (isinstance(value, dict) and "content" in value)
        }

    def render(self, text: str) -> str:
        """A conversation of one user message, up to where the model's answer begins. ChatTemplateError where the
        template fails."""
        import jinja2

        messages = [{"role": "user", "content": text}]
        try:
            return self._compiled.render(messages=messages, add_generation_prompt=True, **self._special)
        except (jinja2.TemplateError, TypeError, ValueError, ArithmeticError, LookupError) as error:
            raise ChatTemplateError(f"the chat template of {self._folder} fails: {error}") from None

    @cached_property
    def _compiled(self) -> Any:
        from jinja2.ext import Extension, loopcontrols
        from jinja2.sandbox import ImmutableSandboxedEnvironment

        class Generation(Extension):
            """`{% generation %}` marks the assistant's words; for a prompt it is no more than its content."""

            tags = {"generation"}

            def parse(self, parser: Any) -> Any:
                next(parser.stream)
                return parser.parse_statements(("name:endgeneration",), drop_needle=True)

        environment = ImmutableSandboxedEnvironment(
            trim_blocks=True, lstrip_blocks=True, extensions=[Generation, loopcontrols]
        )
        environment.filters["tojson"] = _to_json
        environment.globals["raise_exception"] = _raise
        environment.globals["strftime_now"] = lambda form: datetime.now().strftime(form)
        return environment.from_string(self._source)


def _template_of(folder: Path, config: dict[str, Any]) -> str:
    file = folder / "chat_template.jinja"
    if file.is_file():
        return file.read_text()
    template = config.get("chat_template")
    if isinstance(template, list):  # several, by name
        named = {item.get("name"): item.get("template") for item in template if isinstance(item, dict)}
        template = named.get("default")
    return template if isinstance(template, str) else ""


def _to_json(value: Any, indent: int | None = None, ensure_ascii: bool = False, **options: Any) -> str:
    """Unlike jinja2's own, without escapes for HTML."""
    return json.dumps(value, ensure_ascii=ensure_ascii, indent=indent, **options)


def _raise(message: str) -> None:
    import jinja2

    raise jinja2.TemplateError(message)
