// The C interface between the programs, which never link libtorch, and the plugin that does.
#pragma once

#include <cstddef>
#include <cstdint>

extern "C" {

// A contiguous tensor in this machine's byte order; valid only inside `accept`.
struct EplbPluginTensor {
    int dtype;  // eplb::DType
    int axes;
    const std::int64_t* shape;
    const void* data;
    std::size_t bytes;
    int under_key;  // 1: it stood under the wanted key of a dict
};

// Reads the counts of a torch file: the tensor under `key` of a dict, else the only one with two or three axes. Returns
// 0 after one call of `accept`, else 1 with the reason in `message`. Can crash on files that libtorch does not survive.
using EplbReadWithLibtorch = int (*)(const char* path, const char* key,
                                     void (*accept)(void* context, const EplbPluginTensor* tensor), void* context,
                                     char* message, std::size_t message_size);
}

inline constexpr const char* eplb_plugin_symbol = "eplb_read_with_libtorch";
inline constexpr const char* eplb_plugin_file = "eplb_libtorch_reader.so";
