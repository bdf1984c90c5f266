#pragma once
#include <cstddef>
#include <cstdint>

#include "cuda/driver.hpp"

namespace attnjit::cuda {

/// Device memory of the current context, freed on destruction. Zero bytes allocate nothing.
class DeviceBuffer {
 public:
  DeviceBuffer(const Driver& driver, std::size_t bytes);
  ~DeviceBuffer();
  DeviceBuffer(DeviceBuffer&& other) noexcept;
  DeviceBuffer& operator=(DeviceBuffer&&) = delete;

  void* data() const { return reinterpret_cast<void*>(pointer_); }
  std::size_t bytes() const { return bytes_; }

 private:
  const Driver* driver_;
  CUdeviceptr pointer_ = 0;
  std::size_t bytes_;
};

/// Memory that exists between its allocation and its release in the order of `stream`: work
/// enqueued there before destruction may still use it. Legal while that stream or another one is
/// captured.
class StreamBuffer {
 public:
  StreamBuffer(const Driver& driver, std::size_t bytes, CUstream stream);
  ~StreamBuffer();
  StreamBuffer(StreamBuffer&& other) noexcept;
  StreamBuffer& operator=(StreamBuffer&&) = delete;

  void* data() const { return reinterpret_cast<void*>(pointer_); }
  std::size_t bytes() const { return bytes_; }

 private:
  const Driver* driver_;
  CUstream stream_;
  CUdeviceptr pointer_ = 0;
  std::size_t bytes_;
};

/// Copies from host memory; done on return, in the order of `stream`.
void copy_to_device(const Driver& driver, void* device, const void* host, std::size_t bytes,
                    CUstream stream = nullptr);

/// Copies to host memory; done on return, in the order of `stream`.
void copy_to_host(const Driver& driver, void* host, const void* device, std::size_t bytes,
                  CUstream stream = nullptr);

/// Enqueues copies that repeat the first `period` bytes of `device` until `bytes` are filled; does
/// not wait. `period` > 0.
void repeat_on_device(const Driver& driver, void* device, std::size_t period, std::size_t bytes,
                      CUstream stream = nullptr);

/// Enqueues a fill with one byte value; does not wait.
void fill_bytes(const Driver& driver, void* device, std::uint8_t value, std::size_t bytes,
                CUstream stream = nullptr);

/// Whether a kernel of the current context may use `pointer` as it is: device memory, managed
/// memory, or host memory that is registered at the same address.
bool is_device_pointer(const Driver& driver, const void* pointer);

}  // namespace attnjit::cuda
