// safetensors: eight bytes of length, a JSON header, and the tensors' bytes. The header gives each
// tensor a type, a shape, and where its bytes begin and end.
// Invariants: a header is believed only as far as the file bears it out. The tensors fill the data
// exactly, without overlaps or holes, each with the bytes of its shape. What could not be a tensor
// here (its type, its rank) is an error when it is asked for. Unsigned integers of 2, 4 and 8 bytes
// are read as .npy files' are.
// Source: huggingface/safetensors, safetensors/src/tensor.rs.
// Threads: as io.h says; mappings are counted atomically, because the last reference may go
// anywhere.
// Owner: the archive and every tensor borrowed from it have a reference to the mapping each. Of an
// archive that was read, tensors are copies.
#define TC_NO_SITES
#include "lazy/front/safetensors.h"

#ifdef TC_HAVE_JANSSON
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <jansson.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "lazy/front/foreign.h"

#define MAX_HEADER_BYTES 100000000  // the format's own bound
#define METADATA "__metadata__"

static const char *const dtype_of[] = {
#define TC_TYPE(NAME, name, bytes, kind, npy) #NAME,
#include <tc/dtypes.def>
#undef TC_TYPE
};

// ---- Opening ----

typedef struct mapping {
  _Atomic uint32_t refs;
  bool own;  // memory with the file's bytes, not the file
  size_t bytes;
  unsigned char *at;
} mapping;

typedef struct entry {
  tc_type type;  // TC_N_TYPES: one that tc lacks
  size_t from_unsigned;  // bytes of an unsigned integer that becomes one of type; 0: it is of that type
  tc_dims shape;
  size_t rank, begin, end;  // begin and end in the data
  tc_tensor taken;  // the copy of one that was read
} entry;

typedef struct safetensors {
  mapping *map;
  size_t data;  // where it begins
  entry *entry;  // by number of name
  json_t *header;
} safetensors;

static void mapping_release(void *arg) {
  mapping *m = arg;
  if (atomic_fetch_sub_explicit(&m->refs, 1, memory_order_acq_rel) != 1) return;
  munmap(m->at, m->bytes);
  free(m);
}

// The first so many bytes of a file; false with errno, ENODATA where it is shorter by now.
static bool read_whole(int fd, unsigned char *at, size_t bytes) {
  for (ssize_t k; bytes > 0; at += k, bytes -= (size_t)k) {
    k = read(fd, at, TC_MIN(bytes, (size_t)1 << 30));
    if (k < 0 && errno == EINTR)
      k = 0;
    else if (k <= 0)
      return errno = k < 0 ? errno : ENODATA, false;
  }
  return true;
}

// False with errno.
static bool mapping_fill(mapping *m, int fd) {
  m->at = m->own ? mmap(NULL, m->bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0)
                 : mmap(NULL, m->bytes, PROT_READ, MAP_PRIVATE, fd, 0);
  if (m->at == MAP_FAILED) return false;
  if (!m->own || read_whole(fd, m->at, m->bytes)) return true;
  int why = errno;
  munmap(m->at, m->bytes);
  return errno = why, false;
}

// NULL with the reason; errno is ENOMEM if that is it.
static mapping *mapping_create(const char *path, bool own, char *why, size_t why_bytes) {
  struct stat info;
  mapping *m = NULL;
  errno = 0;
  int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);  // does not wait for a pipe's writer
  if (fd < 0 || fstat(fd, &info) != 0)
    snprintf(why, why_bytes, "%s", strerror(errno));
  else if (!S_ISREG(info.st_mode))
    snprintf(why, why_bytes, "not a file");
  else if (info.st_size <= 8)
    snprintf(why, why_bytes, "not a safetensors file: %jd bytes are too few", (intmax_t)info.st_size);
  else if ((m = malloc(sizeof *m)) == NULL)
    snprintf(why, why_bytes, "no memory");
  if (m) {
    *m = (mapping){.own = own, .bytes = (size_t)info.st_size};
    atomic_store_explicit(&m->refs, 1, memory_order_relaxed);
    if (!mapping_fill(m, fd)) snprintf(why, why_bytes, "%s", strerror(errno)), free(m), m = NULL;
  }
  if (fd >= 0) close(fd);
  return m;
}

// A whole number that is not negative.
static bool read_size(const json_t *j, size_t *out) {
  if (!json_is_integer(j) || json_integer_value(j) < 0) return false;
  *out = (size_t)json_integer_value(j);
  return true;
}

static bool parse_dtype(const json_t *j, entry *out) {
  static const char *const unsigned_types[] = {"U16", "U32", "U64"};
  const char *word = json_string_value(j);
  if (word == NULL) return false;
  out->type = TC_N_TYPES, out->from_unsigned = 0;
  for (int i = 0; i < TC_N_TYPES; i++)
    if (strcmp(word, dtype_of[i]) == 0) out->type = (tc_type)i;
  for (size_t i = 0; i < 3; i++)
    if (strcmp(word, unsigned_types[i]) == 0)
      out->from_unsigned = (size_t)2 << i, out->type = tc_foreign_unsigned(out->from_unsigned);
  return true;
}

// False with what is wrong with it.
static bool parse_entry(const json_t *j, size_t data_bytes, entry *out, char *why, size_t why_bytes) {
  const json_t *shape = json_object_get(j, "shape"), *offsets = json_object_get(j, "data_offsets");
  snprintf(why, why_bytes, "is no object with dtype, shape and data_offsets");
  if (!parse_dtype(json_object_get(j, "dtype"), out) || !json_is_array(shape) || json_array_size(offsets) != 2)
    return false;
  snprintf(why, why_bytes, "has an extent that is no whole number");
  out->rank = json_array_size(shape);
  out->shape = tc_dims_of(0, NULL);
  for (size_t i = 0, extent; i < out->rank; i++) {
    if (!read_size(json_array_get(shape, i), &extent)) return false;
    if (i < TC_MAX_RANK) out->shape.dim[i] = (int64_t)extent;
  }
  out->shape.rank = (int32_t)TC_MIN(out->rank, (size_t)TC_MAX_RANK);
  snprintf(why, why_bytes, "lies outside of the data's %zu bytes", data_bytes);
  if (!read_size(json_array_get(offsets, 0), &out->begin) || !read_size(json_array_get(offsets, 1), &out->end))
    return false;
  if (out->begin > out->end || out->end > data_bytes) return false;
  if (out->type == TC_N_TYPES || out->rank > TC_MAX_RANK) return true;
  size_t n = tc_foreign_count(&out->shape, out->type);
  char dims[96];
  snprintf(why, why_bytes, "has %zu bytes, not those of %s %s", out->end - out->begin,
           json_string_value(json_object_get(j, "dtype")), tc_dims_text(&out->shape, dims, sizeof dims));
  return n != SIZE_MAX &&
         n * (out->from_unsigned ? out->from_unsigned : tc_type_bytes(out->type)) == out->end - out->begin;
}

typedef struct span {
  size_t begin, end;
  int number;
} span;

static int span_order(const void *pa, const void *pb) {
  const span *a = pa, *b = pb;
  if (a->begin != b->begin) return a->begin < b->begin ? -1 : 1;
  return (a->end > b->end) - (a->end < b->end);
}

// The tensors lie one after the other and fill the data.
static tc_status check_fill(const tc_archive *a, size_t data_bytes, tc_site site) {
  const char *op = tc_outer_op;
  const safetensors *s = a->state;
  int n = a->names.n;
  span *in_order = malloc(((size_t)n + 1) * sizeof *in_order);
  if (in_order == NULL) return tc_fail(TC_ERR_MEMORY, op, site, "no memory for %d tensors", n);
  for (int i = 0; i < n; i++) in_order[i] = (span){s->entry[i].begin, s->entry[i].end, i};
  qsort(in_order, (size_t)n, sizeof *in_order, span_order);
  in_order[n] = (span){data_bytes, data_bytes, -1};
  tc_status st = TC_OK;
  size_t at = 0;
  for (int i = 0; i <= n && st == TC_OK; at = in_order[i++].end) {
    if (in_order[i].begin < at)
      st = tc_fail(TC_ERR_IO, op, site, "%s: '%.100s' and '%.100s' overlap", a->path,
                   a->names.name[in_order[i - 1].number], a->names.name[in_order[i].number]);
    else if (in_order[i].begin > at)
      st = tc_fail(TC_ERR_IO, op, site, "%s: bytes %zu to %zu of the data belong to no tensor", a->path, at,
                   in_order[i].begin);
  }
  free(in_order);
  return st;
}

// None at all may be said by null, as the format's own reader takes it.
static bool metadata_is_text(const json_t *metadata) {
  const char *key;
  json_t *value;
  json_object_foreach((json_t *)metadata, key, value) if (!json_is_string(value)) return false;
  return metadata == NULL || json_is_null(metadata) || json_is_object(metadata);
}

static tc_status parse_header(tc_archive *a, size_t data_bytes, tc_site site) {
  const char *op = tc_outer_op, *name;
  safetensors *s = a->state;
  json_t *value;
  if (!metadata_is_text(json_object_get(s->header, METADATA)))
    return tc_fail(TC_ERR_IO, op, site, "%s: " METADATA " is no object of strings", a->path);
  s->entry = calloc(json_object_size(s->header) + 1, sizeof *s->entry);
  if (s->entry == NULL) return tc_fail(TC_ERR_MEMORY, op, site, "no memory for the header of %s", a->path);
  json_object_foreach(s->header, name, value) {
    char why[256];
    if (strcmp(name, METADATA) == 0) continue;
    if (!parse_entry(value, data_bytes, &s->entry[a->names.n], why, sizeof why))
      return tc_fail(TC_ERR_IO, op, site, "%s: '%.100s' %s", a->path, name, why);
    TC_TRY(tc_archive_add(a, op, name, site));
  }
  return check_fill(a, data_bytes, site);
}

static tc_status read_file(tc_archive *a, bool own, tc_site site) {
  const char *op = tc_outer_op;
  safetensors *s = a->state;
  char why[160];
  uint64_t header_bytes = 0;
  if ((s->map = mapping_create(a->path, own, why, sizeof why)) == NULL)
    return tc_fail(errno == ENOMEM ? TC_ERR_MEMORY : TC_ERR_IO, op, site, "%s: %s", a->path, why);
  for (int i = 7; i >= 0; i--) header_bytes = header_bytes << 8 | s->map->at[i];
  if (header_bytes > s->map->bytes - 8)
    return tc_fail(TC_ERR_IO, op, site,
                   "%s: not a safetensors file, or cut short: it begins as with a header of %" PRIu64
                   " bytes, and has %zu",
                   a->path, header_bytes, s->map->bytes);
  if (header_bytes > MAX_HEADER_BYTES)
    return tc_fail(TC_ERR_IO, op, site, "%s: its header is of %" PRIu64 " bytes; the format's limit is %d", a->path,
                   header_bytes, MAX_HEADER_BYTES);
  json_error_t error;
  s->header = json_loadb((const char *)s->map->at + 8, header_bytes, JSON_REJECT_DUPLICATES, &error);
  if (s->header == NULL)
    return tc_fail(TC_ERR_IO, op, site, "%s: not a safetensors file, or damaged: the header is no JSON: %s, byte %d",
                   a->path, error.text, error.position);
  if (!json_is_object(s->header))
    return tc_fail(TC_ERR_IO, op, site, "%s: not a safetensors file, or damaged: the header is no JSON object",
                   a->path);
  s->data = 8 + header_bytes;
  return parse_header(a, s->map->bytes - s->data, site);
}

static void safetensors_close(tc_archive *a) {
  safetensors *s = a->state;
  if (s->map) mapping_release(s->map);
  json_decref(s->header);
  free(s->entry);
  free(s);
}

// A tensor of unsigned integers that tc lacks, as those of its type.
static tc_tensor widened(const tc_archive *a, int i, tc_site site) {
  const safetensors *s = a->state;
  const entry *e = &s->entry[i];
  char why[160];
  tc_tensor t = tc_foreign_copy_unsigned(s->map->at + s->data + e->begin, &e->shape, NULL, e->from_unsigned, why,
                                         sizeof why, site);
  if (why[0])
    t = tc_poison(tc_fail(tc_poison_status(t), tc_outer_op, site, "%s: '%.100s': %s", a->path, a->names.name[i], why));
  return t;
}

// The copy of a tensor that was read; its pages of what was read go, so that the numbers are not
// there twice. It may be asked for again.
static tc_tensor take_entry(const safetensors *s, entry *e, tc_site site) {
  unsigned char *data = s->map->at + s->data + e->begin;
  if (tc_is_valid(e->taken)) return e->taken;
  e->taken = tc_foreign_copy(data, &e->shape, NULL, e->type, site);
  size_t page = (size_t)sysconf(_SC_PAGESIZE), before = -(uintptr_t)data % page, bytes = e->end - e->begin;
  if (tc_is_valid(e->taken) && bytes >= before + page)
    (void)madvise(data + before, (bytes - before) / page * page, MADV_DONTNEED);
  return e->taken;
}

static tc_tensor safetensors_get(const tc_archive *a, int i, tc_site site) {
  const char *op = tc_outer_op, *name = a->names.name[i];
  const safetensors *s = a->state;
  entry *e = &s->entry[i];
  if (e->type == TC_N_TYPES) {
    const char *type = json_string_value(json_object_get(json_object_get(s->header, name), "dtype"));
    return tc_poison(
        tc_fail(TC_ERR_DTYPE, op, site, "%s: '%.100s' is %.20s, a type that tc lacks", a->path, name, type));
  }
  if (e->rank > TC_MAX_RANK)
    return tc_poison(
        tc_fail(TC_ERR_SHAPE, op, site, "%s: '%.100s' has rank %zu; tc has %d", a->path, name, e->rank, TC_MAX_RANK));
  if (e->from_unsigned) return widened(a, i, site);
  if (s->map->own) return take_entry(s, e, site);
  atomic_fetch_add_explicit(&s->map->refs, 1, memory_order_relaxed);
  return tc_foreign_tensor(s->map->at + s->data + e->begin, &e->shape, NULL, e->type, TC_CONSTANT, mapping_release,
                           s->map, site);
}

static const char *safetensors_metadata(const tc_archive *a, const char *key) {
  const safetensors *s = a->state;
  return json_string_value(json_object_get(json_object_get(s->header, METADATA), key));
}

static tc_status open_archive(const char *path, bool own, tc_archive **out, tc_site site) {
  tc_archive *a = *out = tc_archive_create(tc_outer_op, path, site);
  if (a == NULL) return path ? TC_ERR_MEMORY : TC_ERR_ARG;
  a->state = calloc(1, sizeof(safetensors));
  if (a->state) a->get = safetensors_get, a->metadata = safetensors_metadata, a->close = safetensors_close;
  tc_status st =
      a->state ? read_file(a, own, site) : tc_fail(TC_ERR_MEMORY, tc_outer_op, site, "no memory to open %s", path);
  if (st == TC_OK) return TC_OK;
  tc_archive_close(a);
  *out = NULL;
  return st;
}

tc_archive *tc_safetensors_open_at(const char *path, tc_site site) {
  TC_CALLED_AS("safetensors_open");
  tc_archive *a;
  (void)open_archive(path, false, &a, site);
  return a;
}

tc_status tc_safetensors_read(const char *path, tc_archive **out, tc_site site) {
  return open_archive(path, true, out, site);
}

const unsigned char *tc_safetensors_bytes(const tc_archive *a, size_t *out_bytes) {
  const mapping *m = ((const safetensors *)a->state)->map;
  *out_bytes = m->bytes;
  return m->at;
}

// ---- Saving ----

static json_t *entry_json(tc_tensor t, size_t *at, tc_site site) {
  tc_dims dims = tc_shape_at(t, site);
  tc_type type = tc_dtype_at(t, site);
  size_t end = *at + (size_t)tc_numel_at(t, site) * tc_type_bytes(type);
  json_t *shape = json_array();
  for (int i = 0; i < dims.rank; i++) json_array_append_new(shape, json_integer(dims.dim[i]));
  json_t *j = json_pack("{s:s, s:o, s:[I, I]}", "dtype", dtype_of[type], "shape", shape, "data_offsets",
                        (json_int_t)*at, (json_int_t)end);
  *at = end;
  return j;
}

static json_t *metadata_json(int n_meta, const char *const *meta) {
  json_t *j = json_object();
  for (int i = 0; i < n_meta; i++)
    if (meta[2 * i] == NULL || json_object_get(j, meta[2 * i]) ||
        json_object_set_new(j, meta[2 * i], json_string(meta[2 * i + 1])) != 0)
      return json_decref(j), NULL;
  return j;
}

// The header with the tensors in the order given. NULL after reporting.
static char *header_text(const tc_new_file *f, int n, const int *order, const char *const *names,
                         const tc_tensor *tensors, int n_meta, const char *const *meta) {
  json_t *j = json_object();
  size_t at = 0;
  char *text = NULL;
  if (n_meta > 0 && json_object_set_new(j, METADATA, metadata_json(n_meta, meta)) != 0) {
    tc_fail(TC_ERR_ARG, f->op, f->site, "metadata that is no UTF-8, NULL, or has a key twice");
    goto done;
  }
  for (int i = 0; i < n; i++) {
    const char *name = names[order[i]];
    if (strcmp(name, METADATA) == 0) {
      tc_fail(TC_ERR_ARG, f->op, f->site, "'" METADATA "' cannot be a tensor's name: it is taken");
      goto done;
    }
    if (json_object_set_new(j, name, entry_json(tensors[order[i]], &at, f->site)) == 0) continue;
    tc_fail(TC_ERR_MEMORY, f->op, f->site, "no memory for the header");
    goto done;
  }
  if ((text = json_dumps(j, JSON_COMPACT)) == NULL) tc_fail(TC_ERR_MEMORY, f->op, f->site, "no memory for the header");
done:
  json_decref(j);
  return text;
}

// Spaces after the header put the data at a multiple of 64 bytes, so that what is mapped is aligned
// for every type and vector.
static void write_header(tc_new_file *f, const char *text) {
  static const char spaces[64] = "                                                               ";
  size_t n = strlen(text), padded = ((8 + n + 63) & ~(size_t)63) - 8;
  unsigned char length[8];
  for (int i = 0; i < 8; i++) length[i] = (unsigned char)(padded >> (8 * i));
  tc_new_file_write(f, length, 8);
  tc_new_file_write(f, text, n);
  tc_new_file_write(f, spaces, padded - n);
}

// Large elements first, so that each is aligned though the format allows no gaps; otherwise in the
// caller's order.
static void alignment_order(int n, const tc_tensor *tensors, int *out, tc_site site) {
  int k = 0;
  for (size_t bytes = 8; bytes > 0; bytes /= 2)
    for (int i = 0; i < n; i++)
      if (tc_type_bytes(tc_dtype_at(tensors[i], site)) == bytes) out[k++] = i;
}

tc_status tc_safetensors_write(tc_new_file *f, int n, const char *const *names, const tc_tensor *tensors, int n_meta,
                               const char *const *meta) {
  int *order = malloc(((size_t)n + 1) * sizeof *order);
  if (order == NULL) return tc_fail(TC_ERR_MEMORY, f->op, f->site, "no memory for %d tensors", n);
  alignment_order(n, tensors, order, f->site);
  char *text = header_text(f, n, order, names, tensors, n_meta, meta);
  tc_status st = text ? TC_OK : TC_ERR_ARG;
  if (text && strlen(text) + 64 > MAX_HEADER_BYTES)
    st = tc_fail(TC_ERR_ARG, f->op, f->site, "names and metadata make a header of %zu bytes; the format's limit is %d",
                 strlen(text), MAX_HEADER_BYTES);
  else if (text)
    write_header(f, text);
  for (int i = 0; i < n && st == TC_OK; i++) {
    tc_tensor t = tensors[order[i]];
    const void *data;
    void *share;
    st = tc_map_shared_at(t, &data, &share, f->site);
    if (st == TC_OK)
      tc_new_file_write(f, data, (size_t)tc_numel_at(t, f->site) * tc_type_bytes(tc_dtype_at(t, f->site)));
    tc_unmap_shared(share);
  }
  free(text);
  free(order);
  return st;
}

tc_status tc_safetensors_save_with_at(const char *path, int n, const char *const *names, const tc_tensor *tensors,
                                      int n_meta, const char *const *meta, tc_site site) {
  TC_CALLED_AS("safetensors_save_with");
  tc_new_file f;
  TC_TRY(tc_archive_check_save(tc_outer_op, path, n, names, tensors, site));
  if (n_meta < 0 || (n_meta > 0 && meta == NULL))
    return tc_fail(TC_ERR_ARG, tc_outer_op, site, "%d pairs of metadata%s", n_meta,
                   n_meta > 0 ? " at a null pointer" : "");
  tc_new_file_begin(&f, tc_outer_op, path, site);
  return tc_new_file_end(&f, tc_safetensors_write(&f, n, names, tensors, n_meta, meta));
}

#else

static tc_status absent(const char *op, tc_site site) {
  return tc_fail(TC_ERR_STATE, op, site, "this tc was built without libjansson, which safetensors files need");
}

tc_archive *tc_safetensors_open_at(const char *path, tc_site site) {
  TC_CALLED_AS("safetensors_open");
  (void)path;
  return absent(tc_outer_op, site), NULL;
}

tc_status tc_safetensors_read(const char *path, tc_archive **out, tc_site site) {
  (void)path;
  *out = NULL;
  return absent(tc_outer_op, site);
}

const unsigned char *tc_safetensors_bytes(const tc_archive *a, size_t *out_bytes) {
  (void)a;
  *out_bytes = 0;
  return NULL;
}

tc_status tc_safetensors_write(tc_new_file *f, int n, const char *const *names, const tc_tensor *tensors, int n_meta,
                               const char *const *meta) {
  (void)n, (void)names, (void)tensors, (void)n_meta, (void)meta;
  return absent(f->op, f->site);
}

tc_status tc_safetensors_save_with_at(const char *path, int n, const char *const *names, const tc_tensor *tensors,
                                      int n_meta, const char *const *meta, tc_site site) {
  (void)path, (void)n, (void)names, (void)tensors, (void)n_meta, (void)meta;
  TC_CALLED_AS("safetensors_save_with");
  return absent(tc_outer_op, site);
}

#endif

tc_status tc_safetensors_save_at(const char *path, int n, const char *const *names, const tc_tensor *tensors,
                                 tc_site site) {
  TC_CALLED_AS("safetensors_save");
  return tc_safetensors_save_with_at(path, n, names, tensors, 0, NULL, site);
}
