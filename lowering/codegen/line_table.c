// Runs the program of a DWARF line table. See line_table.h.
#include "lowering/codegen/line_table.h"

#include <stdbool.h>
#include <string.h>

// What is left to be read. failed: it was too short.
typedef struct reader {
  const uint8_t *at, *end;
  bool failed;
} reader;

// The opcodes of the standard that are told apart here.
typedef enum opcode {
  EXTENDED,
  COPY,
  ADVANCE_PC,
  ADVANCE_LINE,
  CONST_ADD_PC = 8,
  FIXED_ADVANCE_PC,
} opcode;
#define END_SEQUENCE 1

typedef struct program {
  uint8_t min_bytes, line_range, opcode_base;
  int8_t line_base;
  const uint8_t *n_operands;  // of each standard opcode, from 1 on
  reader code;
} program;

typedef struct rows {
  tc_line_row *out;
  size_t n, room;
  uint64_t offset;
  uint32_t line, last;  // last: the line of the last row
} rows;

static uint64_t read_fixed(reader *r, size_t bytes) {
  uint64_t value = 0;
  if ((size_t)(r->end - r->at) < bytes) {
    r->failed = true;
    r->at = r->end;
    return 0;
  }
  memcpy(&value, r->at, bytes);  // little-endian, as the machines are that have a loader
  r->at += bytes;
  return value;
}

static uint64_t read_leb(reader *r, bool is_signed) {
  uint64_t value = 0;
  unsigned shift = 0;
  uint8_t byte;
  do {
    byte = (uint8_t)read_fixed(r, 1);
    if (shift < 64) value |= (uint64_t)(byte & 0x7f) << shift;
    shift += 7;
  } while (byte & 0x80);
  if (is_signed && shift < 64 && (byte & 0x40)) value |= ~UINT64_C(0) << shift;
  return value;
}

static void skip(reader *r, uint64_t bytes) {
  if (bytes > (uint64_t)(r->end - r->at)) {
    r->failed = true;
    r->at = r->end;
  } else {
    r->at += bytes;
  }
}

// Files and directories, which the head also has, are not needed.
static bool read_head(const uint8_t *section, size_t bytes, program *p) {
  reader r = {section, section + bytes, false};
  uint64_t length = read_fixed(&r, 4);
  if (r.failed || length > (uint64_t)(r.end - r.at)) return false;  // also the 64-bit format
  r.end = r.at + length;
  uint64_t version = read_fixed(&r, 2);
  if (version < 2 || version > 5) return false;
  if (version == 5) skip(&r, 2);  // sizes of addresses and segments
  uint64_t head = read_fixed(&r, 4);
  p->code = r;
  skip(&p->code, head);
  p->min_bytes = (uint8_t)read_fixed(&r, 1);
  skip(&r, version >= 4 ? 2 : 1);  // most operations, the default of is_stmt
  p->line_base = (int8_t)read_fixed(&r, 1);
  p->line_range = (uint8_t)read_fixed(&r, 1);
  p->opcode_base = (uint8_t)read_fixed(&r, 1);
  p->n_operands = r.at;
  skip(&r, p->opcode_base > 0 ? p->opcode_base - 1u : 0);
  return !r.failed && !p->code.failed && p->line_range != 0 && p->opcode_base != 0;
}

static void add_row(rows *t) {
  if (t->line == t->last || t->line == 0) return;
  if (t->n < t->room) t->out[t->n] = (tc_line_row){t->offset, t->line};
  t->n++;
  t->last = t->line;
}

static void run_special(const program *p, rows *t, unsigned op) {
  unsigned adjusted = op - p->opcode_base;
  t->offset += adjusted / p->line_range * p->min_bytes;
  t->line += (uint32_t)(p->line_base + (int)(adjusted % p->line_range));
}

static void run_standard(program *p, rows *t, unsigned op) {
  reader *r = &p->code;
  switch (op) {
    case COPY: add_row(t); return;
    case ADVANCE_PC: t->offset += read_leb(r, false) * p->min_bytes; return;
    case ADVANCE_LINE: t->line += (uint32_t)read_leb(r, true); return;
    case CONST_ADD_PC: t->offset += (255u - p->opcode_base) / p->line_range * p->min_bytes; return;
    case FIXED_ADVANCE_PC: t->offset += read_fixed(r, 2); return;
    default:
      for (unsigned k = p->n_operands[op - 1]; k > 0 && !r->failed; k--) (void)read_leb(r, false);
  }
}

size_t tc_line_table_read(const uint8_t *section, size_t bytes, tc_line_row *out, size_t room) {
  program p;
  rows t = {.out = out, .room = room, .line = 1};
  if (!read_head(section, bytes, &p)) return 0;
  while (p.code.at < p.code.end && !p.code.failed) {
    unsigned op = (unsigned)read_fixed(&p.code, 1);
    if (op >= p.opcode_base) {
      run_special(&p, &t, op);
      add_row(&t);
    } else if (op != EXTENDED) {
      run_standard(&p, &t, op);
    } else {
      // Its length comes first. The only address set is that of the function's first byte.
      uint64_t length = read_leb(&p.code, false);
      bool ends = length > 0 && p.code.at < p.code.end && *p.code.at == END_SEQUENCE;
      if (ends) break;
      skip(&p.code, length);
    }
  }
  return t.n;
}
