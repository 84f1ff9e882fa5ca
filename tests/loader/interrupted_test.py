"""bake and slots are whole or absent: killed at any moment, or on a full disk, they leave nothing under the final name."""
import hashlib
import json
import os
import pathlib
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import unittest

PROGRAM = sys.argv.pop(1)
LAYERS, EXPERTS, SIZE = 6, 4, 1 << 20


def write_checkpoint(folder):
    folder.mkdir()
    for layer in range(LAYERS):
        header, at = {}, 0
        for name, shape in [("gate.weight", [EXPERTS, 2])] + [(f"experts.{e}.w.weight", [SIZE]) for e in range(EXPERTS)]:
            size = shape[0] * (shape[1] if len(shape) > 1 else 1)
            header[f"model.layers.{layer}.mlp.{name}"] = {"dtype": "I8", "shape": shape, "data_offsets": [at, at + size]}
            at += size
        text = json.dumps(header).encode()
        (folder / f"{layer}.safetensors").write_bytes(len(text).to_bytes(8, "little") + text + os.urandom(at))
    (folder / "config.json").write_text(json.dumps(
        {"model_type": "deepseek_v3", "num_hidden_layers": LAYERS, "n_routed_experts": EXPERTS}))


class Interrupted(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        write_checkpoint(self.folder / "in")
        (self.folder / "x.json").write_text(json.dumps({"physical_to_logical_map": [[2, 0, 3, 1]] * LAYERS}))

    def command(self, kind, *more, out=None):
        return [PROGRAM, kind, self.folder / "x.json", "--checkpoint", self.folder / "in", "--out", out or self.folder / "out",
                "--ranks", "2", "--allow-no-manifest", *more]

    def left_over(self):
        return sorted(set(os.listdir(self.folder)) - {"in", "x.json"})

    def assert_whole(self):
        record = json.loads((self.folder / "out" / "eplb-checkpoint.json").read_text())
        self.assertEqual(sorted(os.listdir(self.folder / "out")),
                         sorted([file["name"] for file in record["files"]] + ["eplb-checkpoint.json"]))
        for file in record["files"]:
            self.assertEqual(hashlib.sha256((self.folder / "out" / file["name"]).read_bytes()).hexdigest(), file["sha256"])

    def kill_when(self, command, reached, number=signal.SIGKILL):
        """The exit code of the program, which gets a signal before its end if it can be had."""
        process = subprocess.Popen(command, stdout=subprocess.DEVNULL)
        end = time.monotonic() + 60
        while process.poll() is None and time.monotonic() < end:
            temporary = next(self.folder.glob(".out.*.tmp"), None)
            try:
                if temporary and reached(temporary):
                    break
            except FileNotFoundError:
                break  # was renamed just now
        process.send_signal(number)
        return process.wait()

    def test_killed_at_any_moment_nothing_is_under_the_final_name(self):
        for kind in ("bake", "slots"):
            killed = 0
            moments = [lambda folder: True, lambda folder: len(os.listdir(folder)) >= 2,
                       lambda folder: (folder / "eplb-checkpoint.json").exists()]
            for reached in moments:
                if self.kill_when(self.command(kind), reached) == -signal.SIGKILL and not (self.folder / "out").exists():
                    killed += 1
                    self.assertTrue(all(name.startswith(".out.") for name in self.left_over()), self.left_over())
                else:
                    self.assert_whole()
                    shutil.rmtree(self.folder / "out")
            self.assertGreater(killed, 0)
            result = subprocess.run(self.command(kind), capture_output=True, text=True, timeout=60)
            self.assertEqual((result.returncode, result.stderr), (0, ""))
            self.assertEqual(self.left_over(), ["out"], "what the killed ones left was not removed")
            self.assert_whole()
            shutil.rmtree(self.folder / "out")

    def test_killed_while_replacing_the_old_one_is_whole_or_the_new_one_is(self):
        subprocess.run(self.command("bake"), check=True, stdout=subprocess.DEVNULL, timeout=60)
        for reached in (lambda folder: True, lambda folder: len(os.listdir(folder)) >= LAYERS,
                        lambda folder: (folder / "eplb-checkpoint.json").exists()):
            self.kill_when(self.command("bake", "--force"), reached)
            self.assert_whole()

    def test_a_signal_that_asks_to_end_leaves_nothing(self):
        for number in (signal.SIGTERM, signal.SIGHUP, signal.SIGINT):
            code = self.kill_when(self.command("bake"), lambda folder: True, number)
            if code == 0:  # it was faster
                self.assert_whole()
                shutil.rmtree(self.folder / "out")
            else:
                self.assertEqual(code, 128 + number)
            self.assertEqual(self.left_over(), [])

    def test_only_what_a_writer_could_have_left_is_removed(self):
        names = [".out.0123456789abcdeX.tmp", ".out.0123456789abcdef.tmp.d", ".out.0123456789abcde.tmp", ".outs.0123456789abcdef.tmp"]
        for name in names:
            (self.folder / name).mkdir()
        (self.folder / "precious").mkdir()
        (self.folder / "precious" / "file").write_text("p")
        (self.folder / ".out.fedcba9876543210.tmp").symlink_to("precious")
        (self.folder / ".out.0123456789abcdef.tmp").mkdir()
        subprocess.run(self.command("bake"), check=True, stdout=subprocess.DEVNULL, timeout=60)
        self.assertEqual(self.left_over(), sorted([*names, "out", "precious", ".out.fedcba9876543210.tmp"]))
        self.assertEqual((self.folder / "precious" / "file").read_text(), "p")

    def assert_refused(self, result, out):
        self.assertEqual(result.returncode, 5, result.stderr)
        self.assertEqual(len(result.stderr.splitlines()), 1)
        self.assertIn(str(out), result.stderr)

    def test_a_file_that_cannot_grow(self):
        def limit():
            signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
            resource.setrlimit(resource.RLIMIT_FSIZE, (3 * SIZE, 3 * SIZE))
        for kind in ("bake", "slots"):
            result = subprocess.run(self.command(kind), capture_output=True, text=True, timeout=60, preexec_fn=limit)
            self.assert_refused(result, self.folder / "out")
            self.assertIn("File too large", result.stderr)
            self.assertEqual(self.left_over(), [])

    def test_a_full_disk(self):
        small = self.folder / "small"
        small.mkdir()
        inside = "mount -t tmpfs -o size=10m tmpfs \"$0\" || exit 99; \"$@\"; code=$?; ls -A \"$0\" >&2; exit $code"
        result = subprocess.run(["unshare", "--map-root-user", "--mount", "sh", "-c", inside, small,
                                 *self.command("bake", out=small / "out")], capture_output=True, text=True, timeout=60)
        if result.returncode in (1, 99) and "eplb-load" not in result.stderr:
            self.skipTest(f"no mounts here: {result.stderr.strip()}")
        self.assert_refused(result, small / "out")  # one line: nothing is left in the folder
        self.assertIn("No space left on device", result.stderr)


if __name__ == "__main__":
    unittest.main()
