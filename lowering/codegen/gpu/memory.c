// Loads and stores. A thread's lanes lie side by side. They go in pieces of 16, 8 or 4 bytes where
// the address is a multiple of that. The generator knows this from how the address is made, or the
// kernel tests it. Lanes under a mask go so, too, if all are on; else element by element.
// Invariants: where memory begins (buffers, tiles) is aligned to 16 bytes; memory is read through
// tc_load_nc only in buffers that the kernel does not write.
#include "lowering/codegen/gpu/text.h"

typedef struct access {
  const tc_kir_inst *i;
  uint32_t at, value;  // the instruction; what is loaded (itself) or stored
  uint32_t mask;  // TC_NONE: none
  unsigned n, bytes;  // elements of a thread, bytes of one
  unsigned piece;  // bytes of the pieces that its elements may go in, 0: none
  bool known;  // that they are aligned
  bool side_by_side;  // else every element has an address of its own
  tc_gpu_name base;  // what holds the elements
  tc_gpu_name first;  // index of the thread's first element there
  tc_gpu_name aligned;  // the test of it
} access;

// ---- what an access is ----

static tc_gpu_name base_of(const tc_gpu_text *t, int64_t buffer) {
  const int64_t tile = buffer - t->kir->n_buf;
  if (tile < 0) return tc_gpu_named("b%d", (int)buffer);
  return tc_gpu_named(tc_gpu_is_of_lanes(t->kir, buffer) ? "own%d" : "tile%d", (int)tile);
}

// Pieces that save instructions, of an access with elements side by side whose first is a multiple
// of `multiple`. In a tile that is all there is to know of it: rows may begin at multiples of 8
// bytes.
static void choose_pieces(access *a, uint32_t multiple, bool tile) {
  const unsigned all = a->n * a->bytes, piece = all >= 16  ? tile && multiple == 8 / a->bytes ? 8 : 16
                                                : all >= 4 ? all
                                                           : 0;
  if (a->n == 1 || piece == 0) return;
  a->known = multiple >= piece / a->bytes;
  if (a->known || a->n >= 4 || all >= 8) a->piece = piece;
}

static access describe(const tc_gpu_text *t, uint32_t at) {
  const tc_kir_inst *i = &t->kir->inst[at];
  const uint32_t address = i->src[0], of_address = t->kir->inst[address].lanes;
  const bool stores = tc_kir_is(i, TC_KIR_STORES), indexed = tc_kir_is(i, TC_KIR_INDEXED);
  access a = {
      .i = i, .at = at, .value = stores ? i->src[1] : at, .mask = tc_kir_mask_of(i), .base = base_of(t, i->imm)};
  a.n = tc_gpu_width(t->kir, i->lanes);
  a.bytes = tc_kir_type_bytes(i->dtype);
  const tc_gpu_name e = tc_gpu_element(t, address, 0);
  if (indexed && of_address == i->lanes && a.n > 1) return a;
  a.side_by_side = true;
  a.first = e;
  if (!indexed && i->lanes > 1 && t->kir->threads > 1)
    a.first = a.n == 1 ? tc_gpu_named("%s + lane", e.text) : tc_gpu_named("%s + %u * lane", e.text, a.n);
  choose_pieces(&a, t->multiple[address], i->imm >= t->kir->n_buf);
  if (a.piece > 0 && !a.known) a.aligned = tc_gpu_named("(%s & %u) == 0", e.text, a.piece / a.bytes - 1);
  return a;
}

static tc_gpu_name element_at(const tc_gpu_text *t, const access *a, unsigned k) {
  if (!a->side_by_side) return tc_gpu_named("%s[%s]", a->base.text, tc_gpu_element(t, a->i->src[0], k).text);
  return k == 0 ? tc_gpu_named("%s[%s]", a->base.text, a->first.text)
                : tc_gpu_named("%s[%s + %u]", a->base.text, a->first.text, k);
}

// Under which a thread's elements go in pieces: all of its masks, and alignment. Empty: always.
static void put_condition(tc_gpu_text *t, const access *a) {
  const unsigned n = a->mask == TC_NONE ? 0 : tc_gpu_is_one(t, a->mask) ? 1 : a->n;
  for (unsigned k = 0; k < n; k++)
    tc_gpu_put(&t->body, "%s%s", k > 0 ? " && " : "", tc_gpu_element(t, a->mask, k).text);
  if (!a->known) tc_gpu_put(&t->body, "%s%s", n > 0 ? " && " : "", a->aligned.text);
}

static tc_gpu_name piece_at(const access *a, unsigned p) {
  const unsigned from = p * a->piece / a->bytes;
  return from == 0 ? tc_gpu_named("(%s + %s)", a->base.text, a->first.text)
                   : tc_gpu_named("(%s + %s + %u)", a->base.text, a->first.text, from);
}

static const char *piece_type(const access *a) {
  return a->piece == 16 ? "tc_u32x4" : a->piece == 8 ? "tc_u32x2" : "u32";
}

// ---- loads ----

// The k-th u32 of the pieces.
static tc_gpu_name piece_word(const access *a, unsigned k) {
  const unsigned words = a->piece / 4;
  return words == 1 ? tc_gpu_named("w%u_%u", a->at, k) : tc_gpu_named("w%u_%u.%c", a->at, k / words, "xyzw"[k % words]);
}

static tc_gpu_name from_words(const access *a, unsigned k) {
  const unsigned type = a->i->dtype, per_word = 4 / a->bytes;
  if (a->bytes == 8) {
    const tc_gpu_name low = piece_word(a, 2 * k), high = piece_word(a, 2 * k + 1);
    return tc_gpu_named("%s(%s | (u64)%s << 32)", type == TC_F64 ? "tc_f64_bits" : "(i64)", low.text, high.text);
  }
  const tc_gpu_name word = piece_word(a, k / per_word);
  const unsigned down = k % per_word * a->bytes * 8;
  if (a->bytes == 4)
    return tc_gpu_named("%s%s%s", type == TC_F32 ? "tc_f32_bits(" : "(i32)", word.text, type == TC_F32 ? ")" : "");
  const char *as = tc_gpu_memory_type(type);
  return down == 0 ? tc_gpu_named("(%s)%s", as, word.text) : tc_gpu_named("(%s)(%s >> %u)", as, word.text, down);
}

// Part k of the loaded value: two halves, or an element.
static tc_gpu_name part_by_elements(const tc_gpu_text *t, const access *a, unsigned k) {
  const bool packed = tc_gpu_is_packed(t, a->at);
  tc_gpu_name x[2];
  for (unsigned j = 0; j < (packed ? 2u : 1u); j++) {
    const unsigned at = packed ? 2 * k + j : k;
    x[j] = element_at(t, a, at);
    if (packed && j == 1) x[j] = tc_gpu_named("(u32)%s << 16", x[j].text);
    if (a->mask != TC_NONE) x[j] = tc_gpu_named("(%s ? %s : 0)", tc_gpu_element(t, a->mask, at).text, x[j].text);
  }
  return packed ? tc_gpu_named("%s | %s", x[0].text, x[1].text) : x[0];
}

static tc_gpu_name variable(const tc_gpu_text *t, uint32_t v, unsigned k) {
  return tc_gpu_is_packed(t, v) ? tc_gpu_register(t, v, k) : tc_gpu_element(t, v, k);
}

static void load_pieces(tc_gpu_text *t, const access *a) {
  const bool kept = a->i->imm < t->kir->n_buf && !t->stored[a->i->imm] && !(t->kir->over >> a->i->imm & 1),
             reads_only = kept && a->piece >= 8;
  for (unsigned p = 0; p < a->n * a->bytes / a->piece; p++) {
    if (p == 0) tc_gpu_line(t, "const %s ", piece_type(a));
    tc_gpu_put(&t->body, "%sw%u_%u = ", p > 0 ? ", " : "", a->at, p);
    if (reads_only)
      tc_gpu_put(&t->body, "tc_load_nc_%u%s", a->piece, piece_at(a, p).text);
    else
      tc_gpu_put(&t->body, "*(const %s *)%s", piece_type(a), piece_at(a, p).text);
  }
  tc_gpu_put(&t->body, ";\n");
}

static tc_gpu_name part_of_pieces(const tc_gpu_text *t, const access *a, unsigned k) {
  return tc_gpu_is_packed(t, a->at) ? piece_word(a, k) : from_words(a, k);
}

static void load_access(tc_gpu_text *t, const access *a) {
  const unsigned n = tc_gpu_is_packed(t, a->at) ? a->n / 2 : a->n;
  const bool always = a->piece > 0 && a->known && a->mask == TC_NONE;
  if (always) load_pieces(t, a);
  if (always || a->piece == 0) {
    for (unsigned k = 0; k < n; k++) {
      tc_gpu_define(t, a->at, k);
      tc_gpu_put(&t->body, "%s", (always ? part_of_pieces(t, a, k) : part_by_elements(t, a, k)).text);
    }
    tc_gpu_put(&t->body, ";\n");
    return;
  }
  tc_gpu_line(t, "%s ", tc_gpu_is_packed(t, a->at) ? "u32" : tc_gpu_type(a->i->dtype));
  for (unsigned k = 0; k < n; k++) tc_gpu_put(&t->body, "%s%s = 0", k > 0 ? ", " : "", variable(t, a->at, k).text);
  tc_gpu_put(&t->body, ";\n");
  tc_gpu_line(t, "if (");
  put_condition(t, a);
  tc_gpu_put(&t->body, ") {\n");
  t->depth++;
  load_pieces(t, a);
  tc_gpu_indent(t);
  for (unsigned k = 0; k < n; k++)
    tc_gpu_put(&t->body, "%s%s = %s", k > 0 ? ", " : "", variable(t, a->at, k).text, part_of_pieces(t, a, k).text);
  tc_gpu_put(&t->body, ";\n");
  t->depth--;
  if (a->known && tc_gpu_is_one(t, a->mask)) {  // one mask for all: nothing is read where it is off
    tc_gpu_line(t, "}\n");
    return;
  }
  tc_gpu_line(t, "} else {\n");
  t->depth++;
  tc_gpu_indent(t);
  for (unsigned k = 0; k < n; k++)
    tc_gpu_put(&t->body, "%s%s = %s", k > 0 ? ", " : "", variable(t, a->at, k).text, part_by_elements(t, a, k).text);
  tc_gpu_put(&t->body, ";\n");
  t->depth--;
  tc_gpu_line(t, "}\n");
}

// ---- stores ----

static void store_pieces(tc_gpu_text *t, const access *a) {
  const unsigned words = a->piece / 4;
  for (unsigned p = 0; p < a->n * a->bytes / a->piece; p++) {
    tc_gpu_indent(t);
    if (words > 1) {
      tc_gpu_put(&t->body, "const %s w%u_%u = {", piece_type(a), a->at, p);
      for (unsigned k = 0; k < words; k++)
        tc_gpu_put(&t->body, "%s%s", k > 0 ? ", " : "", tc_gpu_register(t, a->value, p * words + k).text);
      if (a->i->imm < t->kir->n_buf)
        tc_gpu_put(&t->body, "}; tc_store_%u(%s, w%u_%u);\n", a->piece, piece_at(a, p).text, a->at, p);
      else
        tc_gpu_put(&t->body, "}; *(%s *)%s = w%u_%u;\n", piece_type(a), piece_at(a, p).text, a->at, p);
    } else {
      tc_gpu_put(&t->body, "*(u32 *)%s = %s;\n", piece_at(a, p).text, tc_gpu_register(t, a->value, p).text);
    }
  }
}

static void store_elements(tc_gpu_text *t, const access *a) {
  for (unsigned k = 0; k < a->n; k++) {
    const tc_gpu_name x = tc_gpu_element(t, a->value, k), to = element_at(t, a, k);
    if (a->mask == TC_NONE)
      tc_gpu_line(t, "%s = %s;\n", to.text, x.text);
    else
      tc_gpu_line(t, "if (%s) %s = %s;\n", tc_gpu_element(t, a->mask, k).text, to.text, x.text);
  }
}

// Prints a scalar store, which the group's first thread does alone.
static void store_scalar(tc_gpu_text *t, const access *a) {
  const bool masked = a->mask != TC_NONE;
  tc_gpu_line(t, "if (lane == 0");
  if (masked) tc_gpu_put(&t->body, " && %s", tc_gpu_element(t, a->mask, 0).text);
  tc_gpu_put(&t->body, ") %s = %s;\n", element_at(t, a, 0).text, tc_gpu_element(t, a->value, 0).text);
}

static void store_access(tc_gpu_text *t, const access *a) {
  if (a->i->lanes == 1 && t->kir->threads > 1) {
    store_scalar(t, a);
  } else if (a->piece == 0) {
    store_elements(t, a);
  } else if (a->known && a->mask == TC_NONE) {
    store_pieces(t, a);
  } else {
    tc_gpu_line(t, "if (");
    put_condition(t, a);
    tc_gpu_put(&t->body, ") {\n");
    t->depth++;
    store_pieces(t, a);
    t->depth--;
    if (!a->known || !tc_gpu_is_one(t, a->mask)) {
      tc_gpu_line(t, "} else {\n");
      t->depth++;
      store_elements(t, a);
      t->depth--;
    }
    tc_gpu_line(t, "}\n");
  }
}

// ---- tiles of lanes ----

// Every thread's share is an array of its own; packed halves two an element.
static void access_own(tc_gpu_text *t, access *a) {
  const tc_kir_inst *address = &t->kir->inst[a->i->src[0]];
  const bool packed = tc_kir_is_half(a->i->dtype) && a->n > 1, stores = a->i->op == TC_IR_STORE;
  unsigned down = packed ? 1 : 0;
  for (unsigned threads = t->kir->threads; threads > 1; threads /= 2) down++;
  a->side_by_side = true;
  a->first = address->op == TC_IR_CONST ? tc_gpu_named("%lld", (long long)(address->imm >> down))
                                        : tc_gpu_named("(%s >> %u)", tc_gpu_element(t, a->i->src[0], 0).text, down);
  for (unsigned k = 0; k < (packed ? a->n / 2 : a->n); k++) {
    const tc_gpu_name in = element_at(t, a, k), x = variable(t, a->value, k);
    if (!stores) tc_gpu_define(t, a->at, k);
    if (stores)
      tc_gpu_line(t, "%s = %s;\n", in.text, x.text);
    else
      tc_gpu_put(&t->body, "%s", in.text);
  }
  if (!stores) tc_gpu_put(&t->body, ";\n");
}

void tc_gpu_memory(tc_gpu_text *t, uint32_t at) {
  access a = describe(t, at);
  if (tc_gpu_is_of_lanes(t->kir, a.i->imm))
    access_own(t, &a);
  else if (tc_kir_is(a.i, TC_KIR_STORES))
    store_access(t, &a);
  else
    load_access(t, &a);
}

void tc_gpu_tile_copy(tc_gpu_text *t, uint32_t at) {
  const tc_kir_inst *i = &t->kir->inst[at];
  const tc_gpu_name from = tc_gpu_element(t, i->src[0], 0), to = tc_gpu_element(t, i->src[1], 0);
  if (i->src[2] == TC_NONE) {
    tc_gpu_line(t, "tc_copy_async_16(tile%u + %s, b%d + %s, 16);\n", i->flags, to.text, (int)i->imm, from.text);
    return;
  }
  const tc_gpu_name m = tc_gpu_element(t, i->src[2], 0);
  tc_gpu_line(t, "tc_copy_async_16(tile%u + %s, b%d + (%s ? %s : 0), %s ? 16 : 0);\n", i->flags, to.text, (int)i->imm,
              m.text, from.text, m.text);
}
