/* Takes the place of libattnjit under the Python module: a pass fails with a text of all that it
   got, so that a test sees it, unless its scale is 0. Workspaces are as large as scale says. */
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "attnjit.h"

static char text[4096];
static size_t length;

static void add(const char* format, ...) {
  va_list values;
  va_start(values, format);
  length += (size_t)vsnprintf(text + length, sizeof text - length, format, values);
  va_end(values);
}

static void add_tensor(const char* name, const attnjit_tensor* t) {
  if (t == NULL) return;
  add("%s=%p:%d", name, t->data, t->dtype);
  for (int i = 0; i < 4; ++i) add(",%lld/%lld", (long long)t->shape[i], (long long)t->strides[i]);
  add(" ");
}

static void add_forward(const attnjit_forward_args* a) {
  add_tensor("q", &a->q);
  add_tensor("k", &a->k);
  add_tensor("v", &a->v);
  add_tensor("out", &a->out);
  add_tensor("mask", a->mask);
  add_tensor("bias", a->bias);
  add_tensor("sink", a->sink);
  add_tensor("slopes", a->alibi_slopes);
  add_tensor("tail", a->tail_mask);
  if (a->block_table != NULL) {
    add("pages=%p,%lld,%lld ", (const void*)a->block_table, (long long)a->block_table_stride,
        (long long)a->max_pages);
  }
  add("lse=%p seqlens=%p,%p cu_seqlens=%p,%p,%lld ", (void*)a->lse, (const void*)a->seqlens_q,
      (const void*)a->seqlens_kv, (const void*)a->cu_seqlens_q, (const void*)a->cu_seqlens_kv,
      (long long)a->num_sequences);
  add("scale=%d:%g ", a->has_scale, (double)a->scale);
  add("causal=%d diagonal=%d window=%d:%lld,%lld ", a->causal, a->diagonal, a->has_window,
      (long long)a->window_left, (long long)a->window_right);
  add("softcap=%g offset=%lld ", (double)a->softcap, (long long)a->diagonal_offset);
  if (a->row_max != NULL) add("row_max=%p ", (void*)a->row_max);
  if (a->max_logits != NULL) add("max_logits=%p ", (void*)a->max_logits);
  if (a->mask_inner != 0 || a->bias_inner != 0) {
    add("orders=%lld,%lld,%lld,%lld ", (long long)a->mask_inner, (long long)a->mask_cycle,
        (long long)a->bias_inner, (long long)a->bias_cycle);
  }
  if (a->blocks != NULL) {
    const attnjit_block_lists* const b = a->blocks;
    add("blocks=%lld,%lld,%lld ", (long long)b->block_q, (long long)b->block_kv,
        (long long)b->num_kv_blocks);
    add_tensor("listed", &b->indices);
    add_tensor("counts", &b->counts);
    add_tensor("full", b->full_indices);
    add_tensor("full_counts", b->full_counts);
  }
  if (a->score != NULL) add("score=%s ", (const char*)a->score);
  if (a->keep != NULL) add("keep=%s ", (const char*)a->keep);
  for (int64_t n = 0; n < a->num_operands; ++n) {
    add("rank=%d ", a->operands[n].rank);
    add_tensor(a->operands[n].name, &a->operands[n].tensor);
  }
  if (a->prepared_mask != NULL) {
    const int64_t* const shape = a->prepared_mask->shape;
    add("prepared=%p:%lld,%lld,%lld,%lld:%d ", a->prepared_mask->data, (long long)shape[0],
        (long long)shape[1], (long long)shape[2], (long long)shape[3],
        a->prepared_mask->for_backward);
  }
}

static attnjit_status finish(const attnjit_forward_args* a, struct CUstream_st* stream,
                             void* workspace, size_t bytes) {
  add("stream=%p workspace=%p:%zu", (void*)stream, workspace, bytes);
  return a->has_scale && a->scale == 0 ? ATTNJIT_OK : ATTNJIT_INVALID_PROBLEM;
}

const char* attnjit_version(void) { return "stub"; }
const char* attnjit_status_name(int status) {
  return status == ATTNJIT_NO_DEVICE ? "no device" : "?";
}
const char* attnjit_last_error(void) { return text; }

attnjit_status attnjit_context_create(const attnjit_context_options* options,
                                      attnjit_context** context) {
  static int anything;
  *context = (attnjit_context*)(void*)&anything;
  if (options->nvrtc_path == NULL) return ATTNJIT_OK;
  snprintf(text, sizeof text, "nvrtc=%s", options->nvrtc_path);
  return ATTNJIT_NO_DEVICE;
}

void attnjit_context_destroy(attnjit_context* context) { (void)context; }

attnjit_status attnjit_context_counters(const attnjit_context* context,
                                        attnjit_counters* counters) {
  (void)context;
  counters->plans = 1;
  counters->lock_timeouts = 11;
  return ATTNJIT_OK;
}

attnjit_status attnjit_expression_create(const attnjit_context* context,
                                         const char* expression_text,
                                         const attnjit_expression** expression) {
  (void)context;
  *expression = (const attnjit_expression*)(const void*)strdup(expression_text);
  return ATTNJIT_OK;
}

attnjit_status attnjit_forward_workspace_size(attnjit_context* context,
                                              const attnjit_forward_args* args, size_t* bytes) {
  (void)context;
  *bytes = (size_t)args->scale;
  return ATTNJIT_OK;
}

attnjit_status attnjit_backward_workspace_size(attnjit_context* context,
                                               const attnjit_backward_args* args, size_t* bytes) {
  return attnjit_forward_workspace_size(context, args->forward, bytes);
}

attnjit_status attnjit_forward(attnjit_context* context, const attnjit_forward_args* args,
                               struct CUstream_st* stream, void* workspace, size_t bytes) {
  (void)context;
  length = 0;
  add_forward(args);
  return finish(args, stream, workspace, bytes);
}

attnjit_status attnjit_backward(attnjit_context* context, const attnjit_backward_args* args,
                                struct CUstream_st* stream, void* workspace, size_t bytes) {
  (void)context;
  length = 0;
  add_forward(args->forward);
  add_tensor("dout", &args->dout);
  add_tensor("dq", &args->dq);
  add_tensor("dk", &args->dk);
  add_tensor("dv", &args->dv);
  add_tensor("dbias", args->dbias);
  add_tensor("dsink", args->dsink);
  for (int64_t n = 0; args->operand_gradients && n < args->forward->num_operands; ++n) {
    if (args->operand_gradients[n].data == NULL) continue;
    add("d");
    add_tensor(args->forward->operands[n].name, &args->operand_gradients[n]);
  }
  add("dlse=%p deterministic=%d ", (const void*)args->dlse, args->deterministic);
  return finish(args->forward, stream, workspace, bytes);
}

attnjit_status attnjit_explain_forward(attnjit_context* context, const attnjit_forward_args* args,
                                       const char** json) {
  (void)context;
  (void)args;
  *json = "{}";
  return ATTNJIT_OK;
}

attnjit_status attnjit_explain_backward(attnjit_context* context, const attnjit_backward_args* args,
                                        const char** json) {
  (void)context;
  (void)args;
  *json = "{}";
  return ATTNJIT_OK;
}

attnjit_status attnjit_merge_lse(attnjit_context* context, const attnjit_merge_lse_args* args,
                                 struct CUstream_st* stream) {
  (void)context;
  length = 0;
  add_tensor("parts", &args->parts);
  add_tensor("carry", args->carry);
  add_tensor("out", &args->out);
  add("part_stride=%lld num_parts=%lld lses=%p,%p,%p stream=%p", (long long)args->part_stride,
      (long long)args->num_parts, (const void*)args->part_lses, (const void*)args->carry_lse,
      (void*)args->lse, (void*)stream);
  return ATTNJIT_INVALID_PROBLEM;
}

attnjit_status attnjit_prepared_mask_size(attnjit_context* context,
                                          const attnjit_prepare_mask_args* args, size_t* bytes) {
  (void)context;
  *bytes = (size_t)args->mask.shape[3];
  return ATTNJIT_OK;
}

attnjit_status attnjit_prepare_mask(attnjit_context* context, const attnjit_prepare_mask_args* args,
                                    struct CUstream_st* stream,
                                    attnjit_prepared_mask* prepared_mask) {
  (void)context;
  (void)prepared_mask;
  length = 0;
  add_tensor("mask", &args->mask);
  add("for_backward=%d memory=%p stream=%p", args->for_backward, args->memory, (void*)stream);
  return ATTNJIT_INVALID_PROBLEM;
}
