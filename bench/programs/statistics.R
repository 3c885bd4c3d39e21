# A program that calls BLAS through R: products, a solve, a Cholesky and a singular value
# decomposition, and a regression. Prints the seconds it took.
set.seed(1)
n <- 1200
a <- matrix(rnorm(n * n), n)
x <- cbind(1, matrix(rnorm(20000 * 60), 20000))
y <- rnorm(20000)
seconds <- system.time({
  b <- crossprod(a)
  c <- a %*% a
  s <- solve(a, b[, 1:50])
  l <- chol(b + diag(n))
  d <- svd(a[, 1:200])
  fit <- lm.fit(x, y)
})[["elapsed"]]
cat(sprintf("seconds %.3f check %.3f\n", seconds, sum(l) + sum(d$d) + sum(fit$coefficients)))
