#include "cuda/launch.hpp"

namespace attnjit::cuda {

void launch(const Driver& driver, CUfunction function, const LaunchShape& shape, CUstream stream,
            void** params) {
  CUlaunchConfig config{};
  config.gridDimX = shape.grid[0];
  config.gridDimY = shape.grid[1];
  config.gridDimZ = shape.grid[2];
  config.blockDimX = shape.block;
  config.blockDimY = 1;
  config.blockDimZ = 1;
  config.sharedMemBytes = shape.shared_bytes;
  config.hStream = stream;
  CUlaunchAttribute overlap{};
  overlap.id = CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION;
  overlap.value.programmaticStreamSerializationAllowed = 1;
  config.attrs = &overlap;
  config.numAttrs = shape.overlaps ? 1 : 0;
  driver.check(driver.api().launch_kernel_ex(&config, function, params, nullptr),
               "launch a kernel");
}

}  // namespace attnjit::cuda
