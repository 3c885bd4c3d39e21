// The text of the row kernels, in pieces. A piece is the part of a .k file of this directory
// between two lines of the form `// ==== name ====`; tools/embed.py makes it a string.
// lowering/program/gpu/rows.c joins the pieces.
#pragma once

#define TC_GPU_TEXTS(X) \
  X(element) \
  X(bits) \
  X(index) \
  X(scan_op) \
  X(scan_across) \
  X(scan_along) \
  X(key_value) \
  X(key_draw) \
  X(sort_entry) \
  X(sort_tiles) \
  X(sort_merge) \
  X(put_box) \
  X(key_target) \
  X(key_row) \
  X(put_owner) \
  X(put_pick) \
  X(put_sorted) \
  X(add_op) \
  X(add_sorted) \
  X(fill) \
  X(copy) \
  X(cat) \
  X(write_slice) \
  X(unwindow) \
  X(searchsorted) \
  X(check)

#define X(name) extern const char tc_gpu_text_##name[];
TC_GPU_TEXTS(X)
#undef X
