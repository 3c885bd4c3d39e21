// Errors of a thread: the latest call's is told, poison names its own, texts name op, values and
// place. Also the tables of the public header.
#include <criterion/criterion.h>
#include <pthread.h>
#include <string.h>

#include "runtime/hash.h"
#include "runtime/status.h"

Test(status, an_error_stays_until_the_next_call_fails_or_it_is_cleared) {
  cr_assert_eq(tc_last_error()->status, TC_OK);
  cr_assert_str_eq(tc_last_error()->message, "");
  cr_assert_eq(tc_fail(TC_ERR_SHAPE, "matmul", TC_HERE, "k is %d and %d", 3, 4), TC_ERR_SHAPE);
  const tc_error *e = tc_last_error();
  cr_assert_eq(e->status, TC_ERR_SHAPE);
  cr_assert_str_eq(e->op, "matmul");
  cr_assert_eq(strncmp(e->message, "matmul: k is 3 and 4 (at ", 25), 0);
  cr_assert_not_null(strstr(e->site, "test_status.c:"));
  cr_assert_eq(tc_fail(TC_ERR_SHAPE, "add", 0, "no"), TC_ERR_SHAPE);
  cr_assert_str_eq(tc_last_error()->message, "add: no");
  tc_clear_error();
  cr_assert_eq(tc_last_error()->status, TC_OK);
}

static void fail_in_a_call(void) {
  TC_CALLED_AS("outer");
  (void)tc_fail(TC_ERR_MEMORY, "inner", 0, "knows most");
  (void)tc_fail(TC_ERR_MEMORY, "outer", 0, "knows less");
}

// What fails because of an error knows less; but a status that is returned has its own text.
Test(status, within_a_call_the_first_of_a_status_stays) {
  fail_in_a_call();
  cr_assert_str_eq(tc_last_error()->message, "inner: knows most");
  fail_in_a_call();
  cr_assert_str_eq(tc_last_error()->message, "inner: knows most");
  (void)tc_fail(TC_ERR_IO, "other", 0, "failed");
  cr_assert_str_eq(tc_last_error()->message, "other: failed");
}

Test(status, poison_names_its_error_and_the_librarys_own_give_way) {
  tc_tensor a = tc_poison(tc_fail(TC_ERR_SHAPE, "a", 0, "first")),
            b = tc_poison(tc_fail(TC_ERR_SHAPE, "b", 0, "second"));
  cr_assert_eq(tc_poison_told(a), TC_ERR_SHAPE);
  cr_assert_str_eq(tc_last_error()->message, "a: first");
  tc_error_mark before = tc_error_now();
  (void)tc_fail(TC_ERR_MEMORY, "own", 0, "dealt with");
  cr_assert(tc_error_tell(before));
  cr_assert_str_eq(tc_last_error()->message, "a: first");
  cr_assert_eq(tc_poison_told(b), TC_ERR_SHAPE);
  cr_assert_str_eq(tc_last_error()->message, "b: second");
  for (int i = 0; i < 100; i++) (void)tc_fail(TC_ERR_IO, "c", 0, "%d", i);
  cr_assert_eq(tc_poison_told(a), TC_ERR_SHAPE);
  cr_assert_str_eq(tc_last_error()->message, tc_status_text(TC_ERR_SHAPE));
  cr_assert_eq(tc_poison_told((tc_tensor){5, 5}), TC_ERR_HANDLE);
}

Test(status, long_text_is_cut_before_the_place) {
  tc_fail(TC_ERR_ARG, "op", TC_HERE, "%02000d", 1);
  const char *message = tc_last_error()->message;
  cr_assert(strlen(message) < 1024);
  cr_assert_eq(message[strlen(message) - 1], ')');
}

static void *other_thread(void *arg) {
  (void)arg;
  return (void *)(intptr_t)tc_last_error()->status;
}

Test(status, errors_belong_to_their_thread) {
  pthread_t t;
  void *status;
  tc_fail(TC_ERR_ARG, "op", 0, "here");
  pthread_create(&t, NULL, other_thread, NULL);
  pthread_join(t, &status);
  cr_assert_eq((intptr_t)status, TC_OK);
}

Test(status, code_address_is_shown_with_its_module) {
  char text[160], small[4];
  tc_site_text(tc_site_return(__extension__(void *) pthread_create), text, sizeof text);
  cr_assert_not_null(strstr(text, "0x"));
  cr_assert_not_null(strchr(text, '('));
  tc_site_text(TC_HERE, small, sizeof small);
  cr_assert_eq(strlen(small), 3);
  tc_site_text(0, text, sizeof text);
  cr_assert_str_eq(text, "");
}

Test(status, dims_print_as_a_list) {
  char text[64], small[6];
  tc_dims d = TC_SHAPE(3, 4), none = TC_SCALAR;
  cr_assert_str_eq(tc_dims_text(&d, text, sizeof text), "[3, 4]");
  cr_assert_str_eq(tc_dims_text(&none, text, sizeof text), "[]");
  cr_assert_str_eq(tc_dims_text(&d, small, sizeof small), "[3, 4");
}

Test(status, tables_answer_for_every_row_and_beyond) {
  cr_assert_str_eq(tc_version_text(), "0.1.0");
  for (int i = 0; i < TC_N_STATUSES; i++) cr_assert_not_null(tc_status_text((tc_status)i));
  for (int i = 0; i < TC_N_TYPES; i++) cr_assert_neq(tc_type_bytes((tc_type)i), 0);
  cr_assert_str_eq(tc_type_name(TC_BF16), "bf16");
  cr_assert_eq(tc_type_bytes(TC_F64), 8);
  cr_assert_str_eq(tc_status_text((tc_status)99), "unknown status");
  cr_assert_str_eq(tc_type_name((tc_type)-1), "unknown type");
  cr_assert_eq(tc_type_bytes((tc_type)99), 0);
}

Test(status, hash_is_xxh3_128) {
  tc_hash h = tc_hash_bytes("", 0);  // published value of the empty input
  cr_assert_eq(h.hi, UINT64_C(0x99aa06d3014798d8));
  cr_assert_eq(h.lo, UINT64_C(0x6001c324468d497f));
}
