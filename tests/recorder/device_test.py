"""The recorder on a device whose memory crashes when the host touches it; in a child process, so that a crash is a failed test."""

import os
import subprocess
import sys
import tempfile
import textwrap
import unittest

PRELUDE = """
    import os, sys, torch, torch.distributed as dist
    from eplb_loader.library import ops
    from eplb_recorder import Recorder
    ops()
    torch.ops.load_library(os.environ["EPLB_FAKE_DEVICE"])
    fake, device, folder = torch.ops.fake_device, "privateuseone:0", sys.argv[1]
    dist.init_process_group("gloo", init_method=f"file://{folder}/store", rank=0, world_size=1)
    layers, experts, slots, records = 5, 8, 12, 64
    layout = [[(slot + layer) % experts for slot in range(slots)] for layer in range(layers)]
    recorder = Recorder(layout, experts, records=records, device=device)
    recorder.start()
"""


class Device(unittest.TestCase):
    def passes(self, code):
        with tempfile.TemporaryDirectory() as folder:
            result = subprocess.run([sys.executable, "-B", "-c", textwrap.dedent(PRELUDE) + textwrap.dedent(code), folder],
                                    capture_output=True, text=True, timeout=100)
        self.assertEqual(result.returncode, 0, result.stderr)

    def test_recording_never_leaves_the_device(self):
        self.passes("""
            ids = torch.tensor([[0, 3], [-1, 11], [5, 5]]).to(device)
            mask = torch.tensor([True, True, False]).to(device)
            ring = recorder._chunks[0][0].data_ptr()
            fake.reset_counters()
            for _ in range(records + 1):
                for layer in range(layers):
                    recorder.record(layer, ids, mask)
                recorder.append()
            to_device, to_host, inside, copies = fake.counters()
            assert (to_device, to_host, copies) == (0, 0, 0), fake.counters()
            assert recorder._chunks[0][0].data_ptr() == ring
            assert recorder._chunks[0][0].cpu()[0, 2].tolist() == [1, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 1]
        """)

    def test_counts_that_the_engine_keeps_on_the_host_are_taken(self):
        self.passes("""
            recorder.add_counts(torch.full((layers, slots), 3), torch.tensor(7))
            recorder.append()
            assert recorder._chunks[0][0].cpu()[0].tolist() == [[3] * slots] * layers
            assert recorder._chunks[0][1].cpu()[0, 0] == 7
        """)

    def test_a_dump_is_one_bulk_copy_and_little_metadata(self):
        self.passes("""
            counts = torch.arange(layers * slots, dtype=torch.int32).reshape(layers, slots).to(device)
            for _ in range(3):
                recorder.add_counts(counts)
                recorder.append()
            fake.reset_counters()
            recorder.dump(os.path.join(folder, "Y.pt"), dist.group.WORLD)
            to_device, to_host, inside, copies = fake.counters()
            ring_bytes = records * layers * slots * 4
            assert ring_bytes <= to_host <= ring_bytes + 64 * 1024, fake.counters()
            assert copies == 3, fake.counters()  # the ring, its tags, the state
            found = torch.load(os.path.join(folder, "Y.pt"))["logical_count"]
            expected = torch.zeros(layers, experts, dtype=torch.int64)
            for layer in range(layers):
                for slot in range(slots):
                    expected[layer, layout[layer][slot]] += layer * slots + slot
            assert found.device.type == "cpu" and torch.equal(found[2].to(torch.int64), expected)
        """)


if __name__ == "__main__":
    unittest.main()
