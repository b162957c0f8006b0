#include "json.h"

#include <tvm/ffi/container/array.h>
#include <tvm/ffi/container/map.h>
#include <tvm/ffi/function.h>
#include <tvm/ffi/string.h>

#include "error.h"

namespace fusebuild {

namespace ffi = tvm::ffi;
using Object = ffi::Map<ffi::Any, ffi::Any>;
using Array = ffi::Array<ffi::Any>;

Json::Json(ffi::Any value, std::string path) : value_(std::move(value)), path_(std::move(path)) {}

Json Json::Parse(const std::string& text) {
  // By name and not as a C++ symbol: no C++ ABI then crosses the border to libtvm_ffi, only its stable C ABI.
  static const ffi::Function parse = ffi::Function::GetGlobalRequired("ffi.json.Parse");
  return Json(parse(ffi::String(text)), "");
}

Json Json::operator[](const char* key) const {
  std::optional<Object> object = value_.try_cast<Object>();
  if (!object) Fail("expected an object");
  auto found = object->find(ffi::String(key));
  if (found == object->end()) Fail("missing '" + std::string(key) + "'");
  return Json((*found).second, path_.empty() ? key : path_ + "." + key);
}

bool Json::Has(const char* key) const {
  std::optional<Object> object = value_.try_cast<Object>();
  return object && object->find(ffi::String(key)) != object->end();
}

std::vector<Json> Json::Items() const {
  std::optional<Array> array = value_.try_cast<Array>();
  if (!array) Fail("expected a list");
  std::vector<Json> items;
  for (const ffi::Any& item : *array) {
    items.push_back(Json(item, path_ + "[" + std::to_string(items.size()) + "]"));
  }
  return items;
}

std::vector<std::pair<int64_t, Json>> Json::IntegerKeys() const {
  std::optional<Object> object = value_.try_cast<Object>();
  if (!object) Fail("expected an object");
  std::vector<std::pair<int64_t, Json>> entries;
  for (const auto& [key, value] : *object) {
    const std::string text = key.cast<ffi::String>();
    char* end = nullptr;
    const int64_t number = std::strtoll(text.c_str(), &end, 10);
    if (text.empty() || *end != '\0') Fail("expected an integer key, got '" + text + "'");
    entries.emplace_back(number, Json(value, path_ + "." + text));
  }
  return entries;
}

bool Json::IsNull() const { return value_ == nullptr; }
bool Json::IsInt() const { return value_.type_index() == ffi::TypeIndex::kTVMFFIInt; }
bool Json::IsString() const { return value_.try_cast<ffi::String>().has_value(); }

bool Json::Bool() const {
  if (value_.type_index() != ffi::TypeIndex::kTVMFFIBool) Fail("expected true or false");
  return value_.cast<bool>();
}

int64_t Json::Int() const {
  if (!IsInt()) Fail("expected an integer");
  return value_.cast<int64_t>();
}

double Json::Double() const {
  const std::optional<double> number = IsInt() ? static_cast<double>(Int()) : value_.try_cast<double>();
  if (!number) Fail("expected a number");
  return *number;
}

std::string Json::String() const {
  std::optional<ffi::String> text = value_.try_cast<ffi::String>();
  if (!text) Fail("expected a string");
  return std::string(*text);
}

void Json::Fail(const std::string& message) const {
  ThrowValueError((path_.empty() ? std::string("plan") : path_) + ": " + message);
}

}  // namespace fusebuild
