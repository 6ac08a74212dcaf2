"""Fetches the prebuilt cartesian bundle of plotly.js into static/vendor: `python scripts/vendor_plotly.py [VERSION]`.

static/vendor/plotly.json pins version and digest. Without VERSION that one is fetched again, and nothing is written
where the registry's archive is another. Needs npm, which no installation of Headroom does.
"""

import base64
import hashlib
import json
import subprocess
import sys
import tarfile
import tempfile
from pathlib import Path

PACKAGE = "plotly.js-cartesian-dist-min"
FOLDER = Path(__file__).resolve().parent.parent / "static" / "vendor"
PINNED = FOLDER / "plotly.json"
FILES = {"plotly-cartesian.min.js": "plotly-cartesian.min.js", "LICENSE": "plotly-LICENSE.txt"}


def fetched(version: str) -> bytes:
    """The archive of a version, by the npm client."""
    with tempfile.TemporaryDirectory() as folder:
        command = ["npm", "pack", f"{PACKAGE}@{version}", "--silent", "--pack-destination", folder]
        subprocess.run(command, check=True, timeout=300, stdout=subprocess.DEVNULL)
        (archive,) = Path(folder).glob("*.tgz")
        return archive.read_bytes()


def integrity_of(archive: bytes) -> str:
    """In the form in which registries give it."""
    return f"sha512-{base64.b64encode(hashlib.sha512(archive).digest()).decode()}"


def unpack(archive: bytes) -> dict[str, str]:
    """Write the files; their SHA-256 by name."""
    digests = {}
    with tempfile.TemporaryFile() as file:
        file.write(archive)
        file.seek(0)
        with tarfile.open(fileobj=file) as tar:
            for name, kept in FILES.items():
                member = tar.extractfile(f"package/{name}")
                assert member is not None, name
                (FOLDER / kept).write_bytes(content := member.read())
                digests[kept] = hashlib.sha256(content).hexdigest()
    return digests


def main(wanted: str | None) -> int:
    pinned = json.loads(PINNED.read_text()) if PINNED.exists() else {}
    version = wanted or pinned["version"]
    archive = fetched(version)
    found = integrity_of(archive)
    if version == pinned.get("version") and found != pinned["integrity"]:
        print(f"{PACKAGE} {version} is another than the pinned one: {found}", file=sys.stderr)
        return 1
    told = {"package": PACKAGE, "version": version, "integrity": found, "sha256": unpack(archive)}
    PINNED.write_text(json.dumps(told, indent=2) + "\n")
    print(f"{PACKAGE} {version}, {found}")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1] if len(sys.argv) > 1 else None))
