"""Products of wheels from PyPI, exact in integers: NumPy's, whose BLAS has integers of 64 bits, SciPy's, of 32, and with the word torch PyTorch's."""
import sys

import numpy as np
import scipy.linalg

rng = np.random.default_rng(1)
a, b = rng.integers(-8, 8, (150, 200)), rng.integers(-8, 8, (200, 90))
exact = a @ b  # of integers: no BLAS
for kind, letter in (("f4", "s"), ("f8", "d")):
    x, y = a.astype(kind), b.astype(kind)
    assert np.array_equal(x @ y, exact), f"numpy, {kind}"
    assert np.array_equal(x[:, ::2] @ y[::2], a[:, ::2] @ b[::2]), f"numpy, {kind}, strides"
    assert np.array_equal(x @ x.T, a @ a.T), f"numpy, {kind}, syrk"
    assert np.array_equal(scipy.linalg.get_blas_funcs("gemm", dtype=kind)(1, x, y), exact), f"scipy, {kind}"
    square = x[:, :150] + 100 * np.eye(150, dtype=kind)
    assert np.allclose(scipy.linalg.solve(square, x) - np.linalg.solve(square, x), 0, atol=1e-3), f"solve, {kind}"
    if "torch" in sys.argv:
        import torch
        assert np.array_equal((torch.from_numpy(x) @ torch.from_numpy(y)).numpy(), exact), f"torch, {kind}"
        pairs = torch.from_numpy(np.stack([x, x + 1])) @ torch.from_numpy(np.stack([y, y]))
        assert np.array_equal(pairs.numpy(), np.stack([exact, (a + 1) @ b])), f"torch, {kind}, batch"
print("right", np.__version__, scipy.__version__)
