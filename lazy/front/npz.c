// NumPy's .npz: a zip archive with an .npy file for each tensor, stored or deflated.
// Invariants: a member's size is believed only as far as its compressed bytes could hold it. Its
// checksum is verified when it is read. Names are those of the archive's directory. libzip would
// hold them against the members' own (ZIP_CHECKCONS), but then refuses what NumPy reads, such as
// bytes after the end.
// Source: numpy/lib/_npyio_impl.py; libzip reads and writes the archive. Threads: as io.h says.
#define TC_NO_SITES
#include <tc/io.h>

#include "lazy/front/archive.h"

#ifdef TC_HAVE_LIBZIP
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <zip.h>

#include "lazy/front/file.h"
#include "lazy/front/npy.h"

#define MAX_DEFLATE_RATIO 1032  // zlib's, for a run of one byte

// ---- The library ----

// clang-format off
#define FUNCTIONS(X) \
  X(zip_close) X(zip_discard) X(zip_error_fini) X(zip_error_init_with_code) X(zip_error_strerror) X(zip_fclose) X(zip_file_add) \
  X(zip_file_get_error) X(zip_file_set_dostime) X(zip_fopen_index) X(zip_fread) X(zip_get_name) X(zip_get_num_entries) X(zip_open) \
  X(zip_set_file_compression) X(zip_source_buffer_fragment) X(zip_source_free) X(zip_stat_index) X(zip_strerror)
// clang-format on

// Opened for the first archive, and kept. Linked in, it and its libcrypto would add 2 ms to the
// start of every process (of 5, Zen 3).
static struct {
  pthread_once_t once;
  char why[160];  // it is absent; "": it is there
#define X(name) __typeof__(&name) name;
  FUNCTIONS(X)
#undef X
} lib = {.once = PTHREAD_ONCE_INIT};

static void open_library(void) {
  static const char *const sonames[] = {"libzip.so.5", "libzip.so.4"};  // alike in what is used here
  void *handle = NULL;
  for (size_t i = 0; i < sizeof sonames / sizeof *sonames && !handle; i++)
    handle = dlopen(sonames[i], RTLD_NOW | RTLD_LOCAL);
  if (!handle) {
    snprintf(lib.why, sizeof lib.why, "%s", dlerror());
    return;
  }
#define X(name) \
  if ((*(void **)&lib.name = dlsym(handle, #name)) == NULL) snprintf(lib.why, sizeof lib.why, "libzip lacks %s", #name);
  FUNCTIONS(X)
#undef X
}

static tc_status need_library(const char *op, tc_site site) {
  pthread_once(&lib.once, open_library);
  return *lib.why ? tc_fail(TC_ERR_STATE, op, site, ".npz files need libzip: %s", lib.why) : TC_OK;
}

// ---- Reading ----

typedef struct npz {
  zip_t *zip;
  zip_uint64_t *member;  // by number of name
} npz;

static ssize_t member_read(void *member, char *out, size_t bytes) {
  return (ssize_t)lib.zip_fread(member, out, bytes);
}

// What is wrong with a member before it is read, or NULL.
static const char *refused(const zip_stat_t *info) {
  if (info->encryption_method != ZIP_EM_NONE) return "it is encrypted";
  if (info->comp_method != ZIP_CM_STORE && info->comp_method != ZIP_CM_DEFLATE)
    return "it is compressed in a way that NumPy does not use";
  if (info->size / MAX_DEFLATE_RATIO > info->comp_size) return "it announces more bytes than it can hold";
  return NULL;
}

// Reads an open member as tc_npy_read reads a file.
static tc_tensor read_member(zip_file_t *member, uint64_t bytes, tc_site site, char *why, size_t why_bytes) {
  snprintf(why, why_bytes, "no memory");
  FILE *f = fopencookie(member, "r", (cookie_io_functions_t){.read = member_read});
  if (f == NULL) return tc_poison(TC_ERR_MEMORY);
  tc_tensor t = tc_npy_read(f, bytes, site, why, why_bytes);
  // libzip compares the checksum when it meets the end.
  if (tc_is_valid(t) && (fgetc(f) != EOF || ferror(f))) {
    snprintf(why, why_bytes, "it is damaged: %s",
             ferror(f) ? lib.zip_error_strerror(lib.zip_file_get_error(member)) : "bytes follow the data");
    t = tc_poison(TC_ERR_IO);
  }
  fclose(f);
  return t;
}

static tc_tensor npz_get(const tc_archive *a, int i, tc_site site) {
  const npz *z = a->state;
  char why[200] = "";
  zip_stat_t info;
  tc_tensor t = tc_poison(TC_ERR_IO);
  zip_file_t *member = NULL;
  const char *no = lib.zip_stat_index(z->zip, z->member[i], 0, &info) == 0 ? refused(&info) : lib.zip_strerror(z->zip);
  if (no == NULL && (member = lib.zip_fopen_index(z->zip, z->member[i], 0)) == NULL) no = lib.zip_strerror(z->zip);
  if (no)
    snprintf(why, sizeof why, "%s", no);
  else
    t = read_member(member, info.size, site, why, sizeof why);
  if (member) lib.zip_fclose(member);
  if (!tc_is_valid(t) && why[0])
    t = tc_poison(tc_fail(tc_poison_status(t), tc_outer_op, site, "%s: '%.100s': %s", a->path, a->names.name[i], why));
  return t;
}

static void npz_close(tc_archive *a) {
  npz *z = a->state;
  if (z->zip) lib.zip_discard(z->zip);
  free(z->member);
  free(z);
}

static tc_status read_directory(tc_archive *a, tc_site site) {
  const char *op = "npz_open";
  npz *z = a->state;
  int code;
  if ((z->zip = lib.zip_open(a->path, ZIP_RDONLY, &code)) == NULL) {
    zip_error_t error;
    lib.zip_error_init_with_code(&error, code);
    tc_fail(TC_ERR_IO, op, site, "%s: %s", a->path, lib.zip_error_strerror(&error));
    lib.zip_error_fini(&error);
    return TC_ERR_IO;
  }
  zip_int64_t n = lib.zip_get_num_entries(z->zip, 0);
  if ((z->member = calloc((size_t)n + 1, sizeof *z->member)) == NULL)
    return tc_fail(TC_ERR_MEMORY, op, site, "no memory for %" PRId64 " names", n);
  for (zip_int64_t i = 0; i < n; i++) {
    const char *member = lib.zip_get_name(z->zip, (zip_uint64_t)i, 0);
    size_t bytes = member ? strlen(member) : 0;
    if (bytes <= 4 || strcmp(member + bytes - 4, ".npy") != 0) continue;
    char *name = strndup(member, bytes - 4);
    z->member[a->names.n] = (zip_uint64_t)i;
    tc_status st = name ? tc_archive_add(a, op, name, site) : tc_fail(TC_ERR_MEMORY, op, site, "no memory for a name");
    free(name);
    TC_TRY(st);
  }
  return TC_OK;
}

tc_archive *tc_npz_open_at(const char *path, tc_site site) {
  if (need_library("npz_open", site) != TC_OK) return NULL;
  tc_archive *a = tc_archive_create("npz_open", path, site);
  if (a == NULL) return NULL;
  a->state = calloc(1, sizeof(npz));
  if (a->state) a->get = npz_get, a->close = npz_close;
  tc_status st =
      a->state ? read_directory(a, site) : tc_fail(TC_ERR_MEMORY, "npz_open", site, "no memory to open %s", path);
  if (st == TC_OK) return a;
  tc_archive_close(a);
  return NULL;
}

// ---- Saving ----

typedef struct member {  // lives until the archive is closed: that is when libzip reads it
  char header[TC_NPY_HEADER_BYTES];
  void *share;
} member;

static tc_status zip_failed(zip_t *zip, const tc_new_file *f) {
  return tc_fail(TC_ERR_IO, f->op, f->site, "%s: %s", f->path, lib.zip_strerror(zip));
}

static tc_status add_member(zip_t *zip, const tc_new_file *f, const char *name, tc_tensor t, member *m) {
  const void *data;
  char *file = NULL;
  tc_dims shape = tc_shape_at(t, f->site);
  tc_type type = tc_dtype_at(t, f->site);
  TC_TRY(tc_map_shared_at(t, &data, &m->share, f->site));
  size_t bytes = (size_t)tc_numel_at(t, f->site) * tc_type_bytes(type);
  zip_buffer_fragment_t parts[2] = {{(zip_uint8_t *)m->header, tc_npy_header(m->header, &shape, type)},
                                    {(zip_uint8_t *)data, bytes}};
  zip_source_t *source = lib.zip_source_buffer_fragment(zip, parts, bytes ? 2 : 1, 0);
  zip_int64_t i = -1;
  if (source && asprintf(&file, "%s.npy", name) >= 0) i = lib.zip_file_add(zip, file, source, ZIP_FL_ENC_UTF_8);
  if (i < 0) lib.zip_source_free(source);
  free(file);
  // As NumPy: not compressed, and dated 1980, so that equal tensors make equal files.
  bool ok = i >= 0 && lib.zip_set_file_compression(zip, (zip_uint64_t)i, ZIP_CM_STORE, 0) == 0 &&
            lib.zip_file_set_dostime(zip, (zip_uint64_t)i, 0, 1 << 5 | 1, 0) == 0;
  return ok ? TC_OK : zip_failed(zip, f);
}

static tc_status write_members(const tc_new_file *f, int n, const char *const *names, const tc_tensor *tensors,
                               member *members) {
  int code;
  zip_t *zip = lib.zip_open(f->name, ZIP_CREATE | ZIP_TRUNCATE, &code);
  if (zip == NULL)
    return tc_fail(TC_ERR_IO, f->op, f->site, "%s: cannot be made a zip archive (libzip's error %d)", f->path, code);
  for (int i = 0; i < n; i++) {
    tc_status st = add_member(zip, f, names[i], tensors[i], &members[i]);
    if (st != TC_OK) return lib.zip_discard(zip), st;
  }
  if (lib.zip_close(zip) == 0) return TC_OK;
  tc_status st = zip_failed(zip, f);
  lib.zip_discard(zip);
  return st;
}

// libzip has put a file of its own under the temporary's name; this is the one to be synced and to
// take the target's place.
static void reopen(tc_new_file *f) {
  close(f->fd);
  if ((f->fd = open(f->name, O_RDWR | O_CLOEXEC)) < 0) f->why = errno;
}

// libzip takes a name with other control characters for bytes in no encoding that it knows.
static tc_status check_text(const char *name, tc_site site) {
  for (const char *p = name; *p; p++)
    if ((unsigned char)*p < 32 && !strchr("\t\n\r", *p))
      return tc_fail(TC_ERR_ARG, "npz_save", site, "'%.100s' has a control character", name);
  return TC_OK;
}

tc_status tc_npz_save_at(const char *path, int n, const char *const *names, const tc_tensor *tensors, tc_site site) {
  TC_CALLED_AS("npz_save");
  static const char empty[22] = "PK\5\6";  // libzip leaves no file where there is no member
  tc_new_file f;
  tc_status st = TC_OK;
  TC_TRY(need_library("npz_save", site));
  TC_TRY(tc_archive_check_save("npz_save", path, n, names, tensors, site));
  for (int i = 0; i < n; i++) TC_TRY(check_text(names[i], site));
  member *members = calloc((size_t)n + 1, sizeof *members);
  if (members == NULL) return tc_fail(TC_ERR_MEMORY, "npz_save", site, "no memory for %d tensors", n);
  tc_new_file_begin(&f, "npz_save", path, site);
  if (n == 0)
    tc_new_file_write(&f, empty, sizeof empty);
  else if (f.why == 0 && f.name == NULL)
    f.why = ESPIPE;
  else if (f.why == 0 && (st = write_members(&f, n, names, tensors, members)) == TC_OK)
    reopen(&f);
  for (int i = 0; i < n; i++) tc_unmap_shared(members[i].share);
  free(members);
  return tc_new_file_end(&f, st);
}

#else

#include "runtime/status.h"

static tc_status absent(const char *op, tc_site site) {
  return tc_fail(TC_ERR_STATE, op, site, "this tc was built without libzip, which .npz files need");
}

tc_archive *tc_npz_open_at(const char *path, tc_site site) {
  (void)path;
  return absent("npz_open", site), NULL;
}

tc_status tc_npz_save_at(const char *path, int n, const char *const *names, const tc_tensor *tensors, tc_site site) {
  (void)path, (void)n, (void)names, (void)tensors;
  return absent("npz_save", site);
}

#endif
