// Makes jitdump records. See jitdump.h.
#include "lowering/codegen/jitdump.h"

#include <elf.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "lowering/codegen/line_table.h"
#include "lowering/target/isa.h"
#include "runtime/arena.h"

#define MAGIC 0x4A695444
#define VERSION 1

typedef enum record_kind { CODE_LOAD, DEBUG_INFO = 2 } record_kind;

typedef struct record_head {
  uint32_t kind, bytes;
  uint64_t time_ns;
} record_head;

// The name and the code follow.
typedef struct load_record {
  record_head head;
  uint32_t pid, tid;
  uint64_t vma, code, code_bytes, index;
} load_record;

// Its entries follow, and each of them is followed by the name of its file.
typedef struct debug_record {
  record_head head;
  uint64_t code, n_entries;
} debug_record;

typedef struct debug_entry {
  uint64_t code;
  uint32_t line, discriminator;
} debug_entry;

// The clock that `perf record -k 1` uses.
static uint64_t read_clock(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (uint64_t)t.tv_sec * UINT64_C(1000000000) + (uint64_t)t.tv_nsec;
}

void tc_jitdump_write_head(tc_jitdump_head *out) {
  *out = (tc_jitdump_head){.magic = MAGIC,
                           .version = VERSION,
                           .bytes = sizeof *out,
                           .machine = TC_HOST_MACHINE,
                           .pid = (uint32_t)getpid(),
                           .time_ns = read_clock()};
}

static uint8_t *put_bytes(uint8_t *at, const void *data, size_t bytes) {
  memcpy(at, data, bytes);
  return at + bytes;
}

// The rows that lie in the function; NULL: there are none, or no memory for them.
static tc_line_row *read_rows(const tc_loaded_code *c, size_t *n) {
  *n = c->lines != NULL && c->source != NULL ? tc_line_table_read(c->lines, c->lines_bytes, NULL, 0) : 0;
  tc_line_row *row = *n > 0 ? tc_malloc(*n * sizeof *row) : NULL;
  if (row != NULL) (void)tc_line_table_read(c->lines, c->lines_bytes, row, *n);
  while (row != NULL && *n > 0 && row[*n - 1].offset >= c->bytes) --*n;
  return row;
}

static uint8_t *put_lines(uint8_t *at, const tc_loaded_code *c, const tc_line_row *row, size_t n, size_t bytes,
                          uint64_t now) {
  debug_record debug = {{DEBUG_INFO, (uint32_t)bytes, now}, (uint64_t)(uintptr_t)c->at, n};
  size_t name_bytes = strlen(c->source) + 1;
  at = put_bytes(at, &debug, sizeof debug);
  for (size_t i = 0; i < n; i++) {
    debug_entry entry = {(uint64_t)(uintptr_t)c->at + row[i].offset, row[i].line, 0};
    at = put_bytes(at, &entry, sizeof entry);
    at = put_bytes(at, c->source, name_bytes);
  }
  return at;
}

static uint8_t *put_load(uint8_t *at, const tc_loaded_code *c, uint64_t index, size_t bytes, uint64_t now) {
  uint64_t address = (uint64_t)(uintptr_t)c->at;
  load_record load = {
      {CODE_LOAD, (uint32_t)bytes, now}, (uint32_t)getpid(), (uint32_t)gettid(), address, address, c->bytes, index};
  at = put_bytes(at, &load, sizeof load);
  at = put_bytes(at, c->name, strlen(c->name) + 1);
  return put_bytes(at, c->at, c->bytes);
}

void *tc_jitdump_make_records(const tc_loaded_code *c, uint64_t index, size_t *bytes) {
  size_t n_rows;
  tc_line_row *row = read_rows(c, &n_rows);
  if (row == NULL) n_rows = 0;
  size_t line_bytes = n_rows > 0 ? sizeof(debug_record) + n_rows * (sizeof(debug_entry) + strlen(c->source) + 1) : 0;
  size_t load_bytes = sizeof(load_record) + strlen(c->name) + 1 + c->bytes;
  uint8_t *records = tc_malloc(line_bytes + load_bytes), *at = records;
  uint64_t now = read_clock();
  if (records != NULL) {
    // The format has the record of lines before that of their code.
    if (n_rows > 0) at = put_lines(at, c, row, n_rows, line_bytes, now);
    (void)put_load(at, c, index, load_bytes, now);
  }
  *bytes = line_bytes + load_bytes;
  tc_free(row);
  return records;
}
