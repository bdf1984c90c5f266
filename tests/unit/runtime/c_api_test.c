/* The C API as a C program sees it, on a machine without a GPU: layout, conversions, errors. */
#define _POSIX_C_SOURCE 200809L /* setenv */
#include <math.h>
#include <stdlib.h>

#include "unit/c_api_fixtures.h"

int failures = 0;
char memory[64];

static attnjit_context* make_context(void) {
  attnjit_context_options options = ATTNJIT_CONTEXT_OPTIONS_INIT;
  attnjit_context* context = NULL;
  options.cache_directory = "0";
  if (attnjit_context_create(&options, &context) != ATTNJIT_OK) {
    printf("no context: %s\n", attnjit_last_error());
    exit(1);
  }
  return context;
}

static void check_layout(void) {
  /* What a program was compiled with must mean the same in every later version. */
  CHECK(sizeof(attnjit_tensor) == 80);
  CHECK(offsetof(attnjit_tensor, strides) == 48);
  CHECK(sizeof(attnjit_forward_args) == 616);
  CHECK(offsetof(attnjit_forward_args, mask) == 328);
  CHECK(offsetof(attnjit_forward_args, has_scale) == 368);
  CHECK(offsetof(attnjit_forward_args, window_left) == 392);
  CHECK(offsetof(attnjit_forward_args, softcap) == 408);
  CHECK(offsetof(attnjit_forward_args, diagonal_offset) == 416);
  CHECK(offsetof(attnjit_forward_args, sink) == 424);
  CHECK(offsetof(attnjit_forward_args, cu_seqlens_q) == 432);
  CHECK(offsetof(attnjit_forward_args, num_sequences) == 448);
  CHECK(offsetof(attnjit_forward_args, alibi_slopes) == 456);
  CHECK(offsetof(attnjit_forward_args, row_max) == 464);
  CHECK(offsetof(attnjit_forward_args, max_logits) == 472);
  CHECK(offsetof(attnjit_forward_args, block_table) == 480);
  CHECK(offsetof(attnjit_forward_args, max_pages) == 496);
  CHECK(offsetof(attnjit_forward_args, tail_mask) == 504);
  CHECK(offsetof(attnjit_forward_args, prepared_mask) == 512);
  CHECK(offsetof(attnjit_forward_args, mask_inner) == 520);
  CHECK(offsetof(attnjit_forward_args, bias_cycle) == 544);
  CHECK(offsetof(attnjit_forward_args, row_offset) == 584);
  CHECK(offsetof(attnjit_forward_args, blocks) == 600);
  CHECK(offsetof(attnjit_forward_args, key_indices) == 608);
  CHECK(sizeof(attnjit_block_lists) == 208);
  CHECK(sizeof(attnjit_prepared_mask) == 48);
  CHECK(sizeof(attnjit_prepare_mask_args) == 104);
  CHECK(sizeof(attnjit_merge_lse_args) == 216);
  CHECK(offsetof(attnjit_merge_lse_args, out) == 128);
  CHECK(sizeof(attnjit_context_options) == 40);
  CHECK(sizeof(attnjit_counters) == 96);
}

static void check_names(void) {
  CHECK(strlen(attnjit_version()) >= 5);
  CHECK(strcmp(attnjit_status_name(ATTNJIT_OK), "ok") == 0);
  CHECK(strcmp(attnjit_status_name(ATTNJIT_INTERNAL), "internal error") == 0);
  CHECK(strcmp(attnjit_status_name(-1), "unknown status") == 0);
  CHECK(strcmp(attnjit_status_name(ATTNJIT_INTERNAL + 1), "unknown status") == 0);
  CHECK(strcmp(attnjit_last_error(), "") == 0);
}

static void keep_message(void* log_data, const char* message) { strncpy(log_data, message, 99); }

static void check_log(void) {
  char kept[100] = "";
  attnjit_context_options options = ATTNJIT_CONTEXT_OPTIONS_INIT;
  attnjit_context* context = NULL;
  options.cache_directory = "0";
  options.log = keep_message;
  options.log_data = kept;
  setenv("ATTNJIT_LOG", "info", 1);
  setenv("XDG_RUNTIME_DIR", "relative", 1);
  CHECK(attnjit_context_create(&options, &context) == ATTNJIT_OK);
  CHECK(strstr(kept, "XDG_RUNTIME_DIR=relative is ignored") != NULL);
  attnjit_context_destroy(context);
  setenv("ATTNJIT_LOG", "loud", 1);
  CHECK(fails(attnjit_context_create(&options, &context), ATTNJIT_INVALID_ENVIRONMENT, "loud"));
  CHECK(context == NULL);
  unsetenv("ATTNJIT_LOG");
  options.cache_directory = "";
  options.nvrtc_path = "";
  CHECK(attnjit_context_create(&options, &context) == ATTNJIT_OK);
  attnjit_context_destroy(context);
  unsetenv("XDG_RUNTIME_DIR");
}

static void check_merge(attnjit_context* context) {
  attnjit_merge_lse_args args = ATTNJIT_MERGE_LSE_ARGS_INIT;
  const attnjit_status wrong = ATTNJIT_INVALID_PROBLEM;
  args.parts = forward_args(128).out;
  args.out = args.parts;
  args.part_lses = (const float*)memory;
  CHECK(fails(attnjit_merge_lse(NULL, &args, NULL), ATTNJIT_INVALID_ARGUMENT, "context: is null"));
  CHECK(fails(attnjit_merge_lse(context, &args, NULL), wrong, "num_parts: 0; expected 1"));
  args.num_parts = 2;
  args.carry = &args.parts;
  CHECK(fails(attnjit_merge_lse(context, &args, NULL), wrong, "carry: dtype is"));
  args.struct_size = 8;
  CHECK(
      fails(attnjit_merge_lse(context, &args, NULL), ATTNJIT_INVALID_ARGUMENT, "struct_size is 8"));
}

static void check_prepared_mask(attnjit_context* context) {
  attnjit_prepare_mask_args args = ATTNJIT_PREPARE_MASK_ARGS_INIT;
  attnjit_prepared_mask mask = {NULL, {1, 4, 100, 100}, 0};
  attnjit_forward_args call = forward_args(128);
  size_t bytes = 0;
  args.mask = tensor(1, 2, 100, 128);
  args.mask.dtype = ATTNJIT_BOOL;
  CHECK(attnjit_prepared_mask_size(context, &args, &bytes) == ATTNJIT_OK);
  CHECK(bytes == 2 * (100 * 4 * 4 + 2 * 2));
  args.for_backward = 1;
  CHECK(attnjit_prepared_mask_size(context, &args, &bytes) == ATTNJIT_OK);
  CHECK(bytes == 2 * (100 * 4 * 4 + 128 * 4 * 4 + 2 * 2));
  CHECK(fails(attnjit_prepare_mask(context, &args, NULL, &mask), ATTNJIT_INVALID_PROBLEM,
              "memory: null"));
  call.prepared_mask = &mask;
  CHECK(fails(attnjit_forward(context, &call, NULL, NULL, 0), ATTNJIT_INVALID_PROBLEM,
              "prepared_mask: query axis is 100; expected 1 or 128"));
  call.mask = &args.mask;
  CHECK(fails(attnjit_forward(context, &call, NULL, NULL, 0), ATTNJIT_INVALID_PROBLEM, "mask"));
}

static void check_explanation(attnjit_context* context) {
  attnjit_forward_args call = forward_args(128);
  const char* json = NULL;
  CHECK(attnjit_explain_forward(context, &call, &json) == ATTNJIT_OK);
  CHECK(json != NULL && strstr(json, "\"expected_ms\"") != NULL && strstr(json, "\"lines\"") != NULL);
  CHECK(fails(attnjit_explain_forward(context, &call, NULL), ATTNJIT_INVALID_ARGUMENT,
              "json: is null"));
  call.out.shape[3] = 1;
  CHECK(fails(attnjit_explain_forward(context, &call, &json), ATTNJIT_INVALID_PROBLEM, "out"));
}

static void check_expressions(attnjit_context* context) {
  attnjit_forward_args call = forward_args(128);
  const attnjit_expression *keep = NULL, *same = NULL;
  attnjit_operand operands[2] = {ATTNJIT_OPERAND_INIT, ATTNJIT_OPERAND_INIT};
  const attnjit_status wrong = ATTNJIT_INVALID_PROBLEM;
  CHECK(attnjit_expression_create(context, "doc[b, i] == doc[b, j]", &keep) == ATTNJIT_OK);
  CHECK(attnjit_expression_create(context, "doc[b, i] == doc[b, j]", &same) == ATTNJIT_OK);
  CHECK(keep != NULL && keep == same);
  CHECK(fails(attnjit_expression_create(context, "j @ i", &same), wrong, "  j @ i\n    ^"));
  CHECK(same == NULL);
  CHECK(fails(attnjit_expression_create(context, NULL, &same), ATTNJIT_INVALID_ARGUMENT,
              "text: is null"));
  call.keep = keep;
  CHECK(fails(attnjit_forward(context, &call, NULL, NULL, 0), wrong, "doc is no index"));
  call.operands = operands;
  call.num_operands = 17;
  CHECK(fails(attnjit_forward(context, &call, NULL, NULL, 0), ATTNJIT_INVALID_ARGUMENT,
              "num_operands: 17; expected 0 to 16"));
  call.num_operands = 2;
  operands[0].name = "doc";
  operands[0].rank = 2;
  operands[0].tensor = tensor(1, 128, 1, 1);
  operands[0].tensor.dtype = ATTNJIT_INT32;
  operands[1] = operands[0];
  operands[1].name = "more";
  CHECK(fails(attnjit_forward(context, &call, NULL, NULL, 0), wrong,
              "operand more: no expression reads it"));
  operands[1].struct_size = 8;
  CHECK(fails(attnjit_forward(context, &call, NULL, NULL, 0), ATTNJIT_INVALID_ARGUMENT,
              "operands: struct_size is 8"));
}

static void check_null(attnjit_context* context) {
  const attnjit_forward_args args = forward_args(128);
  size_t bytes = 0;
  const attnjit_status wrong = ATTNJIT_INVALID_ARGUMENT;
  CHECK(fails(attnjit_context_create(NULL, NULL), wrong, "context: is null"));
  CHECK(fails(attnjit_forward(NULL, &args, NULL, NULL, 0), wrong, "context: is null"));
  CHECK(fails(attnjit_forward(context, NULL, NULL, NULL, 0), wrong, "args: is null"));
  CHECK(fails(attnjit_prepare_forward(NULL, &args), wrong, "context: is null"));
  CHECK(fails(attnjit_forward_workspace_size(context, &args, NULL), wrong, "bytes: is null"));
  CHECK(fails(attnjit_forward_workspace_size(NULL, &args, &bytes), wrong, "context: is null"));
  CHECK(fails(attnjit_context_counters(context, NULL), wrong, "counters: is null"));
  CHECK(fails(attnjit_merge_lse(context, NULL, NULL), wrong, "args: is null"));
  CHECK(fails(attnjit_prepare_mask(context, NULL, NULL, NULL), wrong, "prepared_mask: is null"));
  CHECK(fails(attnjit_prepared_mask_size(context, NULL, &bytes), wrong, "args: is null"));
  attnjit_context_destroy(NULL);
}

static void check_struct_size(attnjit_context* context) {
  /* A struct of a later header: ours, and a member that this library does not know. */
  struct {
    attnjit_forward_args args;
    int64_t later;
  } larger;
  attnjit_context_options options = ATTNJIT_CONTEXT_OPTIONS_INIT;
  attnjit_context* none = context;
  memset(&larger, 0, sizeof larger);
  larger.args = forward_args(0);
  larger.args.struct_size = sizeof larger;
  CHECK(attnjit_forward(context, &larger.args, NULL, NULL, 0) == ATTNJIT_OK);
  larger.later = 1;
  CHECK(fails(attnjit_forward(context, &larger.args, NULL, NULL, 0), ATTNJIT_INVALID_ARGUMENT,
              "args: byte 616 is set"));
  /* One of version 0.1, which ends at its window. */
  larger.args.struct_size = offsetof(attnjit_forward_args, softcap);
  larger.args.softcap = -1;
  CHECK(attnjit_forward(context, &larger.args, NULL, NULL, 0) == ATTNJIT_OK);
  larger.args.struct_size = offsetof(attnjit_forward_args, softcap) - 1;
  CHECK(fails(attnjit_forward(context, &larger.args, NULL, NULL, 0), ATTNJIT_INVALID_ARGUMENT,
              "args: struct_size is 407; expected 616"));
  larger.args.struct_size = (size_t)-1;
  CHECK(fails(attnjit_forward(context, &larger.args, NULL, NULL, 0), ATTNJIT_INVALID_ARGUMENT,
              "struct_size"));
  options.struct_size = 0;
  CHECK(fails(attnjit_context_create(&options, &none), ATTNJIT_INVALID_ARGUMENT,
              "options: struct_size is 0; expected 40"));
  CHECK(none == NULL);
}

static void check_counters(attnjit_context* context) {
  struct {
    attnjit_counters counters;
    uint64_t later;
  } larger = {ATTNJIT_COUNTERS_INIT, 7};
  larger.counters.plans = 7;
  CHECK(attnjit_context_counters(context, &larger.counters) == ATTNJIT_OK);
  CHECK(larger.counters.plans == 0 && larger.counters.compiles == 0);
  CHECK(larger.later == 7);
  larger.counters.struct_size = sizeof larger;
  CHECK(attnjit_context_counters(context, &larger.counters) == ATTNJIT_OK);
  CHECK(larger.counters.struct_size == sizeof larger && larger.later == 0);
  /* A program of version 0.1 has no room for what was added later. */
  larger.counters.struct_size = offsetof(attnjit_counters, memory_hits);
  larger.counters.memory_hits = 7;
  CHECK(attnjit_context_counters(context, &larger.counters) == ATTNJIT_OK);
  CHECK(larger.counters.memory_hits == 7);
  larger.counters.struct_size = 8;
  CHECK(fails(attnjit_context_counters(context, &larger.counters), ATTNJIT_INVALID_ARGUMENT,
              "counters: struct_size is 8; expected 96"));
}

/* Each member reaches the validation, which names it. */
static void check_problems(attnjit_context* context) {
  const attnjit_forward_args good = forward_args(128);
  const attnjit_tensor plane = tensor(1, 3, 128, 128);
  attnjit_forward_args args = good;
  size_t bytes = 1;
#define REFUSED(part)                                                                   \
  CHECK(fails(attnjit_prepare_forward(context, &args), ATTNJIT_INVALID_PROBLEM, part)); \
  args = good
  args.q.dtype = 9;
  REFUSED("q: dtype is unknown");
  args.v = tensor(1, 3, 128, 64);
  REFUSED("v: head axis is 3; expected 2");
  args.k.strides[3] = 2;
  REFUSED("k: feature axis has stride 2");
  args.out.strides[0] = args.out.strides[1] = 0;
  REFUSED("out: strides (0, 0, 64, 1)");
  args.mask = &plane;
  REFUSED("mask: dtype is bf16");
  args.bias = &plane;
  REFUSED("bias: head axis is 3");
  args.lse = (float*)(memory + 1);
  REFUSED("lse: address");
  args.seqlens_q = (const int32_t*)(const void*)(memory + 1);
  REFUSED("seqlens_q: address");
  args.seqlens_kv = (const int32_t*)(const void*)(memory + 1);
  REFUSED("seqlens_kv: address");
  args.has_scale = 1;
  args.scale = NAN;
  REFUSED("scale: nan");
  args.causal = 1;
  REFUSED("diagonal: unspecified with causal");
  args.diagonal = 3;
  REFUSED("diagonal: value 3");
  args.has_window = 1;
  args.window_left = -2;
  REFUSED("window: left is -2");
  args.has_window = 1;
  args.window_right = -3;
  REFUSED("window: right is -3");
#undef REFUSED
  /* Without rows nothing is to be done, and no GPU needed. What is not asked for is not read. */
  args = forward_args(0);
  args.scale = NAN;
  args.window_left = -2;
  CHECK(attnjit_forward(context, &args, NULL, NULL, 0) == ATTNJIT_OK);
  CHECK(attnjit_prepare_forward(context, &args) == ATTNJIT_OK);
  CHECK(attnjit_forward_workspace_size(context, &args, &bytes) == ATTNJIT_OK && bytes == 0);
  CHECK(strstr(attnjit_last_error(), "window: right is -3") != NULL); /* the last failure's */
}

int main(void) {
  attnjit_context* context = NULL;
  check_layout();
  check_names();
  check_log();
  context = make_context();
  check_null(context);
  check_merge(context);
  check_prepared_mask(context);
  check_explanation(context);
  check_expressions(context);
  check_struct_size(context);
  check_counters(context);
  check_problems(context);
  check_backward(context);
  attnjit_context_destroy(context);
  printf("%d failures\n", failures);
  return failures == 0 ? 0 : 1;
}
