// What the benches share: a clock, lists of names on the command line, and counts.
#pragma once

#include <algorithm>
#include <ctime>
#include <string>
#include <vector>

#include "core/counts.hpp"
#include "counts_io/count_file.hpp"
#include "sample/generator.hpp"

namespace eplb::bench {

// CPU time of this thread.
inline double cpu_milliseconds() {
    timespec time{};
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
    return static_cast<double>(time.tv_sec) * 1e3 + static_cast<double>(time.tv_nsec) * 1e-6;
}

inline std::vector<std::string> parts_of(const std::string& text, char separator = ',') {
    std::vector<std::string> parts(1);
    for (const char c : text) {
        if (c == separator) {
            parts.emplace_back();
        } else {
            parts.back() += c;
        }
    }
    return parts;
}

// 8 record slots of 2 layers x 32 experts, for 8 ranks x 5 slots: what a bench without arguments runs on.
inline SampleSpec small_spec() {
    SampleSpec spec;
    spec.record_slots = spec.filled_slots = 8;
    spec.layers = 2;
    spec.experts = 32;
    spec.top_k = 4;
    spec.ranks = 8;
    spec.slots_per_rank = 5;
    spec.trivial_balance = 1.5;
    spec.tokens = 1024;
    spec.topics = 4;
    return spec;
}

inline Counts made_up_counts(const SampleSpec& spec) {
    const Sample sample = generate(spec, 1, {});
    std::vector<std::int64_t> values(sample.counts.begin(), sample.counts.end());
    return Counts({make_count_tensor(std::move(values), spec.record_slots, spec.layers, spec.experts)});
}

// All record slots of the files one after another, taken as they stand.
inline Counts read_counts(const std::vector<std::string>& files) {
    std::vector<Tensor> tensors;
    for (const std::string& file : files) tensors.push_back(read_count_file(file, {}).tensor);
    return Counts(std::move(tensors));
}

}  // namespace eplb::bench
