/* Causal attention from C on the CUDA runtime: 32 query heads share 8 key/value heads. */
#include <attnjit.h>
#include <cuda_runtime_api.h>
#include <stdio.h>
#include <stdlib.h>

enum { kLength = 1024, kHeadDim = 128, kHeadsQ = 32, kHeadsKv = 8 };

/* A dense [1, heads, kLength, kHeadDim] bf16 tensor on the device, with values in [1, 2). */
static attnjit_tensor make_tensor(int64_t heads, unsigned step) {
  const int64_t plane = kLength * kHeadDim;
  const attnjit_tensor shape = {
      NULL, ATTNJIT_BFLOAT16, {1, heads, kLength, kHeadDim}, {heads * plane, plane, kHeadDim, 1}};
  attnjit_tensor tensor = shape;
  const size_t count = (size_t)(heads * plane);
  uint16_t* host = malloc(count * sizeof *host);
  if (host == NULL || cudaMalloc(&tensor.data, count * sizeof *host) != cudaSuccess) {
    fprintf(stderr, "out of memory\n");
    exit(1);
  }
  for (size_t i = 0; i < count; ++i) host[i] = (uint16_t)(0x3f80 + i * step % 128);
  cudaMemcpy(tensor.data, host, count * sizeof *host, cudaMemcpyHostToDevice);
  free(host);
  return tensor;
}

static uint64_t checksum(const attnjit_tensor* tensor) {
  const size_t count = (size_t)(kHeadsQ * kLength * kHeadDim);
  uint16_t* host = malloc(count * sizeof *host);
  uint64_t sum = 0;
  if (host == NULL) return 0;
  cudaMemcpy(host, tensor->data, count * sizeof *host, cudaMemcpyDeviceToHost);
  for (size_t i = 0; i < count; ++i) sum = sum * 31 + host[i];
  free(host);
  return sum;
}

int main(void) {
  int devices = 0;
  if (cudaGetDeviceCount(&devices) != cudaSuccess || devices == 0) {
    puts("no CUDA device here: nothing to run");
    return 0;
  }
  attnjit_forward_args args = ATTNJIT_FORWARD_ARGS_INIT;
  args.q = make_tensor(kHeadsQ, 7);
  args.k = make_tensor(kHeadsKv, 11);
  args.v = make_tensor(kHeadsKv, 13);
  args.out = make_tensor(kHeadsQ, 0);
  args.causal = 1;
  args.diagonal = ATTNJIT_DIAGONAL_BOTTOM_RIGHT;

  attnjit_context* context = NULL; /* one per process */
  attnjit_status status = attnjit_context_create(NULL, &context);
  /* On the default stream; the first call compiles the kernel. */
  if (status == ATTNJIT_OK) status = attnjit_forward(context, &args, NULL, NULL, 0);
  if (status == ATTNJIT_OK) {
    printf("checksum %016llx\n", (unsigned long long)checksum(&args.out));
  } else {
    fprintf(stderr, "%s: %s\n", attnjit_status_name(status), attnjit_last_error());
  }
  attnjit_context_destroy(context);
  return status == ATTNJIT_OK ? 0 : 1;
}
