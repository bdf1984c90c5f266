#pragma once
#include <cstring>

#include "attnjit/ptx/device.cuh"
#include "attnjit/types.h"

// Every access to global and shared memory, checked by the executor.
namespace attnjit::kernel::ptx {

using executor::GlobalAccess;
using executor::Reader;

// 8 bytes.
struct alignas(8) Vector8 {
  uint32 word[2];
};
// 16 bytes, the widest access.
struct alignas(16) Vector16 {
  uint32 word[4];
};

// The first address of shared memory. Not 0, so that an address that was never set is found out.
ATTNJIT_DEVICE uint32 shared_base() { return 1024; }

template <class T>
ATTNJIT_DEVICE T read_global(const T* address, GlobalAccess access, const char* function) {
  services->access_global(address, sizeof(T), access, function);
  T value;
  std::memcpy(&value, address, sizeof value);
  return value;
}

template <class T>
ATTNJIT_DEVICE T load_global(const T* address) {
  return read_global(address, GlobalAccess::kReadConst, "load_global");
}
struct alignas(16) Quad {
  int32 word[4];
};
ATTNJIT_DEVICE Quad load_quad(const int32* address) {
  return read_global(reinterpret_cast<const Quad*>(address), GlobalAccess::kReadConst, "load_quad");
}
template <class T>
ATTNJIT_DEVICE T load_global_now(const T* address) {
  return read_global(address, GlobalAccess::kReadConst, "load_global_now");
}
template <class T>
ATTNJIT_DEVICE T load_global_written(const T* address) {
  return read_global(address, GlobalAccess::kRead, "load_global_written");
}
template <class T>
ATTNJIT_DEVICE void write_global(T* address, T value, const char* function) {
  services->access_global(address, sizeof(T), GlobalAccess::kWrite, function);
  std::memcpy(address, &value, sizeof value);
}
template <class T>
ATTNJIT_DEVICE void store_global(T* address, T value) {
  write_global(address, value, "store_global");
}

ATTNJIT_DEVICE Vector16 load_shared_16(uint32 address) {
  Vector16 v;
  services->load_shared(address, &v, sizeof v, Reader::kThread, "load_shared_16");
  return v;
}
ATTNJIT_DEVICE void store_shared_16(uint32 address, Vector16 v) {
  services->store_shared(address, &v, sizeof v, "store_shared_16");
}
ATTNJIT_DEVICE Vector8 load_shared_8(uint32 address) {
  Vector8 v;
  services->load_shared(address, &v, sizeof v, Reader::kThread, "load_shared_8");
  return v;
}
ATTNJIT_DEVICE void store_shared_8(uint32 address, Vector8 v) {
  services->store_shared(address, &v, sizeof v, "store_shared_8");
}
ATTNJIT_DEVICE uint32 load_shared_4(uint32 address) {
  uint32 value;
  services->load_shared(address, &value, sizeof value, Reader::kThread, "load_shared_4");
  return value;
}
ATTNJIT_DEVICE void store_shared_4(uint32 address, uint32 value) {
  services->store_shared(address, &value, sizeof value, "store_shared_4");
}

ATTNJIT_DEVICE void copy_async_16(uint32 shared, const void* global, bool valid) {
  services->copy_async(shared, global, 16, valid, "copy_async_16");
}
ATTNJIT_DEVICE void copy_async_commit() { services->copy_async_commit(); }
template <int kPending>
ATTNJIT_DEVICE void copy_async_wait() {
  services->copy_async_wait(kPending);
}

}  // namespace attnjit::kernel::ptx
