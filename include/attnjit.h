#ifndef ATTNJIT_H
#define ATTNJIT_H
/*
 * The C API of attnjit. It wraps the C++ API (attnjit/attnjit.hpp) and computes the same;
 * docs/reference/semantics.md is the contract and docs/guide/c-api.md shows a use.
 *
 * Every function that can fail returns a status; attnjit_last_error() then has the message.
 *
 * Every struct that a later version may extend begins with its size, which its _INIT macro sets.
 * A struct of an older header is taken: what it lacks counts as zero, and zero is every member's
 * default. One of a newer header is taken if all that this library does not know is zero.
 */
#include <stddef.h>
#include <stdint.h>

#include "attnjit/export.h"

#ifdef __cplusplus
extern "C" {
#endif

/* The numbers never change their meaning. */
typedef enum attnjit_status {
  ATTNJIT_OK = 0,
  ATTNJIT_INVALID_ARGUMENT = 1, /* a null pointer or a wrong struct_size, found before all else */
  ATTNJIT_INVALID_PROBLEM = 2, /* a tensor or option breaks a rule of docs/reference/semantics.md */
  ATTNJIT_INVALID_ENVIRONMENT = 3, /* a variable or file holds a value outside its list */
  ATTNJIT_UNSUPPORTED = 4,         /* an architecture or feature that this build cannot serve */
  ATTNJIT_NO_COMPILER = 5,         /* NVRTC is missing or unusable */
  ATTNJIT_COMPILE_FAILED = 6,      /* NVRTC refused a generated kernel; the message holds the log */
  ATTNJIT_NO_DEVICE = 7,           /* no libcuda, no GPU, or no CUDA context is current */
  ATTNJIT_CUDA_FAILED = 8,         /* a CUDA driver call failed */
  ATTNJIT_CACHE_FAILED = 9,        /* a cache cannot be used as asked, or lacks what is required */
  ATTNJIT_INTERNAL = 10            /* a bug of this library, or no host memory left */
} attnjit_status;

/* Values of attnjit_tensor.dtype. */
enum {
  ATTNJIT_FLOAT16 = 0,
  ATTNJIT_BFLOAT16 = 1,
  ATTNJIT_FLOAT32 = 2,
  ATTNJIT_BOOL = 3,  /* one byte per element, zero = false */
  ATTNJIT_INT32 = 4, /* of operands of expressions, lists of blocks and key indices */
  ATTNJIT_INT64 = 5  /* of key indices */
};

/* Values of attnjit_forward_args.diagonal: where that of a causal mask or a window starts. */
enum {
  ATTNJIT_DIAGONAL_UNSPECIFIED = 0, /* an error if there is a causal mask or a window */
  ATTNJIT_DIAGONAL_TOP_LEFT = 1,
  ATTNJIT_DIAGONAL_BOTTOM_RIGHT = 2
};

/* A view of a 4-D tensor in device memory; it owns nothing. Axes are (batch, head, sequence,
   feature) for q, k, v and out, and (batch, head, query, key) for mask and bias. Strides count
   elements. This struct never grows. */
typedef struct attnjit_tensor {
  void* data;         /* the first element, in device memory */
  int32_t dtype;      /* ATTNJIT_FLOAT16, ... */
  int64_t shape[4];   /* sizes of the axes */
  int64_t strides[4]; /* elements from one index of an axis to the next */
} attnjit_tensor;

/* A mask as attnjit_prepare_mask() has written it into memory of the caller's. It serves calls of
   any head dims and configurations; copies share the memory, which the caller keeps for as long as
   calls or captured graphs read it. */
typedef struct attnjit_prepared_mask {
  const void* data;     /* aligned to 16 bytes */
  int64_t shape[4];     /* planes over the batch, heads, queries, keys; 1 where it is the same */
  int32_t for_backward; /* not 0: has the bits by keys too, which attnjit_backward() reads */
} attnjit_prepared_mask;

/* A formula of scores or a rule of kept keys, in the language of docs/reference/expressions.md.
   attnjit_expression_create() makes it; it is valid as long as the process, and is not freed. */
typedef struct attnjit_expression attnjit_expression;

/* The blocks of keys that each block of rows attends to: lists on the device, which kernels read.
   Block r has the rows from r * block_q on, of a batch element or packed sequence, block c the keys
   from c * block_kv on. A list is a set: order and repetition make no difference. An index outside
   0 ... blocks - 1 names no block, and a count is clamped to 0 ... n. Pairs of a row and a key in
   no listed block are dropped. */
typedef struct attnjit_block_lists {
  size_t struct_size;
  int64_t block_q;  /* rows of a block, 1 or more; multiples of 64 are fast */
  int64_t block_kv; /* keys of a block, the same */
  /* [B|1, Hq|Hkv|1, row blocks, n], int32: the blocks of keys of each block of rows. There are
     ceil(Lq / block_q) blocks of rows; of packed sequences any number, past which rows are
     dropped. */
  attnjit_tensor indices;
  attnjit_tensor counts; /* [B|1, Hq|Hkv|1, row blocks, 1], int32: entries of each list in use */
  /* Both null, or further lists of blocks inside which the keep expression is not looked at. The n
     of their indices may differ. */
  const attnjit_tensor* full_indices;
  const attnjit_tensor* full_counts; /* entries in use of each of those lists */
  /* Blocks of keys; keys past them are dropped. 0: ceil(Lk / block_kv), which of packed sequences
     counts the keys of all; other numbers are for packed sequences. */
  int64_t num_kv_blocks;
} attnjit_block_lists;

/* A tensor that expressions read by its name. */
typedef struct attnjit_operand {
  size_t struct_size;
  const char* name;      /* a word of at most 64 letters, digits and underscores */
  int32_t rank;          /* axes, 0 to 4: the first ones of the tensor; a number has none */
  attnjit_tensor tensor; /* fp32, fp16, bf16, int32 or bool, with any strides */
} attnjit_operand;

/* One attention forward: out = softmax(scale * q k^T + bias, over the kept keys) v. */
typedef struct attnjit_forward_args {
  size_t struct_size;
  attnjit_tensor q;           /* [B, Hq, Lq, D], fp16 or bf16, unit stride over D */
  attnjit_tensor k;           /* [B, Hkv, Lk, D], q's dtype; Hq is a multiple of Hkv */
  attnjit_tensor v;           /* [B, Hkv, Lk, Dv], q's dtype */
  attnjit_tensor out;         /* [B, Hq, Lq, Dv], q's dtype, without overlap */
  const attnjit_tensor* mask; /* null or [n, Hq|Hkv|1, Lq|1, Lk|1], bool, true = keep; B % n == 0 */
  const attnjit_tensor* bias; /* null or the same shapes; q's dtype or fp32 */
  float* lse;                 /* null or [B, Hq, Lq] on the device, natural logarithm */
  const int32_t* seqlens_q;   /* null or [B] on the device: rows in use */
  const int32_t* seqlens_kv;  /* null or [B] on the device: keys in use */
  int32_t has_scale;          /* 0: the scale is 1 / sqrt(D), and `scale` is not read */
  float scale;                /* any finite number */
  int32_t causal;             /* not 0: query i keeps key j only if j <= i + off */
  int32_t diagonal;           /* off = 0 (top left) or Lk - Lq (bottom right) */
  int32_t has_window;         /* 0: no window, and its sides are not read */
  int64_t window_left;        /* keys before i + off that query i keeps; -1 = all */
  int64_t window_right;       /* keys after i + off; -1 = all */
  float softcap;              /* c of c tanh(scale * q k^T / c), before the bias; 0 = none */
  int64_t diagonal_offset;    /* added to off; -2^29 to 2^29 */
  const attnjit_tensor* sink; /* null or [1, Hq, 1, 1], q's dtype or fp32: a score without a key */
  /* Packed sequences, both or none, or the first alone beside a block table: [num_sequences + 1] on
     the device, where sequence b has rows (keys) from cu[b] to before cu[b + 1]. The batch axis of
     q, k, v and out is then 1, lse and row_max are [1, Hq, Tq], and mask and bias are [n, Hq|Hkv|1,
     max rows|1, max keys|1] or [1, Hq|Hkv|1, 1, Tk], where num_sequences % n == 0. Pages stay as
     they are. */
  const int32_t* cu_seqlens_q;
  const int32_t* cu_seqlens_kv; /* of the keys, as cu_seqlens_q */
  int64_t num_sequences;        /* 0 unless sequences are packed */
  /* Null or [B|1, Hq, 1, 1], fp32: -slope * |i + off - j| is added to the scores beside the bias.
     The diagonal must be named if Lq != Lk, lengths are given or sequences are packed. */
  const attnjit_tensor* alibi_slopes;
  float* row_max;    /* null or [B, Hq, Lq] on the device: the largest score of each row; a backward
                        does not touch it */
  float* max_logits; /* null or [Hq] on the device: the largest of each head; a
                        backward does not touch it either */
  /* Null or, of a forward, [B, max_pages] on the device: k and v are then pages, [pages, Hkv, page
     size, D or Dv], where key j of batch element or packed sequence b is row j % page size of page
     block_table[b][j / page size]. Lk is max_pages * page size, and seqlens_kv must be given. What
     lies at or past it is never read, whatever its entries are. */
  const int32_t* block_table;
  int64_t block_table_stride; /* elements from row to row, at least max_pages; 0 without a table */
  int64_t max_pages;          /* 0 without a table */
  /* Null or, of a forward, [B|1, 1, Lq, Lq], bool, true = keep: column t is key n - Lq + t, where n
     is seqlens_kv[b] or Lk. Other keys are not looked at; columns before key 0 are no keys. */
  const attnjit_tensor* tail_mask;
  const attnjit_prepared_mask* prepared_mask; /* null, or in the place of `mask` */
  /* The order in which batch elements have the n planes over the batch of a mask (prepared or not)
     or bias, where n is neither 1 nor B. Each run of `inner` neighbouring elements shares a plane;
     runs take `cycle` planes by turns, r = B / (n * inner) times, then the next ones: element b has
     plane b / (inner * cycle * r) * cycle + (b / inner) % cycle. n * inner divides B, and cycle
     divides n. A dbias of n planes has the order of the bias. */
  int64_t mask_inner; /* 0: B / n, so that no plane comes again */
  int64_t mask_cycle; /* 0: n, so that element b has plane (b / inner) % n */
  int64_t bias_inner; /* as mask_inner, of the bias */
  int64_t bias_cycle; /* as mask_cycle, of the bias */
  /* Null, or a float in place of the scaled score s, before softcap, bias and slopes; null, or a
     bool that is true where a row keeps a key, beside mask, band and lengths. */
  const attnjit_expression* score;
  const attnjit_expression* keep;  /* the bool */
  const attnjit_operand* operands; /* that the expressions name; each of them reads some */
  int64_t num_operands;            /* at most 16 */
  /* The place of q's and k's rows in a whole of which they are a part, as expressions count them:
     added to i and to j, and off to match; -2^29 to 2^29. */
  int64_t row_offset;
  int64_t key_offset;                /* of the keys, as row_offset */
  const attnjit_block_lists* blocks; /* null, or pairs of blocks in no list are dropped */
  /* Null, or [B|1, Hkv|1, 1, W], int32 or int64: the keys that all rows of a kv head may see,
     by their numbers, in any order. Others are not read, and their dk and dv are 0. A key that is
     named m times counts m times; a number outside of the keys in use names none. Causal, window,
     mask, bias, slopes and expressions hold at the key's own number. With neither packed sequences,
     pages, blocks, a prepared mask nor a dbias. */
  const attnjit_tensor* key_indices;
} attnjit_forward_args;

/* The gradients of one attention call by q, k, v and, on request, by the bias and the sinks. The
   outputs overlap neither one another nor an input. */
typedef struct attnjit_backward_args {
  size_t struct_size;
  const attnjit_forward_args* forward; /* the call; out and lse (not null) are inputs here */
  attnjit_tensor dout;                 /* [B, Hq, Lq, Dv], q's dtype, unit stride over Dv */
  const float* dlse;                   /* null or [B, Hq, Lq] on the device */
  attnjit_tensor dq;                   /* [B, Hq, Lq, D], q's dtype, unit stride over D */
  attnjit_tensor dk;                   /* [B, Hkv, Lk, D], q's dtype, unit stride over D */
  attnjit_tensor dv;                   /* [B, Hkv, Lk, Dv], q's dtype, unit stride over Dv */
  int32_t deterministic;               /* not 0: the same inputs give the same bits */
  /* Null, or the gradient of the bias: on each axis full (over batch and heads: as the bias, where
     that has several planes), or 1 where the bias has size 1 or stride 0; its dtype or fp32. */
  const attnjit_tensor* dbias;
  const attnjit_tensor* dsink; /* null, or the gradient of the sinks: [1, Hq, 1, 1] fp32 */
  /* Null, or one for each of forward->operands: its gradient, with its dtype and its sizes on the
     axes that it has. One without data is not wanted. Up to four, of fp32, fp16 or bf16. */
  const attnjit_tensor* operand_gradients;
} attnjit_backward_args;

/* Merges results over shares of the keys into that over all of them:
   lse = log sum_s exp(lse_s), out = sum_s exp(lse_s - lse) out_s, in fp32. A row in which every
   lse_s is -inf gets out = 0 and lse = -inf; what a part holds where its lse_s is -inf is not
   read. */
typedef struct attnjit_merge_lse_args {
  size_t struct_size;
  attnjit_tensor parts;   /* out of the first part: [B, H, L, Dv] of any Dv up to 2^29, fp16, bf16
                             or fp32, unit stride over Dv */
  int64_t part_stride;    /* elements from one part to the next */
  int64_t num_parts;      /* 1 or more */
  const float* part_lses; /* [num_parts, B, H, L] on the device, contiguous */
  /* Null, or one part more, [B, H, L, Dv] fp32 whatever the others are, as a sum that goes on has
     it. It may be `out` and `lse` themselves. */
  const attnjit_tensor* carry;
  const float* carry_lse; /* [B, H, L] on the device; given where carry is */
  attnjit_tensor out; /* [B, H, L, Dv], fp16, bf16 or fp32, unit stride over Dv, without overlap */
  float* lse;         /* null or [B, H, L] on the device */
} attnjit_merge_lse_args;

/* What a prepared mask is made from. */
typedef struct attnjit_prepare_mask_args {
  size_t struct_size;
  attnjit_tensor mask;  /* bool, true = keep: [n, heads, queries|1, keys], of 2 keys or more */
  int32_t for_backward; /* not 0: attnjit_backward() is to take it */
  void* memory;         /* attnjit_prepared_mask_size() bytes on the device, aligned to 16 */
} attnjit_prepare_mask_args;

/* Settings that take the place of environment variables (docs/reference/environment.md lists them);
   an empty one is none, as there. */
typedef struct attnjit_context_options {
  size_t struct_size;
  const char* cache_directory; /* null or ATTNJIT_CACHE_DIR; "0" keeps kernels in memory */
  const char* nvrtc_path;      /* null or ATTNJIT_NVRTC */
  /* Receives warnings and notes, in their order and one call at a time; null: stderr. A line comes
     before the call that caused it returns, or, while another thread is in this function, from that
     thread. It must not throw. It may call the context and wait for threads that do; a line that it
     causes on its own thread is dropped. */
  void (*log)(void* log_data, const char* message);
  void* log_data; /* the first argument of `log` */
} attnjit_context_options;

/* What a context did so far. */
typedef struct attnjit_counters {
  size_t struct_size;
  uint64_t plans;           /* plans made; a call that needs no new one is a look-up */
  uint64_t compiles;        /* kernels that NVRTC compiled */
  uint64_t disk_hits;       /* kernels read from the cache directory */
  uint64_t corrupt;         /* damaged cache files and members of bundles, ignored */
  uint64_t write_failures;  /* kernels that could not be kept on disk */
  uint64_t tunes;           /* problems that were tuned */
  uint64_t timing_launches; /* launches for their time; 0 under DISABLE_AUTOTUNE */
  uint64_t record_hits;     /* plans whose configuration came from a kept tuning record */
  uint64_t memory_hits;     /* kernels that this process had already */
  uint64_t bundle_hits;     /* kernels read from a bundle */
  uint64_t lock_timeouts;   /* kernels that another process was given up on building */
} attnjit_counters;

#define ATTNJIT_FORWARD_ARGS_INIT \
  { .struct_size = sizeof(attnjit_forward_args) }
#define ATTNJIT_BACKWARD_ARGS_INIT \
  { .struct_size = sizeof(attnjit_backward_args) }
#define ATTNJIT_MERGE_LSE_ARGS_INIT \
  { .struct_size = sizeof(attnjit_merge_lse_args) }
#define ATTNJIT_PREPARE_MASK_ARGS_INIT \
  { .struct_size = sizeof(attnjit_prepare_mask_args) }
#define ATTNJIT_BLOCK_LISTS_INIT \
  { .struct_size = sizeof(attnjit_block_lists) }
#define ATTNJIT_OPERAND_INIT \
  { .struct_size = sizeof(attnjit_operand) }
#define ATTNJIT_CONTEXT_OPTIONS_INIT \
  { .struct_size = sizeof(attnjit_context_options) }
#define ATTNJIT_COUNTERS_INIT \
  { .struct_size = sizeof(attnjit_counters) }

/* Everything that attention calls share: compiler, cache and plans. Thread-safe; one per process is
   enough. Calls run in the CUDA context that is current on the calling thread. */
typedef struct attnjit_context attnjit_context;

/* CUstream of the driver API and cudaStream_t of the runtime are pointers to this. */
struct CUstream_st;

/* The version of the library, e.g. "0.2.0". */
ATTNJIT_EXPORT const char* attnjit_version(void);

/* An attnjit_status in words, e.g. "invalid problem"; "unknown status" for any other number. */
ATTNJIT_EXPORT const char* attnjit_status_name(int status);

/* What the last call that failed on this thread said: what, where and what to do. "" if none has.
   The text stays until the next failure on this thread. */
ATTNJIT_EXPORT const char* attnjit_last_error(void);

/* Makes a context; reads the environment, and loads neither libcuda nor NVRTC. `options` may be
   null. */
ATTNJIT_EXPORT attnjit_status attnjit_context_create(const attnjit_context_options* options,
                                                     attnjit_context** context);

/* Null is allowed. Destroy it before the CUDA context; captured graphs must not outlive it. */
ATTNJIT_EXPORT void attnjit_context_destroy(attnjit_context* context);

/* Fills in `counters`, whose struct_size the caller has set. */
ATTNJIT_EXPORT attnjit_status attnjit_context_counters(const attnjit_context* context,
                                                       attnjit_counters* counters);

/* The handle of a text in the language of docs/reference/expressions.md, for the members score and
   keep of calls. Make it once: a call then compares a pointer. Names and types are checked in the
   first call, where operands are known. */
ATTNJIT_EXPORT attnjit_status attnjit_expression_create(const attnjit_context* context,
                                                        const char* text,
                                                        const attnjit_expression** expression);

/* Enqueues one forward on `stream`. The first call of a kind compiles and tunes its kernels.
   `workspace` may be null: the call then takes what it needs from the stream-ordered allocator.
   Otherwise it is device memory aligned to 256 bytes, at least attnjit_forward_workspace_size() of
   it, that calls which overlap in time do not share. */
ATTNJIT_EXPORT attnjit_status attnjit_forward(attnjit_context* context,
                                              const attnjit_forward_args* args,
                                              struct CUstream_st* stream, void* workspace,
                                              size_t workspace_bytes);

/* Does all that a first attnjit_forward() would do but the launch. Prepare a call before it is
   captured in a CUDA graph: captures tune nothing. */
ATTNJIT_EXPORT attnjit_status attnjit_prepare_forward(attnjit_context* context,
                                                      const attnjit_forward_args* args);

/* Bytes of workspace that suffice for attnjit_forward() with these arguments; 0 for most problems.
   Tunes nothing: until the problem is tuned, what suffices for each configuration that may win. */
ATTNJIT_EXPORT attnjit_status attnjit_forward_workspace_size(attnjit_context* context,
                                                             const attnjit_forward_args* args,
                                                             size_t* bytes);

/* Enqueues the gradients of one call on `stream`; otherwise as attnjit_forward(). It needs the out
   and lse that attnjit_forward() wrote. */
ATTNJIT_EXPORT attnjit_status attnjit_backward(attnjit_context* context,
                                               const attnjit_backward_args* args,
                                               struct CUstream_st* stream, void* workspace,
                                               size_t workspace_bytes);

/* As attnjit_prepare_forward(). */
ATTNJIT_EXPORT attnjit_status attnjit_prepare_backward(attnjit_context* context,
                                                       const attnjit_backward_args* args);

/* As attnjit_forward_workspace_size(), for attnjit_backward(). */
ATTNJIT_EXPORT attnjit_status attnjit_backward_workspace_size(attnjit_context* context,
                                                              const attnjit_backward_args* args,
                                                              size_t* bytes);

/* Enqueues the merge of partial results on `stream`; it needs no workspace, and its kernel, one per
   dtypes and Dv, is not tuned. */
ATTNJIT_EXPORT attnjit_status attnjit_merge_lse(attnjit_context* context,
                                                const attnjit_merge_lse_args* args,
                                                struct CUstream_st* stream);

/* Bytes that a prepared mask takes: about an eighth of the mask's elements, twice that for a
   backward. Of `args` the shape, strides and for_backward are read. */
ATTNJIT_EXPORT attnjit_status attnjit_prepared_mask_size(attnjit_context* context,
                                                         const attnjit_prepare_mask_args* args,
                                                         size_t* bytes);

/* Enqueues the preparation of a mask on `stream` and tells what it will be, for the member
   prepared_mask of calls that follow. It may be captured in a graph; its kernel is not tuned. */
ATTNJIT_EXPORT attnjit_status attnjit_prepare_mask(attnjit_context* context,
                                                   const attnjit_prepare_mask_args* args,
                                                   struct CUstream_st* stream,
                                                   attnjit_prepared_mask* prepared_mask);

/* Why a call takes as long as it does, without running it: one JSON object, as Context::explain()
   of the C++ API has it (docs/guide/explain.md). It stays until the next explanation on this
   thread. */
ATTNJIT_EXPORT attnjit_status attnjit_explain_forward(attnjit_context* context,
                                                      const attnjit_forward_args* args,
                                                      const char** json);
ATTNJIT_EXPORT attnjit_status attnjit_explain_backward(attnjit_context* context,
                                                       const attnjit_backward_args* args,
                                                       const char** json);

#ifdef __cplusplus
} /* extern "C" */
#endif
#endif /* ATTNJIT_H */
