// DLPack: what is lent is the value's own memory and outlives the tensor; what is borrowed is the
// owner's memory, its deleter called exactly once, after the last use, or at once where the tensor
// is copied or refused; on any thread, and from within the library.
#include <pthread.h>
#include <string.h>
#include <tc/dlpack.h>
#include <tc/io.h>

#include "tests/expect.h"

static int n_deleted;

static void count_deleted(DLManagedTensorVersioned *m) {
  (void)m;
  n_deleted++;
}

static void count_deleted_legacy(DLManagedTensor *m) {
  (void)m;
  n_deleted++;
}

// A tensor of another library: the pieces must live as long as it does.
static DLManagedTensorVersioned foreign(void *data, int rank, int64_t *shape, int64_t *strides, DLDataType type) {
  return (DLManagedTensorVersioned){{1, 0}, NULL, count_deleted, 0, {data, {kDLCPU, 0}, rank, type, shape, strides, 0}};
}

static const DLDataType f32 = {kDLFloat, 32, 1};

static void expect_values(tc_tensor t, const float *want, int n, const char *what) {
  float got[16];
  EXPECT(tc_to_host(t, got, (size_t)n * 4) == TC_OK && memcmp(got, want, (size_t)n * 4) == 0, "%s", what);
}

static void what_is_lent_is_the_value(void) {
  tc_scope scope = tc_scope_begin();
  tc_tensor t = tc_add(tc_reshape(tc_arange(0, 6, 1, TC_F32), TC_SHAPE(2, 3)), 1);
  DLManagedTensorVersioned *m = tc_to_dlpack(t);
  DLManagedTensor *legacy = tc_to_dlpack_legacy(t);
  EXPECT(m && legacy, "nothing was lent");
  EXPECT(m->version.major == 1 && m->flags == DLPACK_FLAG_BITMASK_READ_ONLY, "version %u, flags %d", m->version.major,
         (int)m->flags);
  DLTensor d = m->dl_tensor;
  EXPECT(
      d.ndim == 2 && d.shape[0] == 2 && d.shape[1] == 3 && d.strides[0] == 3 && d.strides[1] == 1 && d.byte_offset == 0,
      "shape or strides");
  EXPECT(d.device.device_type == kDLCPU && d.dtype.code == kDLFloat && d.dtype.bits == 32 && d.dtype.lanes == 1,
         "device or type");
  EXPECT(d.data == tc_map(t) && legacy->dl_tensor.data == d.data, "the value was copied");
  EXPECT_OK(tc_unmap(t));
  EXPECT_OK(tc_assign(t, tc_mul(t, 10)));
  EXPECT_OK(tc_sync(NULL));
  EXPECT(((float *)d.data)[5] == 6, "an assign changed what was lent: %g", (double)((float *)d.data)[5]);
  tc_scope_end(scope);
  EXPECT(((float *)d.data)[5] == 6, "%g", (double)((float *)d.data)[5]);
  m->deleter(m);
  legacy->deleter(legacy);
}

static void what_is_borrowed_is_the_owners(void) {
  float data[6] = {1, 2, 3, 4, 5, 6}, turned[6] = {1, 4, 2, 5, 3, 6};
  int64_t shape[2] = {2, 3}, strides[2] = {3, 1}, turned_shape[2] = {3, 2}, turned_strides[2] = {1, 3};
  tc_scope scope = tc_scope_begin();
  DLManagedTensorVersioned m = foreign(data, 2, shape, strides, f32), dense = foreign(data, 2, shape, NULL, f32),
                           t = foreign(data, 2, turned_shape, turned_strides, f32),
                           part = foreign(data, 1, shape, strides + 1, f32);
  DLManagedTensor legacy = {m.dl_tensor, NULL, count_deleted_legacy};
  n_deleted = 0;
  tc_tensor a = tc_from_dlpack(&m), b = tc_from_dlpack_legacy(&legacy), c = tc_from_dlpack(&dense);
  EXPECT(tc_map(a) == data && tc_map(b) == data && tc_map(c) == data, "dense memory was copied");
  EXPECT(n_deleted == 0, "deleted %d too soon", n_deleted);
  tc_tensor d = tc_from_dlpack(&t);
  EXPECT(n_deleted == 1, "strided memory is not held: deleted %d", n_deleted);
  expect_values(d, turned, 6, "strided");
  part.dl_tensor.byte_offset = 12;
  expect_values(tc_from_dlpack(&part), data + 3, 2, "with an offset");
  tc_tensor twice = tc_mul(a, 2);
  EXPECT_OK(tc_assign(a, twice));  // to a new buffer
  EXPECT_OK(tc_sync(NULL));
  EXPECT(data[0] == 1, "an assign wrote to borrowed memory");
  EXPECT_OK(tc_unmap(a));
  EXPECT_OK(tc_unmap(b));
  EXPECT_OK(tc_unmap(c));
  tc_scope_end(scope);
  EXPECT_OK(tc_sync(NULL));
  EXPECT(n_deleted == 5, "deleted %d of 5", n_deleted);
}

// Memory that cannot be borrowed as it is, but copied.
static void odd_memory_is_copied(void) {
  char room[32] = {0};
  unsigned char bools[3] = {0, 1, 7};
  float want[2] = {1.5f, 2.5f};
  int64_t two = 2, three = 3, none[2] = {0, 3};
  memcpy(room + 1, want, sizeof want);
  n_deleted = 0;
  tc_scope scope = tc_scope_begin();
  DLManagedTensorVersioned odd = foreign(room + 1, 1, &two, NULL, f32),
                           b = foreign(bools, 1, &three, NULL, (DLDataType){kDLBool, 8, 1}),
                           empty = foreign(NULL, 2, none, NULL, f32), scalar = foreign(want, 0, NULL, NULL, f32);
  expect_values(tc_from_dlpack(&odd), want, 2, "not aligned");
  unsigned char got[3];
  EXPECT_OK(tc_to_host(tc_from_dlpack(&b), got, 3));
  EXPECT(got[0] == 0 && got[1] == 1 && got[2] == 1, "bools %d %d %d", got[0], got[1], got[2]);
  EXPECT(tc_numel(tc_from_dlpack(&empty)) == 0, "an empty tensor");
  EXPECT(n_deleted == 3, "deleted %d", n_deleted);
  expect_values(tc_from_dlpack(&scalar), want, 1, "scalar");
  tc_scope_end(scope);
  EXPECT_OK(tc_sync(NULL));
  EXPECT(n_deleted == 4, "deleted %d", n_deleted);
}

#define EXPECT_REFUSED(m, code, words) \
  do { \
    n_deleted = 0; \
    tc_clear_error(); \
    EXPECT(!tc_is_valid(tc_from_dlpack(m)), "taken"); \
    EXPECT(n_deleted == 1, "deleted %d", n_deleted); \
    EXPECT(tc_last_error()->status == (code) && strstr(tc_last_error()->message, words) && \
               strstr(tc_last_error()->message, "dlpack.c:"), \
           "should say \"%s\"", words); \
    tc_clear_error(); \
  } while (0)

static void what_tc_lacks_is_refused(void) {
  float data[4] = {0};
  int64_t shape[9] = {1, 1, 1, 1, 1, 1, 1, 1, 1}, bad[2] = {-1, 2}, huge[2] = {INT64_MAX, INT64_MAX};
  DLManagedTensorVersioned m = foreign(data, 9, shape, NULL, f32);
  EXPECT_REFUSED(&m, TC_ERR_SHAPE, "rank 9");
  m.dl_tensor.ndim = -1;
  EXPECT_REFUSED(&m, TC_ERR_SHAPE, "rank -1");
  m = foreign(data, 2, bad, NULL, f32);
  EXPECT_REFUSED(&m, TC_ERR_SHAPE, "[-1, 2] is no shape");
  m = foreign(data, 2, huge, NULL, f32);
  EXPECT_REFUSED(&m, TC_ERR_SHAPE, "is no shape");
  m = foreign(NULL, 1, shape, NULL, f32);
  EXPECT_REFUSED(&m, TC_ERR_ARG, "data is NULL");
  m = foreign(data, 1, NULL, NULL, f32);
  EXPECT_REFUSED(&m, TC_ERR_ARG, "shape is NULL");
  m = foreign(data, 1, shape, NULL, (DLDataType){kDLComplex, 64, 1});
  EXPECT_REFUSED(&m, TC_ERR_DTYPE, "code 5 with 64 bits");
  m = foreign(data, 1, shape, NULL, (DLDataType){kDLFloat, 32, 4});
  EXPECT_REFUSED(&m, TC_ERR_DTYPE, "4 lanes");
  m = foreign(data, 1, shape, NULL, f32);
  m.dl_tensor.device.device_type = kDLCUDA;
  EXPECT_REFUSED(&m, TC_ERR_DEVICE, "device 2");
  m = foreign(data, 1, shape, NULL, f32);
  m.version.major = 2;
  EXPECT_REFUSED(&m, TC_ERR_ARG, "version 2.0");
  EXPECT(!tc_is_valid(tc_from_dlpack(NULL)) && tc_last_error()->status == TC_ERR_ARG, "NULL");
  tc_clear_error();
  EXPECT(tc_to_dlpack((tc_tensor){0, 0}) == NULL && tc_last_error()->status == TC_ERR_HANDLE, "no tensor");
  tc_clear_error();
}

// As in files: what is unsigned and of more than a byte becomes wider, dense or strided; what no
// i64 is is refused.
static void unsigned_integers_become_wider_ones(void) {
  uint16_t u16[6] = {0, 1, 2, 65533, 65534, 65535};
  uint32_t u32[2] = {5, UINT32_MAX};
  uint64_t u64[2] = {INT64_MAX, (uint64_t)INT64_MAX + 1};
  int64_t shape[2] = {3, 2}, transposed[2] = {1, 3}, one = 1, two = 2, none = 0;
  int32_t got[6];
  n_deleted = 0;
  DLManagedTensorVersioned m = foreign(u16, 2, shape, NULL, (DLDataType){kDLUInt, 16, 1});
  tc_tensor x = tc_from_dlpack(&m);
  EXPECT(tc_dtype(x) == TC_I32 && n_deleted == 1, "type %s, deleted %d", tc_type_name(tc_dtype(x)), n_deleted);
  EXPECT_OK(tc_to_host(x, got, sizeof got));
  for (int i = 0; i < 6; i++) EXPECT(got[i] == u16[i], "element %d is %d", i, got[i]);
  m = foreign(u16, 2, shape, transposed, (DLDataType){kDLUInt, 16, 1});
  EXPECT_OK(tc_to_host(tc_from_dlpack(&m), got, sizeof got));
  for (int i = 0; i < 6; i++) EXPECT(got[i] == u16[i / 2 + i % 2 * 3], "element %d is %d", i, got[i]);
  m = foreign(u32, 1, &two, NULL, (DLDataType){kDLUInt, 32, 1});
  int64_t wide[2];
  EXPECT_OK(tc_to_host(tc_from_dlpack(&m), wide, sizeof wide));
  EXPECT(wide[0] == 5 && wide[1] == UINT32_MAX, "%lld", (long long)wide[1]);
  m = foreign(u64, 1, &one, NULL, (DLDataType){kDLUInt, 64, 1});
  EXPECT_OK(tc_item_i64(tc_reshape(tc_from_dlpack(&m), TC_SCALAR), wide));
  EXPECT(wide[0] == INT64_MAX, "%lld", (long long)wide[0]);
  m = foreign(NULL, 1, &none, NULL, (DLDataType){kDLUInt, 16, 1});
  EXPECT(tc_numel(tc_from_dlpack(&m)) == 0, "empty");
  m = foreign(u64, 1, &two, NULL, (DLDataType){kDLUInt, 64, 1});
  EXPECT_REFUSED(&m, TC_ERR_DTYPE, "element 1, 9223372036854775808, is beyond i64");
  m = foreign(u64, 1, &one, NULL, (DLDataType){kDLUInt, 128, 1});
  EXPECT_REFUSED(&m, TC_ERR_DTYPE, "code 1 with 128 bits");
}

static void every_type_comes_back(void) {
  for (int k = 0; k < TC_N_TYPES; k++) {
    tc_scope scope = tc_scope_begin();
    tc_tensor t = tc_cast(tc_arange(0, 5, 1, TC_F32), (tc_type)k), back = tc_from_dlpack(tc_to_dlpack(t));
    bool same = false;
    EXPECT(tc_dtype(back) == (tc_type)k, "%s came back as %s", tc_type_name((tc_type)k), tc_type_name(tc_dtype(back)));
    EXPECT_OK(tc_allclose(tc_cast(t, TC_F32), tc_cast(back, TC_F32), 0, 0, &same));
    EXPECT(same, "%s", tc_type_name((tc_type)k));
    tc_scope_end(scope);
  }
}

static void *delete_there(void *m) {
  ((DLManagedTensorVersioned *)m)->deleter(m);
  return NULL;
}

// A value lent, borrowed back and dropped by the library itself, which holds its locks then; and
// one given back by another thread.
static void deleters_run_anywhere(void) {
  tc_memory before = tc_memory_stats();
  tc_scope scope = tc_scope_begin();
  tc_tensor t = tc_rand(TC_SHAPE(1000), TC_F32), again = tc_from_dlpack(tc_to_dlpack(tc_from_dlpack(tc_to_dlpack(t))));
  EXPECT(tc_map(again) == tc_map(t), "going round copied");
  EXPECT_OK(tc_unmap(t));
  EXPECT_OK(tc_unmap(again));
  DLManagedTensorVersioned *m = tc_to_dlpack(t);
  tc_scope_end(scope);
  pthread_t thread;
  EXPECT(pthread_create(&thread, NULL, delete_there, m) == 0 && pthread_join(thread, NULL) == 0, "no thread");
  EXPECT_OK(tc_sync(NULL));
  EXPECT(tc_memory_stats().live_bytes == before.live_bytes, "%zu bytes live, before %zu", tc_memory_stats().live_bytes,
         before.live_bytes);
}

int main(void) {
  what_is_lent_is_the_value();
  what_is_borrowed_is_the_owners();
  odd_memory_is_copied();
  what_tc_lacks_is_refused();
  unsigned_integers_become_wider_ones();
  every_type_comes_back();
  deleters_run_anywhere();
  tc_shutdown();
  return expect_done("files-dlpack");
}
