// Printing and .npy files against NumPy: tests/golden/text.txt, made by tools/golden_text.py, which
// describes the format.
#include <criterion/criterion.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <tc/tc.h>
#include <unistd.h>

enum { MAX_LINE = 1 << 18, MAX_TEXT = 1 << 16 };

static char line[MAX_LINE], text[MAX_TEXT];
static unsigned char bytes[MAX_LINE / 2], file[MAX_LINE / 2], got[MAX_LINE / 2];
static int line_number;

static bool next_line(FILE *f) {
  if (!fgets(line, sizeof line, f)) return false;
  line_number++;
  line[strcspn(line, "\n")] = 0;
  return true;
}

static size_t from_hex(const char *hex, unsigned char *out) {
  size_t n = 0;
  static const char digits[] = "0123456789abcdef";
  if (strcmp(hex, "-") == 0) return 0;
  for (; hex[2 * n]; n++)
    out[n] = (unsigned char)((strchr(digits, hex[2 * n]) - digits) * 16 + (strchr(digits, hex[2 * n + 1]) - digits));
  return n;
}

// "f32[2,3]" and its bytes.
static tc_tensor make(const char *spec, const char *hex) {
  const char *open = strchr(spec, '[');
  tc_type type = TC_F32;
  for (int k = 0; k < TC_N_TYPES; k++)
    if (strncmp(tc_type_name((tc_type)k), spec, (size_t)(open - spec)) == 0 &&
        tc_type_name((tc_type)k)[open - spec] == 0)
      type = (tc_type)k;
  tc_dims d = TC_SCALAR;
  char *at = (char *)open + 1;
  while (*at != ']') {
    d.dim[d.rank++] = strtoll(at, &at, 10);
    if (*at == ',') at++;
  }
  (void)from_hex(hex, bytes);
  return tc_from_host(bytes, d, type);
}

static bool same(tc_tensor a, tc_tensor b) {
  tc_dims d = tc_shape(a), e = tc_shape(b);
  size_t n = (size_t)tc_numel(a) * tc_type_bytes(tc_dtype(a));
  if (d.rank != e.rank || memcmp(d.dim, e.dim, sizeof d.dim) != 0 || tc_dtype(a) != tc_dtype(b)) return false;
  return tc_to_host(a, bytes, n) == TC_OK && tc_to_host(b, got, n) == TC_OK && memcmp(bytes, got, n) == 0;
}

static void check_print(tc_tensor t, int n_lines, FILE *f) {
  int at = line_number;
  text[0] = 0;
  for (int i = 0; i < n_lines && next_line(f); i++) {
    if (i) strcat(text, "\n");
    strcat(text, line);
  }
  char *printed = tc_format(t);
  cr_assert_not_null(printed);
  cr_expect_str_eq(printed, text, "line %d:\n%s\nshould be\n%s", at, printed, text);
  free(printed);
}

// Compares what is written, reads it again, and reads it in other layouts. why: of a file that is
// refused.
static void check_file(const char *what, const char *why, tc_tensor t, size_t n, const char *path) {
  if (strcmp(what, "save") == 0) {
    cr_assert_eq(tc_save_npy(path, t), TC_OK, "line %d: %s", line_number, tc_last_error()->message);
    FILE *f = fopen(path, "rb");
    size_t n_got = f ? fread(got, 1, sizeof got, f) : 0;
    if (f) fclose(f);
    cr_expect(n_got == n && memcmp(got, file, n) == 0, "line %d: %zu bytes saved, NumPy's are %zu", line_number, n_got,
              n);
  }
  FILE *f = fopen(path, "wb");
  cr_assert(f && fwrite(file, 1, n, f) == n && fclose(f) == 0);
  tc_tensor loaded = tc_load_npy(path);
  if (strcmp(what, "refuse") == 0) {
    tc_status code = strcmp(why, "dtype") == 0 ? TC_ERR_DTYPE : TC_ERR_IO;
    cr_expect(!tc_is_valid(loaded) && tc_last_error()->status == code, "line %d", line_number);
    // A failed load is poison, never the null handle that means "none" to an optional operand.
    cr_expect(!tc_is_valid(tc_linear(tc_zeros(TC_SHAPE(1, 2), TC_F32), tc_zeros(TC_SHAPE(3, 2), TC_F32), loaded)));
    tc_clear_error();
  } else {
    cr_assert(tc_is_valid(loaded), "line %d: %s", line_number, tc_last_error()->message);
    cr_expect(same(t, loaded), "line %d", line_number);
  }
}

static void run(const char *only) {
  static char what[8], spec[64], hex[MAX_LINE], rest[MAX_LINE];
  char path[] = "/tmp/tc-test-XXXXXX";
  int n = 0, made = mkstemp(path);
  FILE *f = fopen("tests/golden/text.txt", "r");
  cr_assert(f != NULL && made >= 0);
  close(made);
  for (line_number = 0; next_line(f);) {
    tc_scope scope = tc_scope_begin();
    cr_assert_eq(sscanf(line, "%7s %63s %s %s", what, spec, hex, rest), 4, "line %d", line_number);
    bool print = strcmp(what, "print") == 0, wanted = strcmp(only, "print") == 0 ? print : !print;
    if (wanted) n++;
    if (print && !wanted)
      for (int i = atoi(rest); i > 0 && next_line(f);) i--;
    else if (print)
      check_print(make(spec, hex), atoi(rest), f);
    else if (wanted)
      check_file(what, hex, spec[0] == '-' ? (tc_tensor){0, 0} : make(spec, hex), from_hex(rest, file), path);
    tc_scope_end(scope);
  }
  fclose(f);
  unlink(path);
  cr_assert_gt(n, 180);
}

Test(text, prints_as_numpy) {
  run("print");
}

Test(text, npy_files_are_numpys_and_read_in_every_layout) {
  run("npy");
}

Test(text, bf16_prints_and_survives_a_file) {
  char path[] = "/tmp/tc-test-XXXXXX";
  int made = mkstemp(path);
  cr_assert_geq(made, 0);
  close(made);
  tc_tensor t = tc_arange(0.5, 4, 1.25, TC_BF16);
  char *printed = tc_format(t);
  cr_assert_str_eq(printed, "[0.5  1.75 3.  ]");
  free(printed);
  cr_assert_eq(tc_save_npy(path, t), TC_OK);
  cr_assert(same(t, tc_load_npy(path)));
  unlink(path);
}

// A directory of its own as the working directory.
static void enter_new_directory(void) {
  static char dir[] = "/tmp/tc-test-XXXXXX";
  cr_assert_not_null(mkdtemp(dir));
  cr_assert_eq(chdir(dir), 0);
}

static void leave_directory(void) {
  char *dir = getcwd(NULL, 0);
  cr_assert_eq(rmdir(dir), 0, "files are left in %s", dir);
  free(dir);
}

static mode_t kind_of(const char *path) {
  struct stat info;
  return lstat(path, &info) == 0 ? info.st_mode & S_IFMT : 0;
}

Test(text, saving_follows_links_and_keeps_them) {
  static const char *const links[][2] = {
      {"to_old", "sub/old.npy"}, {"to_link", "./to_old"}, {"to_new", "sub/new.npy"}, {"self", "self"}};
  enter_new_directory();
  cr_assert_eq(mkdir("sub", 0777), 0);
  for (int i = 0; i < 4; i++) cr_assert_eq(symlink(links[i][1], links[i][0]), 0);
  tc_tensor t = tc_arange(0, 3, 1, TC_F32);
  cr_assert_eq(tc_save_npy("sub/old.npy", tc_zeros(TC_SHAPE(7), TC_F64)), TC_OK);
  cr_assert_eq(tc_save_npy("to_link", t), TC_OK, "%s", tc_last_error()->message);
  cr_assert_eq(tc_save_npy("to_new", t), TC_OK, "%s", tc_last_error()->message);
  cr_assert_eq(tc_save_npy("self", t), TC_ERR_IO);
  for (int i = 0; i < 4; i++) cr_expect_eq(kind_of(links[i][0]), S_IFLNK, "%s is no link any more", links[i][0]);
  cr_expect(same(t, tc_load_npy("sub/old.npy")));
  cr_expect(same(t, tc_load_npy("sub/new.npy")));
  cr_expect(unlink("sub/old.npy") == 0 && unlink("sub/new.npy") == 0 && rmdir("sub") == 0);
  for (int i = 0; i < 4; i++) unlink(links[i][0]);
  leave_directory();
}

Test(text, saving_to_a_pipe_or_a_device_writes_in_place) {
  enter_new_directory();
  tc_tensor t = tc_arange(0, 3, 1, TC_F32);
  cr_assert_eq(tc_save_npy("file", t), TC_OK);
  FILE *f = fopen("file", "rb");
  size_t n = fread(file, 1, sizeof file, f);
  fclose(f);
  cr_assert_eq(mkfifo("pipe", 0600), 0);
  int reader = open("pipe", O_RDWR | O_NONBLOCK);  // for writing too, so that neither side waits
  cr_assert_geq(reader, 0);
  cr_assert_eq(tc_save_npy("pipe", t), TC_OK, "%s", tc_last_error()->message);
  cr_expect(read(reader, got, sizeof got) == (ssize_t)n && memcmp(got, file, n) == 0);
  close(reader);
  cr_expect_eq(kind_of("pipe"), S_IFIFO);
  cr_assert_eq(symlink("/dev/full", "full"), 0);
  cr_expect_eq(tc_save_npy("full", t), TC_ERR_IO);
  cr_expect_not_null(strstr(tc_last_error()->message, "No space left"), "%s", tc_last_error()->message);
  cr_expect_eq(tc_save_npy(".", t), TC_ERR_IO);
  cr_expect_eq(kind_of("full"), S_IFLNK);
  cr_expect_eq(kind_of("/dev/full"), S_IFCHR);
  unlink("file"), unlink("pipe"), unlink("full");
  leave_directory();
}

typedef struct sent {
  const char *data;
  size_t bytes, more;  // once, and then the beginning again
} sent;

static void *send(void *arg) {
  const sent *x = arg;
  int fd = open("pipe", O_WRONLY);
  bool ok =
      fd >= 0 && write(fd, x->data, x->bytes) == (ssize_t)x->bytes && write(fd, x->data, x->more) == (ssize_t)x->more;
  close(fd);
  return ok ? arg : NULL;
}

// Behind the dictionary are spaces and the line's end, no zero with what else there may be.
Test(text, a_header_is_read_to_its_end) {
  enter_new_directory();
  for (int zero = 0; zero < 2; zero++) {
    cr_assert_eq(tc_save_npy("file", tc_ones(TC_SHAPE(3), TC_F32)), TC_OK);
    FILE *f = fopen("file", "r+b");
    cr_assert(f && fseek(f, 128 - 4, SEEK_SET) == 0 && fwrite(zero ? "\0{} " : "    ", 1, 4, f) == 4 && fclose(f) == 0);
    cr_expect(tc_is_valid(tc_load_npy("file")) == !zero, "%s", tc_last_error()->message);
    tc_clear_error();
  }
  unlink("file");
  leave_directory();
}

// The array is larger than a pipe, and than the room that is made before data come. Then one that
// is cut short.
Test(text, loading_from_a_pipe_takes_one_array_and_waits_for_all_of_it) {
  enter_new_directory();
  const int64_t n = 300000;
  tc_tensor t = tc_arange(0, (double)n, 1, TC_F32);
  cr_assert_eq(tc_save_npy("file", t), TC_OK);
  sent x = {.bytes = 128 + 4 * (size_t)n, .more = 5000};
  char *data = malloc(x.bytes);
  FILE *f = fopen("file", "rb");
  cr_assert(data && f && fread(data, 1, x.bytes, f) == x.bytes && fgetc(f) == EOF && fclose(f) == 0);
  x.data = data;
  cr_assert_eq(mkfifo("pipe", 0600), 0);
  pthread_t sender;
  void *all_sent = NULL;
  cr_assert_eq(pthread_create(&sender, NULL, send, &x), 0);
  int held = open("pipe", O_RDONLY);  // so that what the load leaves stays
  tc_tensor loaded = tc_load_npy("pipe");
  bool equal = false;
  cr_expect(tc_item_bool(tc_all(tc_eq(loaded, t), TC_ALL, false), &equal) == TC_OK && equal, "%s",
            tc_last_error()->message);
  pthread_join(sender, &all_sent);
  cr_expect_not_null(all_sent);
  cr_expect(read(held, got, sizeof got) == (ssize_t)x.more && memcmp(got, data, x.more) == 0);
  close(held);
  x.bytes = 0;
  cr_assert_eq(pthread_create(&sender, NULL, send, &x), 0);
  cr_expect(!tc_is_valid(tc_load_npy("pipe")));
  cr_expect(tc_last_error()->status == TC_ERR_IO && strstr(tc_last_error()->message, "ends early"), "%s",
            tc_last_error()->message);
  pthread_join(sender, &all_sent);
  free(data);
  unlink("file"), unlink("pipe");
  leave_directory();
}

Test(text, poison_and_missing_files_are_told_once) {
  tc_tensor bad = tc_load_npy("/nonexistent/x.npy");
  cr_assert_eq(tc_last_error()->status, TC_ERR_IO);
  cr_assert_eq(tc_print(bad), TC_ERR_IO);
  cr_assert_null(tc_format(bad));
  cr_assert_eq(tc_save_npy("/nonexistent/y.npy", bad), TC_ERR_IO);
  cr_assert_not_null(strstr(tc_last_error()->message, "x.npy"));
  cr_assert_not(tc_is_valid(tc_nonzero(bad)));
  tc_clear_error();
  cr_assert_eq(tc_save_npy("/nonexistent/y.npy", tc_ones(TC_SHAPE(2), TC_F32)), TC_ERR_IO);
}
