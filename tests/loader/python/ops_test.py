"""The operators of libeplb_torch.so on the CPU."""
import itertools
import random
import unittest

import torch

from eplb_loader.library import ops


def install(slots, experts, row, raw=()):
    """One family; a tensor is stacked, a list holds one tensor a slot or expert."""
    as_list = lambda value: value if isinstance(value, list) else [value]
    ops().install_(["w"], [len(as_list(slots))], as_list(slots), [len(as_list(experts))], as_list(experts), list(row),
                   list(raw))


class Install(unittest.TestCase):
    def test_every_combination_of_stacked_and_list_gives_slot_s_expert_row_s(self):
        row = [3, 0, 3]
        for stacked_slots, stacked_experts in itertools.product([True, False], repeat=2):
            experts = torch.arange(4 * 6, dtype=torch.int8).reshape(4, 2, 3)
            slots = torch.full((3, 2, 3), -1, dtype=torch.int8)
            install(slots if stacked_slots else [slots[i] for i in range(3)],
                    experts if stacked_experts else [experts[i].clone() for i in range(4)], row)
            self.assertEqual([slots[i].flatten().tolist() for i in range(3)],
                             [[18, 19, 20, 21, 22, 23], [0, 1, 2, 3, 4, 5], [18, 19, 20, 21, 22, 23]])

    def test_addresses_stay(self):
        slots = torch.zeros(3, 5)
        before = slots.data_ptr(), slots.storage().data_ptr()
        install(slots, torch.rand(4, 5), [1, 2, 3])
        self.assertEqual(before, (slots.data_ptr(), slots.storage().data_ptr()))

    def test_packed_scales_keep_their_bits(self):
        nan_bits = torch.tensor([0x7FF8_0000_DEAD_BEEF, 0x7F80_0001, -1], dtype=torch.int64)
        slots = torch.zeros(2, dtype=torch.int64)
        install(slots, nan_bits, [0, 2])
        self.assertEqual(slots.tolist(), [0x7FF8_0000_DEAD_BEEF, -1])
        doubles = torch.zeros(2, dtype=torch.float64)
        install(doubles, nan_bits.view(torch.float64), [0, 2])
        self.assertEqual(doubles.view(torch.int64).tolist(), [0x7FF8_0000_DEAD_BEEF, -1])

    def test_a_transposed_parameter_is_written_in_its_own_memory_order(self):
        experts = torch.rand(4, 3, 5)
        slots = torch.zeros(2, 5, 3).transpose(1, 2)
        install(slots, experts, [2, 1])
        self.assertTrue(torch.equal(slots, experts[[2, 1]]))

    def test_parameters_that_require_grad_are_written(self):
        slots = torch.nn.Parameter(torch.zeros(2, 3))
        install(slots, torch.ones(2, 3), [0, 1])
        self.assertTrue(torch.equal(slots.data, torch.ones(2, 3)))

    def test_one_slot_may_be_stacked_or_a_list(self):
        experts = torch.rand(3, 2)
        for slots in (torch.zeros(1, 2), [torch.zeros(2)], torch.zeros(2)):
            install(slots, experts, [2])
            value = slots[0] if isinstance(slots, list) else slots
            self.assertTrue(torch.equal(value.flatten(), experts[2]))

    def refused(self, message, slots, experts, row, raw=()):
        tensors = slots if isinstance(slots, list) else [slots]
        before = [tensor.clone() for tensor in tensors]
        with self.assertRaisesRegex(RuntimeError, message):
            install(slots, experts, row, raw)
        self.assertTrue(all(torch.equal(a, b) for a, b in zip(before, tensors)), "a refused install wrote something")

    def test_what_does_not_fit_is_refused_before_the_first_write(self):
        self.refused("slot 1: wants expert 4, the source has 4", torch.zeros(2, 3), torch.rand(4, 3), [0, 4])
        self.refused("no first axis of 3 slots", torch.zeros(2, 3), torch.rand(4, 3), [0, 1, 2])
        self.refused(r"a slot is Float \[3\], its source is Float \[4\]", torch.zeros(2, 3), torch.rand(4, 4), [0, 1])
        self.refused("a slot is Float", torch.zeros(2, 3), torch.rand(4, 3).double(), [0, 1])
        self.refused("list of 3 tensors for 2 slots", [torch.zeros(3) for _ in range(3)], torch.rand(4, 3), [0, 1])
        shared = torch.rand(2, 3)
        self.refused("shares memory", shared, shared, [1, 0])
        one = torch.zeros(3)
        self.refused("two slots share memory", [one, one], torch.rand(4, 3), [0, 1])
        self.refused("two slots share memory", [torch.zeros(5)[:3], one, one.view(3)], torch.rand(4, 3), [0, 1, 2])
        self.refused("overlaps itself", torch.zeros(1, 3).expand(2, 3), torch.rand(4, 3), [0, 1])

    def test_all_tensors_of_a_layer_or_none(self):
        weight, scale = torch.zeros(2, 3), torch.zeros(2, 2)
        with self.assertRaisesRegex(RuntimeError, "^scale: a slot is"):
            ops().install_(["weight", "scale"], [1, 1], [weight, scale], [1, 1], [torch.rand(4, 3), torch.rand(4, 1)],
                           [0, 1], [])
        self.assertEqual(float(weight.abs().sum()), 0.0)


class PrivateFormat(unittest.TestCase):
    """A private format pads and reorders inside a slot: its slots are ranges of storage bytes."""

    def padded(self, slots, slot_bytes, used):
        storage = torch.arange(slots * slot_bytes, dtype=torch.int64).to(torch.uint8)
        return storage.as_strided((slots, used), (used, 1))  # the shape says less than the storage holds

    def test_the_whole_storage_moves_with_the_padding(self):
        source, target = self.padded(4, 32, 20), torch.zeros(2 * 32, dtype=torch.uint8).as_strided((2, 20), (20, 1))
        install(target, source, [3, 1], raw=["w"])
        whole = target.as_strided((2, 32), (32, 1))
        self.assertTrue(torch.equal(whole, source.as_strided((4, 32), (32, 1))[[3, 1]]))

    def test_a_storage_that_does_not_divide_is_refused_with_the_remedy(self):
        odd = torch.zeros(65, dtype=torch.uint8).as_strided((2, 20), (20, 1))
        with self.assertRaisesRegex(RuntimeError, "65 bytes does not divide by 2 slots .*before the format cast"):
            install(odd, self.padded(4, 32, 20), [0, 1], raw=["w"])

    def test_a_view_inside_a_storage_is_refused(self):
        inside = torch.zeros(80, dtype=torch.uint8)[16:].as_strided((2, 20), (20, 1))
        with self.assertRaisesRegex(RuntimeError, "starts inside its storage"):
            install(inside.as_strided((2, 20), (20, 1), 16), self.padded(4, 32, 20), [0, 1], raw=["w"])


class Permute(unittest.TestCase):
    def test_random_moves_against_indexing(self):
        generator = random.Random(5)
        for _ in range(200):
            count = generator.randint(1, 7)
            source = [generator.randint(-1, count - 1) for _ in range(count)]
            stacked = torch.rand(count, 2, 3)
            listed = [torch.rand(4) for _ in range(count)]
            taken = [slot if wanted < 0 else wanted for slot, wanted in enumerate(source)]
            wanted_stack, wanted_list = stacked[taken].clone(), [listed[i].clone() for i in taken]
            ops().permute_slots_(["a", "b"], [1, count], [stacked, *listed], source, [])
            self.assertTrue(torch.equal(stacked, wanted_stack))
            self.assertTrue(all(torch.equal(a, b) for a, b in zip(listed, wanted_list)))

    def test_slots_larger_than_a_piece_of_the_copy(self):
        stacked = torch.randint(0, 255, (3, (9 << 20) + 5), dtype=torch.uint8)
        wanted = stacked[[1, 2, 0]].clone()
        ops().permute_slots_(["a"], [1], [stacked], [1, 2, 0], [])
        self.assertTrue(torch.equal(stacked, wanted))
        ops().install_(["a"], [1], [stacked], [1], [wanted], [2, 1, 0], [])
        self.assertTrue(torch.equal(stacked, wanted.flip(0)))

    def test_slots_of_different_shapes_are_refused_before_the_first_write(self):
        stacked, listed = torch.arange(2.0), [torch.zeros(2), torch.zeros(3)]
        with self.assertRaisesRegex(RuntimeError, "^b: a slot is"):
            ops().permute_slots_(["a", "b"], [1, 2], [stacked, *listed], [1, 0], [])
        self.assertEqual(stacked.tolist(), [0.0, 1.0])


class Remap(unittest.TestCase):
    table = torch.tensor([7, 5, 3], dtype=torch.int32)

    def test_padding_passes_through_and_the_type_is_kept(self):
        for dtype in (torch.int64, torch.int32):
            ids = torch.tensor([[0, -1], [2, 1]], dtype=dtype)
            result = ops().remap(ids, self.table)
            self.assertEqual(result.dtype, dtype)
            self.assertEqual(result.tolist(), [[7, -1], [3, 5]])
            address = ids.data_ptr()
            ops().remap_(ids, self.table)
            self.assertEqual((ids.tolist(), ids.data_ptr()), ([[7, -1], [3, 5]], address))

    def test_non_contiguous_and_empty_ids(self):
        ids = torch.tensor([[0, 1, 2], [-1, 0, 1]]).t()
        self.assertEqual(ops().remap(ids, self.table).tolist(), [[7, -1], [5, 7], [3, 5]])
        self.assertEqual(ops().remap(torch.empty(0, 8, dtype=torch.int64), self.table).shape, (0, 8))

    def test_an_id_that_is_no_expert_is_an_error_not_another_expert(self):
        for wrong in (3, -2):
            with self.assertRaises((RuntimeError, IndexError)):
                ops().remap(torch.tensor([0, wrong]), self.table)


class Digests(unittest.TestCase):
    def test_equal_bytes_equal_digest_one_bit_differs(self):
        slots = torch.rand(3, 4)
        slots[2] = slots[0]
        digests = ops().slot_digests(["w"], [1], [slots], 3, [])
        self.assertEqual(digests.shape, (1, 3, 4))
        self.assertTrue(torch.equal(digests[0, 0], digests[0, 2]))
        self.assertFalse(torch.equal(digests[0, 0], digests[0, 1]))
        slots[2].view(torch.uint8)[7] ^= 1
        self.assertFalse(torch.equal(digests[0, 2], ops().slot_digests(["w"], [1], [slots], 3, [])[0, 2]))

    def test_the_digest_is_the_sha256_of_the_bytes(self):
        import hashlib
        slots = torch.arange(8, dtype=torch.int16).reshape(2, 4)
        digest = ops().slot_digests(["w"], [1], [slots], 2, [])[0, 1].numpy().tobytes()
        self.assertEqual(digest, hashlib.sha256(slots[1].numpy().tobytes()).digest())


class Tables(unittest.TestCase):
    def test_exchange_plan_rows(self):
        plan = ops().exchange_plan([0, 1, 2, 3], [2, 1, 3, 0], 2)
        self.assertEqual(plan.tolist(), [[1, 0, 0, 0], [1, 1, 1, 0], [0, 0, 1, 1]])

    def test_a_model_that_chooses_per_token_has_no_table(self):
        with self.assertRaisesRegex(RuntimeError, "even chooses per token"):
            ops().dispatch_table(torch.tensor([[0, 1]]), 2, 2, "even")

    def test_a_map_that_does_not_fit_is_refused(self):
        with self.assertRaisesRegex(RuntimeError, "does not fit 3 ranks"):
            ops().dispatch_table(torch.tensor([[0, 1]]), 2, 3, "even")
        with self.assertRaisesRegex(RuntimeError, "expert 2 is outside"):
            ops().dispatch_table(torch.tensor([[0, 2]]), 2, 2, "even")


if __name__ == "__main__":
    unittest.main()
