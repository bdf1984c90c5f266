#pragma once
// The parts of DLPack 1.3's ABI that this module reads: a borrowed tensor and the table of
// functions that a framework hangs on its tensor type as `__dlpack_c_exchange_api__`.
#include <cstdint>

namespace attnjit::python::dlpack {

/// Values of DataType::code.
enum Code : std::uint8_t { kInt = 0, kUInt = 1, kFloat = 2, kBfloat = 4, kComplex = 5, kBool = 6 };

/// The value of Device::type for memory of an NVIDIA GPU.
constexpr std::int32_t kCuda = 2;

/// The major version of the table below.
constexpr std::uint32_t kMajorVersion = 1;

/// The name of the capsule that holds an ExchangeApi.
constexpr const char* kCapsuleName = "dlpack_exchange_api";

struct Device {
  std::int32_t type;
  std::int32_t id;
};

struct DataType {
  std::uint8_t code;
  std::uint8_t bits;
  std::uint16_t lanes;
};

/// A tensor that belongs to someone else. Strides count elements and may be null if it is
/// contiguous.
struct Tensor {
  void* data;
  Device device;
  std::int32_t ndim;
  DataType dtype;
  std::int64_t* shape;
  std::int64_t* strides;
  std::uint64_t byte_offset;
};

struct Version {
  std::uint32_t major;
  std::uint32_t minor;
};

struct ExchangeApiHeader {
  Version version;
  const ExchangeApiHeader* previous;  // the table of an older major version, or null
};

/// Functions return 0, or -1 with a Python exception set.
struct ExchangeApi {
  ExchangeApiHeader header;
  void* allocate;
  void* owned_tensor_from_object;
  void* owned_tensor_to_object;
  int (*tensor_from_object)(void* object, Tensor* tensor);
  int (*current_work_stream)(std::int32_t device_type, std::int32_t device_id, void** stream);
};

}  // namespace attnjit::python::dlpack
