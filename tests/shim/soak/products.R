# What R documents of products, decompositions and missing values, with products by BLAS whatever they hold and by R's default.
near <- function(a, b) isTRUE(all.equal(a, b, tolerance = 1e-9))
facts <- 0
hold <- function(...) {
  for (fact in as.list(substitute(list(...)))[-1]) {
    if (!isTRUE(eval(fact, parent.frame()))) cat("failed:", deparse1(fact), "with matprod", getOption("matprod"), "\n")
    facts <<- facts + 1
  }
}
set.seed(1)
for (way in c("default", "blas")) {
  options(matprod = way)
  for (n in c(1, 3, 48, 130)) {
    a <- matrix(rnorm(n * n), n) + n * diag(n)
    b <- matrix(rnorm(n * 5), n)
    slow <- sapply(1:5, function(j) rowSums(a * rep(b[, j], each = n)))
    hold(near(a %*% b, matrix(slow, n)), near(crossprod(a), t(a) %*% a), near(crossprod(a, b), t(a) %*% b), near(tcrossprod(b), b %*% t(b)))
    hold(near(solve(a) %*% a, diag(n)), near(a %*% solve(a, b), b), near(chol2inv(chol(crossprod(a))), solve(crossprod(a))))
    u <- chol(crossprod(a))
    hold(near(backsolve(u, b), solve(u, b)), near(backsolve(u, b, transpose = TRUE), solve(t(u), b)), near(qr.Q(qr(a)) %*% qr.R(qr(a)), a))
    s <- svd(a)
    hold(near(s$u %*% (s$d * t(s$v)), a))
    # A missing value is in its row, and nowhere else.
    for (bad in list(NA_real_, NaN, Inf)) {
      x <- a
      x[1, 1] <- bad
      y <- x %*% abs(b)
      hold(!any(is.finite(y[1, ])), all(is.finite(y[-1, ])), is.nan(bad) || is.na(bad) || all(is.infinite(y[1, ])))
      y <- crossprod(x)
      hold(!any(is.finite(y[1, ])), !any(is.finite(y[, 1])), all(is.finite(y[-1, -1])))
    }
  }
  # Missing values and infinities meet zeros.
  hold(is.na(NA_real_ %*% 0), is.na(0 %*% NA_real_), is.nan(-Inf %*% 0), is.nan(crossprod(Inf, 0)))
  x <- matrix(c(0, 2, NA, 3, 1, 0), 2)
  hold(identical(tcrossprod(x, diag(3)), x %*% t(diag(3))), identical(is.na(crossprod(x)), matrix(1:9 %in% c(2, 4, 5, 6, 8), 3)))
  # No extent, and no sum.
  for (shape in list(c(0, 3, 2), c(3, 0, 2), c(3, 2, 0), c(0, 0, 0))) {
    y <- matrix(1, shape[1], shape[2]) %*% matrix(1, shape[2], shape[3])
    hold(identical(dim(y), as.integer(shape[c(1, 3)])), all(y == 0))
    y <- crossprod(matrix(1, shape[2], shape[1]), matrix(1, shape[2], shape[3]))
    hold(identical(dim(y), as.integer(shape[c(1, 3)])), all(y == 0))
  }
  hold(identical(dim(crossprod(matrix(0, 0, 4))), c(4L, 4L)), inherits(try(diag(2) %*% diag(3), silent = TRUE), "try-error"))
}
cat(facts, "facts\n")
