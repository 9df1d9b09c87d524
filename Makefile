# Every target makes the virtual environment it needs; `make` alone lists the targets.

PYTHON ?= python3
MODEL ?= smollm2-135m
LISTEN ?= 127.0.0.1:50051
THREADS ?=
# Options of the benchmark, such as --peer-python PATH for a Python that has torch and transformers.
BENCH ?=

PULLABLE := smollm2-135m
BIN := .venv/bin
PIP := $(BIN)/python -m pip --disable-pip-version-check
# Written only after a complete install, so that a failed one is tried again.
SERVER := .venv/.installed-server
DEV := .venv/.installed

.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
# Two installs into one environment must not overlap.
.NOTPARALLEL:
.PHONY: help demo test check docker-check processors proto serve bench pull clean

help:  ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "make %-13s %s\n", $$1, $$2 }' Makefile
	@echo
	@echo "Variables: PYTHON=$(PYTHON) MODEL=$(MODEL) LISTEN=$(LISTEN) THREADS=(all)"

demo: $(SERVER)  ## stream text from a real model and compare its logits with the full forward's
	@$(BIN)/zeroulp demo

test: $(DEV)  ## pull the real model, then run every test
	@if $(BIN)/zeroulp pull $(PULLABLE); then \
	    $(BIN)/python -m pytest; \
	else \
	    left=$$($(BIN)/python -m pytest --collect-only -q -m real_model | grep -c '::'); \
	    note="!!! $$left REAL-MODEL TESTS LEFT OUT: $(PULLABLE) could not be pulled (the reason is above)"; \
	    echo "$$note" >&2; \
	    $(BIN)/python -m pytest -m "not real_model"; status=$$?; \
	    echo "$$note" >&2; \
	    exit $$status; \
	fi

check: $(DEV)  ## lint, formatting, types and the direction of imports
	$(BIN)/python -m ruff check
	$(BIN)/python -m ruff format --check
	$(BIN)/python -m mypy
	$(BIN)/lint-imports

docker-check: $(DEV)  ## run the Dockerfile's install step in a fresh environment (no engine needed)
	$(BIN)/python -m pytest tests/house/dockerfile_install.py

processors: $(DEV)  ## compare every bit with kernels compiled for other processors
	$(BIN)/python -m pytest tests/processors/every_processor.py

proto: $(DEV)  ## regenerate the code of proto/zeroulp/v1
	$(BIN)/python tests/house/generate_wire.py

serve: $(SERVER) $(if $(filter $(PULLABLE),$(MODEL)),pull)  ## run the daemon: MODEL, LISTEN, THREADS
	$(BIN)/zeroulp serve --model "$(MODEL)" --listen "$(LISTEN)" $(if $(THREADS),--threads "$(THREADS)")

bench: $(DEV) pull  ## measure the machine, the daemon and its peers
	PYTHONPATH=tests $(BIN)/python -m benchmarks.bench $(BENCH)

pull: $(SERVER)  ## fetch the real model into the user's cache folder
	$(BIN)/zeroulp pull $(PULLABLE)

clean:  ## remove the environment and every cache of the tools (pulled models stay)
	rm -rf .venv .pytest_cache .mypy_cache .ruff_cache .import_linter_cache .hypothesis build dist
	find proto model server client tests -name __pycache__ -type d -prune -exec rm -rf {} +

$(SERVER): pyproject.toml
	$(call install,server)
	@touch $@

# The development install contains the server's.
$(DEV): pyproject.toml
	$(call install,dev)
	@touch $(SERVER) $@

define install
@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { \
    echo "zeroulp needs Python 3.11 or later, and '$(PYTHON)' is not one; name another: make PYTHON=python3.12" >&2; \
    exit 1; }
@$(BIN)/python -m pip --version >/dev/null 2>&1 || $(PYTHON) -m venv .venv || { \
    echo "'$(PYTHON) -m venv' failed; on Debian and Ubuntu it needs the package python3-venv" >&2; exit 1; }
@echo "Installing zeroulp[$(1)] into .venv (a minute or two the first time)"
@$(PIP) install --quiet --editable '.[$(1)]'
endef
