"""A draft as the page shows it: sections of fields, each with its text, its problem and what the revision says."""

from dataclasses import dataclass

from training.schema import CLIP_DEFAULTS
from training.tasks import task_options
from webapp.interfaces.pages.launching.draft import CLIPS, ESSENTIALS, Draft
from webapp.interfaces.pages.launching.specs import Spec, by_path, fields_of, sections
from webapp.interfaces.pages.launching.values import get, to_text

SHORT = 48  # characters of a value in a sentence


@dataclass(frozen=True)
class Field:
    """One setting with what was asked for."""

    spec: Spec
    text: str
    base_text: str
    problems: tuple[str, ...] = ()
    note: str = ""  # what another setting makes of this one

    @property
    def is_changed(self) -> bool:
        """Whether it differs from the chosen revision."""
        return self.text != self.base_text

    @property
    def status(self) -> "Status":
        """What stands under its widget."""
        return status_of(self)

    @property
    def is_on(self) -> bool:
        """Of a switch."""
        return self.text == "true"

    @property
    def was(self) -> str:
        """What the revision says, in a few words."""
        return shown(self.spec, self.base_text)

    @property
    def default(self) -> str:
        """The schema's default in words; empty where a value must be given."""
        return "" if self.spec.required else shown(self.spec, to_text(self.spec, self.spec.default))


@dataclass(frozen=True)
class Section:
    """The fields of a section, and how many of them want to be seen."""

    key: str
    title: str
    help: str
    fields: tuple[Field, ...]
    has_own_problem: bool = False

    @property
    def num_changed(self) -> int:
        return sum(field.is_changed for field in self.fields)

    @property
    def preview(self) -> str:
        """What the section says first, in a few words."""
        shown_fields = [field for field in self.fields if field.text.strip() and not field.spec.is_long]
        return ", ".join(
            f"{field.spec.label.lower()} {shown(field.spec, field.text)}" for field in shown_fields[:3]
        )

    @property
    def num_problems(self) -> int:
        return sum(bool(field.problems) for field in self.fields) + self.has_own_problem


def _inside(label: str) -> str:
    """A label in the middle of a sentence; abbreviations keep their capitals."""
    return label if label[1:2].isupper() else f"{label[:1].lower()}{label[1:]}"


def shown(spec: Spec, text: str) -> str:
    """A value in a sentence: "on", "not set", or the text itself, cut where it is long."""
    if spec.kind == "switch":
        return "on" if text == "true" else "off"
    if not text.strip():
        return "not set"
    line = " ".join(text.split())
    return line if len(line) <= SHORT else f"{line[: SHORT - 3]}..."


def field_of(draft: Draft, path: str) -> Field:
    """One setting of a draft."""
    spec = by_path()[path]
    problems = tuple(draft.checked.problems.get(path, ()))
    return Field(spec, draft.text(spec), draft.base_text(spec), problems, _note(draft, path))


def _note(draft: Draft, path: str) -> str:
    """Whether the setting has an effect beside the others."""
    if path not in CLIPS:
        return ""
    loss_type = str(get(draft.config, "loss.type"))
    used = path.rsplit(".", 1)[-1] in CLIP_DEFAULTS.get(loss_type, {})
    return "" if used else f"Not used by the loss {loss_type}."


def sections_of(draft: Draft) -> list[Section]:
    """Every section with the settings that do not stand on top already."""
    on_top = set(ESSENTIALS.values())
    built = [
        Section(
            section.key,
            section.title,
            section.help,
            tuple(field_of(draft, spec.path) for spec in section.specs if spec.path not in on_top),
            bool(draft.checked.problems.get(section.key)),
        )
        for section in sections()
    ]
    return [section for section in built if section.fields]


def choices() -> list[tuple[str, list[Spec]]]:
    """Every setting that one may change alone, by the title of its section."""
    return [
        (
            section.title,
            [spec for spec in section.specs if spec.path not in ("seed", "name", "title", "description")],
        )
        for section in sections()
    ]


def options_of(task: str) -> list[Field]:
    """What a task's options are, for reading: the defaults as texts. Empty for a task that is not there."""
    schema = task_options(task)
    return [Field(spec, "", to_text(spec, spec.default)) for spec in fields_of(schema)] if schema else []


@dataclass(frozen=True)
class Status:
    """What stands under a widget: its problems, and what the revision says where it differs."""

    id: str
    widget: str  # id of the widget
    name: str  # of the form's field
    label: str
    problems: tuple[str, ...]
    is_changed: bool = False
    was: str = ""
    base_text: str = ""
    note: str = ""


def status_of(field: Field) -> Status:
    """Of a setting."""
    spec = field.spec
    return Status(
        f"st-{spec.id}", f"i-{spec.id}", spec.name, spec.label, field.problems, field.is_changed, field.was,
        field.base_text, field.note,
    )  # fmt: skip
