// NumPy's .npy files: written as version 1.0, little-endian; read as 1.0, 2.0 and 3.0, in C or Fortran order, in either byte order.
// bf16, which NumPy lacks, is stored as two opaque bytes ("<V2", read also as "|V2"); numpy.load gives void16, viewable as ml_dtypes.bfloat16.
// Always: a header is believed only as far as the file's size, or what a pipe gives, bears it out; a file is replaced whole or not at all (temporary
// and rename), through symbolic links. What is no file (a pipe, a device) is written in place, and read no further than the array goes.
// Source: numpy/lib/format.py. Threads: thread-compatible; saving is a sync point.
#define TC_NO_SITES
#include "lazy/front/operand.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define MAX_HEADER_BYTES (1 << 20)
#define MAX_LINKS 40  // as Linux

static const char *const descr_of[] = {
#define TC_TYPE(NAME, name, bytes, kind, npy) npy,
#include <tc/dtypes.def>
#undef TC_TYPE
};

// ---- Saving ----

// Magic, version, length and the dictionary, padded with spaces so that the data starts at a multiple of 64.
static size_t write_header(char *out, size_t bytes, const tc_dims *shape, tc_type type) {
  size_t n = 10;
  n += (size_t)snprintf(out + n, bytes - n, "{'descr': '%s', 'fortran_order': False, 'shape': (", descr_of[type]);
  for (int i = 0; i < shape->rank; i++) n += (size_t)snprintf(out + n, bytes - n, i ? ", %" PRId64 : "%" PRId64, shape->dim[i]);
  n += (size_t)snprintf(out + n, bytes - n, "%s), }", shape->rank == 1 ? "," : "");
  while ((n + 1) % 64) out[n++] = ' ';
  out[n++] = '\n';
  memcpy(out, "\x93NUMPY\x01\x00", 8);
  out[8] = (char)((n - 10) & 0xff);
  out[9] = (char)((n - 10) >> 8);
  return n;
}

static bool write_all(int fd, const void *data, size_t n) {
  for (const char *p = data; n > 0;) {
    ssize_t k = write(fd, p, n < (1u << 30) ? n : (1u << 30));
    if (k < 0 && errno == EINTR) continue;
    if (k <= 0) return false;
    p += k, n -= (size_t)k;
  }
  return true;
}

// Where path leads through symbolic links; the last target need not exist. The caller's to free; NULL with errno.
static char *follow_links(const char *path) {
  char *at = strdup(path), target[PATH_MAX];
  for (int n_links = 0; at; n_links++) {
    ssize_t n = readlink(at, target, sizeof target - 1);
    if (n < 0) return at;  // no link; if there is nothing to write to, opening says so
    const char *slash = strrchr(at, '/');
    int n_dir = slash && target[0] != '/' ? (int)(slash - at + 1) : 0;
    char *next = NULL;
    if (n_links == MAX_LINKS)
      errno = ELOOP;
    else if (asprintf(&next, "%.*s%.*s", n_dir, at, (int)n, target) < 0)
      next = NULL, errno = ENOMEM;
    free(at);
    at = next;
  }
  return NULL;
}

// A new file beside path, with the permissions any new file gets (mkstemp's would be 0600). -1 on failure; out_name is the caller's to free.
static int open_beside(const char *path, char **out_name) {
  size_t bytes = strlen(path) + 40;
  char *name = *out_name = malloc(bytes);
  if (name == NULL) return -1;
  static unsigned counter;
  for (int i = 0; i < 100; i++) {
    snprintf(name, bytes, "%s.%ld.%u.tmp", path, (long)getpid(), __atomic_fetch_add(&counter, 1, __ATOMIC_RELAXED));
    int fd = open(name, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
    if (fd >= 0 || errno != EEXIST) return fd;
  }
  return -1;
}

// Returns 0 or an errno. Closes fd.
static int write_and_close(int fd, const char *header, size_t header_bytes, const void *data, size_t bytes) {
  if (fd < 0) return errno;
  bool ok = write_all(fd, header, header_bytes) && write_all(fd, data, bytes) && (fsync(fd) == 0 || errno == EINVAL);  // a pipe has no fsync
  int why = ok ? 0 : errno;
  if (close(fd) != 0 && ok) why = errno;
  return why;
}

static int replace_file(const char *path, const char *header, size_t header_bytes, const void *data, size_t bytes) {
  char *name = NULL, *target = follow_links(path);
  if (target == NULL) return errno;
  int fd = open_beside(target, &name);
  int why = write_and_close(fd, header, header_bytes, data, bytes);
  if (why == 0 && rename(name, target) != 0) why = errno;
  if (why != 0 && fd >= 0) unlink(name);
  free(name);
  free(target);
  return why;
}

static tc_status write_file(const char *path, const char *header, size_t header_bytes, const void *data, size_t bytes, tc_site site) {
  struct stat info;
  bool in_place = stat(path, &info) == 0 && !S_ISREG(info.st_mode);
  int why = in_place ? write_and_close(open(path, O_WRONLY | O_CLOEXEC), header, header_bytes, data, bytes)
                     : replace_file(path, header, header_bytes, data, bytes);
  return why == 0 ? TC_OK : tc_fail(why == ENOMEM ? TC_ERR_MEMORY : TC_ERR_IO, "save_npy", site, "%s: %s", path, strerror(why));
}

tc_status tc_save_npy_at(const char *path, tc_tensor t, tc_site site) {
  TC_CALLED_AS("save_npy");
  if (path == NULL) return tc_fail(TC_ERR_ARG, "save_npy", site, "path is NULL");
  TC_TRY(tc_operand_check("save_npy", t, site));
  tc_dims shape = tc_shape_at(t, site);
  tc_type type = tc_dtype_at(t, site);
  size_t bytes = (size_t)tc_numel_at(t, site) * tc_type_bytes(type);
  void *data = malloc(bytes ? bytes : 1);
  if (data == NULL) return tc_fail(TC_ERR_MEMORY, "save_npy", site, "no memory for %zu bytes", bytes);
  tc_status st = tc_to_host_at(t, data, bytes, site);
  if (st == TC_OK) {
    char header[512];
    size_t n = write_header(header, sizeof header, &shape, type);
    st = write_file(path, header, n, data, bytes, site);
  }
  free(data);
  return st;
}

// ---- Loading ----

typedef struct npy {
  tc_type type;
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

static const char *parse_shape(const char *p, tc_dims *out) {
  *out = tc_dims_of(0, NULL);
  if (*p++ != '(') return NULL;
  for (p = skip_space(p); *p != ')'; p = skip_space(p)) {
    if (out->rank == TC_MAX_RANK || *p < '0' || *p > '9') return NULL;
    char *end;
    errno = 0;
    long long v = strtoll(p, &end, 10);
    if (errno != 0) return NULL;
    out->dim[out->rank++] = v;
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
  for (int i = 0; i < TC_N_TYPES; i++)
    if (strcmp(descr_of[i] + 1, descr + 1) == 0 && (order != '|' || tc_type_bytes((tc_type)i) == 1 || i == TC_BF16)) {
      out->type = (tc_type)i, out->swapped = order == '>';
      return true;
    }
  return false;
}

// The dictionary with exactly the three keys; false with what is wrong in why.
static bool parse_header(const char *p, npy *out, char *why, size_t why_bytes) {
  unsigned seen = 0;
  snprintf(why, why_bytes, "the header is not the dictionary that NumPy writes");
  p = skip_space(p);
  if (*p++ != '{') return false;
  for (p = skip_space(p); *p != '}'; p = skip_space(p)) {
    char key[24], descr[24];
    if ((p = parse_string(p, key, sizeof key)) == NULL) return false;
    p = skip_space(p);
    if (*p++ != ':') return false;
    p = skip_space(p);
    if (strcmp(key, "descr") == 0) {
      if ((p = parse_string(p, descr, sizeof descr)) == NULL) return false;
      if (!parse_descr(descr, out)) return snprintf(why, why_bytes, "element type '%s' is not supported", descr), false;
      seen |= 1;
    } else if (strcmp(key, "fortran_order") == 0) {
      out->fortran = strncmp(p, "True", 4) == 0;
      if (!out->fortran && strncmp(p, "False", 5) != 0) return false;
      p += out->fortran ? 4 : 5;
      seen |= 2;
    } else if (strcmp(key, "shape") == 0) {
      if ((p = parse_shape(p, &out->shape)) == NULL) return false;
      seen |= 4;
    } else {
      return false;
    }
    p = skip_space(p);
    if (*p == ',')
      p++;
    else if (*p != '}')
      return false;
  }
  return seen == 7 && *skip_space(p + 1) == 0;
}

// Bytes of the data that the header announces; false if they overflow.
static bool data_bytes(const npy *h, size_t *out) {
  uint64_t n = tc_type_bytes(h->type);
  for (int i = 0; i < h->shape.rank; i++)
    if (h->shape.dim[i] == 0) return *out = 0, true;
  for (int i = 0; i < h->shape.rank; i++)
    if (__builtin_mul_overflow(n, (uint64_t)h->shape.dim[i], &n) || n > INT64_MAX) return false;
  *out = (size_t)n;
  return true;
}

// The header of an open file of file_bytes, and where its data starts.
static tc_status read_header(FILE *f, uint64_t file_bytes, npy *out, uint64_t *out_offset, char *why, size_t why_bytes) {
  unsigned char head[12];
  snprintf(why, why_bytes, "not an .npy file of version 1 to 3");
  if (fread(head, 1, 10, f) != 10 || memcmp(head, "\x93NUMPY", 6) != 0 || head[6] < 1 || head[6] > 3) return TC_ERR_IO;
  uint32_t n = head[8] | (uint32_t)head[9] << 8, offset = 10;
  if (head[6] > 1) {
    if (fread(head + 10, 1, 2, f) != 2) return TC_ERR_IO;
    n |= (uint32_t)head[10] << 16 | (uint32_t)head[11] << 24, offset = 12;
  }
  snprintf(why, why_bytes, "a header of %u bytes does not fit the file", n);
  if (n > MAX_HEADER_BYTES || offset + (uint64_t)n > file_bytes) return TC_ERR_IO;
  char *header = malloc((size_t)n + 1);
  if (header == NULL) return snprintf(why, why_bytes, "no memory for the header"), TC_ERR_MEMORY;
  bool ok = fread(header, 1, n, f) == n;
  header[n] = 0;
  ok = ok && parse_header(header, out, why, why_bytes);
  free(header);
  *out_offset = offset + (uint64_t)n;
  return ok ? TC_OK : TC_ERR_IO;
}

// Of elements of the other byte order.
static void swap_bytes(unsigned char *data, size_t bytes, size_t element) {
  for (unsigned char *p = data; p < data + bytes; p += element)
    for (size_t i = 0; i < element / 2; i++) {
      unsigned char low = p[i];
      p[i] = p[element - 1 - i], p[element - 1 - i] = low;
    }
}

// Exactly bytes of f, the caller's to free, with room for so many at first; NULL where they are not there (errno 0) or not to be had.
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
  if (h->swapped) swap_bytes(data, bytes, tc_type_bytes(h->type));
  if (!h->fortran) return tc_from_host_at(data, h->shape, h->type, site);
  int64_t strides[TC_MAX_RANK], stride = 1;
  for (int i = 0; i < h->shape.rank; i++) {
    strides[i] = stride;
    if (bytes) stride *= h->shape.dim[i];
  }
  return tc_from_host_strided_at(data, h->shape, strides, h->type, site);
}

tc_tensor tc_load_npy_at(const char *path, tc_site site) {
  TC_CALLED_AS("load_npy");
  tc_tensor out = {0, 0};
  tc_status st = TC_OK;
  char why[160] = "";
  unsigned char *data = NULL;
  struct stat info;
  npy h = {0};
  uint64_t offset;
  size_t bytes;
  FILE *f = path ? fopen(path, "rbe") : NULL;
  if (f == NULL || fstat(fileno(f), &info) != 0) {
    st = tc_fail(errno == ENOMEM && path ? TC_ERR_MEMORY : TC_ERR_IO, "load_npy", site, "%s: %s", path ? path : "(null)",
                 path ? strerror(errno) : "path is NULL");
    goto done;
  }
  bool is_file = S_ISREG(info.st_mode);
  uint64_t file_bytes = is_file ? (uint64_t)info.st_size : UINT64_MAX;
  if (!is_file) setvbuf(f, NULL, _IONBF, 0);  // what follows the array is the next reader's
  if ((st = read_header(f, file_bytes, &h, &offset, why, sizeof why)) != TC_OK) {
    st = tc_fail(st, "load_npy", site, "%s: %s", path, why);
    goto done;
  }
  if (!data_bytes(&h, &bytes) || bytes > file_bytes - offset) {
    st = tc_fail(TC_ERR_IO, "load_npy", site, "%s: the header announces more data than the file's %" PRIu64 " bytes hold", path, file_bytes);
    goto done;
  }
  if ((data = read_data(f, bytes, is_file ? bytes : TC_MIN(bytes, PIPE_BYTES))) == NULL) {
    st = errno == ENOMEM ? tc_fail(TC_ERR_MEMORY, "load_npy", site, "no memory for %zu bytes", bytes)
                         : tc_fail(TC_ERR_IO, "load_npy", site, "%s: %s", path, errno ? strerror(errno) : "the data ends early");
    goto done;
  }
  out = make_tensor(&h, data, bytes, site);
done:
  free(data);
  if (f) fclose(f);
  return st == TC_OK ? out : tc_poison(st);
}
