"""Reading answers of pages."""

import re


def text_of(response) -> str:
    return re.sub(r"\s+", " ", response.content.decode())
