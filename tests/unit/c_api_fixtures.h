#ifndef ATTNJIT_TESTS_C_API_FIXTURES_H
#define ATTNJIT_TESTS_C_API_FIXTURES_H
/* What the tests of the C API in C share. */
#include <attnjit.h>
#include <stdio.h>
#include <string.h>

extern int failures;

#define CHECK(condition)                                              \
  do {                                                                \
    if (!(condition)) {                                               \
      printf("%s:%d: %s is false\n", __FILE__, __LINE__, #condition); \
      ++failures;                                                     \
    }                                                                 \
  } while (0)

extern char memory[64]; /* an address; nobody reads it */

static inline attnjit_tensor tensor(int64_t batch, int64_t heads, int64_t rows, int64_t width) {
  attnjit_tensor t = {memory, ATTNJIT_BFLOAT16, {batch, heads, rows, width}, {0, 0, 0, 1}};
  t.strides[2] = width;
  t.strides[1] = rows * width;
  t.strides[0] = heads * rows * width;
  return t;
}

static inline attnjit_forward_args forward_args(int64_t rows) {
  attnjit_forward_args args = ATTNJIT_FORWARD_ARGS_INIT;
  args.q = tensor(1, 4, rows, 64);
  args.k = tensor(1, 2, 128, 64);
  args.v = tensor(1, 2, 128, 64);
  args.out = tensor(1, 4, rows, 64);
  return args;
}

/* Whether a call fails with `status` and a message that holds `part`. */
static inline int fails(attnjit_status result, attnjit_status status, const char* part) {
  if (result == status && strstr(attnjit_last_error(), part) != NULL) return 1;
  printf("%s: %s\n", attnjit_status_name(result), attnjit_last_error());
  return 0;
}

/* runtime_c_api_backward_test.c */
void check_backward(attnjit_context* context);

#endif /* ATTNJIT_TESTS_C_API_FIXTURES_H */
