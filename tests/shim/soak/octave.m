% Octave's own tests of functions that call BLAS, a line each: the name, how many pass, how many there are.
names = {"chol", "det", "dot", "eig", "hess", "inv", "kron", "lu", "qr", "pinv", "schur", "sqrtm", "svd", "sylvester"};
place = fullfile (__octave_config_info__ ("octtestsdir"), "libinterp", "corefcn");
files = dir (fullfile (fileparts (which ("null")), "*.m"));  % of linear algebra, all
names = unique ([names, cellfun(@(name) name(1:end-2), {files.name}, "UniformOutput", false)]);
for i = 1:numel (names)
  file = fullfile (place, [names{i} ".cc-tst"]);  % of functions that are built in
  if (! exist (file, "file"))
    file = names{i};
  end
  [passed, n] = test (file, "quiet");
  printf ("%s %d of %d\n", names{i}, passed, n);
end
% Division has no tests of its own: all shapes, of both types, and triangular.
rand ("seed", 1);
passed = n = 0;
for type = {@double, @single}
  for size = [1 7 48 130]
    a = type{1} (rand (size) + size * eye (size));
    b = type{1} (rand (size, 5));
    near = 100 * size * eps (class (a));
    right = [norm(a * (a \ b) - b) < near, norm((b' / a) * a - b') < near, norm(triu (a) * (triu (a) \ b) - b) < near, ...
             norm((a' * a) * ((a' * a) \ b) - b) < size * near];
    passed += sum (right);
    n += numel (right);
  end
end
printf ("mldivide %d of %d\n", passed, n);
