"""The operators on an out-of-tree device whose memory crashes when the host touches it: everything runs in a child
process, so that a crash is a failed test and not the end of the run."""
import os
import signal
import subprocess
import sys
import textwrap
import unittest


def run(code):
    prelude = """
        import os, torch
        from eplb_loader.library import ops
        torch.ops.load_library(os.environ["EPLB_FAKE_DEVICE"])
        fake, device = torch.ops.fake_device, "privateuseone:0"
        def on_device(*tensors):
            moved = [tensor.to(device) for tensor in tensors]
            fake.reset_counters()
            return moved if len(moved) > 1 else moved[0]
        def no_round_trip():
            to_device, to_host, inside, copies = fake.counters()
            assert (to_device, to_host, copies) == (0, 0, 0), fake.counters()
    """
    script = textwrap.dedent(prelude) + textwrap.dedent(code)
    return subprocess.run([sys.executable, "-B", "-c", script], capture_output=True, text=True, timeout=100)


class Device(unittest.TestCase):
    def passes(self, code):
        result = run(code)
        self.assertEqual(result.returncode, 0, result.stderr)

    def test_the_fake_device_does_crash_when_the_host_reads_it(self):
        result = run("fake.touch(on_device(torch.ones(3)))")
        self.assertEqual(result.returncode, -signal.SIGSEGV)
        self.passes("assert fake.touch(torch.ones(3, dtype=torch.uint8)) == 1")

    def test_the_fake_device_counts_a_read_of_one_value(self):
        self.passes("""
            value = on_device(torch.tensor([5, 6]))
            assert value[1].item() == 6 and fake.counters()[1:] == [8, 0, 1], fake.counters()
        """)

    def test_install_and_permute_stay_on_the_device(self):
        self.passes("""
            weight, scale = torch.randint(-128, 127, (6, 4, 5), dtype=torch.int8), torch.rand(6, 4)
            slots, scales, experts, expert_scales = on_device(torch.zeros(3, 4, 5, dtype=torch.int8), torch.zeros(3, 4),
                                                              weight, scale)
            addresses = slots.data_ptr(), scales.data_ptr()
            ops().install_(["w", "s"], [1, 1], [slots, scales], [1, 1], [experts, expert_scales], [5, 0, 2], [])
            ops().permute_slots_(["w", "s"], [1, 1], [slots, scales], [2, 0, 1], [])
            no_round_trip()
            assert fake.counters()[2] > 0
            assert addresses == (slots.data_ptr(), scales.data_ptr())
            assert torch.equal(slots.cpu(), weight[[2, 5, 0]]) and torch.equal(scales.cpu(), scale[[2, 5, 0]])
        """)

    def test_list_mode_and_private_formats_stay_on_the_device(self):
        self.passes("""
            a, b, c, experts = on_device(torch.zeros(4), torch.zeros(4), torch.zeros(3, 8), torch.arange(48.0).reshape(6, 8))
            ops().install_(["w"], [2], [a, b], [4], [experts[i, :4] for i in range(4)], [3, 1], [])
            ops().install_(["n"], [1], [c], [1], [experts], [4, 4, 0], ["n"])
            ops().permute_slots_(["n"], [1], [c], [2, 1, 0], ["n"])
            no_round_trip()
            assert a.cpu().tolist() == [24, 25, 26, 27] and b.cpu().tolist() == [8, 9, 10, 11]
            assert c.cpu()[:, 0].tolist() == [0, 32, 32]
        """)

    def test_remap_stays_on_the_device(self):
        self.passes("""
            for dtype in (torch.int32, torch.int64):
                ids, table = on_device(torch.tensor([[0, -1], [2, 1]], dtype=dtype), torch.tensor([7, 5, 3], dtype=torch.int32))
                result = ops().remap(ids, table)
                ops().remap_(ids, table)
                no_round_trip()
                assert result.device.type == "privateuseone" and result.dtype == dtype
                assert result.cpu().tolist() == ids.cpu().tolist() == [[7, -1], [3, 5]]
        """)

    def test_digests_copy_each_slot_to_the_host_once_and_agree_with_the_cpu(self):
        self.passes("""
            weight = torch.rand(3, 16)
            slots = on_device(weight)
            digests = ops().slot_digests(["w"], [1], [slots], 3, [])
            assert fake.counters() == [0, 3 * 16 * 4, 0, 3], fake.counters()
            assert torch.equal(digests, ops().slot_digests(["w"], [1], [weight], 3, []))
        """)


if __name__ == "__main__":
    unittest.main()
