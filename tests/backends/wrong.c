// A back end that is wrong in the way that the variable WRONG says, when it is asked for its table.
#include <stdlib.h>
#include <string.h>
#include <tc/backend.h>

static bool supports(void *device, const tc_backend_op *op) {
  (void)device, (void)op;
  return false;
}
static tc_backend_result run(void *device, void *kernel, const tc_backend_op *op, const void *const *in, void *out,
                             const tc_backend_number *arg) {
  (void)device, (void)kernel, (void)op, (void)in, (void)out, (void)arg;
  return TC_BACKEND_FAILED;
}
static tc_backend_result move(void *device, void *to, const void *from, size_t bytes) {
  (void)device;
  memcpy(to, from, bytes);
  return TC_BACKEND_OK;
}
static tc_backend_result take(void *device, size_t bytes, void **out) {
  (void)device;
  const char *way = getenv("WRONG");
  *out = way && strcmp(way, "no address") == 0 ? NULL : malloc(bytes);
  return TC_BACKEND_OK;
}
static void give(void *device, void *memory, size_t bytes) {
  (void)device, (void)bytes;
  free(memory);
}
static int32_t none(void) {
  return 0;
}
static tc_backend_result refuse(int32_t ordinal, void **out) {
  (void)ordinal, (void)out;
  return TC_BACKEND_FAILED;
}

TC_BACKEND_EXPORT const tc_backend *tc_backend_query(uint32_t version) {
  static tc_backend t;
  const char *way = getenv("WRONG");
  if (!way || version != TC_BACKEND_VERSION) way = "";
  t = (tc_backend){.struct_size = sizeof t,
                   .version = TC_BACKEND_VERSION,
                   .name = "wrong",
                   .alloc = take,
                   .free = give,
                   .write = move,
                   .read = move,
                   .supports = supports,
                   .run = run};
  if (!strcmp(way, "NULL")) return NULL;
  if (!strcmp(way, "version")) t.version = 7;
  if (!strcmp(way, "size 0")) t.struct_size = 0;
  if (!strcmp(way, "size")) t.struct_size = 64;
  if (!strcmp(way, "no name")) t.name = NULL;
  if (!strcmp(way, "name")) t.name = "tc:wrong";
  if (!strcmp(way, "long name")) t.name = "a_name_of_more_than_23_characters";
  if (!strcmp(way, "cpu")) t.name = "cpu";
  if (!strcmp(way, "far")) t.name = "far";
  if (!strcmp(way, "supports")) t.supports = NULL;
  if (!strcmp(way, "run")) t.run = NULL;
  if (!strcmp(way, "alloc")) t.alloc = NULL, t.free = NULL;
  if (!strcmp(way, "free")) t.free = NULL;
  if (!strcmp(way, "write")) t.write = NULL;
  if (!strcmp(way, "read")) t.read = NULL;
  if (!strcmp(way, "none")) t.name = "none", t.device_count = none;
  if (!strcmp(way, "closed")) t.name = "closed", t.open = refuse;
  return &t;
}
