# Two commands do everything on a fresh machine: `make run` and `make test`.
PYTHON ?= python3
BIN := .venv/bin
# Set-up leaves the compiling of modules to their first import. Where Python may not keep the result, every process of
# the tests would compile SciPy and Numba again, for five seconds.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: setup run test lint docs bench bench-full audit audit-museum wheel release-check vulnerabilities sbom clean

setup: .venv/ready

.venv/ready .venv/run: pyproject.toml
	@$(PYTHON) scripts/set_up.py $(@F)

# Everything that has been set up is enough for this; else only what it needs is installed.
run: $(if $(wildcard .venv/ready),.venv/ready,.venv/run)
	$(BIN)/python examples/online_stream.py

test: setup
	$(BIN)/python -m pytest -n 2

lint: setup
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/codespell README.md CHANGELOG.md CONTRIBUTING.md SECURITY.md docs src tests examples scripts benchmarks
	$(BIN)/mypy
	$(BIN)/lint-imports

docs: setup
	$(BIN)/python scripts/make_errata_table.py --check
	$(BIN)/python scripts/errata_figures.py --check
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict --quiet

bench: setup
	$(BIN)/python benchmarks/bench.py

bench-full: setup
	$(BIN)/python benchmarks/bench.py --full

audit: setup
	$(BIN)/reticent audit --full

# Plant every bug of tests/museum in turn; each must be caught.
audit-museum: setup
	cd tests && ../$(BIN)/python -m museum

# Build the wheel, then use it as a stranger would: in a fresh environment, away from the checkout.
wheel: setup
	$(BIN)/pip install --quiet --disable-pip-version-check 'build>=1.2' 'twine>=6.1'
	rm -rf dist
	$(BIN)/python -m build --outdir dist .
	$(BIN)/python scripts/try_wheel.py dist/*.whl

# All steps of a release but the upload.
release-check: wheel
	$(BIN)/twine check --strict dist/*
	$(BIN)/python scripts/try_wheel.py dist/*.tar.gz

# Known vulnerabilities of what is installed; needs the advisory database, so not every machine can run it.
vulnerabilities: setup
	$(BIN)/pip install --quiet --disable-pip-version-check 'pip-audit>=2.8'
	$(BIN)/python scripts/vulnerabilities.py

# What is installed, in the versions that the tests ran with: a software bill of materials.
sbom: setup
	$(BIN)/pip install --quiet --disable-pip-version-check 'cyclonedx-bom>=5'
	$(BIN)/cyclonedx-py environment .venv --pyproject pyproject.toml --output-file sbom.json

clean:
	rm -rf .venv site report dist sbom.json newcomer.json
	find src -name __pycache__ -prune -exec rm -rf {} +
