PY := .venv/bin/python
# Linux needs a back end of its own; with an NVIDIA driver that is CUDA.
BACKEND := $(shell test "$$(uname)" = Linux && { command -v nvidia-smi >/dev/null 2>&1 && echo ,cuda || echo ,cpu; })
.PHONY: lab test test-slow parity bench

.venv/.lab: pyproject.toml constraints.txt
	@echo "Setting up .venv: a minute or two, about 700 MB."
	test -x $(PY) || python3 -m venv --without-pip .venv
	python3 -m pip --python $(PY) install -q -U pip
	$(PY) -m pip install -q -e '.[lab$(BACKEND)]' -c constraints.txt
	touch $@

.venv/.test: .venv/.lab
	$(PY) -m pip install -q --group test -c constraints.txt
	touch $@

.venv/.slow: .venv/.test
	$(PY) -m pip install -q --group slow -c constraints.txt
	touch $@

lab: .venv/.lab
	.venv/bin/strata-nb lab

test: .venv/.test
	.venv/bin/ruff check . && .venv/bin/ruff format --check . && .venv/bin/mypy && .venv/bin/lint-imports
	$(PY) -m pytest -q -n 2 --dist loadfile --ignore tests/browser
	$(PY) -m pytest -q tests/browser --reruns 1 -r fER

# Recomputes the golden vectors with PyTorch and transformers, in an environment of its
# own, and runs the tests that need those.
.venv-parity/.parity: pyproject.toml constraints.txt
	test -x .venv-parity/bin/python || python3 -m venv --without-pip .venv-parity
	python3 -m pip --python .venv-parity/bin/python install -q -U pip
	.venv-parity/bin/python -m pip install -q -e '.[cpu]' --group parity -c constraints.txt
	touch $@

parity: .venv-parity/.parity
	PYTHONPATH=tests .venv-parity/bin/python -m vectors.parity --check
	.venv-parity/bin/python -m pytest -q tests/vectors

bench: .venv/.lab
	$(PY) -m pip install -q -e '.[bench]' -c constraints.txt
	.venv/bin/strata-nb bench engine

# What CI runs too, and nobody waits for: the kernels' text under AddressSanitizer, in
# clang and in NVRTC. A pass whose compiler is missing says so.
test-slow: .venv/.slow
	PYTHONPATH=.:kernels $(PY) -m tools.check_kernels
