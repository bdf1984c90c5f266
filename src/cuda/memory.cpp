#include "cuda/memory.hpp"

#include <algorithm>
#include <utility>

#include "cuda/stream.hpp"

namespace attnjit::cuda {
namespace {

CUdeviceptr address(const void* pointer) { return reinterpret_cast<CUdeviceptr>(pointer); }

}  // namespace

DeviceBuffer::DeviceBuffer(const Driver& driver, std::size_t bytes)
    : driver_(&driver), bytes_(bytes) {
  if (bytes == 0) return;
  driver.check(driver.api().mem_alloc(&pointer_, bytes), "allocate {} bytes of device memory",
               bytes);
}

DeviceBuffer::~DeviceBuffer() {
  if (pointer_ != 0) driver_->api().mem_free(pointer_);
}

DeviceBuffer::DeviceBuffer(DeviceBuffer&& other) noexcept
    : driver_(other.driver_),
      pointer_(std::exchange(other.pointer_, 0)),
      bytes_(std::exchange(other.bytes_, 0)) {}

StreamBuffer::StreamBuffer(const Driver& driver, std::size_t bytes, CUstream stream)
    : driver_(&driver), stream_(stream), bytes_(bytes) {
  if (bytes == 0) return;
  const RelaxedCapture relaxed(driver);
  driver.check(driver.api().mem_alloc_async(&pointer_, bytes, stream),
               "allocate {} bytes of device memory on a stream", bytes);
}

StreamBuffer::~StreamBuffer() {
  if (pointer_ == 0) return;
  const RelaxedCapture relaxed(*driver_);
  driver_->api().mem_free_async(pointer_, stream_);
}

StreamBuffer::StreamBuffer(StreamBuffer&& other) noexcept
    : driver_(other.driver_),
      stream_(other.stream_),
      pointer_(std::exchange(other.pointer_, 0)),
      bytes_(std::exchange(other.bytes_, 0)) {}

void copy_to_device(const Driver& driver, void* device, const void* host, std::size_t bytes,
                    CUstream stream) {
  if (bytes == 0) return;
  driver.check(driver.api().memcpy_htod_async(address(device), host, bytes, stream),
               "copy {} bytes to the device", bytes);
  driver.check(driver.api().stream_synchronize(stream), "finish a copy to the device");
}

void copy_to_host(const Driver& driver, void* host, const void* device, std::size_t bytes,
                  CUstream stream) {
  if (bytes == 0) return;
  driver.check(driver.api().memcpy_dtoh_async(host, address(device), bytes, stream),
               "copy {} bytes from the device", bytes);
  driver.check(driver.api().stream_synchronize(stream), "finish a copy from the device");
}

void repeat_on_device(const Driver& driver, void* device, std::size_t period, std::size_t bytes,
                      CUstream stream) {
  // Each copy doubles the part that is filled.
  for (std::size_t done = period; done < bytes;) {
    const std::size_t size = std::min(done, bytes - done);
    driver.check(
        driver.api().memcpy_dtod_async(address(device) + done, address(device), size, stream),
        "copy {} bytes on the device", size);
    done += size;
  }
}

void fill_bytes(const Driver& driver, void* device, std::uint8_t value, std::size_t bytes,
                CUstream stream) {
  if (bytes == 0) return;
  driver.check(driver.api().memset_d8_async(address(device), value, bytes, stream),
               "fill {} bytes of device memory", bytes);
}

bool is_device_pointer(const Driver& driver, const void* pointer) {
  // The driver refuses a pointer that it does not know. For registered host memory it may answer
  // with another address, and then `pointer` itself is of no use to a kernel.
  CUdeviceptr on_device = 0;
  const CUresult result = driver.api().pointer_get_attribute(
      &on_device, CU_POINTER_ATTRIBUTE_DEVICE_POINTER, address(pointer));
  return result == CUDA_SUCCESS && on_device != 0 && on_device == address(pointer);
}

}  // namespace attnjit::cuda
