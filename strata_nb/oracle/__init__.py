"""The model once more in NumPy float64, one row after the other: the second opinion.

Read `maths`, `hashing`, `states`, `blocks`, `backend`, then `head`; `sparse` is another
model, to be held against this one. "Spec"
is the specification of `qwen4_exp`, which the engine's own mathematics reads apart from
this.
"""

from strata_nb.oracle.backend import OracleBackend as OracleBackend
from strata_nb.oracle.head import HeadOracle as HeadOracle
from strata_nb.oracle.sparse import Sparse as Sparse
from strata_nb.oracle.sparse import SparseOracle as SparseOracle
