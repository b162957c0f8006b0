#include "dtype.h"

#include <tvm/ffi/dtype.h>

#include <cmath>
#include <cstring>

namespace fusebuild {

struct Word {
  const char* name;
  DLDataType dtype;
};
static constexpr Word kWords[] = {{"double", kDouble}, {"float", kFloat}, {"half", kHalf}};

static std::optional<DLDataType> Parse(const std::string& name) {
  for (const Word& word : kWords) {
    if (name == word.name) return word.dtype;
  }
  try {
    return tvm::ffi::StringToDLDataType(name);
  } catch (const tvm::ffi::Error&) {
    return std::nullopt;
  }
}

std::optional<DLDataType> FindDType(const std::string& name) {
  const std::optional<DLDataType> dtype = Parse(name);
  const bool is_known = dtype && dtype->lanes == 1 && dtype->bits % 8 == 0 && dtype->bits <= 64 &&
                        dtype->code != kDLOpaqueHandle && Describe(*dtype) == name;
  return is_known ? dtype : std::nullopt;
}

std::string Describe(DLDataType dtype) {
  for (const Word& word : kWords) {
    if (Equal(word.dtype, dtype)) return word.name;
  }
  if (dtype.code == kDLComplex) return "complex" + std::to_string(dtype.bits);
  return std::string(tvm::ffi::DLDataTypeToString(dtype));
}

std::string Describe(DLDevice device) {
  if (device.device_type == kDLCPU) return "cpu";
  if (device.device_type == kDLCUDA) return "cuda:" + std::to_string(device.device_id);
  return "device type " + std::to_string(device.device_type) + ":" + std::to_string(device.device_id);
}

// Rounds a float to its upper 16 bits, ties to even.
static uint16_t BFloat16Bits(float value) {
  uint32_t bits;
  std::memcpy(&bits, &value, 4);
  if (std::isnan(value)) return static_cast<uint16_t>(bits >> 16 | 0x40);
  return static_cast<uint16_t>((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}

// Rounds a float to IEEE binary16, ties to even.
static uint16_t HalfBits(float value) {
  uint32_t bits;
  std::memcpy(&bits, &value, 4);
  const uint16_t sign = static_cast<uint16_t>(bits >> 16 & 0x8000);
  const float magnitude = std::fabs(value);
  if (std::isnan(value)) return sign | 0x7e00;
  if (magnitude >= 65520.0f) return sign | 0x7c00;
  if (magnitude < 6.103515625e-05f) {  // subnormal: count units of 2^-24; a carry into 2^-14 is also right
    return sign | static_cast<uint16_t>(std::nearbyintf(magnitude * 16777216.0f));
  }
  bits &= 0x7fffffff;
  bits += 0xfff + (bits >> 13 & 1);
  return sign | static_cast<uint16_t>((bits - 0x38000000) >> 13);
}

static float FromBFloat16(uint16_t half) {
  const uint32_t bits = static_cast<uint32_t>(half) << 16;
  float value;
  std::memcpy(&value, &bits, 4);
  return value;
}

static float FromHalf(uint16_t half) {
  const int exponent = half >> 10 & 0x1f, fraction = half & 0x3ff;
  const float sign = (half & 0x8000) != 0 ? -1.0f : 1.0f;
  if (exponent == 0) return sign * std::ldexp(static_cast<float>(fraction), -24);
  if (exponent == 0x1f) return fraction != 0 ? NAN : sign * INFINITY;
  return sign * std::ldexp(static_cast<float>(fraction | 0x400), exponent - 25);
}

double ReadFloat(DLDataType dtype, const void* source) {
  double wide;
  float single;
  uint16_t half;
  switch (dtype.bits) {
    case 64:
      std::memcpy(&wide, source, 8);
      return wide;
    case 32:
      std::memcpy(&single, source, 4);
      return single;
    default:
      std::memcpy(&half, source, 2);
      return Equal(dtype, kHalf) ? FromHalf(half) : FromBFloat16(half);
  }
}

uint64_t FloatBits(DLDataType dtype, double value) {
  uint64_t result = 0;
  const float single = static_cast<float>(value);
  if (Equal(dtype, kDouble)) std::memcpy(&result, &value, 8);
  if (Equal(dtype, kFloat)) std::memcpy(&result, &single, 4);
  if (Equal(dtype, kHalf)) result = HalfBits(single);
  if (Equal(dtype, kBFloat16)) result = BFloat16Bits(single);
  return result;
}

}  // namespace fusebuild
