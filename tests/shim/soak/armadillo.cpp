// What Armadillo's products, divisions and decompositions must satisfy, in f32 and f64, by sizes: prints each fact that
// does not hold, and how many there are.
#include <armadillo>
#include <iostream>

static int facts = 0;

static void hold(const char *what, const char *type, arma::uword n, double error, double bound) {
  facts++;
  if (!(error <= bound)) std::cout << "failed: " << what << " of " << type << ", " << n << "\n";
}

template <typename T>
static double distance(const arma::Mat<T> &a, const arma::Mat<T> &b) {
  return arma::size(a) == arma::size(b) ? a.is_empty() ? 0 : double(arma::abs(a - b).max()) : HUGE_VAL;
}

// A product by three loops, in f64.
template <typename T>
static arma::Mat<T> slow_product(const arma::Mat<T> &a, const arma::Mat<T> &b) {
  arma::Mat<T> c(a.n_rows, b.n_cols);
  for (arma::uword i = 0; i < a.n_rows; i++)
    for (arma::uword j = 0; j < b.n_cols; j++) {
      double sum = 0;
      for (arma::uword k = 0; k < a.n_cols; k++) sum += double(a(i, k)) * double(b(k, j));
      c(i, j) = T(sum);
    }
  return c;
}

template <typename T>
static void products(const char *type, arma::uword n, double near) {
  arma::Mat<T> a(n, n + 3, arma::fill::randn), b(n + 3, 2 * n + 1, arma::fill::randn), c(n, n, arma::fill::randn);
  hold("a * b", type, n, distance<T>(a * b, slow_product(a, b)), near);
  hold("b.t() * a.t()", type, n, distance<T>(b.t() * a.t(), slow_product(a, b).t()), near);
  hold("a * a.t()", type, n, distance<T>(a * a.t(), slow_product<T>(a, a.t())), near);
  hold("a.t() * a", type, n, distance<T>(a.t() * a, slow_product<T>(a.t(), a)), near);
  hold("3 * a * b", type, n, distance<T>(T(3) * a * b, T(3) * slow_product(a, b)), 3 * near);
  hold("part of a * part of b", type, n,
       distance<T>(a.submat(0, 1, n - 1, n) * b.submat(1, 0, n, n),
                   slow_product<T>(a.submat(0, 1, n - 1, n), b.submat(1, 0, n, n))),
       near);
  hold("symmatu(c) * c", type, n, distance<T>(arma::symmatu(c) * c, slow_product<T>(arma::symmatu(c), c)), near);
  hold("trimatu(c) * c", type, n, distance<T>(arma::trimatu(c) * c, slow_product<T>(arma::trimatu(c), c)), near);
  hold("a * no columns", type, n, distance<T>(a * arma::Mat<T>(n + 3, 0), arma::Mat<T>(n, 0)), 0);
}

template <typename T>
static void decompositions(const char *type, arma::uword n, double near) {
  arma::Mat<T> c(n, n, arma::fill::randn), b(n, 5, arma::fill::randn), i(n, n, arma::fill::eye), q, r, u, v, l, p;
  arma::Col<T> s;
  arma::Mat<T> a = c + T(2 * n) * i, positive = c * c.t() + T(n) * i;
  hold("solve", type, n, distance<T>(a * arma::solve(a, b), b), near);
  hold("solve of a triangle", type, n, distance<T>(arma::trimatl(a) * arma::solve(arma::trimatl(a), b), b), near);
  hold("solve of a positive matrix", type, n,
       distance<T>(positive * arma::solve(positive, b, arma::solve_opts::likely_sympd), b), n * near);
  hold("solve of more rows", type, n, distance<T>(arma::solve(arma::join_cols(a, i), arma::join_cols(a, i) * b), b),
       near);
  hold("inv", type, n, distance<T>(arma::inv(a) * a, i), near);
  hold("chol", type, n, arma::chol(r, positive) ? distance<T>(r.t() * r, positive) : HUGE_VAL, n * near);
  hold("lu", type, n, arma::lu(l, u, p, a) ? distance<T>(p.t() * l * u, a) : HUGE_VAL, near);
  hold("qr", type, n, arma::qr(q, r, a) ? distance<T>(q * r, a) : HUGE_VAL, near);
  hold("svd", type, n, arma::svd(u, s, v, a) ? distance<T>(u * arma::diagmat(s) * v.t(), a) : HUGE_VAL, near);
  hold("eig_sym", type, n,
       arma::eig_sym(s, u, positive) ? distance<T>(u * arma::diagmat(s) * u.t(), positive) : HUGE_VAL, n * near);
}

int main() {
  arma::arma_rng::set_seed(1);
  for (arma::uword n : {1, 2, 7, 48, 65, 130, 300}) {
    products<float>("f32", n, 2e-6 * double(n + 10));
    products<double>("f64", n, 4e-15 * double(n + 10));
    decompositions<float>("f32", n, 1e-5 * double(n + 10));
    decompositions<double>("f64", n, 2e-14 * double(n + 10));
  }
  std::cout << facts << " facts\n";
}
