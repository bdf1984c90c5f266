#include "cuda/library.hpp"

#include <fmt/format.h>

#include <utility>

#include "attnjit/error.hpp"
#include "cuda/stream.hpp"

namespace attnjit::cuda {
namespace {

int attribute(const Driver& driver, CUfunction function, CUfunction_attribute which) {
  int value = 0;
  driver.check(driver.api().func_get_attribute(&value, which, function), "read a kernel attribute");
  return value;
}

// Whether the fault lies in the cubin, and not in the context or the device's memory.
bool is_refusal(CUresult result) {
  switch (result) {
    case CUDA_ERROR_INVALID_IMAGE:
    case CUDA_ERROR_INVALID_SOURCE:
    case CUDA_ERROR_NO_BINARY_FOR_GPU:
    case CUDA_ERROR_NOT_FOUND:
    case CUDA_ERROR_NOT_SUPPORTED:
    case CUDA_ERROR_UNSUPPORTED_PTX_VERSION:
    case CUDA_ERROR_SHARED_OBJECT_SYMBOL_NOT_FOUND:
      return true;
    default:
      return false;
  }
}

CUkernel find_entry(const Library& library, const std::string& name) {
  CUkernel kernel = nullptr;
  const Driver& driver = library.driver();
  const CUresult result = driver.api().library_get_kernel(&kernel, library.handle(), name.c_str());
  if (result == CUDA_ERROR_NOT_FOUND) {
    throw Error(ErrorKind::kInternal, fmt::format("the loaded cubin has no entry '{}'", name));
  }
  driver.check(result, "find the kernel '{}'", name);
  return kernel;
}

void allow_dynamic_shared(const Driver& driver, CUfunction function, const std::string& name,
                          unsigned bytes) {
  const CUresult result = driver.api().func_set_attribute(
      function, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, static_cast<int>(bytes));
  if (result == CUDA_ERROR_INVALID_VALUE) {
    throw Error(ErrorKind::kUnsupported,
                fmt::format("the current device refuses {} bytes of dynamic shared memory per "
                            "block, which the kernel '{}' needs",
                            bytes, name));
  }
  driver.check(result, "set the shared memory of the kernel '{}'", name);
}

}  // namespace

Library::Library(const Driver& driver, std::vector<std::byte> cubin, CUlibrary handle)
    : driver_(&driver), cubin_(std::move(cubin)), handle_(handle) {}

Library::~Library() {
  if (handle_ != nullptr) driver_->api().library_unload(handle_);
}

Library::Library(Library&& other) noexcept
    : driver_(other.driver_),
      cubin_(std::move(other.cubin_)),
      handle_(std::exchange(other.handle_, nullptr)) {}

LoadResult load_library(const Driver& driver, std::vector<std::byte> cubin,
                        const std::string& entry) {
  const RelaxedCapture relaxed(driver);
  const DriverApi& api = driver.api();
  CUlibrary handle = nullptr;
  CUresult result =
      api.library_load_data(&handle, cubin.data(), nullptr, nullptr, 0, nullptr, nullptr, 0);
  std::unique_ptr<Library> library;
  if (result == CUDA_SUCCESS) {
    library = std::make_unique<Library>(driver, std::move(cubin), handle);
    CUkernel kernel = nullptr;
    result = api.library_get_kernel(&kernel, handle, entry.c_str());
    // Under lazy loading, it is this call that looks at the code.
    CUfunction function = nullptr;
    if (result == CUDA_SUCCESS) result = api.kernel_get_function(&function, kernel);
  }
  if (is_refusal(result)) return {nullptr, driver.describe(result)};
  driver.check(result, "load the kernel '{}'", entry);
  return {std::move(library), ""};
}

Kernel::Kernel(const Library& library, const std::string& name, unsigned dynamic_shared_bytes) {
  const Driver& driver = library.driver();
  // Under lazy loading, this call copies the code to the device.
  const RelaxedCapture relaxed(driver);
  const CUkernel kernel = find_entry(library, name);
  driver.check(driver.api().kernel_get_function(&function_, kernel),
               "load the kernel '{}' into the current context", name);
  allow_dynamic_shared(driver, function_, name, dynamic_shared_bytes);
  const auto read = [&](CUfunction_attribute which) { return attribute(driver, function_, which); };
  attributes_.registers = read(CU_FUNC_ATTRIBUTE_NUM_REGS);
  attributes_.local_bytes = read(CU_FUNC_ATTRIBUTE_LOCAL_SIZE_BYTES);
  attributes_.static_shared_bytes = read(CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES);
  attributes_.max_threads_per_block = read(CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK);
}

}  // namespace attnjit::cuda
