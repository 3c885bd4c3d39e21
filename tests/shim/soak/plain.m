% Plain linear algebra, whose output to eight digits is the same with the shim and without.
n = 600;
a = reshape(mod((1:n*n) * 7919, 1009) / 1009 - .5, n, n);
b = reshape(mod((1:n*n) * 104729, 997) / 997 - .5, n, n) + eye(n);
product = a * b;
gram = a' * a;
solved = (gram + 10 * eye(n)) \ product;
printf("%.8g\n", sum(product(:)), product(3, 7), sum(gram(:)), solved(5, 5), norm(solved, 1));
printf("%.8g\n", svd(a(1:200, 1:200))([1, 100]));
[q, r] = qr(b);
printf("%d\n", norm(q' * q - eye(n), 1) < 1e-8);
printf("%.8g\n", chol(gram + eye(n))(n, n));
chain = (product * a + 1) * b;
printf("%.8g\n", chain(9, 9));
printf("%.8g\n", eig(gram(1:150, 1:150))([60, 150]));
z = product * b;
name = tempname();
save("-binary", name, "z");
kept = z;
clear z;
load(name);
delete(name);
printf("%d\n", isequal(kept, z));
for k = 1:5
  a = a * b;
  a = a / norm(a, 1);
end
printf("%.8g\n", a(4, 4));
