"""Products of wheels from PyPI, exact in integers: NumPy's, whose BLAS has integers of 64 bits, SciPy's, of 32, and PyTorch's if it is here."""
import importlib
import importlib.util

import numpy as np
import scipy.linalg


def hold(what, fact):
    global facts
    assert fact, what
    facts += 1


facts = 0
torch = importlib.util.find_spec("torch") and importlib.import_module("torch")
rng = np.random.default_rng(1)
a, b = rng.integers(-8, 8, (150, 200)), rng.integers(-8, 8, (200, 90))
exact = a @ b  # of integers: no BLAS
for kind, letter in (("f4", "s"), ("f8", "d")):
    x, y = a.astype(kind), b.astype(kind)
    hold(f"numpy, {kind}", np.array_equal(x @ y, exact))
    hold(f"numpy, {kind}, strides", np.array_equal(x[:, ::2] @ y[::2], a[:, ::2] @ b[::2]))
    hold(f"numpy, {kind}, syrk", np.array_equal(x @ x.T, a @ a.T))
    hold(f"scipy, {kind}", np.array_equal(scipy.linalg.get_blas_funcs("gemm", dtype=kind)(1, x, y), exact))
    square = x[:, :150] + 100 * np.eye(150, dtype=kind)
    hold(f"solve, {kind}", np.allclose(scipy.linalg.solve(square, x) - np.linalg.solve(square, x), 0, atol=1e-3))
    if torch:
        hold(f"torch, {kind}", np.array_equal((torch.from_numpy(x) @ torch.from_numpy(y)).numpy(), exact))
        pairs = torch.from_numpy(np.stack([x, x + 1])) @ torch.from_numpy(np.stack([y, y]))
        hold(f"torch, {kind}, batch", np.array_equal(pairs.numpy(), np.stack([exact, (a + 1) @ b])))
print("right", facts, np.__version__, scipy.__version__, *([torch.__version__] if torch else []))
