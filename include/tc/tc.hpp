// tc for C++11 and later: tensors that own themselves, operators, shapes in braces. Everything here
// is written over tc.h.
//
//   tc::tensor x = tc::randn({64, 4}), w = tc::param(tc::zeros({4}));
//   tc::tensor loss = mean(square(1 - sum(x * w, 1)));
//   float v;
//   if (tc::backward(loss) != TC_OK || loss.item(&v) != TC_OK) std::puts(tc_last_error()->message);
//
// A tensor holds a reference: copying it retains, destroying it releases, whatever scopes there
// are. The ops are functions of tc.h's names without tc_ (ops.hpp).
// A wrong call gives a tensor that is not valid, and sync points return a status. With
// TC_EXCEPTIONS defined before this header both throw tc::error instead.
// Errors name the caller's file and line. Threads: as tc.h.
#pragma once

#include <tc/tc.h>

#include <atomic>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <initializer_list>
#include <memory>
#include <ostream>
#include <type_traits>
#include <vector>

#ifdef TC_EXCEPTIONS
#include <stdexcept>
#include <string>
#define TC_STATUS_ tc_status
#define TC_WAY_ throwing
#else
#define TC_STATUS_ TC_MUST_USE tc_status
#define TC_WAY_ returning
#endif

namespace tc {
inline namespace TC_WAY_ {  // a program's files may differ in TC_EXCEPTIONS

// ---- Places and errors ----

// Where a call was made, as a default argument: the text "file:line" of each place is made once,
// and lives as long as the process.
class location {
 public:
  explicit location(const char *file = __builtin_FILE(), int line = __builtin_LINE()) : file_(file), line_(line) {}
  // 0, no place, without memory.
  tc_site site() const {
    static std::atomic<text *> table[1024];
    std::atomic<text *> &head =
        table[(reinterpret_cast<std::uintptr_t>(file_) / 8 + static_cast<unsigned>(line_) * 31u) % 1024];
    for (const text *t = head.load(std::memory_order_acquire); t; t = t->next)
      if (t->file == file_ && t->line == line_) return reinterpret_cast<std::uintptr_t>(t + 1);
    std::size_t bytes = std::strlen(file_) + 16;
    text *t = static_cast<text *>(std::malloc(sizeof(text) + bytes));
    if (!t) return 0;
    t->file = file_, t->line = line_, t->next = head.load(std::memory_order_relaxed);
    std::snprintf(reinterpret_cast<char *>(t + 1), bytes, "%s:%d", file_, line_);
    while (!head.compare_exchange_weak(t->next, t, std::memory_order_release, std::memory_order_relaxed)) continue;
    return reinterpret_cast<std::uintptr_t>(t + 1);
  }

 private:
  struct text {
    const char *file;
    int line;
    text *next;
  };
  const char *file_;
  int line_;
};

#ifdef TC_EXCEPTIONS
// What tc_last_error said, which is cleared: a program that catches it goes on.
class error : public std::runtime_error {
 public:
  explicit error(const tc_error &e = *tc_last_error())
      : std::runtime_error(e.message), status(e.status), op(e.op), site(e.site) {
    tc_clear_error();
  }
  tc_status status;
  std::string op, site;
};
#endif

inline tc_status check(tc_status status) {
#ifdef TC_EXCEPTIONS
  const tc_error before = {TC_ERR_HANDLE, "an operand is what an earlier call failed to make", "", ""};
  if (status != TC_OK) throw error(tc_last_error()->status != TC_OK ? *tc_last_error() : before);
#endif
  return status;
}
// The result of a call that returns `failed` on failure.
template <typename T>
T unless(T failed, T result) {
  return (void)check(result == failed ? TC_ERR_HANDLE : TC_OK), result;
}

// ---- Arguments ----

// A shape or axes: {2, 3}, or one number.
struct dims : tc_dims {
  dims(std::initializer_list<std::int64_t> list) : tc_dims(tc_dims_of(list.size(), list.begin())) {}
  dims(const tc_dims &d) : tc_dims(d) {}
  template <typename T, typename = typename std::enable_if<std::is_integral<T>::value>::type>
  dims(T one) : dims({static_cast<std::int64_t>(one)}) {}
};

// A number as an operand.
struct number : tc_num {
  template <typename T, typename = typename std::enable_if<std::is_arithmetic<T>::value>::type>
  number(T v)
      : tc_num(std::is_integral<T>::value ? tc_num_int(static_cast<std::int64_t>(v))
                                          : tc_num_float(static_cast<double>(v))) {
    f = static_cast<double>(v);
  }
};

// An operand of an operator, and where it was called.
template <typename T>
struct placed {
  placed(T v, location l = location()) : value(v), at(l) {}
  T value;
  location at;
};

// The element type of a C++ type.
template <typename T>
constexpr tc_type type_of() {
  static_assert(std::is_arithmetic<T>::value && sizeof(T) <= 8 && (std::is_signed<T>::value || sizeof(T) == 1),
                "tc has no such element type");
  return std::is_same<T, bool>::value       ? TC_BOOL
         : std::is_floating_point<T>::value ? (sizeof(T) == 4 ? TC_F32 : TC_F64)
         : !std::is_signed<T>::value        ? TC_U8
         : sizeof(T) == 1 || sizeof(T) == 2 ? (sizeof(T) == 1 ? TC_I8 : TC_I16)
                                            : (sizeof(T) == 4 ? TC_I32 : TC_I64);
}

// ---- Tensors ----

class tensor {
 public:
  tensor() : h_{0, 0} {}
  // A reference of its own to a C function's result, which also stays in its scope.
  tensor(tc_tensor h, location at = location()) : h_(h) {
    if (h.gen) tc_retain_at(h, at.site());
  }
  tensor(const tensor &other) : h_(other.h_) {
    if (h_.gen) tc_retain_at(h_, 0);
  }
  tensor(tensor &&other) noexcept : h_(other.h_) {
    other.h_ = {0, 0};
  }
  tensor &operator=(tensor other) noexcept {
    std::swap(h_, other.h_);
    return *this;
  }
  // Reports nothing, since tc_shutdown may have run before.
  ~tensor() {
    if (h_.gen && tc_is_valid(h_)) tc_release_at(h_, 0);
  }

  operator tc_tensor() const {
    return h_;
  }
  bool valid() const {
    return tc_is_valid(h_);
  }
  tc_dims shape(location at = location()) const {
    tc_dims d = tc_shape_at(h_, at.site());
    unless(-1, static_cast<int>(d.rank));
    return d;
  }
  tc_type dtype(location at = location()) const {
    return unless(TC_N_TYPES, tc_dtype_at(h_, at.site()));
  }
  std::int64_t numel(location at = location()) const {
    return unless<std::int64_t>(-1, tc_numel_at(h_, at.site()));
  }
  inline tensor operator[](placed<std::int64_t> i) const;

  // ---- Sync points ----
  template <typename T>
  TC_STATUS_ item(T *out, location at = location()) const {
    return check(tc_item_at(h_, type_of<T>(), out, at.site()));
  }
  // The value, cast to T, dense row-major.
  template <typename E, typename T = E>
  TC_STATUS_ to_host(std::vector<E> *out, location at = location()) const {
    tensor t = cast(*this, type_of<T>(), at);
    std::int64_t n = t.valid() ? t.numel(at) : 0;
    out->resize(static_cast<std::size_t>(n));
    E none = E();
    return check(tc_to_host_at(t, n ? out->data() : &none, out->size() * sizeof(E), at.site()));
  }
  TC_STATUS_ to_host(std::vector<bool> *out, location at = location()) const {
    std::vector<unsigned char> bytes;
    tc_status status = to_host<unsigned char, bool>(&bytes, at);
    return out->assign(bytes.begin(), bytes.end()), status;
  }
#ifdef TC_EXCEPTIONS
  template <typename T>
  T item(location at = location()) const {
    T v;
    item(&v, at);
    return v;
  }
  template <typename T>
  std::vector<T> to_vector(location at = location()) const {
    std::vector<T> v;
    to_host(&v, at);
    return v;
  }
#endif
  // What the handle, and every copy of it, stands for changes; values taken from it before do not.
  tc_status assign(const tensor &value, location at = location()) {
    return check(tc_assign_at(h_, value, at.site()));
  }

 private:
  friend class recording;
  tc_tensor h_;
};

// Handles that C functions return meanwhile die with it. The library takes a scope around a
// training step for that step.
class scope {
 public:
  explicit scope(location at = location(), bool is_step = true)
      : site(at.site()), scope_(tc_scope_begin_at(site)), step_(is_step ? site : 0) {}
  scope(const scope &) = delete;
  ~scope() {
    tc_scope_end_at(scope_, step_);
  }
  const tc_site site;

 private:
  tc_scope scope_;
  tc_site step_;
};

// Makes results the caller's alone: a scope that ends with the call releases its own references.
class recording : public scope {
 public:
  explicit recording(location at) : scope(at, false) {}
  // A result of the scope, and one that is in no scope.
  tensor take(tc_tensor h) const {
    if (h.gen) tc_retain_at(h, site);
    return take_over(h);
  }
  tensor take_over(tc_tensor h) const {
    unless(false, tc_is_valid(h));
    tensor t;
    t.h_ = h;
    return t;
  }
};

// Several tensors as an argument, which it holds: {a, b}, or a vector.
struct tensors : std::vector<tensor> {
  tensors(std::initializer_list<tensor> list) : std::vector<tensor>(list) {}
  tensors(const std::vector<tensor> &list) : std::vector<tensor>(list) {}
  const tc_tensor *data() const {
    static_assert(sizeof(tensor) == sizeof(tc_tensor) && std::is_standard_layout<tensor>::value,
                  "a tensor is its handle");
    return reinterpret_cast<const tc_tensor *>(std::vector<tensor>::data());
  }
  int n() const {
    return static_cast<int>(size());
  }
};

#include <tc/ops.hpp>

// ---- Into tensors ----

template <typename E, typename T = E>
inline tensor from(const std::vector<E> &values, location at = location()) {
  recording r(at);
  return r.take(tc_from_host_at(values.data(), dims(values.size()), type_of<T>(), r.site));
}
template <>
inline tensor from<bool>(const std::vector<bool> &values, location at) {
  return from<unsigned char, bool>(std::vector<unsigned char>(values.begin(), values.end()), at);
}
template <typename T>
inline tensor from(const std::vector<T> &values, const dims &shape, location at = location()) {
  return reshape(from(values, at), shape, at);
}

tensor tensor::operator[](placed<std::int64_t> i) const {
  return select(*this, 0, i.value, i.at);
}

// ---- Operators: on either side a tensor or a number ----

struct operand {
  operand(const tensor &x, location l = location()) : at(l), given(&x), n(0) {}
  template <typename T, typename = typename std::enable_if<std::is_arithmetic<T>::value>::type>
  operand(T v, location l = location()) : at(l), given(nullptr), n(v) {}
  tensor held() const {
    return given ? *given : full(dims{}, n.f, TC_F32, at);
  }
  location at;
  const tensor *given;  // nullptr: the number
  number n;
};

// operator, function, and the function with its operands swapped
#define TC_OPERATOR_(sign, function, turned) \
  inline tensor operator sign(const operand &a, const operand &b) { \
    if (!a.given) return turned(b.held(), a.n, b.at); \
    return b.given ? function(*a.given, *b.given, a.at) : function(*a.given, b.n, a.at); \
  }
#define TC_ARITHMETIC_(sign, function, turned) \
  TC_OPERATOR_(sign, function, turned) \
  inline tensor &operator sign##=(tensor & a, const operand & b) { \
    return a = operand(a, b.at) sign b; \
  }
TC_ARITHMETIC_(+, add, add)
TC_ARITHMETIC_(-, sub, rsub)
TC_ARITHMETIC_(*, mul, mul)
TC_ARITHMETIC_(/, div, rdiv)
TC_OPERATOR_(==, eq, eq)
TC_OPERATOR_(!=, ne, ne)
TC_OPERATOR_(<, lt, gt)
TC_OPERATOR_(<=, le, ge)
TC_OPERATOR_(>, gt, lt)
TC_OPERATOR_(>=, ge, le)
#undef TC_ARITHMETIC_
#undef TC_OPERATOR_

inline tensor operator-(placed<const tensor &> x) {
  return neg(x.value, x.at);
}

// As NumPy prints it. Where that fails and nothing is thrown, the stream fails.
inline std::ostream &operator<<(std::ostream &out, placed<const tensor &> x) {
  std::unique_ptr<char, void (*)(void *)> text(unless<char *>(nullptr, tc_format_at(x.value, x.at.site())), std::free);
  if (!text) out.setstate(std::ios_base::failbit);
  return text ? out << text.get() : out;
}

// ---- Gradients and optimizers ----

struct no_grad {
  no_grad() {
    tc_no_grad_begin();
  }
  no_grad(const no_grad &) = delete;
  ~no_grad() {
    tc_no_grad_end();
  }
};

inline tensor param(const tensor &x, location at = location()) {
  recording r(at);
  return r.take_over(tc_param_at(x, r.site));
}
inline tc_status backward(const tensor &y, location at = location()) {
  return check(tc_backward_at(y, at.site()));
}
inline tensor grad(const tensor &p, location at = location()) {
  return tensor(tc_grad(p), at);
}

class optimizer {
 public:
  explicit optimizer(tc_optimizer *opt = nullptr) : opt_(opt, tc_optimizer_destroy) {}
  operator tc_optimizer *() const {
    return opt_.get();
  }
  tc_status step(location at = location()) {
    return check(tc_optimizer_step_at(*this, at.site()));
  }
  tc_status zero_grad(location at = location()) {
    return check(tc_zero_grad_at(*this, at.site()));
  }

 private:
  std::unique_ptr<tc_optimizer, void (*)(tc_optimizer *)> opt_;
};
#define TC_OPTIMIZER_(name, options_of) \
  inline optimizer name(const tensors &params, tc_##options_of##_options o, location at = location()) { \
    return optimizer(unless<tc_optimizer *>(nullptr, tc_##name##_at(params.data(), params.n(), o, at.site()))); \
  }
// clang-format off
TC_OPTIMIZER_(sgd, sgd) TC_OPTIMIZER_(adam, adam) TC_OPTIMIZER_(adamw, adam) TC_OPTIMIZER_(rmsprop, rmsprop)
TC_OPTIMIZER_(adagrad, adagrad) TC_OPTIMIZER_(nadam, nadam) TC_OPTIMIZER_(radam, radam)
TC_OPTIMIZER_(adamax, adamax) TC_OPTIMIZER_(lion, lion)
// clang-format on
#undef TC_OPTIMIZER_

}  // namespace TC_WAY_
}  // namespace tc

#undef TC_STATUS_
#undef TC_WAY_
