#!/usr/bin/env bash
# Holds deploy/kubernetes to the schemas of Kubernetes and the Dockerfile to hadolint's rules, in .venv-manifests, an
# environment of its own, made once (160 MB). PYTHON=/path/to/python3.x chooses its interpreter (3.11 or newer).
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

NAME=manifests
VENV=.venv-manifests
source scripts/environment.sh

stamp=$(stamp_of requirements/manifests.txt scripts/manifests.sh)
if ! is_made "$stamp"; then
    make_venv
    echo "manifests: installing $(grep -c '==' requirements/manifests.txt) pinned packages"
    install_pinned -r requirements/manifests.txt
    echo "$stamp" >"$VENV/setup-stamp"
fi

"$VENV/bin/hadolint" deploy/docker/Dockerfile
exec "$VENV/bin/python" scripts/manifests.py deploy/kubernetes
