// The Error that an action throws, for tests that look at its parts.
#pragma once

#include <functional>
#include <stdexcept>

#include "core/error.hpp"

namespace eplb {

inline Error error_of(const std::function<void()>& action) {
    try {
        action();
    } catch (const Error& error) {
        return error;
    }
    throw std::runtime_error("nothing was thrown");
}

}  // namespace eplb
