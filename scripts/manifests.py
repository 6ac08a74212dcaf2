"""`python scripts/manifests.py FOLDER`: each document of the folder fits the newest schema of Kubernetes, strictly.

Runs in the environment of scripts/manifests.sh. A RayCluster has no schema of Kubernetes' own: its pods are looked at.
"""

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import kubernetes_validate
import yaml

Document = dict[str, Any]


def checkable(document: Document) -> Iterator[tuple[str, Document]]:
    """(what it is, what has a schema)."""
    name = f"{document['kind']} {document.get('metadata', {}).get('name', '')}"
    if document["kind"] == "RayCluster":
        for group in (document["spec"]["headGroupSpec"], *document["spec"]["workerGroupSpecs"]):
            pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "ray"}}
            yield f"{name}, {group.get('groupName', 'head')}", pod | {"spec": group["template"]["spec"]}
    else:
        yield name, document


def main(folder: Path) -> int:
    wrong = 0
    for path in sorted(folder.glob("*.yaml")):
        if path.name == "kustomization.yaml":
            continue
        for document in yaml.safe_load_all(path.read_text()):
            for name, one in checkable(document):
                try:
                    kubernetes_validate.validate(one, kubernetes_validate.latest_version(), strict=True)
                    print(f"{path.name}: {name} fits")
                except kubernetes_validate.ValidationError as error:
                    wrong += 1
                    print(f"{path.name}: {name}: {'.'.join(map(str, error.path))}: {error.message}")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1])))
