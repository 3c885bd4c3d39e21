// The first program of README.md in C++: weights and an offset are found by gradient descent. Built where there is a
// C++ compiler.
#define TC_EXCEPTIONS  // errors are thrown
#include <iostream>
#include <tc/tc.hpp>

int main() try {
  tc_seed(1);
  tc::tensor x = tc::randn({256, 4}), truth = tc::arange(1, 5, 1, TC_F32);
  tc::tensor y = sum(x * truth, 1) - 0.5;
  tc::tensor w = tc::param(tc::zeros({4})), b = tc::param(tc::zeros({}));
  tc_sgd_options options = {};
  options.lr = 0.1;
  tc::optimizer opt = tc::sgd({w, b}, options);
  for (int step = 0; step <= 100; step++) {
    tc::tensor loss = mean(square(sum(x * w, 1) + b - y));  // what it is made of dies here
    tc::backward(loss);
    opt.step();
    opt.zero_grad();
    float value = loss.item<float>();
    if (step % 25 == 0) std::cout << "step " << step << ": loss " << value << "\n";
  }
  std::cout << "weights " << w << "\noffset " << b << "\nrelative errors " << abs(1 - w / truth) << "\n";
} catch (const tc::error &e) {
  std::cerr << e.what() << "\n";
  return 1;
}
