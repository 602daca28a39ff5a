# A fresh clone -> a virtual environment with ablate in it, and the job asked for.
#
#   make smoke   run studies/smoke.yaml and print where its PDF lies (6 trials, some eight minutes on 2 CPU cores)
#   make test    run the tests (the slow and GPU ones apart)
#   make lint    ruff and mypy
#   make clean   remove caches and build products; runs/, reports/ and the environment stay
#
# Needs Python 3.11 or newer, make and g++ (torch.compile builds C++ on a CPU). Variables: VENV, PYTHON, PYTEST_ARGS.

VENV ?= .venv
PYTEST_ARGS ?= -n auto --dist loadfile
PYTHON ?= $(firstword $(foreach p,python3.11 python3.12 python3.13 python3,\
	$(shell $(p) -c 'import sys; sys.exit(sys.version_info < (3, 11))' >/dev/null 2>&1 && echo $(p))))
IN_VENV := $(VENV)/bin/python
PIP := $(IN_VENV) -m pip --disable-pip-version-check install --quiet

.PHONY: smoke test lint clean install install-dev
.DELETE_ON_ERROR:

smoke: $(VENV)/.installed
	@command -v g++ >/dev/null || { echo "g++ is missing: torch.compile needs it on a CPU; install it first" >&2; exit 1; }
	$(VENV)/bin/ablate run studies/smoke.yaml
	@echo "The report: $(CURDIR)/reports/hm-smoke/report.pdf"

test: $(VENV)/.installed-dev
	$(IN_VENV) -m pytest $(PYTEST_ARGS)

lint: $(VENV)/.installed-dev
	$(IN_VENV) -m ruff check .
	$(IN_VENV) -m ruff format --check .
	$(IN_VENV) -m mypy

install: $(VENV)/.installed

install-dev: $(VENV)/.installed-dev

$(VENV)/bin/python:
	@test -n "$(PYTHON)" || { echo "no Python 3.11 or newer found: install one, or name it: make PYTHON=..." >&2; exit 1; }
	$(PYTHON) -m venv $(VENV)

$(VENV)/.installed: pyproject.toml | $(VENV)/bin/python
	$(PIP) --editable .
	@touch $@

$(VENV)/.installed-dev: pyproject.toml | $(VENV)/bin/python
	$(PIP) --editable '.[dev]'
	@touch $@ $(VENV)/.installed

clean:
	rm -rf .pytest_cache .mypy_cache .ruff_cache .hypothesis build dist
	find ablate tests benchmarks -name __pycache__ -type d -prune -exec rm -rf {} +
