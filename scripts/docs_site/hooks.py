"""What mkdocs calls while it builds the site (mkdocs.yml): pages made from code, figures, plotly.js of the wheel."""

import os
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
FOLDERS = [str(ROOT), str(ROOT / "scripts")]
sys.path[:0] = FOLDERS

from mkdocs.config.defaults import MkDocsConfig  # noqa: E402
from mkdocs.structure.files import File, Files  # noqa: E402
from mkdocs.structure.pages import Page  # noqa: E402
from mkdocs.utils import get_relative_url  # noqa: E402

from docs_site import api, cli, figures, recipe  # noqa: E402

PLOTLY = "assets/plotly.min.js"
OF_THE_ROOT = {"changelog.md": "CHANGELOG.md", "contributing.md": "CONTRIBUTING.md"}


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add what docs/ does not hold: the reference, two pages of the root, plotly.js."""
    sys.path[:0] = [
        folder for folder in FOLDERS if folder not in sys.path
    ]  # mkdocs takes back what a hook added
    _set_up_django()
    made = {"reference/cli.md": cli.page, "reference/api.md": api.page, "reference/recipe.md": recipe.page}
    for path, page in made.items():
        files.append(File.generated(config, path, content=page()))
    for path, name in OF_THE_ROOT.items():
        content = (ROOT / name).read_text().replace("](docs/", "](")
        for there, root_name in OF_THE_ROOT.items():
            content = content.replace(f"]({root_name})", f"]({there})")
        files.append(File.generated(config, path, content=content))
    files.append(File.generated(config, PLOTLY, abs_src_path=str(figures.plotly_js())))
    return files


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Draw the figures of a page where it asks for one."""
    drawn = figures.drawn(markdown)
    if drawn == markdown:
        return markdown
    here = [get_relative_url(name, page.url) for name in (PLOTLY, "assets/figures.js")]
    return drawn + "".join(f'\n\n<script src="{name}"></script>' for name in here) + "\n"


def _set_up_django() -> None:
    """No database and no home is needed: only what the code says of itself."""
    import django
    from django.apps import apps

    if apps.ready:
        return
    with tempfile.TemporaryDirectory(prefix="headroom-docs-") as home:
        os.environ["HEADROOM_HOME"] = home
        os.environ.setdefault("DJANGO_SETTINGS_MODULE", "webapp.settings")
        django.setup()
