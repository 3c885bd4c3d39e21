// A program that calls BLAS through Armadillo: products, a solve, a Cholesky and a singular value
// decomposition, and many small products. Prints the seconds it took.
#include <armadillo>
#include <cstdio>

int main() {
  arma::arma_rng::set_seed(1);
  arma::mat a(1000, 1000, arma::fill::randn), b(1000, 1000, arma::fill::randn), x(64, 64, arma::fill::randn), y = x;
  arma::wall_clock clock;
  clock.tic();
  arma::mat c = a * b + 0.5 * a.t() * b, s = arma::solve(a, b),
            l = arma::chol(a.t() * a + 1000 * arma::eye(1000, 1000));
  arma::vec d = arma::svd(a.cols(0, 199));
  for (int i = 0; i < 3000; i++) y = 0.01 * x * y;
  double seconds = clock.toc();
  std::printf("seconds %.3f check %.3f\n", seconds, arma::accu(l) + arma::accu(d) + arma::accu(c));
}
