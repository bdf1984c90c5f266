/* The backward of the C API, as runtime_c_api_test.c has the rest. */
#include "unit/c_api_fixtures.h"

/* Gradients of the call in `forward`, which must outlive it. */
static attnjit_backward_args backward_args(attnjit_forward_args* forward) {
  attnjit_backward_args args = ATTNJIT_BACKWARD_ARGS_INIT;
  forward->lse = (float*)memory;
  args.forward = forward;
  args.dout = forward->out;
  args.dq = forward->q;
  args.dk = forward->k;
  args.dv = forward->v;
  return args;
}

static void check_layout(void) {
  CHECK(sizeof(attnjit_backward_args) == 376);
  CHECK(offsetof(attnjit_backward_args, dout) == 16);
  CHECK(offsetof(attnjit_backward_args, dlse) == 96);
  CHECK(offsetof(attnjit_backward_args, deterministic) == 344);
  CHECK(offsetof(attnjit_backward_args, dbias) == 352);
  CHECK(offsetof(attnjit_backward_args, dsink) == 360);
  CHECK(offsetof(attnjit_backward_args, operand_gradients) == 368);
}

static void check_arguments(attnjit_context* context) {
  const attnjit_status wrong = ATTNJIT_INVALID_ARGUMENT;
  attnjit_forward_args forward = forward_args(128);
  attnjit_backward_args args = backward_args(&forward);
  size_t bytes = 0;
  CHECK(fails(attnjit_backward(NULL, &args, NULL, NULL, 0), wrong, "context: is null"));
  CHECK(fails(attnjit_backward(context, NULL, NULL, NULL, 0), wrong, "args: is null"));
  CHECK(fails(attnjit_prepare_backward(context, NULL), wrong, "args: is null"));
  CHECK(fails(attnjit_backward_workspace_size(context, &args, NULL), wrong, "bytes: is null"));
  CHECK(fails(attnjit_backward_workspace_size(NULL, &args, &bytes), wrong, "context: is null"));
  args.forward = NULL;
  CHECK(fails(attnjit_prepare_backward(context, &args), wrong, "forward: is null"));
  args.forward = &forward;
  forward.struct_size = 0;
  CHECK(fails(attnjit_prepare_backward(context, &args), wrong,
              "forward: struct_size is 0; expected 616"));
  args.struct_size = offsetof(attnjit_backward_args, dbias) - 1;
  CHECK(fails(attnjit_prepare_backward(context, &args), wrong,
              "args: struct_size is 351; expected 376"));
}

/* Each member reaches the validation, which names it. */
static void check_problems(attnjit_context* context) {
  const attnjit_tensor plane = tensor(1, 4, 128, 128);
  attnjit_forward_args forward = forward_args(128);
  const attnjit_backward_args good = backward_args(&forward);
  attnjit_backward_args args = good;
#define REFUSED(part)                                                                    \
  CHECK(fails(attnjit_prepare_backward(context, &args), ATTNJIT_INVALID_PROBLEM, part)); \
  args = good
  args.dout = tensor(1, 4, 127, 64);
  REFUSED("dout: sequence axis is 127; expected 128 (as out)");
  args.dlse = (const float*)(const void*)(memory + 1);
  REFUSED("dlse: address");
  args.dq.dtype = ATTNJIT_FLOAT16;
  REFUSED("dq: dtype is fp16; expected bf16");
  args.dk = tensor(1, 4, 128, 64);
  REFUSED("dk: head axis is 4; expected 2 (as k)");
  args.dv.strides[0] = args.dv.strides[1] = 0;
  REFUSED("dv: strides (0, 0, 64, 1)");
  args.dbias = &plane;
  REFUSED("dbias: the call has no bias");
  forward.bias = &plane;
  forward.lse = NULL;
  REFUSED("lse: null");
#undef REFUSED
}

void check_backward(attnjit_context* context) {
  attnjit_forward_args forward = forward_args(0);
  attnjit_backward_args args = backward_args(&forward);
  size_t bytes = 1;
  check_layout();
  check_arguments(context);
  check_problems(context);
  /* Without rows and keys nothing is to be done, and no GPU needed. */
  forward.k = forward.v = args.dk = args.dv = tensor(1, 2, 0, 64);
  args.deterministic = 1;
  CHECK(attnjit_backward(context, &args, NULL, NULL, 0) == ATTNJIT_OK);
  CHECK(attnjit_prepare_backward(context, &args) == ATTNJIT_OK);
  CHECK(attnjit_backward_workspace_size(context, &args, &bytes) == ATTNJIT_OK && bytes == 0);
}
