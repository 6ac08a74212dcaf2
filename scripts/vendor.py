"""Fetches what pages load of others into static/vendor: `python scripts/vendor.py [PACKAGE VERSION]`.

static/vendor/pinned.json has version and digest of each package. Without arguments those are fetched again, and nothing
is written where the registry's archive is another. Needs npm, which no installation of Headroom does.
"""

import base64
import hashlib
import json
import re
import subprocess
import sys
import tarfile
import tempfile
from pathlib import Path

FOLDER = Path(__file__).resolve().parent.parent / "static" / "vendor"
PINNED = FOLDER / "pinned.json"
# Package -> pattern of files in its archive -> their names here.
FILES = {
    "plotly.js-cartesian-dist-min": {
        r"plotly-cartesian\.min\.js": "plotly-cartesian.min.js",
        "LICENSE": "plotly-LICENSE.txt",
    },
    "katex": {
        r"dist/(katex\.min\.(?:js|css))": r"katex/\1",
        r"dist/(fonts/\w+-\w+\.woff2)": r"katex/\1",
        "LICENSE": "katex/LICENSE.txt",
    },
}
OLD_FONTS = re.compile(rb',url\([^)]+\.(?:woff|ttf)\) format\("\w+"\)')  # of browsers before 2016: not kept


def fetched(package: str, version: str) -> bytes:
    """The archive of a version, by the npm client."""
    with tempfile.TemporaryDirectory() as folder:
        command = ["npm", "pack", f"{package}@{version}", "--silent", "--pack-destination", folder]
        subprocess.run(command, check=True, timeout=300, stdout=subprocess.DEVNULL)
        (archive,) = Path(folder).glob("*.tgz")
        return archive.read_bytes()


def integrity_of(archive: bytes) -> str:
    """In the form in which registries give it."""
    return f"sha512-{base64.b64encode(hashlib.sha512(archive).digest()).decode()}"


def unpack(archive: bytes, files: dict[str, str]) -> dict[str, str]:
    """Write the files; their SHA-256 by name."""
    digests = {}
    with tempfile.TemporaryFile() as file:
        file.write(archive)
        file.seek(0)
        with tarfile.open(fileobj=file) as tar:
            for member in sorted(tar.getnames()):
                for pattern, name in files.items():
                    if found := re.fullmatch(f"package/{pattern}", member):
                        kept = found.expand(name)
                        digests[kept] = write(FOLDER / kept, tar.extractfile(member).read())  # type: ignore[union-attr]
    return digests


def write(path: Path, content: bytes) -> str:
    """A style sheet without fonts that are not kept; the SHA-256."""
    content = OLD_FONTS.sub(b"", content) if path.suffix == ".css" else content
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content)
    return hashlib.sha256(content).hexdigest()


def main(wanted: dict[str, str]) -> int:
    """`wanted`: package -> another version than the pinned one."""
    pinned = json.loads(PINNED.read_text())
    for package, files in FILES.items():
        before = pinned.get(package, {})
        version = wanted.get(package) or before["version"]
        found = integrity_of(archive := fetched(package, version))
        if version == before.get("version") and found != before["integrity"]:
            print(f"{package} {version} is another than the pinned one: {found}", file=sys.stderr)
            return 1
        pinned[package] = {"version": version, "integrity": found, "sha256": unpack(archive, files)}
        print(f"{package} {version}, {found}")
    PINNED.write_text(json.dumps(pinned, indent=2) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main({sys.argv[1]: sys.argv[2]} if len(sys.argv) > 1 else {}))
