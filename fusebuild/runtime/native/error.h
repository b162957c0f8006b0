// Errors that reach Python as the exception of the same name, with the message and nothing else.
#pragma once

#include <tvm/ffi/error.h>

#include <string>

namespace fusebuild {

[[noreturn]] inline void ThrowValueError(std::string message) {
  throw tvm::ffi::Error("ValueError", std::move(message), std::string());
}

[[noreturn]] inline void ThrowTypeError(std::string message) {
  throw tvm::ffi::Error("TypeError", std::move(message), std::string());
}

[[noreturn]] inline void ThrowRuntimeError(std::string message) {
  throw tvm::ffi::Error("RuntimeError", std::move(message), std::string());
}

[[noreturn]] inline void ThrowMemoryError(std::string message) {
  throw tvm::ffi::Error("MemoryError", std::move(message), std::string());
}

/// fusebuild.errors.UsageError in Python.
[[noreturn]] inline void ThrowUsageError(std::string message) {
  throw tvm::ffi::Error("UsageError", std::move(message), std::string());
}

/// fusebuild.errors.ForkError in Python.
[[noreturn]] inline void ThrowForkError() {
  throw tvm::ffi::Error(
      "ForkError",
      "CUDA does not survive fork: this process was forked from one that had initialized it; "
      "start workers with spawn or forkserver, or use CUDA in them alone",
      std::string());
}

}  // namespace fusebuild
