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

}  // namespace fusebuild
