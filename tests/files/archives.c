// Archives: files of Python's safetensors and NumPy (tests/golden, made by tools/golden_io.py) are
// read to the bit, ours are written as they should be; a mapped tensor outlives its archive and no
// training writes to its file; what does not fit is an error that says how.
#include <limits.h>
#include <stdint.h>
#include <sys/stat.h>

#include "tests/expect.h"
#include "tests/files/files.h"

// Element i of the golden files.
static double element(tc_type type, int64_t i) {
  int e = (int)(i * 7 % 5);
  if (type == TC_BOOL) return e % 2;
  return type == TC_F16 || type == TC_BF16 || type == TC_F32 || type == TC_F64 ? (e - 2) / 4.0 : e;
}

static void expect_golden(tc_tensor t, tc_type type, tc_dims shape, const char *what) {
  tc_dims have = tc_shape(t);
  double got[16];
  int64_t n = tc_numel(t);
  EXPECT(tc_is_valid(t) && tc_dtype(t) == type, "%s", what);
  EXPECT(have.rank == shape.rank && memcmp(have.dim, shape.dim, sizeof shape.dim) == 0, "%s", what);
  bool read = n >= 0 && n <= 16 && tc_to_host(tc_cast(t, TC_F64), got, (size_t)n * 8) == TC_OK;
  EXPECT(read, "%s", what);
  if (!read) return;
  for (int64_t i = 0; i < n; i++)
    EXPECT(got[i] == element(type, i), "%s[%d] is %g, should be %g", what, (int)i, got[i], element(type, i));
}

static void expect_types(const tc_archive *a, bool bf16) {
  tc_scope scope = tc_scope_begin();
  for (int k = 0; k < TC_N_TYPES; k++) {
    char scalar[32];
    const char *name = tc_type_name((tc_type)k);
    if (k == TC_BF16 && !bf16) continue;
    snprintf(scalar, sizeof scalar, "%s.scalar", name);
    expect_golden(tc_archive_get(a, name), (tc_type)k, TC_SHAPE(2, 3), name);
    expect_golden(tc_archive_get(a, scalar), (tc_type)k, TC_SCALAR, scalar);
  }
  expect_golden(tc_archive_get(a, "f32.empty"), TC_F32, TC_SHAPE(0, 3), "f32.empty");
  tc_scope_end(scope);
}

static bool in_a_mapping_of(const void *at, const char *path) {
  char line[512];
  bool found = false;
  FILE *f = fopen("/proc/self/maps", "r");
  while (f && fgets(line, sizeof line, f)) {
    uintptr_t begin, end;
    if (sscanf(line, "%lx-%lx", &begin, &end) == 2 && (uintptr_t)at >= begin && (uintptr_t)at < end)
      found = strstr(line, path) != NULL;
  }
  if (f) fclose(f);
  return found;
}

// Every tensor of one archive into another file.
static void copy(const tc_archive *a, const char *path,
                 tc_status (*save)(const char *, int, const char *const *, const tc_tensor *, tc_site)) {
  const char *names[64];
  tc_tensor tensors[64];
  int n = tc_archive_count(a);
  tc_scope scope = tc_scope_begin();
  for (int i = 0; i < n; i++) names[i] = tc_archive_name(a, i), tensors[i] = tc_archive_get(a, names[i]);
  EXPECT_OK(save(path, n, names, tensors, TC_HERE));
  tc_scope_end(scope);
}

static void safetensors_are_read_and_written(void) {
  tc_archive *a = tc_safetensors_open("tests/golden/types.safetensors");
  EXPECT(tc_archive_count(a) == 2 * TC_N_TYPES + 1, "%d", tc_archive_count(a));
  EXPECT(tc_archive_name(a, -1) == NULL && tc_archive_name(a, tc_archive_count(a)) == NULL, "a name beyond the list");
  EXPECT(tc_archive_metadata(a, "made by") && strcmp(tc_archive_metadata(a, "made by"), "tools/golden_io.py") == 0,
         "metadata");
  EXPECT(tc_archive_metadata(a, "no") == NULL && tc_archive_metadata(NULL, "no") == NULL, "metadata that is not there");
  expect_types(a, true);
  copy(a, files_path("types.safetensors"), tc_safetensors_save_at);
  copy(a, files_path("types.npz"), tc_npz_save_at);
  tc_archive_close(a);
  a = tc_safetensors_open(files_path("types.safetensors"));
  expect_types(a, true);
  tc_archive_close(a);
  a = tc_safetensors_open("tests/golden/unaligned.safetensors");
  expect_golden(tc_archive_get(a, "f32"), TC_F32, TC_SHAPE(2), "unaligned f32");
  expect_golden(tc_archive_get(a, "bytes"), TC_U8, TC_SHAPE(3), "unaligned bytes");
  tc_archive_close(a);
}

static void npz_are_read_and_written(void) {
  static const char *const files[] = {"tests/golden/types.npz", "tests/golden/types_deflated.npz"};
  for (int i = 0; i < 2; i++) {
    tc_archive *a = tc_npz_open(files[i]);
    EXPECT(tc_archive_count(a) == 2 * (TC_N_TYPES - 1) + 2, "%d", tc_archive_count(a));
    expect_types(a, false);
    expect_golden(tc_archive_get(a, "f32.fortran"), TC_F32, TC_SHAPE(2, 3), "f32.fortran");
    EXPECT_FAILS(tc_archive_get(a, "readme"), TC_ERR_ARG, "has no 'readme'");
    copy(a, files_path("again.npz"), tc_npz_save_at);
    tc_archive_close(a);
    a = tc_npz_open(files_path("again.npz"));
    expect_types(a, false);
    tc_archive_close(a);
  }
  tc_archive *a = tc_npz_open(files_path("types.npz"));  // written from the safetensors file
  expect_types(a, true);
  tc_archive_close(a);
  EXPECT_OK(tc_npz_save(files_path("empty.npz"), 0, NULL, NULL));
  a = tc_npz_open(files_path("empty.npz"));
  EXPECT(a && tc_archive_count(a) == 0, "an empty archive");
  tc_archive_close(a);
  EXPECT_FAILS(tc_npz_save("/dev/null", 1, (const char *[]){"x"}, (tc_tensor[]){tc_ones(TC_SHAPE(1), TC_F32)}),
               TC_ERR_IO, "/dev/null");
  EXPECT_FAILS(
      tc_npz_save(files_path("empty.npz"), 1, (const char *[]){"a\1"}, (tc_tensor[]){tc_ones(TC_SHAPE(1), TC_F32)}),
      TC_ERR_ARG, "control character");
}

static void a_mapping_goes_with_its_last_tensor(void) {
  const char *path = files_path("mapped.safetensors");
  tc_scope scope = tc_scope_begin();
  tc_tensor x = tc_arange(0, 1024, 1, TC_F32);
  EXPECT_OK(tc_safetensors_save(path, 1, (const char *[]){"x"}, &x));
  tc_archive *a = tc_safetensors_open(path);
  tc_tensor y = tc_archive_get(a, "x"), later = tc_mul(y, 2);
  tc_archive_close(a);
  EXPECT(in_a_mapping_of(tc_map(y), path), "the tensor is a copy");
  EXPECT((uintptr_t)tc_map(y) % 64 == 0, "the data is not aligned");
  EXPECT_OK(tc_unmap(y));
  EXPECT_OK(tc_unmap(y));
  // The file may be replaced while its tensors live.
  tc_tensor zeros = tc_zeros(TC_SHAPE(1024), TC_F32);
  EXPECT_OK(tc_safetensors_save(path, 1, (const char *[]){"x"}, &zeros));
  float got[1024];
  EXPECT_OK(tc_to_host(later, got, sizeof got));
  EXPECT(got[1023] == 2046, "%g", (double)got[1023]);
  tc_scope_end(scope);
  EXPECT_OK(tc_sync(NULL));
  EXPECT(!is_mapped(path), "the file is still mapped");
}

// Ten steps on weights that are the mapped file, as they come and as parameters loaded from it.
static void training_leaves_the_file_alone(bool load) {
  const char *path = files_path("weights.safetensors");
  tc_scope scope = tc_scope_begin();
  tc_seed(4);
  tc_tensor w = tc_randn(TC_SHAPE(32, 16), TC_F32), x = tc_randn(TC_SHAPE(64, 16), TC_F32),
            first = tc_zeros(TC_SCALAR, TC_F32), loss = first;
  EXPECT_OK(tc_safetensors_save(path, 1, (const char *[]){"w"}, &w));
  file_bytes before = file_read(path);
  tc_archive *a = tc_safetensors_open(path);
  tc_tensor p = tc_param(load ? tc_zeros(TC_SHAPE(32, 16), TC_F32) : tc_archive_get(a, "w"));
  if (load) EXPECT_OK(tc_archive_load(a, NULL, 1, (const char *[]){"w"}, &p));
  tc_archive_close(a);
  tc_optimizer *opt = tc_adam(&p, 1, (tc_adam_options){.lr = 1e-2, TC_ADAM_DEFAULTS});
  for (int i = 0; i < 10; i++) {
    loss = tc_mean(tc_square(tc_linear(x, p, (tc_tensor){0, 0})), TC_ALL, false);
    if (i == 0) first = loss;
    EXPECT_OK(tc_backward(loss));
    EXPECT_OK(tc_optimizer_step(opt));
    EXPECT_OK(tc_zero_grad(opt));
  }
  float was = 0, is = 0;
  EXPECT_OK(tc_item_f32(first, &was));
  EXPECT_OK(tc_item_f32(loss, &is));
  EXPECT(is < was, "the loss went from %g to %g", (double)was, (double)is);
  file_bytes after = file_read(path);
  EXPECT(before.n == after.n && memcmp(before.at, after.at, before.n) == 0, "the file changed");
  tc_optimizer_destroy(opt);
  tc_release(p);
  tc_scope_end(scope);
  free(before.at), free(after.at);
}

static void loading_takes_all_or_nothing(void) {
  const char *path = files_path("model.safetensors"), *in_file[] = {"model.fc.weight", "model.fc.bias", "model.count"},
             *here[] = {"fc.weight", "fc.bias"};
  tc_scope scope = tc_scope_begin();
  tc_tensor saved[] = {tc_full(TC_SHAPE(3, 2), 1.5, TC_F32), tc_full(TC_SHAPE(3), 2.5, TC_F16),
                       tc_full_int(TC_SCALAR, 7, TC_I64)};
  EXPECT_OK(tc_safetensors_save(path, 3, in_file, saved));
  tc_archive *a = tc_safetensors_open(path);
  tc_tensor t[] = {tc_zeros(TC_SHAPE(3, 2), TC_F32), tc_zeros(TC_SHAPE(3), TC_F32)},
            count = tc_zeros(TC_SCALAR, TC_I32);
  EXPECT_FAILS(tc_archive_load(a, NULL, 2, here, t), TC_ERR_ARG,
               "has no 'fc.weight' (f32 [3, 2]); the nearest is 'model.fc.weight'");
  t[1] = tc_zeros(TC_SHAPE(4), TC_F32);
  EXPECT_FAILS(tc_archive_load(a, "model.", 2, here, t), TC_ERR_SHAPE, "'model.fc.bias' should be f32 [4], in ");
  t[1] = tc_zeros(TC_SHAPE(3), TC_I32);
  EXPECT_FAILS(tc_archive_load(a, "model.", 2, here, t), TC_ERR_DTYPE, "'model.fc.bias' should be i32 [3], in ");
  float got[9] = {0};
  EXPECT_OK(tc_to_host(t[0], got, 24));
  EXPECT(got[0] == 0, "a refused load changed a tensor");
  t[1] = tc_zeros(TC_SHAPE(3), TC_F32);
  EXPECT_OK(tc_archive_load(a, "model.", 2, here, t));
  EXPECT_OK(tc_archive_load(a, "model.", 1, (const char *[]){"count"}, &count));
  EXPECT_OK(tc_to_host(t[0], got, 24));
  EXPECT_OK(tc_to_host(t[1], got + 6, 12));
  for (int i = 0; i < 9; i++) EXPECT(got[i] == (i < 6 ? 1.5f : 2.5f), "element %d is %g", i, (double)got[i]);
  int32_t n = 0;
  EXPECT_OK(tc_item_i32(count, &n));
  EXPECT(n == 7, "%d", n);
  tc_archive_close(a);
  tc_scope_end(scope);
}

// Other text for some of an .npy header, which ends with padding and a newline. The member's
// checksum is not right any more, but is not come to.
static void change_header(file_bytes b, const char *from, const char *to) {
  unsigned char *at = memmem(b.at, b.n, from, strlen(from)),
                *end = at ? memchr(at, '\n', b.n - (size_t)(at - b.at)) : NULL;
  EXPECT(end, "no '%s' in the header", from);
  if (!end) return;
  memmove(at + strlen(to), at + strlen(from),
          (size_t)(end - at) - (strlen(to) > strlen(from) ? strlen(to) : strlen(from)));
  memcpy(at, to, strlen(to));
}

// NumPy has types and ranks that tc lacks: the same errors from an .npz member and an .npy file.
// What is no header is damage.
static void arrays_that_tc_lacks_say_so(void) {
  static const struct {
    const char *from, *to;
    tc_status code;
    const char *says;
  } cases[] = {
      {"'<f4'", "'<c8'", TC_ERR_DTYPE, "element type '<c8' is not supported"},
      {"'<f4'", "'<M8[ns]'", TC_ERR_DTYPE, "element type '<M8[ns]' is not supported"},
      {"'<f4'", "[('a', '<f4')]", TC_ERR_DTYPE, "element type '[..]' is not supported"},
      {"(1, 1,", "(1, 1, 1,", TC_ERR_SHAPE, "it has rank 9; tc has 8"},
      {"(1, 1,", "(1, 1, 1, 1,", TC_ERR_SHAPE, "it has rank 10; tc has 8"},
      {"(1, 1,", "(1, 1, 1, x,", TC_ERR_IO, "not the dictionary"},
      {"'<f4'", "7    ", TC_ERR_IO, "not the dictionary"},
  };
  tc_scope scope = tc_scope_begin();
  tc_tensor t = tc_ones(TC_SHAPE(1, 1, 1, 1, 1, 1, 1, 1), TC_F32);
  const char *npz = files_path("ranks.npz"), *npy = files_path("ranks.npy");
  EXPECT_OK(tc_npz_save(npz, 1, (const char *[]){"w"}, &t));
  EXPECT_OK(tc_save_npy(npy, t));
  for (size_t i = 0; i < 2 * sizeof cases / sizeof *cases; i++) {
    file_bytes b = file_read(i % 2 ? npy : npz);
    change_header(b, cases[i / 2].from, cases[i / 2].to);
    const char *path = file_in_memory(b.at, b.n);
    tc_archive *a = i % 2 ? NULL : tc_npz_open(path);
    EXPECT_FAILS(a ? tc_archive_get(a, "w") : tc_load_npy(path), cases[i / 2].code, cases[i / 2].says);
    tc_archive_close(a);
    free(b.at);
  }
  tc_scope_end(scope);
}

// As .npy files' do: U16 is read as i32, U32 and U64 as i64. What i64 cannot be is told with the
// element.
static void unsigned_integers_become_wider_ones(void) {
  static const char header[] =
      "{\"a\":{\"dtype\":\"U16\",\"shape\":[3],\"data_offsets\":[0,6]},\"b\":{\"dtype\":\"U32\",\"shape\":[1,2],\"data_offsets\":[6,14]},"
      "\"c\":{\"dtype\":\"U64\",\"shape\":[],\"data_offsets\":[14,22]},\"d\":{\"dtype\":\"U64\",\"shape\":[2],\"data_offsets\":[22,38]},"
      "\"e\":{\"dtype\":\"U16\",\"shape\":[0],\"data_offsets\":[38,38]}}";
  static const uint16_t a[] = {0, 1, 65535};
  static const uint32_t b[] = {7, UINT32_MAX};
  static const uint64_t cd[] = {INT64_MAX, 5, (uint64_t)INT64_MAX + 1};
  unsigned char file[8 + sizeof header + 64] = {(unsigned char)((sizeof header - 1) & 255),
                                                (unsigned char)((sizeof header - 1) >> 8)};
  unsigned char *data = file + 8 + sizeof header - 1;
  memcpy(file + 8, header, sizeof header - 1);
  memcpy(data, a, 6), memcpy(data + 6, b, 8), memcpy(data + 14, cd, 24);
  tc_scope scope = tc_scope_begin();
  tc_archive *f = tc_safetensors_open(file_in_memory(file, (size_t)(data - file) + 38));
  tc_tensor x = tc_archive_get(f, "a"), y = tc_archive_get(f, "b"), z = tc_archive_get(f, "c"),
            i16 = tc_zeros(TC_SHAPE(3), TC_I16);
  EXPECT_FAILS(tc_archive_get(f, "d"), TC_ERR_DTYPE, "'d': element 1, 9223372036854775808, is beyond i64");
  EXPECT(tc_numel(tc_archive_get(f, "e")) == 0 && tc_dtype(tc_archive_get(f, "e")) == TC_I32, "empty");
  EXPECT_OK(tc_archive_load(f, NULL, 1, (const char *[]){"a"}, &i16));
  tc_archive_close(f);
  int32_t got_x[3] = {0};
  int64_t got_y[2] = {0}, got_z = 0;
  EXPECT(tc_dtype(x) == TC_I32 && tc_dtype(y) == TC_I64 && tc_shape(y).rank == 2 && tc_dtype(z) == TC_I64, "types");
  EXPECT_OK(tc_to_host(x, got_x, sizeof got_x));
  EXPECT_OK(tc_to_host(y, got_y, sizeof got_y));
  EXPECT_OK(tc_item_i64(z, &got_z));
  EXPECT(got_x[0] == 0 && got_x[1] == 1 && got_x[2] == 65535, "%d %d %d", got_x[0], got_x[1], got_x[2]);
  EXPECT(got_y[0] == 7 && got_y[1] == UINT32_MAX && got_z == INT64_MAX, "%lld %lld", (long long)got_y[1],
         (long long)got_z);
  (void)memcpy(memchr(file + 8, '[', 40), "[2", 2);  // one element fewer than bytes
  EXPECT_FAILS(tc_safetensors_open(file_in_memory(file, (size_t)(data - file) + 38)), TC_ERR_IO,
               "'a' has 6 bytes, not those of U16 [2]");
  tc_scope_end(scope);
}

// What is no archive of the format, or beyond what it allows, is told as that.
static void other_files_are_told(void) {
  static const unsigned char too_long[8] = {1, 0xe1, 0xf5, 5};  // 100,000,001
  const char *path = files_path("other");
  tc_tensor x = tc_ones(TC_SHAPE(40), TC_F32);
  EXPECT_OK(tc_save_npy(path, x));
  EXPECT_FAILS(tc_safetensors_open(path), TC_ERR_IO, "not a safetensors file");
  EXPECT_FAILS(tc_checkpoint_load(path, 0, NULL, NULL, NULL, NULL), TC_ERR_IO, "not a safetensors file");
  EXPECT_FAILS(tc_safetensors_open(file_in_memory("12345678", 8)), TC_ERR_IO,
               "not a safetensors file: 8 bytes are too few");
  EXPECT_FAILS(tc_safetensors_open(file_in_memory("\3\0\0\0\0\0\0\0abc", 11)), TC_ERR_IO,
               "not a safetensors file, or damaged: the header is no JSON");
  EXPECT_FAILS(tc_load_npy(file_in_memory("12345678", 8)), TC_ERR_IO, "not an .npy file");
  EXPECT_FAILS(tc_load_npy(file_in_memory("\x93NUMPY\2\0\0\0\0\1", 12)), TC_ERR_IO,
               "its header is of 16777216 bytes; at most 1048576 are read");
  EXPECT_FAILS(tc_npz_open(file_in_memory("12345678", 8)), TC_ERR_IO, "ot a zip archive");
  const char *large = file_in_memory(too_long, sizeof too_long);
  EXPECT(truncate(large, 100000100) == 0, "truncate");
  EXPECT_FAILS(tc_safetensors_open(large), TC_ERR_IO,
               "its header is of 100000001 bytes; the format's limit is 100000000");
  EXPECT(unlink(path) == 0, "unlink");
}

// Of both formats, which libraries write that differ in what they take. The message has none of the
// name's bytes.
static void names_are_utf8(void) {
  static const char *const bad[] = {"\xff",
                                    "w\x80",
                                    "\xe2\x82",
                                    "\xe2\x82w",
                                    "\xc0\xaf",
                                    "\xe0\x82\x80",
                                    "\xf0\x80\x80\x80",
                                    "\xed\xa0\x80",
                                    "\xf4\x90\x80\x80",
                                    "\xf8\x88\x80\x80\x80"};
  static const char *const good[] = {
      "w", "\u00e9", "\u20ac", "\U0001d11e", "\xed\x9f\xbf", "\xee\x80\x80", "\xf4\x8f\xbf\xbf"};
  enum { N_GOOD = sizeof good / sizeof *good };
  const char *paths[] = {files_path("names.safetensors"), files_path("names.npz")};
  tc_scope scope = tc_scope_begin();
  tc_tensor t[N_GOOD];
  for (int i = 0; i < N_GOOD; i++) t[i] = tc_full(TC_SCALAR, i, TC_F32);
  for (int k = 0; k < 2; k++) {
    tc_status (*save)(const char *, int, const char *const *, const tc_tensor *, tc_site) =
        k ? tc_npz_save_at : tc_safetensors_save_at;
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
      EXPECT_FAILS(save(paths[k], 2, (const char *[]){"x", bad[i]}, t, TC_HERE), TC_ERR_ARG, "name 1 is no UTF-8");
      EXPECT(access(paths[k], F_OK) != 0, "a failed save left a file");
    }
    EXPECT_OK(save(paths[k], N_GOOD, good, t, TC_HERE));
    tc_archive *a = k ? tc_npz_open(paths[k]) : tc_safetensors_open(paths[k]);
    for (int i = 0; i < N_GOOD; i++) {
      float got = -1;
      EXPECT(tc_item_f32(tc_archive_get(a, good[i]), &got) == TC_OK && got == (float)i, "'%s' is %g", good[i],
             (double)got);
    }
    tc_archive_close(a);
  }
  tc_scope_end(scope);
}

static void wrong_calls_say_what_is_wrong(void) {
  tc_scope scope = tc_scope_begin();
  tc_tensor one = tc_ones(TC_SHAPE(1), TC_F32), two[] = {one, one};
  const char *path = files_path("wrong.safetensors");
  EXPECT_FAILS(tc_safetensors_open("/nonexistent/x"), TC_ERR_IO, "/nonexistent/x: No such file");
  EXPECT_FAILS(tc_safetensors_open("/dev"), TC_ERR_IO, "not a file");
  EXPECT_FAILS(tc_safetensors_open(NULL), TC_ERR_ARG, "path is NULL");
  EXPECT_FAILS(tc_archive_get(NULL, "x"), TC_ERR_ARG, "no archive");
  EXPECT_FAILS(tc_safetensors_save("/nonexistent/x", 1, (const char *[]){"x"}, two), TC_ERR_IO,
               "/nonexistent/x: No such file");
  EXPECT_FAILS(tc_safetensors_save(path, 2, (const char *[]){"x", "x"}, two), TC_ERR_ARG, "'x' is given twice");
  EXPECT_FAILS(tc_safetensors_save(path, 1, (const char *[]){""}, two), TC_ERR_ARG, "name 0 is empty");
  EXPECT_FAILS(tc_safetensors_save(path, 1, (const char *[]){NULL}, two), TC_ERR_ARG, "name 0 is NULL");
  EXPECT_FAILS(tc_safetensors_save(path, 1, (const char *[]){"__metadata__"}, two), TC_ERR_ARG, "taken");
  EXPECT_FAILS(tc_safetensors_save(path, -1, NULL, NULL), TC_ERR_ARG, "-1 tensors");
  EXPECT_FAILS(tc_safetensors_save(path, 1, (const char *[]){"x"}, &(tc_tensor){0, 0}), TC_ERR_HANDLE, "null tensor");
  EXPECT_FAILS(tc_safetensors_save_with(path, 1, (const char *[]){"x"}, two, 1, (const char *[]){"k", "\xff"}),
               TC_ERR_ARG, "metadata");
  EXPECT_FAILS(tc_safetensors_save_with(path, 1, (const char *[]){"x"}, two, 1, NULL), TC_ERR_ARG,
               "1 pairs of metadata at a null pointer");
  EXPECT_FAILS(tc_safetensors_save_with(path, 1, (const char *[]){"x"}, two, -1, NULL), TC_ERR_ARG,
               "-1 pairs of metadata");
  EXPECT_FAILS(tc_safetensors_save_with(path, 1, (const char *[]){"x"}, two, 2, (const char *[]){"k", "a", "k", "b"}),
               TC_ERR_ARG, "a key twice");
  EXPECT(access(path, F_OK) != 0, "a failed save left a file");
  EXPECT_FAILS(tc_npz_open("/nonexistent/x"), TC_ERR_IO, "/nonexistent/x: No such file");
  EXPECT_FAILS(tc_npz_save("/nonexistent/x", 1, (const char *[]){"x"}, two), TC_ERR_IO, "/nonexistent/x: No such file");
  tc_scope_end(scope);
}

// A file that is written anew is as private as it was, and a name may be as long as the directory's
// file system has it.
static void files_stay_as_they_are_named(void) {
  tc_scope scope = tc_scope_begin();
  tc_tensor one = tc_ones(TC_SHAPE(1), TC_F32);
  char longest[NAME_MAX + 1];
  struct stat info;
  memset(longest, 'x', NAME_MAX);
  longest[NAME_MAX] = 0;
  const char *names[] = {"private.safetensors", longest};
  for (int i = 0; i < 2; i++) {
    char path[2 * NAME_MAX];
    snprintf(path, sizeof path, "%s%s", files_path(""), names[i]);
    EXPECT_OK(tc_safetensors_save(path, 1, (const char *[]){"x"}, &one));
    EXPECT(chmod(path, 0600) == 0, "chmod");
    EXPECT_OK(tc_safetensors_save(path, 1, (const char *[]){"x"}, &one));
    EXPECT(stat(path, &info) == 0 && (info.st_mode & 07777) == 0600, "%.20s has mode %o", names[i], info.st_mode);
  }
  tc_scope_end(scope);
}

int main(void) {
  if (!has_library(tc_safetensors_open_at) || !has_library(tc_npz_open_at)) return 77;
  safetensors_are_read_and_written();
  npz_are_read_and_written();
  a_mapping_goes_with_its_last_tensor();
  training_leaves_the_file_alone(false);
  training_leaves_the_file_alone(true);
  loading_takes_all_or_nothing();
  arrays_that_tc_lacks_say_so();
  unsigned_integers_become_wider_ones();
  other_files_are_told();
  names_are_utf8();
  wrong_calls_say_what_is_wrong();
  files_stay_as_they_are_named();
  EXPECT(files_fini() == 13, "temporaries are left");
  tc_shutdown();
  return expect_done("files-archives");
}
