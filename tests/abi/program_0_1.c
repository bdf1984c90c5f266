/* A program of version 0.1: it is built with that version's header alone, and runs with today's library. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "0.1/attnjit.h"

static int failures = 0;
static char memory[64]; /* an address; nobody reads it */

static void check(int holds, const char* what) {
  if (holds) return;
  printf("%s: false; last error: %s\n", what, attnjit_last_error());
  ++failures;
}

static attnjit_tensor tensor(int64_t heads, int64_t rows) {
  attnjit_tensor t = {memory, ATTNJIT_BFLOAT16, {1, heads, rows, 64}, {0, 0, 64, 1}};
  t.strides[1] = rows * 64;
  t.strides[0] = heads * rows * 64;
  return t;
}

/* Whether a call was understood: only the machine may be in the way, which may have no GPU. */
static int is_understood(attnjit_status status) {
  return status != ATTNJIT_INVALID_ARGUMENT && status != ATTNJIT_INVALID_PROBLEM && status != ATTNJIT_INTERNAL;
}

static void check_calls(attnjit_context* context) {
  size_t bytes = 0;
  attnjit_forward_args args = ATTNJIT_FORWARD_ARGS_INIT;
  attnjit_backward_args backward = ATTNJIT_BACKWARD_ARGS_INIT;
  args.q = args.out = tensor(4, 64);
  args.k = args.v = tensor(2, 128);
  args.causal = 1;
  args.diagonal = ATTNJIT_DIAGONAL_BOTTOM_RIGHT;
  check(is_understood(attnjit_forward_workspace_size(context, &args, &bytes)), "a forward is understood");
  args.k = args.v = tensor(3, 128);
  check(attnjit_forward_workspace_size(context, &args, &bytes) == ATTNJIT_INVALID_PROBLEM &&
            strstr(attnjit_last_error(), "k: head axis is 3") != NULL,
        "a wrong forward is refused for its reason");
  args.k = args.v = tensor(2, 128);
  args.lse = (float*)memory;
  backward.forward = &args;
  backward.dout = backward.dq = args.q;
  backward.dk = backward.dv = args.k;
  check(is_understood(attnjit_backward_workspace_size(context, &backward, &bytes)), "a backward is understood");
}

/* The library fills in the members that this program knows, and nothing behind them. */
static void check_counters(const attnjit_context* context) {
  struct {
    attnjit_counters counters;
    unsigned char behind[64];
  } known;
  size_t n;
  memset(&known, 0xa5, sizeof known);
  known.counters = (attnjit_counters)ATTNJIT_COUNTERS_INIT;
  check(attnjit_context_counters(context, &known.counters) == ATTNJIT_OK, "counters are told");
  check(known.counters.plans == 0, "no plan was made");
  for (n = 0; n < sizeof known.behind; ++n) check(known.behind[n] == 0xa5, "bytes behind the counters are kept");
}

int main(void) {
  attnjit_context_options options = ATTNJIT_CONTEXT_OPTIONS_INIT;
  attnjit_context* context = NULL;
  options.cache_directory = "0";
  check(attnjit_context_create(&options, &context) == ATTNJIT_OK, "a context is made");
  if (context == NULL) return 1;
  check_calls(context);
  check_counters(context);
  attnjit_context_destroy(context);
  if (failures == 0) printf("built with 0.1, runs with %s\n", attnjit_version());
  return failures != 0;
}
