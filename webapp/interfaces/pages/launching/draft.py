"""What a person has asked for so far: the chosen revision with the changes of the form or of the text beside it."""

import copy
from collections.abc import Mapping
from dataclasses import dataclass, field

from django.http import QueryDict

from webapp.base.formats import Unreadable
from webapp.interfaces.pages import configuration
from webapp.interfaces.pages.launching import specs
from webapp.interfaces.pages.launching.preview import Checked, check
from webapp.interfaces.pages.launching.specs import Config, Spec, by_path
from webapp.record.recipes.models import Revision

# A field of the form that stands on top -> the setting that it is.
ESSENTIALS = {
    "task": "task.name",
    "task_options": "task.options",
    "model": "model",
    "seed": "seed",
    "budget_hours": "budget.device_hours",
}
OF_THE_RUN = ("model", "seed", "budget.device_hours")  # no part of what a recipe says
CLIPS = ("loss.eps_low", "loss.eps_high", "loss.eps_max")
MAX_MESSAGE = 300


@dataclass
class Draft:
    """`config` is settled where it is valid, else as written. `resent`: settings that the form shows differently.

    `yaml_problem`: why the text cannot become a form; then the form and `config` are as they were.
    """

    base: Config
    config: Config
    yaml_text: str
    checked: Checked = field(default_factory=Checked)
    yaml_problem: str = ""
    from_yaml: bool = False
    resent: tuple[str, ...] = ()

    @property
    def is_valid(self) -> bool:
        """Whether it can be launched, as far as is known."""
        return self.checked.recipe is not None and not self.checked.problems and not self.yaml_problem

    def text(self, spec: Spec) -> str:
        """A setting as its field shows it."""
        return specs.to_text(spec, specs.get(self.config, spec.path))

    def base_text(self, spec: Spec) -> str:
        """The same of the chosen revision."""
        return specs.to_text(spec, specs.get(self.base, spec.path))


def of_revision(revision: Revision, wanted: Mapping[str, object] | None = None) -> Draft:
    """The revision as it is, with the values of some settings (path -> value), checked as while a person types."""
    base = specs.settled(revision.config)
    config = copy.deepcopy(base)
    for path, value in (wanted or {}).items():
        specs.put(config, path, value)
    draft = _checked(base, config, live=True)
    draft.yaml_text = specs.document(draft.config)
    return draft


def of_form(revision: Revision, data: QueryDict, *, live: bool) -> Draft:
    """The revision with what was sent, checked. `data` of a text (source "yaml") has its essentials in it already."""
    base = specs.settled(revision.config)
    if data.get("source") == "yaml":
        return _of_text(base, data.get("yaml", ""), live)
    config, unreadable, raw = copy.deepcopy(base), {}, {}
    for path, text in sent_settings(data).items():
        spec = by_path()[path]
        try:
            raw[path] = specs.from_text(spec, text)
        except Unreadable as error:
            raw[path], unreadable[path] = text, str(error)
        specs.put(config, path, raw[path])
    if data.get("changed") == "task" or "task_options" not in data:  # options belong to their task
        is_own = specs.get(config, "task.name") == specs.get(base, "task.name")
        specs.put(config, "task.options", specs.get(base, "task.options") if is_own else {})
    if data.get("changed") == "s.loss.type":  # and clip values to their loss type
        for path in CLIPS:
            specs.put(config, path, None)
    draft = _checked(base, config, live)
    for path, reason in unreadable.items():
        draft.checked.problems[path] = []
        draft.checked.add(path, reason)
    draft.yaml_text = specs.document(draft.config)
    draft.resent = _settled_otherwise(draft, raw, data.get("changed", ""))
    return draft


def _of_text(base: Config, text: str, live: bool) -> Draft:
    text = text.replace("\r\n", "\n")
    try:
        config = specs.parse_document(text)
        problem = specs.misfit(config)
    except Unreadable as error:
        config, problem = base, f"The text {error}"
    if problem:
        draft = Draft(base, copy.deepcopy(base), text, yaml_problem=f"{problem.rstrip('.')}.", from_yaml=True)
        draft.checked.add("", draft.yaml_problem)
        return draft
    draft = _checked(base, config, live)
    draft.yaml_text, draft.from_yaml = text, True
    return draft


def _checked(base: Config, config: Config, live: bool) -> Draft:
    checked = check(config, live=live)
    if checked.recipe is not None:
        config = checked.recipe.model_dump(mode="json")
    return Draft(base, config, "", checked=checked)


def sent_settings(data: QueryDict) -> dict[str, str]:
    """Path -> text of every setting that was sent; a switch that is off is sent by its absence."""
    sent = {path: str(data[name]) for name, path in ESSENTIALS.items() if name in data and name != "seed"}
    if data.get("seed"):
        sent["seed"] = str(data["seed"]).replace(",", " ").split(" ")[0]
    for path, spec in by_path().items():
        is_asked = "with_settings" in data or data.get("change") == path
        if path in ESSENTIALS.values() or not is_asked:
            continue
        if spec.name in data:
            sent[path] = str(data[spec.name])
        elif spec.kind == "switch":
            sent[path] = "false"
    return sent


def _settled_otherwise(draft: Draft, raw: Config, typed: str) -> tuple[str, ...]:
    """Settings that came out differently from what the form shows, but for the one that is being typed."""
    if draft.checked.recipe is None:
        return ()
    return tuple(
        path
        for path in raw
        if by_path()[path].name != typed
        and path not in (*OF_THE_RUN, "task.name")
        and specs.to_text(by_path()[path], raw[path]) != draft.text(by_path()[path])
    )


def with_essentials_of_text(data: QueryDict) -> QueryDict:
    """What was sent, with the essentials that the text names in place of those of the form; as it is without a text."""
    if data.get("source") != "yaml":
        return data
    try:
        config = specs.parse_document(data.get("yaml", ""))
    except Unreadable:
        return data
    if specs.misfit(config):
        return data
    mixed = data.copy()
    for name, path in ESSENTIALS.items():
        value = specs.get(config, path)
        value = by_path()[path].default if value is None else value
        text = specs.to_text(by_path()[path], value)
        mixed[name] = _seeds_with(data.get("seed", ""), text) if name == "seed" else text
    return mixed


def _seeds_with(seeds: str, first: str) -> str:
    """The seeds of the form, the first of them as the text says it."""
    others = seeds.replace(",", " ").split()[1:]
    return ", ".join(dict.fromkeys([first, *others]))


def of_the_recipe(draft: Draft) -> Config | None:
    """What a new revision would have to say for this draft; None where the chosen revision says it already.

    Model, seed and budget are the run's own and no part of a recipe, and so is another task without options.
    """
    config = copy.deepcopy(draft.config)
    for path in OF_THE_RUN:
        specs.put(config, path, specs.get(draft.base, path))
    asked, own = config["task"], draft.base["task"]
    if asked["options"] == (own["options"] if asked["name"] == own["name"] else {}):
        config["task"] = own
    return config if differences(draft.base, config) else None


def changes(draft: Draft) -> list[configuration.Change]:
    """What the new revision would change, setting by setting; empty where none is needed."""
    config = of_the_recipe(draft)
    return [] if config is None else differences(draft.base, config)


def differences(before: Config, after: Config) -> list[configuration.Change]:
    """As `configuration.differences`, with values as the form writes them."""
    written = [_written(change, before, after) for change in configuration.differences(before, after)]
    return [change for change in written if (change.before or "") != (change.after or "")]


def _written(change: configuration.Change, before: Config, after: Config) -> configuration.Change:
    if (spec := by_path().get(change.path)) is None:
        return change
    texts = [
        None if text is None else specs.to_text(spec, specs.get(config, change.path))
        for text, config in ((change.before, before), (change.after, after))
    ]
    return configuration.Change(change.path, *texts)


def message_of(changed: list[configuration.Change]) -> str:
    """The changes on one line: "optimizer.lr 5e-5 → 1e-4; loss.type cispo → grpo"."""
    shown = lambda value: specs.cut(value or "not set", 60)
    parts = [f"{change.path} {shown(change.before)} → {shown(change.after)}" for change in changed]
    return specs.cut("; ".join(parts), MAX_MESSAGE)
