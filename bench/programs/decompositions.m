% A program that calls BLAS through Octave: products, a solve and decompositions. Prints the seconds
% it took.
rand("seed", 1);
a = rand(1200);
start = tic;
b = a * a';
x = a \ b(:, 1);
s = svd(a(:, 1:300));
e = eig(b(1:300, 1:300));
c = chol(b + 1200 * eye(1200));
for i = 1:30
  p = a(1:400, 1:400) * a(401:800, 1:400);
  p = p + 0.5 * p';
end
seconds = toc(start);
printf("seconds %.3f check %.3f\n", seconds, sum(c(:)) + sum(s) + sum(e) + sum(p(:)));
