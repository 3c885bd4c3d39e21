# Plain linear algebra, whose output to eight digits is the same with the shim and without.
set.seed(1)
n <- 600
a <- matrix(rnorm(n * n), n)
b <- matrix(rnorm(n * n), n)
show <- function(x) cat(sprintf("%.8g\n", x))
product <- a %*% b
gram <- crossprod(a)
solved <- solve(gram + diag(n) * 10, product)
show(c(sum(product), product[3, 7], sum(gram), solved[5, 5], norm(solved)))
show(svd(a[1:200, 1:200])$d[c(1, 100)])
show(max(abs(crossprod(qr.Q(qr(a))) - diag(n))) < 1e-8)
show(chol(gram + diag(n))[n, n])
chain <- (product %*% a + 1) %*% b
show(chain[9, 9])
show(coef(lm(a[, 1] ~ a[, 2:20]))[2:4])
show(eigen(gram[1:150, 1:150], symmetric = TRUE)$values[c(1, 100)])
file <- tempfile()
saveRDS(product %*% b, file, compress = FALSE)
show(identical(readRDS(file), product %*% b))
