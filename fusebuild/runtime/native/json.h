// Reading the plan's JSON with every mistake located, for example "plan.json: values[3].dtype: expected a
// string".
#pragma once

#include <tvm/ffi/any.h>

#include <cstdint>
#include <string>
#include <vector>

namespace fusebuild {

/// One JSON value and the path that led to it. Used at load only; a call never touches JSON.
class Json {
 public:
  /// Parses `text` with tvm-ffi's parser; throws ValueError where it is not JSON.
  static Json Parse(const std::string& text);

  /// The member `key` of an object; throws ValueError when there is none.
  Json operator[](const char* key) const;
  /// Whether an object has the member `key`.
  bool Has(const char* key) const;
  /// The elements of an array.
  std::vector<Json> Items() const;
  /// The keys of an object that maps integers (written as strings) to values.
  std::vector<std::pair<int64_t, Json>> IntegerKeys() const;

  bool IsNull() const;
  bool IsInt() const;
  bool IsString() const;
  bool Bool() const;
  int64_t Int() const;
  double Double() const;
  std::string String() const;

  /// Throws ValueError that names this value's path.
  [[noreturn]] void Fail(const std::string& message) const;

 private:
  Json(tvm::ffi::Any value, std::string path);

  tvm::ffi::Any value_;
  std::string path_;
};

}  // namespace fusebuild
