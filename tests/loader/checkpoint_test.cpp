#include <catch2/catch.hpp>
#include <cstring>
#include <nlohmann/json.hpp>

#include "core/error.hpp"
#include "files/digest.hpp"
#include "files/error_of.hpp"
#include "files/temporary_folder.hpp"
#include "loader/bake.hpp"

using namespace eplb;

namespace {

// One shard: names, and for every tensor its bytes; types and shapes follow from the caller.
struct TensorText {
    std::string name, dtype;
    std::vector<std::int64_t> shape;
    std::string bytes;
};

std::string shard_of(const std::vector<TensorText>& tensors) {
    std::vector<SafetensorsEntry> entries;
    std::string data;
    for (const TensorText& tensor : tensors) {
        entries.push_back({tensor.name, tensor.dtype, tensor.shape, 0, 0});
        data += tensor.bytes;
    }
    place_back_to_back(entries);
    return encode_safetensors_header(entries, {{"format", "pt"}}) + data;
}

std::string ids_text(std::initializer_list<std::int64_t> ids) {
    std::string bytes;
    for (const std::int64_t id : ids) bytes.append(reinterpret_cast<const char*>(&id), sizeof id);
    return bytes;
}

// Two layers of four experts in two shards; expert e of layer l holds the text "le", scales "s".
struct SmallCheckpoint {
    TemporaryFolder folder;
    std::string config = R"({"model_type": "deepseek_v4", "num_hidden_layers": 2, "n_routed_experts": 4, "x": 1})";
    std::vector<TensorText> first, second;

    SmallCheckpoint() {
        for (int layer = 0; layer < 2; ++layer) {
            auto& shard = layer == 0 ? first : second;
            const std::string block = "layers." + std::to_string(layer) + ".ffn.";
            shard.push_back({block + "gate.weight", "U8", {4, 2}, "aabbccdd"});
            for (int expert = 0; expert < 4; ++expert) {
                const std::string name = block + "experts." + std::to_string(expert) + ".w1.";
                const std::string text = std::to_string(layer) + std::to_string(expert);
                // the experts of layer 1 lie in both shards
                auto& where = layer == 1 && expert == 0 ? first : shard;
                where.push_back({name + "weight", "I8", {2}, text});
                where.push_back({name + "scale", "U8", {1}, "s"});
            }
        }
        first.push_back({"layers.0.ffn.gate.tid2eid", "I64", {2, 2}, ids_text({0, 1, 2, 3})});
        second.push_back({"layers.1.ffn.gate.bias", "U8", {4}, "wxyz"});
        second.push_back({"layers.1.ffn.shared_experts.w1.weight", "U8", {4}, "SSSS"});
        second.push_back({"norm.weight", "U8", {4}, "nnnn"});
    }

    Checkpoint open() const {
        std::filesystem::create_directory(folder.path() / "in");
        folder.write("in/config.json", config);
        folder.write("in/tokenizer.json", std::string_view("{}"));
        folder.write("in/a.safetensors", shard_of(first));
        folder.write("in/b.safetensors", shard_of(second));
        nlohmann::json index{{"metadata", {{"total_size", 1}}}, {"weight_map", nlohmann::json::object()}};
        for (const TensorText& tensor : first) index["weight_map"][tensor.name] = "a.safetensors";
        for (const TensorText& tensor : second) index["weight_map"][tensor.name] = "b.safetensors";
        folder.write("in/model.safetensors.index.json", index.dump());
        return Checkpoint::open(folder.file("in"));
    }
};

LayoutFile layout_of(const Geometry& geometry, std::initializer_list<int> experts) {
    std::vector<ExpertId> slots;
    for (const int expert : experts) slots.push_back(ExpertId{expert});
    return {"x.json", std::string(64, 'a'), Layout(geometry, slots)};
}

// The text of a tensor, wherever it is in the folder.
std::string tensor_text(const Checkpoint& checkpoint, const std::string& name) {
    for (const SafetensorsFile& shard : checkpoint.shards()) {
        if (const SafetensorsEntry* entry = shard.find(name)) {
            const auto bytes = shard.bytes(*entry);
            return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
        }
    }
    return "absent";
}

}  // namespace

TEST_CASE("after bake expert p is what expert map[p] was, with its scale, its router row, bias and hash ids") {
    const SmallCheckpoint small;
    const LayoutFile layout = layout_of({2, 4, 2, 2}, {2, 0, 3, 1, 1, 2, 0, 3});
    const Checkpoint source = small.open();
    const std::string out = small.folder.file("out");
    const CheckpointRecord record = bake_checkpoint(source, find_model_family("deepseek-v4"), layout, out, false, {});
    const Checkpoint baked = Checkpoint::open(out);

    const int map[2][4] = {{2, 0, 3, 1}, {1, 2, 0, 3}};
    for (int layer = 0; layer < 2; ++layer) {
        for (int expert = 0; expert < 4; ++expert) {
            const std::string name =
                "layers." + std::to_string(layer) + ".ffn.experts." + std::to_string(expert) + ".w1.";
            CHECK(tensor_text(baked, name + "weight") == std::to_string(layer) + std::to_string(map[layer][expert]));
            CHECK(tensor_text(baked, name + "scale") == "s");
        }
    }
    CHECK(tensor_text(baked, "layers.0.ffn.gate.weight") == "ccaaddbb");
    CHECK(tensor_text(baked, "layers.1.ffn.gate.weight") == "bbccaadd");
    CHECK(tensor_text(baked, "layers.1.ffn.gate.bias") == "xywz");
    // Expert 0 is now expert 1, 1 is 3, 2 is 0, 3 is 2.
    CHECK(tensor_text(baked, "layers.0.ffn.gate.tid2eid") == ids_text({1, 3, 0, 2}));
    CHECK(tensor_text(baked, "layers.1.ffn.shared_experts.w1.weight") == "SSSS");
    CHECK(tensor_text(baked, "norm.weight") == "nnnn");
    CHECK(content_of(out + "/tokenizer.json") == "{}");
    CHECK(content_of(out + "/config.json") == small.config);
    CHECK(nlohmann::json::parse(content_of(out + "/model.safetensors.index.json"))["metadata"]["total_size"] == 1);
    for (const CheckpointRecord::File& file : record.files) {
        CHECK(file.sha256 == sha256_hex(std::string_view(content_of(out + "/" + file.name))));
    }
    CHECK(record.files.size() == 5);
    CHECK(record.notes.empty());
}

TEST_CASE("what is not taken into the baked checkpoint is noted") {
    const SmallCheckpoint small;
    small.open();
    std::filesystem::create_directory(small.folder.file("in/original"));
    small.folder.write("in/original/params.json", std::string_view("{}"));
    small.folder.write("in/consolidated.safetensors", shard_of(small.first));
    const CheckpointRecord record =
        bake_checkpoint(Checkpoint::open(small.folder.file("in")), find_model_family("deepseek-v4"),
                        layout_of({2, 4, 2, 2}, {2, 0, 3, 1, 1, 2, 0, 3}), small.folder.file("out"), false, {});
    REQUIRE(record.notes.size() == 1);
    CHECK_THAT(record.notes[0], Catch::Contains("original, consolidated.safetensors"));
    CHECK_FALSE(std::filesystem::exists(small.folder.file("out/original")));
}

TEST_CASE("slots writes each rank's experts stacked in slot order, replicas too") {
    const SmallCheckpoint small;
    const LayoutFile layout = layout_of({2, 4, 2, 3}, {2, 0, 1, 3, 1, 0, 1, 2, 3, 0, 3, 2});
    write_rank_slots(small.open(), find_model_family("deepseek-v4"), layout, small.folder.file("out"), false, {});
    const SafetensorsFile rank = SafetensorsFile::open(small.folder.file("out/rank-00001-of-00002.safetensors"));
    const SafetensorsEntry* entry = rank.find("layers.0.ffn.experts.w1.weight");
    REQUIRE(entry != nullptr);
    CHECK(entry->shape == std::vector<std::int64_t>{3, 2});
    CHECK(std::memcmp(rank.bytes(*entry).data(), "030100", 6) == 0);
    CHECK(std::memcmp(rank.bytes(*rank.find("layers.1.ffn.experts.w1.weight")).data(), "101312", 6) == 0);
    CHECK(std::find(rank.metadata().begin(), rank.metadata().end(),
                    std::pair<std::string, std::string>{"eplb_rank", "1"}) != rank.metadata().end());
}

TEST_CASE("replicas and split routing groups cannot be baked") {
    const std::vector<int> rows{0};
    const auto bakeable = [&](const Geometry& geometry, std::initializer_list<int> experts, int groups) {
        require_bakeable(layout_of(geometry, experts).layout, rows, groups);
    };
    CHECK_NOTHROW(bakeable({1, 4, 2, 2}, {3, 0, 2, 1}, 1));
    CHECK_NOTHROW(bakeable({1, 4, 2, 2}, {3, 2, 0, 1}, 2));  // groups change places and order inside
    const Error split = error_of([&] { bakeable({1, 4, 2, 2}, {3, 0, 2, 1}, 2); });
    CHECK(split.code() == ErrorCode::infeasible);
    CHECK_THAT(split.what(),
               Catch::Contains("row 0, slot 1") && Catch::Contains("group 0") && Catch::Contains("group 1"));
    CHECK(error_of([&] { bakeable({1, 4, 2, 3}, {0, 1, 2, 3, 0, 1}, 1); }).code() == ErrorCode::infeasible);
}

TEST_CASE(
    "a checkpoint that lacks something, or holds more than the family knows, is refused before anything is written") {
    const LayoutFile layout = layout_of({2, 4, 2, 2}, {0, 1, 2, 3, 0, 1, 2, 3});
    const ModelFamily& family = find_model_family("deepseek-v4");
    const auto refusal = [&](SmallCheckpoint& small) {
        const Error error =
            error_of([&] { bake_checkpoint(small.open(), family, layout, small.folder.file("out"), false, {}); });
        CHECK_FALSE(std::filesystem::exists(small.folder.file("out")));
        return std::string(error.what());
    };
    SmallCheckpoint lacks_scale, other_type, unknown_rows, other_size;
    std::erase_if(lacks_scale.second,
                  [](const TensorText& tensor) { return tensor.name == "layers.1.ffn.experts.2.w1.scale"; });
    CHECK_THAT(refusal(lacks_scale), Catch::Contains("layer 1: expert 2 has no tensor w1.scale"));
    for (TensorText& tensor : other_type.first) {
        if (tensor.name == "layers.0.ffn.experts.3.w1.scale") tensor.dtype = "I8";
    }
    CHECK_THAT(refusal(other_type), Catch::Contains("other experts have U8"));
    unknown_rows.second.push_back({"layers.1.ffn.gate.expert_scale", "U8", {4}, "abcd"});
    CHECK_THAT(refusal(unknown_rows), Catch::Contains("gate.expert_scale") && Catch::Contains("whether it moves"));
    other_size.config = R"({"model_type": "deepseek_v4", "num_hidden_layers": 2, "n_routed_experts": 8})";
    CHECK_THAT(refusal(other_size), Catch::Contains("4 experts; config.json says 8"));
}

TEST_CASE("a router that is not there, or lies on its side, is refused before anything is written") {
    const LayoutFile layout = layout_of({2, 4, 2, 2}, {0, 1, 2, 3, 0, 1, 2, 3});
    const auto refusal = [&](SmallCheckpoint& small, const ModelFamily& family) {
        const Error error =
            error_of([&] { bake_checkpoint(small.open(), family, layout, small.folder.file("out"), false, {}); });
        CHECK_FALSE(std::filesystem::exists(small.folder.file("out")));
        return std::string(error.what());
    };
    const ModelFamily& family = find_model_family("deepseek-v4");
    SmallCheckpoint no_router, transposed, fused, on_its_side;
    std::erase_if(no_router.second, [](const TensorText& tensor) { return tensor.name == "layers.1.ffn.gate.weight"; });
    CHECK_THAT(refusal(no_router, family), Catch::Contains("layer 1 has experts and no router"));
    for (TensorText& tensor : transposed.first) {
        if (tensor.name == "layers.0.ffn.gate.weight") tensor.shape = {2, 4};
    }
    CHECK_THAT(refusal(transposed, family),
               Catch::Contains("is [2, 4], a router has one row for each of the 4 experts"));
    fused.second.push_back({"layers.1.ffn.experts.gate_up_proj", "U8", {8, 3}, std::string(24, 'f')});
    CHECK_THAT(refusal(fused, family), Catch::Contains("experts.gate_up_proj may hold something of every expert"));
    on_its_side.second.push_back({"layers.1.ffn.scales", "U8", {3, 4}, std::string(12, 'f')});
    CHECK_THAT(refusal(on_its_side, family), Catch::Contains("ffn.scales may hold something of every expert"));

    SmallCheckpoint named;
    ModelFamily generic{"generic", "", {}, "layers.{layer}.ffn.", "layers.{layer}.ffn.experts.{expert}.",
                        {},        {}, {}, {"shared_experts."}};
    CHECK_THAT(refusal(named, generic), Catch::Contains("gate.weight may hold something of every expert"));
    generic.router_rows = {"gate.weight", "gate.bias", "gate.made_up"};
    generic.router_ids = {"gate.tid2eid"};
    CHECK_THAT(refusal(named, generic), Catch::Contains("no layer with experts has a tensor gate.made_up"));
    generic.router_rows.pop_back();
    generic.router_ids.push_back("gate.other");
    CHECK_THAT(refusal(named, generic), Catch::Contains("has a tensor gate.other"));
    generic.router_ids.pop_back();
    generic.stacked = {"experts.w"};
    CHECK_THAT(refusal(named, generic), Catch::Contains("has a tensor experts.w"));
    generic.stacked.clear();
    CHECK_NOTHROW(bake_checkpoint(named.open(), generic, layout, named.folder.file("out"), false, {}));
}

TEST_CASE("layers with experts are those that config.json says, and no others") {
    const ModelFamily& family = find_model_family("deepseek-v4");
    const auto refusal = [&](const std::string& more, const Geometry& geometry, std::initializer_list<int> experts) {
        SmallCheckpoint small;
        small.config = R"({"model_type": "deepseek_v4", "n_routed_experts": 4, )" + more + "}";
        return std::string(error_of([&] {
                               bake_checkpoint(small.open(), family, layout_of(geometry, experts),
                                               small.folder.file("out"), false, {});
                           }).what());
    };
    CHECK_THAT(refusal(R"("num_hidden_layers": 2, "first_k_dense_replace": 1)", {1, 4, 2, 2}, {0, 1, 2, 3}),
               Catch::Contains("layer 0: has experts, config.json says that it has none"));
    CHECK_THAT(refusal(R"("num_hidden_layers": 2, "first_k_dense_replace": 1)", {2, 4, 2, 2}, {0, 1, 2, 3, 0, 1, 2, 3}),
               Catch::Contains("layer 0: has experts"));
    CHECK_THAT(refusal(R"("num_hidden_layers": 2, "mlp_only_layers": [1])", {1, 4, 2, 2}, {0, 1, 2, 3}),
               Catch::Contains("layer 1: has experts"));
    CHECK_THAT(refusal(R"("num_hidden_layers": 3)", {3, 4, 2, 2}, {0, 1, 2, 3, 0, 1, 2, 3, 0, 1, 2, 3}),
               Catch::Contains("layer 2: has no experts, config.json says that it has"));
}

TEST_CASE("an index under another name is rewritten, and of several the usual one counts") {
    const SmallCheckpoint small;
    small.open();
    const std::string usual = small.folder.file("in/model.safetensors.index.json");
    const std::string other = small.folder.file("in/diffusion.safetensors.index.json");
    std::filesystem::rename(usual, other);
    const LayoutFile layout = layout_of({2, 4, 2, 2}, {2, 0, 3, 1, 1, 2, 0, 3});
    const ModelFamily& family = find_model_family("deepseek-v4");
    bake_checkpoint(Checkpoint::open(small.folder.file("in")), family, layout, small.folder.file("out"), false, {});
    const auto map =
        nlohmann::json::parse(content_of(small.folder.file("out/diffusion.safetensors.index.json")))["weight_map"];
    CHECK(map["layers.1.ffn.experts.2.w1.weight"] == "a.safetensors");  // what expert 0 was, in the first shard
    small.folder.write("in/second.safetensors.index.json", content_of(other));
    CHECK_THAT(error_of([&] { Checkpoint::open(small.folder.file("in")); }).what(), Catch::Contains("has the indexes"));
    std::filesystem::rename(other, usual);
    CHECK(Checkpoint::open(small.folder.file("in")).left_out() ==
          std::vector<std::string>{"second.safetensors.index.json"});
}

TEST_CASE("a shard that is replaced while it is read is noticed") {
    const SmallCheckpoint small;
    const Checkpoint source = small.open();
    CHECK_NOTHROW(source.require_unchanged());
    small.folder.write("in/b.new", shard_of(small.second));
    std::filesystem::rename(small.folder.file("in/b.new"), small.folder.file("in/b.safetensors"));  // the same bytes
    const Error error = error_of([&] {
        bake_checkpoint(source, find_model_family("deepseek-v4"), layout_of({2, 4, 2, 2}, {2, 0, 3, 1, 1, 2, 0, 3}),
                        small.folder.file("out"), false, {});
    });
    CHECK_THAT(error.what(), Catch::Contains("b.safetensors: was replaced or changed while it was read"));
    CHECK_FALSE(std::filesystem::exists(small.folder.file("out")));
}

TEST_CASE("what was baked is baked again only to be composed, and the record says so") {
    const SmallCheckpoint small;
    const LayoutFile layout = layout_of({2, 4, 2, 2}, {2, 0, 3, 1, 1, 2, 0, 3});
    const ModelFamily& family = find_model_family("deepseek-v4");
    const std::string once = small.folder.file("once"), twice = small.folder.file("twice");
    const CheckpointRecord first = bake_checkpoint(small.open(), family, layout, once, false, {});
    const auto again = [&](bool compose) {
        return bake_checkpoint(Checkpoint::open(once), family, layout, twice, false, {}, compose);
    };
    CHECK_THAT(error_of([&] { again(false); }).what(), Catch::Contains("was written by eplb-load bake"));
    CHECK_FALSE(std::filesystem::exists(twice));
    const CheckpointRecord second = again(true);
    REQUIRE(second.notes.size() == 1);
    CHECK_THAT(second.notes[0], Catch::Contains("composed") && Catch::Contains(first.map_hash));
    // layer 0: expert 0 is what expert 2 was, which is what expert 3 was
    CHECK(tensor_text(Checkpoint::open(twice), "layers.0.ffn.experts.0.w1.weight") == "03");
    CHECK(error_of([&] {
              bake_checkpoint(small.open(), family, layout, small.folder.file("x"), false, {}, true);
          }).code() == ErrorCode::usage);
}

TEST_CASE("a forced run replaces only a folder that holds our record and no input") {
    const SmallCheckpoint small;
    const LayoutFile layout = layout_of({2, 4, 2, 2}, {2, 0, 3, 1, 1, 2, 0, 3});
    const Checkpoint source = small.open();
    const auto refusal = [&](const std::string& out) {
        return std::string(
            error_of([&] { bake_checkpoint(source, find_model_family("deepseek-v4"), layout, out, true, {}); }).what());
    };
    const std::string in = small.folder.file("in"), other = small.folder.file("other");
    CHECK_THAT(refusal(in), Catch::Contains("holds the input"));
    CHECK_THAT(refusal(in + "/../in/"), Catch::Contains("holds the input"));
    CHECK_THAT(refusal(small.folder.path().string()), Catch::Contains("holds the input"));
    CHECK_THAT(refusal(in + "/config.json"), Catch::Contains("is no folder"));
    std::filesystem::create_directory(other);
    small.folder.write("other/precious", std::string_view("p"));
    CHECK_THAT(refusal(other), Catch::Contains("has no eplb-checkpoint.json"));
    std::filesystem::create_directory_symlink(other, small.folder.file("link"));
    CHECK_THAT(refusal(small.folder.file("link")), Catch::Contains("is no folder"));
    CHECK(content_of(other + "/precious") == "p");
    const std::string out = small.folder.file("out");
    bake_checkpoint(source, find_model_family("deepseek-v4"), layout, out, true, {});
    bake_checkpoint(source, find_model_family("deepseek-v4"), layout, out, true, {});
    std::filesystem::create_directory(out + "/moved");  // the folder that was written now holds an input
    std::filesystem::rename(in, out + "/moved/in");
    const Checkpoint inside = Checkpoint::open(out + "/moved/in");
    CHECK_THAT(
        error_of([&] { bake_checkpoint(inside, find_model_family("deepseek-v4"), layout, out, true, {}); }).what(),
        Catch::Contains("holds the input"));
}

TEST_CASE("links that lead in a circle are no files of a checkpoint") {
    const SmallCheckpoint small;
    small.open();
    std::filesystem::create_symlink("loop", small.folder.file("in/loop"));
    CHECK(Checkpoint::open(small.folder.file("in")).left_out() == std::vector<std::string>{"loop"});
}

TEST_CASE("an index that names what is not there is refused") {
    const SmallCheckpoint small;
    small.open();
    small.folder.write("in/model.safetensors.index.json",
                       std::string_view(R"({"weight_map": {"norm.weight": "c.safetensors"}})"));
    CHECK_THAT(error_of([&] { Checkpoint::open(small.folder.file("in")); }).what(), Catch::Contains("c.safetensors"));
    small.folder.write("in/model.safetensors.index.json",
                       std::string_view(R"({"weight_map": {"norm.weight": "a.safetensors"}})"));
    CHECK_THAT(error_of([&] { Checkpoint::open(small.folder.file("in")); }).what(),
               Catch::Contains("norm.weight is not in a.safetensors"));
}

TEST_CASE("names of tensors say layer, expert and suffix, and nothing is guessed") {
    const ModelFamily& family = find_model_family("deepseek");
    const TensorRole role = role_of(family, "model.layers.12.mlp.experts.7.up_proj.weight_scale_inv");
    CHECK(role.kind == TensorRole::Kind::expert);
    CHECK((role.layer == 12 && role.expert == 7 && role.suffix == "up_proj.weight_scale_inv"));
    CHECK(expert_tensor_name(family, 12, 7, role.suffix) == "model.layers.12.mlp.experts.7.up_proj.weight_scale_inv");
    CHECK(role_of(family, "model.layers.1.mlp.gate.weight").kind == TensorRole::Kind::router_rows);
    CHECK(role_of(family, "model.layers.1.mlp.shared_experts.up_proj.weight").kind == TensorRole::Kind::other);
    CHECK(role_of(family, "model.layers.01.mlp.gate.weight").kind == TensorRole::Kind::other);
    CHECK(role_of(family, "model.layers.-1.mlp.gate.weight").kind == TensorRole::Kind::other);
    CHECK(role_of(family, "model.layers.1.mlp.gate.made_up").kind == TensorRole::Kind::undeclared);
    CHECK(role_of(family, "model.layers.1.self_attn.o_proj.weight").kind == TensorRole::Kind::other);
    CHECK(stacked_tensor_name(family, 3, "up_proj.weight") == "model.layers.3.mlp.experts.up_proj.weight");
}

TEST_CASE("config.json is read under the names of several families") {
    const ModelConfig v3 = parse_model_config(
        "c", R"({"model_type": "deepseek_v3", "num_hidden_layers": 5, "first_k_dense_replace": 3, "n_routed_experts": 8,
                 "n_group": 2, "n_shared_experts": 1, "num_nextn_predict_layers": 1, "rope": {}})");
    CHECK(v3.expert_layers() == std::vector<int>{3, 4});
    CHECK((v3.experts == 8 && v3.groups == 2 && v3.shared_experts == 1 && v3.draft_layers == 1));
    CHECK(v3.unknown == std::vector<std::string>{"rope"});
    const ModelConfig qwen = parse_model_config(
        "c",
        R"({"text_config": {"num_hidden_layers": 4, "num_experts": 16, "mlp_only_layers": [1], "decoder_sparse_step": 2}})");
    CHECK(qwen.expert_layers() == std::vector<int>{3});
    CHECK_THROWS_AS(parse_model_config("c", R"({"num_hidden_layers": "5"})"), Error);
    CHECK_THROWS_AS(parse_model_config("c", R"({"num_experts": 4, "n_routed_experts": 8})"), Error);
}

TEST_CASE("a checkpoint record that could not be read again is not written") {
    CheckpointRecord record;
    record.kind = "slots";
    record.tool_version = "1.0";
    record.layout_sha256 = record.map_hash = record.source_index_sha256 = std::string(64, 'a');
    record.family = "deepseek";
    record.geometry = {2, 4, 2, 3};
    record.files = {{"rank-00000-of-00001.safetensors", std::string(64, 'b'), (std::uint64_t{1} << 63) - 1}};
    record.notes = {"a \"note\""};
    CHECK(decode_checkpoint_record(encode_checkpoint_record(record)) == record);
    const auto refused = [&](auto change) {
        CheckpointRecord wrong = record;
        change(wrong);
        const Error error = error_of([&] { encode_checkpoint_record(wrong); });
        CHECK(error.code() == ErrorCode::internal);
        return std::string(error.what());
    };
    CHECK_THAT(refused([](CheckpointRecord& wrong) { wrong.kind = "copy"; }), Catch::Contains("$.kind"));
    CHECK_THAT(refused([](CheckpointRecord& wrong) { ++wrong.files[0].bytes; }), Catch::Contains("$.files[0].bytes"));
    CHECK_THAT(refused([](CheckpointRecord& wrong) { wrong.files[0].sha256 = "?"; }),
               Catch::Contains("$.files[0].sha256"));
    CHECK_THAT(refused([](CheckpointRecord& wrong) { wrong.geometry.ranks = 0; }), Catch::Contains("$.geometry.ranks"));
    CHECK_THAT(refused([](CheckpointRecord& wrong) { wrong.source_config_sha256 = "x"; }),
               Catch::Contains("$.source.config_sha256"));
}

TEST_CASE("bake refuses a file whose name cannot stand in the record, before it writes") {
    const SmallCheckpoint small;
    small.open();
    small.folder.write("in/odd\xff.txt", std::string_view("x"));
    const Checkpoint source = Checkpoint::open(small.folder.file("in"));
    const std::string out = small.folder.file("out");
    const Error error = error_of([&] {
        bake_checkpoint(source, find_model_family("deepseek-v4"), layout_of({2, 4, 2, 2}, {2, 0, 3, 1, 1, 2, 0, 3}),
                        out, false, {});
    });
    CHECK(error.code() == ErrorCode::input);
    CHECK_THAT(error.what(), Catch::Contains("odd?.txt"));
    CHECK_FALSE(std::filesystem::exists(out));
}
