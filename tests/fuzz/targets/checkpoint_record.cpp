#include "loader/checkpoint_record.hpp"

#include "target.hpp"

void eplb::decode_and_encode(std::string_view text) {
    const CheckpointRecord record = decode_checkpoint_record(text);
    require(decode_checkpoint_record(encode_checkpoint_record(record)) == record);
}
