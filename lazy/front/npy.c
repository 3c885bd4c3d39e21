// NumPy's .npy files: written as version 1.0, little-endian; read as 1.0, 2.0 and 3.0, in C or
// Fortran order, in either byte order.
// Unsigned integers of 2, 4 and 8 bytes, which tc lacks, are read as i32, i64 and i64.
// bf16, which NumPy lacks, is stored as two opaque bytes ("<V2", read also as "|V2"); numpy.load
// gives void16, viewable as ml_dtypes.bfloat16.
// Invariants: a header is believed only as far as the file's size, or what a pipe gives, bears it
// out.
// A pipe is read no further than the array goes.
// Source: numpy/lib/format.py. Threads: thread-compatible; saving is a sync point.
#define TC_NO_SITES
#include "lazy/front/npy.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "lazy/front/file.h"
#include "lazy/front/foreign.h"
#include "lazy/front/operand.h"

#define MAX_HEADER_BYTES (1 << 20)

static const char *const descr_of[] = {
#define TC_TYPE(NAME, name, bytes, kind, npy) npy,
#include <tc/dtypes.def>
#undef TC_TYPE
};

// ---- Saving ----

// Magic, version, length and the dictionary, padded with spaces so that the data starts at a
// multiple of 64.
size_t tc_npy_header(char out[TC_NPY_HEADER_BYTES], const tc_dims *shape, tc_type type) {
  size_t n = 10, bytes = TC_NPY_HEADER_BYTES;
  n += (size_t)snprintf(out + n, bytes - n, "{'descr': '%s', 'fortran_order': False, 'shape': (", descr_of[type]);
  for (int i = 0; i < shape->rank; i++)
    n += (size_t)snprintf(out + n, bytes - n, i ? ", %" PRId64 : "%" PRId64, shape->dim[i]);
  n += (size_t)snprintf(out + n, bytes - n, "%s), }", shape->rank == 1 ? "," : "");
  while ((n + 1) % 64) out[n++] = ' ';
  out[n++] = '\n';
  memcpy(out, "\x93NUMPY\x01\x00", 8);
  out[8] = (char)((n - 10) & 0xff);
  out[9] = (char)((n - 10) >> 8);
  return n;
}

tc_status tc_save_npy_at(const char *path, tc_tensor t, tc_site site) {
  TC_CALLED_AS("save_npy");
  if (path == NULL) return tc_fail(TC_ERR_ARG, "save_npy", site, "path is NULL");
  TC_TRY(tc_operand_check("save_npy", t, site));
  tc_dims shape = tc_shape_at(t, site);
  tc_type type = tc_dtype_at(t, site);
  const void *data;
  void *share;
  TC_TRY(tc_map_shared_at(t, &data, &share, site));
  char header[TC_NPY_HEADER_BYTES];
  tc_new_file f;
  tc_new_file_begin(&f, "save_npy", path, site);
  tc_new_file_write(&f, header, tc_npy_header(header, &shape, type));
  tc_new_file_write(&f, data, (size_t)tc_numel_at(t, site) * tc_type_bytes(type));
  tc_unmap_shared(share);
  return tc_new_file_end(&f, TC_OK);
}

// ---- Loading ----

typedef struct npy {
  tc_type type;
  size_t element;  // bytes of an element in the file
  bool from_unsigned;  // integers that tc lacks become those of the type
  bool fortran, swapped;  // swapped: the other byte order
  tc_dims shape;
} npy;

#define PIPE_BYTES ((size_t)1 << 20)  // room for the data of a pipe, which announces any size, at first

static const char *skip_space(const char *p) {
  while (*p == ' ' || *p == '\t' || *p == '\n' || *p == '\r') p++;
  return p;
}

// A quoted string into out; NULL if it is none or too long.
static const char *parse_string(const char *p, char *out, size_t bytes) {
  char quote = *p++;
  if (quote != '\'' && quote != '"') return NULL;
  size_t n = 0;
  for (; *p && *p != quote; p++) {
    if (n + 1 >= bytes) return NULL;
    out[n++] = *p;
  }
  out[n] = 0;
  return *p == quote ? p + 1 : NULL;
}

// Parses a shape. If the rank exceeds TC_MAX_RANK, *out has the first extents, and *rank says so.
static const char *parse_shape(const char *p, tc_dims *out, size_t *rank) {
  *out = tc_dims_of(0, NULL);
  *rank = 0;
  if (*p++ != '(') return NULL;
  for (p = skip_space(p); *p != ')'; p = skip_space(p)) {
    if (*p < '0' || *p > '9') return NULL;
    char *end;
    errno = 0;
    long long v = strtoll(p, &end, 10);
    if (errno != 0) return NULL;
    if ((*rank)++ < TC_MAX_RANK) out->dim[out->rank++] = v;
    p = skip_space(*end == 'L' ? end + 1 : end);
    if (*p == ',')
      p++;
    else if (*p != ')')
      return NULL;
  }
  return p + 1;
}

static bool parse_descr(const char *descr, npy *out) {
  char order = descr[0];
  if (order != '<' && order != '|' && order != '=' && order != '>') return false;
  out->swapped = order == '>', out->from_unsigned = false;
  for (int i = 0; i < TC_N_TYPES; i++)
    if (strcmp(descr_of[i] + 1, descr + 1) == 0 && (order != '|' || tc_type_bytes((tc_type)i) == 1 || i == TC_BF16)) {
      out->type = (tc_type)i, out->element = tc_type_bytes(out->type);
      return true;
    }
  if (order == '|' || descr[1] != 'u' || descr[2] < '0' || descr[2] > '9' || descr[3]) return false;
  out->element = (size_t)(descr[2] - '0'), out->type = tc_foreign_unsigned(out->element), out->from_unsigned = true;
  return out->type != TC_N_TYPES;
}

// Bytes of a file, for a message: those that are not printable as \xff.
static const char *readable(const char *text, char *out, size_t bytes) {
  size_t n = 0;
  for (; *text && n + 5 <= bytes; text++)
    n += (size_t)snprintf(out + n, bytes - n, *text >= ' ' && *text <= '~' ? "%c" : "\\x%02x", (unsigned char)*text);
  out[n] = 0;
  return out;
}

// Reads the value of a key, of which seen has a bit. Returns where it ends, or NULL with why and
// the status: TC_ERR_IO, unless tc lacks what it is.
static const char *parse_value(const char *key, const char *p, npy *out, unsigned *seen, tc_status *st, char *why,
                               size_t why_bytes) {
  char descr[24], shown[4 * sizeof descr];
  if (strcmp(key, "descr") == 0) {
    *seen |= 1;
    if (*p != '[' && (p = parse_string(p, descr, sizeof descr)) == NULL) return NULL;
    if (*p != '[' && parse_descr(descr, out)) return p;
    *st = TC_ERR_DTYPE;
    return snprintf(why, why_bytes, "element type '%s' is not supported",
                    *p == '[' ? "[..]" : readable(descr, shown, sizeof shown)),
           NULL;
  }
  if (strcmp(key, "fortran_order") == 0) {
    *seen |= 2;
    out->fortran = strncmp(p, "True", 4) == 0;
    return out->fortran ? p + 4 : strncmp(p, "False", 5) == 0 ? p + 5 : NULL;
  }
  if (strcmp(key, "shape") != 0) return NULL;
  *seen |= 4;
  size_t rank;
  if ((p = parse_shape(p, &out->shape, &rank)) == NULL || rank <= TC_MAX_RANK) return p;
  *st = TC_ERR_SHAPE;
  return snprintf(why, why_bytes, "it has rank %zu; tc has %d", rank, TC_MAX_RANK), NULL;
}

// The dictionary with exactly the three keys in n bytes, behind which is a zero; on failure what is
// wrong in why.
static tc_status parse_header(const char *p, size_t n, npy *out, char *why, size_t why_bytes) {
  const char *end = p + n;
  unsigned seen = 0;
  tc_status st = TC_ERR_IO;
  snprintf(why, why_bytes, "the header is not the dictionary that NumPy writes");
  p = skip_space(p);
  if (*p++ != '{') return st;
  for (p = skip_space(p); *p != '}'; p = skip_space(p)) {
    char key[24];
    if ((p = parse_string(p, key, sizeof key)) == NULL) return st;
    p = skip_space(p);
    if (*p++ != ':') return st;
    if ((p = parse_value(key, skip_space(p), out, &seen, &st, why, why_bytes)) == NULL) return st;
    p = skip_space(p);
    if (*p == ',')
      p++;
    else if (*p != '}')
      return st;
  }
  return seen == 7 && skip_space(p + 1) == end ? TC_OK : st;
}

// Bytes of the data that the header announces; false if they overflow.
static bool data_bytes(const npy *h, size_t *out) {
  uint64_t n = h->element;
  for (int i = 0; i < h->shape.rank; i++)
    if (h->shape.dim[i] == 0) return *out = 0, true;
  for (int i = 0; i < h->shape.rank; i++)
    if (__builtin_mul_overflow(n, (uint64_t)h->shape.dim[i], &n) || n > INT64_MAX) return false;
  *out = (size_t)n;
  return true;
}

// Exactly n bytes; where the file cannot be read, why not.
static bool read_whole(FILE *f, void *out, size_t n, char *why, size_t why_bytes) {
  errno = 0;
  bool whole = fread(out, 1, n, f) == n;
  if (!whole && ferror(f) && errno) snprintf(why, why_bytes, "%s", strerror(errno));
  return whole;
}

// The header of an open file of file_bytes, and where its data starts.
static tc_status read_header(FILE *f, uint64_t file_bytes, npy *out, uint64_t *out_offset, char *why,
                             size_t why_bytes) {
  unsigned char head[12];
  snprintf(why, why_bytes, "not an .npy file of version 1 to 3");
  if (!read_whole(f, head, 10, why, why_bytes) || memcmp(head, "\x93NUMPY", 6) != 0 || head[6] < 1 || head[6] > 3)
    return TC_ERR_IO;
  uint32_t n = head[8] | (uint32_t)head[9] << 8, offset = 10;
  if (head[6] > 1) {
    if (!read_whole(f, head + 10, 2, why, why_bytes)) return TC_ERR_IO;
    n |= (uint32_t)head[10] << 16 | (uint32_t)head[11] << 24, offset = 12;
  }
  snprintf(why, why_bytes, "its header is of %u bytes; at most %d are read", n, MAX_HEADER_BYTES);
  if (n > MAX_HEADER_BYTES) return TC_ERR_IO;
  snprintf(why, why_bytes, "a header of %u bytes does not fit the file", n);
  if (offset + (uint64_t)n > file_bytes) return TC_ERR_IO;
  char *header = malloc((size_t)n + 1);
  if (header == NULL) return snprintf(why, why_bytes, "no memory for the header"), TC_ERR_MEMORY;
  bool whole = read_whole(f, header, n, why, why_bytes);
  header[n] = 0;
  tc_status st = whole ? parse_header(header, n, out, why, why_bytes) : TC_ERR_IO;
  free(header);
  *out_offset = offset + (uint64_t)n;
  return st;
}

// Swaps the bytes of each element: the file has the other byte order.
static void swap_bytes(unsigned char *data, size_t bytes, size_t element) {
  for (unsigned char *p = data; p < data + bytes; p += element)
    for (size_t i = 0; i < element / 2; i++) {
      unsigned char low = p[i];
      p[i] = p[element - 1 - i], p[element - 1 - i] = low;
    }
}

// Reads exactly so many bytes of f, for the caller to free, with room for some at first. NULL if
// they are not there (errno 0), or cannot be read.
static unsigned char *read_data(FILE *f, size_t bytes, size_t room) {
  unsigned char *data = NULL, *more;
  for (size_t n = 0; (more = realloc(data, room ? room : 1)) != NULL; room = TC_MIN(bytes, 2 * room)) {
    data = more;
    errno = 0;
    n += fread(data + n, 1, room - n, f);
    if (n == bytes) return data;
    if (n < room) break;
  }
  free(data);
  return NULL;
}

static tc_tensor make_tensor(const npy *h, unsigned char *data, size_t bytes, tc_site site) {
  // A byte other than 0 and 1 is no bool; NumPy reads it as true.
  if (h->type == TC_BOOL)
    for (size_t i = 0; i < bytes; i++) data[i] = data[i] != 0;
  if (!h->fortran) return tc_from_host_at(data, h->shape, h->type, site);
  int64_t strides[TC_MAX_RANK], stride = 1;
  for (int i = 0; i < h->shape.rank; i++) {
    strides[i] = stride;
    if (bytes) stride *= h->shape.dim[i];
  }
  return tc_from_host_strided_at(data, h->shape, strides, h->type, site);
}

tc_tensor tc_npy_read(FILE *f, uint64_t file_bytes, tc_site site, char *why, size_t why_bytes) {
  npy h = {0};
  uint64_t offset;
  size_t bytes;
  tc_status st = read_header(f, file_bytes, &h, &offset, why, why_bytes);
  if (st != TC_OK) return tc_poison(st);
  if (!data_bytes(&h, &bytes) || bytes > file_bytes - offset) {
    snprintf(why, why_bytes, "the header announces more data than the file's %" PRIu64 " bytes hold", file_bytes);
    return tc_poison(TC_ERR_IO);
  }
  unsigned char *data = read_data(f, bytes, file_bytes == TC_NPY_ENDLESS ? TC_MIN(bytes, PIPE_BYTES) : bytes);
  if (data == NULL && errno == ENOMEM)
    return snprintf(why, why_bytes, "no memory for %zu bytes", bytes), tc_poison(TC_ERR_MEMORY);
  if (data == NULL) {
    snprintf(why, why_bytes, "%s",
             errno       ? strerror(errno)
             : ferror(f) ? "the data cannot be read"
                         : "the data ends early");
    return tc_poison(TC_ERR_IO);
  }
  if (h.swapped) swap_bytes(data, bytes, h.element);
  if (h.from_unsigned) {
    unsigned char *wide = tc_foreign_widen(data, bytes / h.element, h.element, &st, why, why_bytes);
    free(data);
    if (wide == NULL) return tc_poison(st);
    data = wide;
  }
  why[0] = 0;
  tc_tensor out = make_tensor(&h, data, bytes, site);
  free(data);
  return out;
}

tc_tensor tc_load_npy_at(const char *path, tc_site site) {
  TC_CALLED_AS("load_npy");
  char why[160] = "";
  struct stat info;
  if (path == NULL) return tc_poison(tc_fail(TC_ERR_ARG, "load_npy", site, "path is NULL"));
  FILE *f = fopen(path, "rbe");
  tc_tensor out = tc_poison(TC_ERR_IO);
  if (f == NULL || fstat(fileno(f), &info) != 0) {
    if (errno == ENOMEM) out = tc_poison(TC_ERR_MEMORY);
    snprintf(why, sizeof why, "%s", strerror(errno));
  } else {
    bool is_file = S_ISREG(info.st_mode);
    if (!is_file) setvbuf(f, NULL, _IONBF, 0);  // what follows the array is the next reader's
    out = tc_npy_read(f, is_file ? (uint64_t)info.st_size : TC_NPY_ENDLESS, site, why, sizeof why);
  }
  if (f) fclose(f);
  if (tc_is_valid(out) || !why[0]) return out;
  return tc_poison(tc_fail(tc_poison_status(out), "load_npy", site, "%s: %s", path, why));
}
