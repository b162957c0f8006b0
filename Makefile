# Everything lives in .venv and build/, also the cache of compiled objects. Needs python3 (3.11 or newer, with venv), make,
# g++ and a package index; no CUDA, no GPU.
#
#   PYTHON=python3.12 make demo       another interpreter for .venv
#   PIP_EXTRA_INDEX_URL=... make demo another package index (pip reads its own variables)

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready
ARCH := sm_90,host
export FUSEBUILD_CACHE_DIR ?= $(CURDIR)/build/cache
# Tests start hundreds of interpreters. Where this is set, each of them would compile all of fusebuild again.
unexport PYTHONDONTWRITEBYTECODE
NATIVE := $(wildcard fusebuild/runtime/native/*)
CXX_SOURCES := $(shell find templates/include fusebuild/runtime/native tests/device tests/native -name '*.h' -o -name '*.cc' -o -name '*.cu' -o -name '*.cuh')

.DEFAULT_GOAL := help
.PHONY: help setup demo test test-all test-sanitizers lint docs lock bench bench-segmentation fuzz clean
.DELETE_ON_ERROR:

help:  ## say what there is
	@grep -E '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/^([a-z-]+):.*## /  make \1\t/' | expand -t 27

setup: $(READY)  ## put fusebuild and all that it needs into .venv
	@echo "ready: $(BIN)/fusebuild, or . $(BIN)/activate"

demo: $(READY)  ## compile every recipe for sm_90 and the CPU, ARCH=sm_80,sm_100 for others; run the small cases on the CPU
	@$(BIN)/python -m fusebuild.cli.demo recipes --out build --arch $(ARCH)

test: $(READY)  ## run the tests that need no GPU; of many alike, a sample
	@$(BIN)/pytest -n 2 --dist worksteal -m 'not gpu and not exhaustive'

test-all: $(READY)  ## compile every recipe for every kind of GPU, and run every test that needs none
	@$(MAKE) --no-print-directory demo ARCH=sm_80,sm_90,sm_100,host
	@$(BIN)/pytest -n 2 --dist worksteal -m 'not gpu'

test-sanitizers: $(READY)  ## run the executor under ThreadSanitizer, AddressSanitizer and UBSan
	@$(BIN)/pytest -n 2 tests/runtime/test_sanitizers.py

lint: $(READY)  ## ruff, mypy and clang-format; changes nothing
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/clang-format --dry-run -Werror $(CXX_SOURCES)

docs: $(READY)  ## build the documentation into build/docs; a warning is an error
	$(BIN)/sphinx-build --quiet --fail-on-warning --keep-going --nitpicky --builder html docs build/docs

lock: $(READY)  ## write requirements*.lock again (UPGRADE=1: with the newest versions)
	@.ci/lock

bench: $(READY)  ## measure every recipe on this machine's GPU, beside torch and copies
	@if $(BIN)/python -c 'import sys, torch; sys.exit(not torch.cuda.is_available())'; then \
	  $(BIN)/fusebuild compile recipes --out build --arch $(ARCH) && \
	  $(BIN)/fusebuild bench build --json build/bench.json; \
	else \
	  echo "torch in $(VENV) finds no CUDA device, so there is nothing to measure here. On a machine with a GPU:"; \
	  echo "  pip install '.[nvcc]' torch numpy    # a torch built for CUDA"; \
	  echo "  fusebuild compile recipes --out build --arch $(ARCH)"; \
	  echo "  fusebuild bench build --json build/bench.json"; \
	fi

bench-segmentation: $(READY)  ## compare the cuts with the best there are; writes the table of docs/internals/segments.md
	@PYTHONPATH=tests $(BIN)/python -m benchmarks.bench_segmentation --json tests/benchmarks/segmentation_bench.json --page docs/internals/segments.md

fuzz: $(READY)  ## try thousands of random fusions, a sample of them on the CPU
	FUSEBUILD_FUZZ=5000 $(BIN)/pytest -q tests/end_to_end/test_fuzz.py

clean:  ## remove .venv, build/ and all caches
	rm -rf $(VENV) build .mypy_cache .pytest_cache .ruff_cache .hypothesis
	find fusebuild tests -name __pycache__ -type d -prune -exec rm -rf {} +

# An editable install compiles the native executor; it is done again when that, or what it depends on, changes. Everything
# is locked with digests, what the executor is built with, too, so that its build is not isolated.
PIP := $(BIN)/python -m pip --disable-pip-version-check
LOCKED := $(PIP) install --quiet --no-deps --require-hashes --requirement
$(READY): pyproject.toml $(wildcard requirements*.lock) $(NATIVE)
	@echo "setting up $(VENV)"
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	@$(LOCKED) requirements.lock
	@$(LOCKED) requirements-cpu.lock || { echo "no such torch for CPUs: taking the one for CUDA"; $(LOCKED) requirements-cuda.lock; }
	@$(PIP) install --quiet --no-deps --no-build-isolation --editable .
	@said=$$($(PIP) check) || { echo "$$said"; exit 1; }
	@touch $@
