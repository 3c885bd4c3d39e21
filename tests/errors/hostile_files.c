// Archives that were cut, damaged or made to harm: an error that names the file and what is wrong,
// or tensors within the file; never a crash. Every length that a file can be cut to, every bit of a
// safetensors header and a bit of every byte of an .npz flipped, and headers that lie. Run under
// ASan and UBSan.
//   hostile_files
#include <stdint.h>

#include "tests/expect.h"
#include "tests/files/files.h"

static const char *path;
static unsigned sum;  // of what was read, so that reading is not left out

typedef tc_archive *open_fn(const char *path, tc_site site);

// Opens the bytes as a file and reads whatever can be read. Whether everything could.
static bool try_bytes(open_fn *open, const void *bytes, size_t n, const char *what, size_t at) {
  path = file_in_memory(bytes, n);
  tc_clear_error();
  tc_scope scope = tc_scope_begin();
  tc_archive *a = open(path, 0);
  bool whole = a != NULL;
  EXPECT(a || (tc_last_error()->status == TC_ERR_IO && strstr(tc_last_error()->message, path)),
         "%s %zu: no reason given", what, at);
  for (int i = 0; i < tc_archive_count(a); i++) {
    tc_clear_error();
    tc_tensor t = tc_archive_get(a, tc_archive_name(a, i));
    tc_status st = tc_last_error()->status;
    EXPECT(tc_is_valid(t) || st == TC_ERR_IO || st == TC_ERR_DTYPE || st == TC_ERR_SHAPE || st == TC_ERR_MEMORY,
           "%s %zu: status %d", what, at, st);
    whole = whole && tc_is_valid(t);
    const unsigned char *data = tc_is_valid(t) ? tc_map(t) : NULL;
    for (int64_t k = 0; data && k < tc_numel(t) * (int64_t)tc_type_bytes(tc_dtype(t)); k++) sum += data[k];
    if (data) EXPECT_OK(tc_unmap(t));
  }
  tc_archive_close(a);
  tc_scope_end(scope);
  tc_clear_error();
  return whole;
}

static void cut_everywhere(open_fn *open, const char *golden) {
  file_bytes b = file_read(golden);
  for (size_t n = 0; n < b.n; n++)
    EXPECT(!try_bytes(open, b.at, n, golden, n), "%s cut to %zu bytes is whole", golden, n);
  EXPECT(try_bytes(open, b.at, b.n, golden, b.n), "%s itself", golden);
  free(b.at);
}

// A flipped bit may make another valid file (a name, a type of the same size), so most of this is
// for the sanitizers; but most flips are noticed.
static void flip_everything(open_fn *open, const char *golden, size_t end, int every) {
  file_bytes b = file_read(golden);
  size_t n_whole = 0, n = 0;
  for (size_t i = 0; i < (end < b.n ? end : b.n); i++)
    for (int bit = (int)i % every; bit < 8; bit += every, n++) {
      b.at[i] ^= (unsigned char)(1 << bit);
      n_whole += try_bytes(open, b.at, b.n, "flipped bit of byte", i);
      b.at[i] ^= (unsigned char)(1 << bit);
    }
  EXPECT(n_whole < n / 2, "%zu of %zu flips went unnoticed", n_whole, n);
  free(b.at);
}

// Every value that a flip changes in an .npz is caught by its checksum.
static void npz_values_are_true_or_refused(void) {
  file_bytes b = file_read("tests/golden/types_deflated.npz");
  for (size_t i = 0; i < b.n; i++) {
    b.at[i] ^= 0x10;
    path = file_in_memory(b.at, b.n);
    tc_scope scope = tc_scope_begin();
    tc_archive *a = tc_npz_open(path);
    tc_tensor t = tc_archive_get(a, "f64");
    double got[6];
    if (tc_is_valid(t) && tc_numel(t) == 6 && tc_to_host(t, got, sizeof got) == TC_OK)
      for (int k = 0; k < 6; k++)
        EXPECT(got[k] == (k * 7 % 5 - 2) / 4.0, "byte %zu flipped: element %d is %g", i, k, got[k]);
    tc_archive_close(a);
    tc_scope_end(scope);
    tc_clear_error();
    b.at[i] ^= 0x10;
  }
  free(b.at);
}

// A file of this header and n bytes of data: what the error says, or NULL if it is to be read
// whole.
static void header_is(const char *header, size_t header_bytes, size_t n, const char *says) {
  unsigned char *file = calloc(1, 8 + header_bytes + n);
  for (int i = 0; i < 8; i++) file[i] = (unsigned char)(header_bytes >> (8 * i));
  memcpy(file + 8, header, header_bytes);
  path = file_in_memory(file, 8 + header_bytes + n);
  tc_clear_error();
  tc_archive *a = tc_safetensors_open(path);
  tc_scope scope = tc_scope_begin();
  for (int i = 0; i < tc_archive_count(a); i++) (void)tc_archive_get(a, tc_archive_name(a, i));
  tc_scope_end(scope);
  const char *message = tc_last_error()->message;
  if (says) EXPECT(strstr(message, says) && strstr(message, path), "%.100s should say \"%s\"", header, says);
  if (!says) EXPECT(a && message[0] == 0, "%.100s", header);
  tc_archive_close(a);
  tc_clear_error();
  free(file);
}

#define F32(shape, begin, end) "{\"dtype\":\"F32\",\"shape\":" shape ",\"data_offsets\":[" #begin "," #end "]}"

static void headers_that_lie(void) {
  static const struct {
    const char *header;
    size_t n;
    const char *says;
  } cases[] = {
      {"{}", 0, NULL},
      {"{\"a\":" F32("[2]", 0, 8) "}   ", 8, NULL},
      {"{\"a\":" F32("[0,4611686018427387904]", 0, 0) "}", 0, "'a' has 0 bytes, not those of F32 [0, 46"},
      {"{\"a\":" F32("[]", 0, 4) ",\"b\":" F32("[0]", 0, 0) "}", 4, NULL},
      {"{\"a\":" F32("[2]", 0, 8) "}", 4, "'a' lies outside of the data's 4 bytes"},
      {"{\"a\":" F32("[2]", 0, 8) "}", 12, "bytes 8 to 12 of the data belong to no tensor"},
      {"{\"a\":" F32("[2]", 4, 12) "}", 12, "bytes 0 to 4 of the data belong to no tensor"},
      {"{\"a\":" F32("[2]", 0, 8) ",\"b\":" F32("[2]", 4, 12) "}", 12, "'a' and 'b' overlap"},
      {"{\"a\":" F32("[2]", 0, 8) ",\"b\":" F32("[2]", 0, 8) "}", 8, "'a' and 'b' overlap"},
      {"{\"a\":" F32("[1]", 0, 4) ",\"b\":" F32("[1]", 8, 12) "}", 12, "bytes 4 to 8"},
      {"{\"a\":" F32("[2]", 8, 0) "}", 8, "'a' lies outside"},
      {"{\"a\":" F32("[2]", -8, 0) "}", 8, "'a' lies outside"},
      {"{\"a\":" F32("[3]", 0, 8) "}", 8, "'a' has 8 bytes, not those of F32 [3]"},
      {"{\"a\":" F32("[-2]", 0, 8) "}", 8, "'a' has an extent that is no whole number"},
      {"{\"a\":" F32("[2.0]", 0, 8) "}", 8, "'a' has an extent that is no whole number"},
      {"{\"a\":" F32("[4611686018427387904,4]", 0, 0) "}", 0, "'a' has 0 bytes"},
      {"{\"a\":" F32("[9223372036854775807,9223372036854775807,9223372036854775807]", 0, 8) "}", 8, "'a' has 8 bytes"},
      {"{\"a\":" F32("[99999999999999999999999999]", 0, 8) "}", 8, "no JSON"},
      {"{\"a\":" F32("[2]", 0, 18446744073709551616) "}", 8, "no JSON"},
      {"{\"a\":" F32("[1,1,1,1,1,1,1,1,2]", 0, 8) "}", 8, "'a' has rank 9"},
      {"{\"a\":{\"dtype\":\"F8_E4M3\",\"shape\":[8],\"data_offsets\":[0,8]}}", 8,
       "'a' is F8_E4M3, a type that tc lacks"},
      {"{\"a\":{\"dtype\":7,\"shape\":[2],\"data_offsets\":[0,8]}}", 8, "'a' is no object with dtype"},
      {"{\"a\":{\"dtype\":\"F32\",\"shape\":2,\"data_offsets\":[0,8]}}", 8, "'a' is no object with dtype"},
      {"{\"a\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[0,8,8]}}", 8, "'a' is no object with dtype"},
      {"{\"a\":{\"dtype\":\"F32\",\"shape\":[2]}}", 8, "'a' is no object with dtype"},
      {"{\"a\":null}", 0, "'a' is no object with dtype"},
      {"{\"a\":" F32("[]", 0, 4) ",\"a\":" F32("[]", 4, 8) "}", 8, "duplicate object key"},
      {"{\"__metadata__\":null,\"a\":" F32("[2]", 0, 8) "}", 8, NULL},
      {"{\"__metadata__\":{\"k\":1}}", 0, "__metadata__ is no object of strings"},
      {"{\"__metadata__\":[\"k\"]}", 0, "__metadata__ is no object of strings"},
      {"{\"\xff\":" F32("[]", 0, 4) "}", 4, "no JSON"},
      {"{\"a\\u0000b\":" F32("[]", 0, 4) "}", 4, "no JSON"},
      {"[]", 0, "no JSON object"},
      {"{} {}", 0, "no JSON"},
      {"7", 0, "no JSON"},
  };
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
    header_is(cases[i].header, strlen(cases[i].header), cases[i].n, cases[i].says);
  enum { DEEP = 1000000, MANY = 20000 };
  char *text = malloc(DEEP + 100 * MANY);
  memset(text, '[', DEEP);
  header_is(text, DEEP, 0, "maximum parsing depth reached");
  size_t n = (size_t)sprintf(text, "{\"a\":");
  memset(text + n, '[', DEEP / 2), memset(text + n + DEEP / 2, ']', DEEP / 2);
  header_is(text, n + DEEP, 0, "maximum parsing depth reached");
  n = 0;
  for (int i = 0; i < MANY; i++) n += (size_t)sprintf(text + n, "%c\"t%d\":" F32("[0]", 0, 0), i ? ',' : '{', i);
  text[n++] = '}';
  header_is(text, n, 0, NULL);
  // One name as long as the header.
  n = (size_t)sprintf(text, "{\"");
  memset(text + n, 'x', DEEP);
  n += DEEP;
  n += (size_t)sprintf(text + n, "\":" F32("[2]", 0, 8) "}");
  header_is(text, n, 4, "lies outside");
  free(text);
}

static void lengths_that_lie(void) {
  static const uint64_t lengths[] = {0,
                                     3,
                                     7,
                                     100,
                                     1u << 20,
                                     1u << 27,
                                     UINT32_MAX,
                                     (uint64_t)1 << 32,
                                     INT64_MAX,
                                     (uint64_t)1 << 63,
                                     UINT64_MAX - 7,
                                     UINT64_MAX};
  for (size_t i = 0; i < sizeof lengths / sizeof *lengths; i++) {
    unsigned char file[10] = {0, 0, 0, 0, 0, 0, 0, 0, '{', '}'};
    memcpy(file, &lengths[i], 8);
    EXPECT(!try_bytes(tc_safetensors_open_at, file, sizeof file, "length", i), "a header of %llu bytes",
           (unsigned long long)lengths[i]);
  }
}

int main(void) {
  bool safetensors = has_library(tc_safetensors_open_at), npz = has_library(tc_npz_open_at);
  if (!safetensors && !npz) return 77;
  if (safetensors) {
    cut_everywhere(tc_safetensors_open_at, "tests/golden/types.safetensors");
    cut_everywhere(tc_safetensors_open_at, "tests/golden/unaligned.safetensors");
    flip_everything(tc_safetensors_open_at, "tests/golden/types.safetensors", 8 + 1376, 1);
    flip_everything(tc_safetensors_open_at, "tests/golden/unaligned.safetensors", 8 + 129, 1);
    headers_that_lie();
    lengths_that_lie();
  }
  if (npz) {
    cut_everywhere(tc_npz_open_at, "tests/golden/types_deflated.npz");
    flip_everything(tc_npz_open_at, "tests/golden/types_deflated.npz", SIZE_MAX, 8);
    npz_values_are_true_or_refused();
  }
  tc_shutdown();
  return expect_done(sum ? "hostile_files" : "hostile_files (nothing was read)");
}
