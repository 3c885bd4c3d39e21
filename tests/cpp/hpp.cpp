// tc.hpp: who owns what, operators and numbers, braces, and what becomes of errors: thrown with TC_EXCEPTIONS, which
// the test is compiled with and without.
#include <cstring>
#include <iostream>
#include <sstream>
#include <tc/tc.hpp>

static int n_failed;
#define EXPECT(condition) \
  ((condition) ? (void)0 \
               : (void)(n_failed++, std::cout << __FILE__ << ":" << __LINE__ << ": " #condition " [" \
                                              << tc_last_error()->message << "]\n"))

static double value(const tc::tensor &t) {
  double v = -12345;
  EXPECT(t.item(&v) == TC_OK);
  return v;
}

static void test_operators() {
  tc::tensor x = tc::full({1}, 4), y = tc::from(std::vector<float>{2});
  EXPECT(value(x + y) == 6 && value(x - y) == 2 && value(x * y) == 8 && value(x / y) == 2 && value(-x) == -4);
  EXPECT(value(x + 1) == 5 && value(x - 1) == 3 && value(x * 0.5) == 2 && value(x / 8) == 0.5);
  EXPECT(value(1 + x) == 5 && value(1 - x) == -3 && value(2.0 * x) == 8 && value(2 / x) == 0.5);
  EXPECT(value(x > y) == 1 && value(x < y) == 0 && value(x == 4) == 1 && value(4 != x) == 0 && value(3 < x) == 1 &&
         value(4 <= x) == 1);
  EXPECT(value(3 > x) == 0 && value(x >= 5) == 0 && value(5 >= x) == 1 && value(x <= 4u) == 1);
  tc::tensor l = tc::full({1}, -1, TC_I64);
  EXPECT(value(l == UINT64_MAX) == 0 && value(l < UINT64_MAX) == 1 && value((UINT64_C(1) << 63) <= l) == 0 &&
         value(x < UINT64_MAX) == 1);
  EXPECT((x == y).dtype() == TC_BOOL && (1 - tc::full({1}, 4, TC_I32)).dtype() == TC_I32 &&
         (2.5 * tc::full({1}, 1, TC_F16)).dtype() == TC_F16);
  EXPECT(value(where(x > 3, x, 0)) == 4 && value(where(x > 5, 1, -1)) == -1 && value(pow(x, 2)) == 16 &&
         value(rsub(x, 1)) == -3);
  x += 1, x *= y, x -= 2, x /= 4;
  EXPECT(value(x) == 2);
  EXPECT(value(1 - (1 - x) * (2 / x)) == 2);
}

static void test_braces() {
  tc::tensor x = tc::reshape(tc::arange(0, 6, 1, TC_F32), {2, -1});
  EXPECT(x.shape().rank == 2 && x.shape().dim[1] == 3 && x.numel() == 6);
  EXPECT(value(sum(x)) == 15 && value(sum(x, {0, 1})) == 15 && sum(x, 1).shape().rank == 1 &&
         sum(x, {1}, true).shape().rank == 2);
  EXPECT(value(x[1][2]) == 5 && value(tc::zeros({})) == 0);
  EXPECT(tc::cat({x, x, -x}, 0).shape().dim[0] == 6 && value(sum(tc::cat({x, -x}, 1))) == 0);
  EXPECT(value(tc::einsum("ij,ij->", {x, x})) == 55);
  std::vector<int32_t> whole;
  EXPECT(x.to_host(&whole) == TC_OK && whole == (std::vector<int32_t>{0, 1, 2, 3, 4, 5}));
  EXPECT(tc::from(std::vector<double>{1, 2, 3, 4}, {2, 2}).dtype() == TC_F64);
  const std::vector<bool> bits = {true, false, true};
  std::vector<bool> back;
  EXPECT(tc::from(bits).dtype() == TC_BOOL && tc::from(bits).to_host(&back) == TC_OK && back == bits);
  EXPECT((x[0] * 0.5).to_host(&back) == TC_OK && back == (std::vector<bool>{false, true, true}) &&
         tc::from(bits, {3, 1}).shape().rank == 2);
  std::ostringstream text;
  text << x[0];
  EXPECT(text.str() == "[0. 1. 2.]");
  tc::tensor w = tc::ones({4, 3}), image = tc::ones({1, 2, 5, 5});
  EXPECT(value(sum(tc::linear(x, w))) == 60 && tc::conv2d(image, tc::ones({3, 2, 3, 3})).shape().dim[2] == 3);
}

// A list that is a variable holds its tensors, whichever way they came in.
static void test_lists() {
  tc::tensor x = tc::ones({2});
  tc::tensors list = {x + 1, x + 2}, copy = list;
  copy.push_back(x + 3);
  EXPECT(list.n() == 2 && tc::cat(list, 0).shape().dim[0] == 4 && value(sum(tc::cat(list, 0))) == 10 &&
         value(sum(tc::stack(copy, 0))) == 18);
}

// A tensor of C++ lives as long as it is held, whatever scope it was made in, and no longer, though there is no scope.
static void test_ownership() {
  tc::tensor outside, moved;
  tc_tensor handle;
  {
    tc::scope scope;
    tc::tensor x = tc::ones({3});
    outside = x * 2;
    tc::tensor copy = x, of_c = tc_exp(x);
    handle = copy;
    moved = std::move(copy);
    EXPECT(!copy.valid() && moved.valid() && of_c.valid());
  }
  EXPECT(tc_is_valid(handle) && value(sum(outside)) == 6);
  moved = tc::tensor();
  EXPECT(!tc_is_valid(handle));
  tc::tensor &same = outside;
  outside = same;
  EXPECT(outside.valid());
  std::size_t before = 0;
  for (int step = 0; step < 50; step++) {
    outside = outside * 0.5 + tc::ones({3});
    EXPECT(tc_sync(NULL) == TC_OK);
    tc::tensor large = tc::rand({200, 200});
    EXPECT(value(sum(large)) > 0);
    if (step == 10) before = tc_memory_stats().live_bytes;
  }
  EXPECT(tc_memory_stats().live_bytes <= before + 4096);
}

static void test_training() {
  tc::tensor p = tc::param(tc::full({2}, 3));
  tc_sgd_options options = {};
  options.lr = 0.25;
  tc::optimizer opt = tc::sgd({p}, options);
  EXPECT(tc::backward(sum(p * p)) == TC_OK && value(tc::grad(p)[0]) == 6);
  EXPECT(opt.step() == TC_OK && opt.zero_grad() == TC_OK && value(p[1]) == 1.5);
  tc::no_grad off;
  EXPECT(!tc_requires_grad(p * 2));
}

static bool names_line(const char *text, int line) {
  char place[64];
  std::snprintf(place, sizeof place, "hpp.cpp:%d", line);
  return std::strstr(text, place) != nullptr;
}

#ifdef TC_EXCEPTIONS
template <typename F>
static void expect_thrown(F call, tc_status status, int line, const char *words) {
  bool thrown = false;
  try {
    call();
  } catch (const tc::error &e) {
    EXPECT(e.status == status && std::strstr(e.what(), words) && names_line(e.what(), line));
    thrown = true;
  }
  EXPECT(thrown && tc_last_error()->status == TC_OK);
}

static void test_errors() {
  tc::tensor x = tc::ones({3}), y = tc::ones({4});
  expect_thrown([&] { x + y; }, TC_ERR_SHAPE, __LINE__, "add: shapes [3] and [4]");
  expect_thrown([&] { matmul(x, y); }, TC_ERR_SHAPE, __LINE__, "matmul");
  expect_thrown([&] { 1 - cast(x, TC_BOOL) - cast(x, TC_BOOL) - y; }, TC_ERR_SHAPE, __LINE__, "sub");
  expect_thrown([&] { cast(x, TC_I64) + UINT64_MAX; }, TC_ERR_ARG, __LINE__, "is not a number of i64");
  expect_thrown([&] { x.item<float>(); }, TC_ERR_SHAPE, __LINE__, "item");
  expect_thrown([&] { tc::from(std::vector<float>{1, 2, 3}, {2, 2}); }, TC_ERR_SHAPE, __LINE__, "reshape");
  expect_thrown([&] { tc::adam({x, x}, tc_adam_options()); }, TC_ERR_ARG, __LINE__, "adam");
  EXPECT((x * 2).to_vector<float>()[2] == 2 && (x > 0).to_vector<bool>()[1]);
  expect_thrown([&] { x[7]; }, TC_ERR_INDEX, __LINE__, "select");
  expect_thrown([&] { -cast(x, TC_BOOL); }, TC_ERR_DTYPE, __LINE__, "neg");
  tc::tensor none, late = tc::index_select(x, 0, tc::full({1}, 7, TC_I64));
  expect_thrown([&] { none.shape(); }, TC_ERR_HANDLE, __LINE__, "shape");
  expect_thrown([&] { none.numel(); }, TC_ERR_HANDLE, __LINE__, "numel");
  expect_thrown([&] { none.dtype(); }, TC_ERR_HANDLE, __LINE__, "dtype");
  expect_thrown([&] { std::cout << none; }, TC_ERR_HANDLE, __LINE__, "format");
  expect_thrown([&] { std::cout << late; }, TC_ERR_INDEX, __LINE__ - 5, "index_select");
  EXPECT(std::cout.good());
  EXPECT(tc_numel(tc_tensor()) == -1 && tc_last_error()->status == TC_ERR_HANDLE);
  tc::optimizer of_nothing;  // what C failed to do before is not its error
  EXPECT(!of_nothing);
  tc_clear_error();
}
#else
static void test_errors() {
  tc::tensor x = tc::ones({3}), y = tc::ones({4}), wrong = (x + y) * 2;
  EXPECT(!wrong.valid() && tc_last_error()->status == TC_ERR_SHAPE && names_line(tc_last_error()->site, __LINE__ - 1));
  float v;
  EXPECT(wrong.item(&v) == TC_ERR_SHAPE);
  tc_clear_error();
  EXPECT(!(cast(x, TC_I64) + UINT64_MAX).valid() && std::strstr(tc_last_error()->message, "is not a number of i64"));
  tc_clear_error();
  EXPECT(x.item(&v) == TC_ERR_SHAPE && names_line(tc_last_error()->site, __LINE__));
  tc_clear_error();
  EXPECT(!x[7].valid() && names_line(tc_last_error()->site, __LINE__));
  tc_clear_error();
  EXPECT(!(-cast(x, TC_BOOL)).valid() && names_line(tc_last_error()->site, __LINE__));
  tc_clear_error();
  EXPECT(tc::tensor().numel() == -1 && tc::tensor().shape().rank == -1 && tc::tensor().dtype() == TC_N_TYPES);
  tc_clear_error();
  std::ostringstream text;
  text << wrong;
  EXPECT(text.fail());
  tc_clear_error();
}
#endif

int main() {
  test_operators();
  test_braces();
  test_lists();
  test_ownership();
  test_training();
  test_errors();
  tc::tensor after = tc::ones({2});
  tc_shutdown();
  EXPECT(!after.valid());
  after = tc::tensor();
  EXPECT(tc_last_error()->status == TC_OK);
  std::cout << (n_failed ? "FAILED\n" : "ok\n");
  return n_failed != 0;
}
