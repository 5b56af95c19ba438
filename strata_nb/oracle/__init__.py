"""The model once more in NumPy float64, one row after the other: the second opinion.

Read `maths`, `hashing`, `states`, `blocks`, `backend`. "Spec" is the specification
of `qwen4_exp`, which the engine's own mathematics reads apart from this.
"""

from strata_nb.oracle.backend import OracleBackend as OracleBackend
