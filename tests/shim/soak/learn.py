"""Models of scikit-learn, of data from a seed: prints what they learn, which does not hang on the order of sums."""
import numpy as np
from sklearn.decomposition import PCA
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.neighbors import KNeighborsClassifier

rng = np.random.default_rng(0)
x = rng.standard_normal((1200, 80)) * np.linspace(1, 3, 80)
y = (x[:, 0] + 0.3 * x[:, 1] + 0.5 * rng.standard_normal(1200) > 0).astype(int)
pca = PCA(10, svd_solver="full").fit(x)
print(*pca.singular_values_, *np.abs(pca.transform(x[:1])[0]))
print(*Ridge().fit(x, y).coef_[:5])
print(*np.round(LogisticRegression(max_iter=1000, tol=1e-10).fit(x, y).coef_[0, :5], 5))
print(KNeighborsClassifier(algorithm="brute").fit(x, y).predict(x).sum())
print(*np.round(GaussianProcessRegressor(optimizer=None, alpha=1e-2).fit(x[:400], y[:400]).predict(x[400:410] * 0.1 + x[:10] * 0.9), 6))
