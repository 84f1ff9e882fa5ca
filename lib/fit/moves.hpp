// What the annealer may change in a row. Local indices count the slots of a rank from 0.
#pragma once

namespace eplb {

// Two replicas on different ranks change places.
struct Swap {
    int rank_a = 0, index_a = 0, rank_b = 0, index_b = 0;
};

// A slot of an expert with several replicas turns into a replica of another expert.
struct ReplicaMove {
    int rank = 0, index = 0;
    int gaining = 0;  // expert that is not on the rank yet
};

}  // namespace eplb
