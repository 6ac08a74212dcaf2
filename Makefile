# Every target but `parity` sets up .venv first (quick when nothing changed). Ctrl-C reaches the program itself.
VENV_PYTHON := .venv/bin/python
# Bytecode is kept, whatever the environment says: tests start this code in a hundred processes.
unexport PYTHONDONTWRITEBYTECODE
.PHONY: help setup demo up test test-deep chaos check lint types security arrows docs audit bench parity trackers lm-eval manifests lock wheel clean
.DEFAULT_GOAL := help

help:
	@echo "make demo    train two recipes and watch their predicted ceilings (EXIT=1: end when both are done)"
	@echo "make up      start the local stack (ARGS='--port 8001' passes options on)"
	@echo "make test    all tests (ARGS='tests/scaling -q' passes options on)"
	@echo "make test-deep  the long forms: property tests, made-up requests, kill matrix (an hour)"
	@echo "make chaos   kill every part at three moments of a run (ARGS='--part driver --moment mid' for one cell)"
	@echo "make check   lint, format, types, imports, bandit"
	@echo "make docs    build the site of the docs into site/, links checked"
	@echo "make audit   known vulnerabilities of the pinned dependencies (asks PyPI)"
	@echo "make bench   benchmarks with their baselines"
	@echo "make parity  compare the losses with TRL's and verl's, the model with torchtitan's, in an environment of its own"
	@echo "make trackers  the real clients of MLflow and trackio, TRL and verl, against a real server"
	@echo "make lm-eval  the real lm-evaluation-harness on a tiny model, in an environment on top of .venv"
	@echo "make manifests  hold deploy/ to the schemas of Kubernetes and to hadolint"
	@echo "make lock    recompile requirements.lock from pyproject.toml and requirements/*.in"
	@echo "make wheel   dist/headroom-VERSION-py3-none-any.whl (docs/packaging.md)"
	@echo "make clean   remove caches (never var/, where the data are)"

setup:
	@bash scripts/setup.sh

# `exec`: make waits for the program itself, which stops its children on Ctrl-C or SIGTERM.
demo: setup
	@exec $(VENV_PYTHON) manage.py demo $(if $(EXIT),--exit) $(ARGS)

up: setup
	@exec $(VENV_PYTHON) manage.py up $(ARGS)

# Side by side, but for a single test: one for each core. tests/scheduling.py says what never runs twice at a time.
SIDE_BY_SIDE := -n $(shell nproc) --maxprocesses 5 --dist loadfile
test: setup
	@exec $(VENV_PYTHON) -m pytest $(if $(findstring ::,$(ARGS)),,$(SIDE_BY_SIDE)) $(ARGS)

# TEST_DEEP: tests/deep.py. Property tests carry hypothesis' own mark.
test-deep: setup
	@exec env TEST_DEEP=1 $(VENV_PYTHON) -m pytest -m "deep or long_form or hypothesis" $(SIDE_BY_SIDE) $(ARGS)

# The whole matrix takes about an hour; ARGS='--short' is what CI runs as a test.
chaos: setup
	@exec env TEST_DEEP=1 $(VENV_PYTHON) -m tests.chaos $(ARGS)

# Two at a time; what each says comes in one piece.
check: setup
	@$(MAKE) --no-print-directory --jobs 2 --output-sync=target types security lint arrows

lint:
	$(VENV_PYTHON) -m ruff check .
	$(VENV_PYTHON) -m ruff format --check .

types:
	$(VENV_PYTHON) -m mypy .

security:
	$(VENV_PYTHON) -m bandit -q -c pyproject.toml -r webapp worker headroom observability stack training scaling

arrows:
	.venv/bin/lint-imports --no-cache

# The variable silences an advertisement of the theme.
docs: setup
	NO_MKDOCS_2_WARNING=1 .venv/bin/mkdocs build --quiet --strict $(ARGS)
	@echo "docs: site/index.html"

# --strict: a dependency that could not be looked up fails, too; it is not known to be good.
audit: setup
	$(VENV_PYTHON) -m pip_audit --strict --no-deps --disable-pip -r requirements.lock

bench: setup
	@set -e; for file in benchmarks/bench_*.py; do echo "== $$file"; PYTHONPATH=. $(VENV_PYTHON) "$$file"; done

# No `setup`: TRL, verl and torchtitan get an environment of their own.
parity:
	@exec bash scripts/parity.sh $(ARGS)

# The clients get an environment of their own; the server runs from .venv.
trackers: setup
	@exec bash scripts/trackers.sh $(ARGS)

lm-eval: setup
	@exec bash scripts/lm_eval.sh $(ARGS)

# No `setup`: an environment of their own.
manifests:
	@exec bash scripts/manifests.sh

# torch is installed by scripts/setup.sh; its CUDA companions are not wanted on CPU, and ninja (the build tool) would
# overwrite django-ninja.
lock: setup
	.venv/bin/uv pip compile pyproject.toml --extra server --extra train requirements/*.in --python-version 3.11 \
		--override requirements/overrides.txt --no-header --no-annotate --quiet --generate-hashes $(ARGS) \
		--output-file requirements.lock
	awk '/^[^ ]/ {left_out = /^(torch|nvidia-|cuda-|triton|ninja=)/ && !/^nvidia-ml-py/} !left_out' requirements.lock > requirements.lock.partial
	mv requirements.lock.partial requirements.lock
	.venv/bin/uv pip compile pyproject.toml --extra vllm --python-version 3.11 \
		--override requirements/overrides.txt --no-header --no-annotate --quiet $(ARGS) --output-file deploy/docker/ray-gpu.lock

# Without build isolation: the locked hatchling, and no network.
wheel: setup
	$(VENV_PYTHON) -m pip wheel --quiet --no-deps --no-build-isolation --wheel-dir dist .

clean:
	rm -rf dist site .pytest_cache .mypy_cache .ruff_cache .hypothesis build test-artifacts
	find . -path './.venv*' -prune -o -name __pycache__ -type d -print0 | xargs -0 rm -rf
