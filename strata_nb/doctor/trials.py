"""What works here. Run as a script it tries, with Python's own modules at first."""

import contextlib
import json
import os
import subprocess
import sys
from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Any, Literal

_SLOW_S = 300
_UNIQUE = ("uuid", "pci_bus_id")
_TF32 = "MLX_ENABLE_TF32"
# In place of a reason: the trial has begun, and nothing has been heard of it since.
_BEGUN = "begun"


@dataclass(frozen=True)
class Trial:
    """One thing that was tried, or could not be."""

    what: str
    state: Literal["ran here", "not run here", "failed"]
    why: str = ""


def try_in_a_child() -> tuple[dict[str, Any], list[Trial]]:
    """MLX's default device and what became of each trial.

    In a process of its own: a driver or a processor that does not fit kills it without
    an exception, and the report must survive that.
    """
    # By its file: what a broken MLX breaks may be this very package.
    command = [sys.executable, "-P", __file__]
    path = os.pathsep.join(folder for folder in sys.path if folder)
    try:
        done = subprocess.run(
            command,
            capture_output=True,
            text=True,
            timeout=_SLOW_S,
            env={**os.environ, "PYTHONPATH": path},
            check=False,
        )
        output, ended = done.stdout, f"the process ended with {done.returncode}"
    except subprocess.TimeoutExpired as late:
        output = (late.stdout or b"").decode(errors="replace")
        ended = f"not done after {_SLOW_S} s"
    return _read(output, ended)


def _read(output: str, ended: str) -> tuple[dict[str, Any], list[Trial]]:
    """The child's lines; a trial that began and has no result is a failure."""
    device: dict[str, Any] = {}
    trials: dict[str, Trial] = {}
    for line in output.splitlines():
        # A library may print as well.
        with contextlib.suppress(json.JSONDecodeError, KeyError, TypeError):
            news = json.loads(line)
            if "device" in news:
                device |= news["device"]
            else:
                trials[news["what"]] = Trial(**news)
    found = [
        Trial(trial.what, "failed", ended) if trial.why == _BEGUN else trial
        for trial in trials.values()
    ]
    return device, found or [Trial("MLX", "failed", ended)]


def _child() -> None:
    """Try each thing and print a line before and after."""
    for what, attempt in _TRIALS.items():
        _say(asdict(Trial(what, "failed", _BEGUN)))
        try:
            trial = Trial(what, *attempt())
        # Whatever a broken installation raises: it is what the report is there to tell.
        except Exception as error:
            said = f"{type(error).__name__}: {' '.join(str(error).split())}"
            trial = Trial(what, "failed", said)
        _say(asdict(trial))


def _say(news: dict[str, Any]) -> None:
    sys.stdout.write(json.dumps(news) + "\n")
    sys.stdout.flush()


_Outcome = tuple[Literal["ran here", "not run here"], str]


def _try_cpu() -> _Outcome:
    import mlx.core as mx

    # Less what would tell this machine from others of its kind.
    info = {k: v for k, v in mx.device_info().items() if k not in _UNIQUE}
    plain = {k: v for k, v in info.items() if isinstance(v, str | int | float)}
    _say({"device": {"default": str(mx.default_device()), **plain}})
    return _multiply(mx.cpu)


def _try_cuda() -> _Outcome:
    import mlx.core as mx

    if not mx.cuda.is_available():
        return "not run here", "no CUDA in this build of MLX, or no NVIDIA driver"
    # As `load` does: MLX looks once, at its first product on the GPU.
    own = _TF32 not in os.environ
    os.environ.setdefault(_TF32, "0")
    outcome = _multiply(mx.gpu)
    _say({"device": {"TF32": _tf32(own)}})
    return outcome


def _try_metal() -> _Outcome:
    import mlx.core as mx

    if not mx.metal.is_available():
        return "not run here", "no Apple GPU, or a build of MLX without Metal"
    return _multiply(mx.gpu)


def _multiply(device: Any) -> _Outcome:
    """A product whose every number is known."""
    import mlx.core as mx

    product = mx.matmul(mx.ones((64, 64)), mx.ones((64, 64)), stream=device)
    if not mx.all(product == 64).item():
        raise ArithmeticError("a product of ones must be 64 everywhere, and is not")
    return "ran here", "64 x 64 product"


def _tf32(own: bool) -> str:
    """Whether the GPU multiplies float32 in TF32, and who asked for that."""
    import mlx.core as mx

    # TF32 has 10 bits behind the point, this number needs 12.
    fine = 1 + 2**-12
    product = mx.matmul(mx.full((64, 64), fine), mx.eye(64), stream=mx.gpu)
    setting = f"{_TF32}={os.environ[_TF32]}"
    if not mx.all(product == fine).item():
        return f"on ({setting}): products are off by 1e-3; unset it"
    who = "which `load` sets before the first product" if own else "as it was set"
    return f"off ({setting}, {who})"


def _try_bundled_model() -> _Outcome:
    """Run, finish and commit one window of the bundled model."""
    import strata_nb

    model = strata_nb.load("strata-tiny")
    engine = model.engine()
    engine.prefill([1, 2, 3])
    window = engine.run([4, 5, 6, 7])
    result = engine.finish(window)
    report = engine.commit(window)
    if report.position != 3 + result.keep:
        raise ArithmeticError(
            f"the engine must stand at {3 + result.keep}, got {report.position}"
        )
    return "ran here", f"{model.name}, a window of 4 rows"


def _try_draft_head() -> _Outcome:
    """Draft with the head of the bundled model."""
    import strata_nb
    from strata_nb.doctor.draft_head import look

    found = look(strata_nb.load("strata-tiny"))
    return ("not run here" if found.why_not else "ran here"), found.text


_TRIALS: dict[str, Callable[[], _Outcome]] = {
    "CPU": _try_cpu,
    "CUDA": _try_cuda,
    "Metal": _try_metal,
    "bundled model": _try_bundled_model,
    "draft head": _try_draft_head,
}


if __name__ == "__main__":
    _child()
