"""The parsers of our programs, as the page of the command line reads them."""

import sys

from tests.docs.pages import ROOT

if str(ROOT / "scripts") not in sys.path:
    sys.path.append(str(ROOT / "scripts"))

from docs_site import parsers  # noqa: E402

__all__ = ["parsers"]
