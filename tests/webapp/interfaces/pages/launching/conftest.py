import html
import re

import pytest


@pytest.fixture
def whole_form(ada, launch_form):
    """What a browser sends of the whole form of the tiny default, as the page has it."""
    page = ada.get("/runs/new", {"recipe": "tiny-scalerl"}).content.decode()
    inputs = re.findall(r"<input[^>]*>", page)
    sent = {
        name[1]: value[1]
        for tag in inputs
        if (name := re.search(r'name="(s\.[^"]+)"', tag)) and (value := re.search(r'value="([^"]*)"', tag))
        if "type=" in tag and ("checkbox" not in tag and "radio" not in tag or " checked" in tag)
    }
    areas = re.findall(r'<textarea[^>]*name="([^"]+)"[^>]*>\n?(.*?)</textarea>', page, re.DOTALL)
    selects = re.findall(r'<select[^>]*name="(s\.[^"]+)"[^>]*>(.*?)</select>', page, re.DOTALL)
    chosen = {name: re.search(r'value="([^"]*)" selected', options) for name, options in selects}
    return (
        launch_form
        | sent
        | {name: html.unescape(text) for name, text in areas}
        | {name: found[1] if found else "" for name, found in chosen.items()}
        | {"with_settings": "1", "source": "form"}
    )
