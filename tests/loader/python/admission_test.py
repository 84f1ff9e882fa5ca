"""Admission from the server's process: the rules are those of `eplb-load check`, and install_model takes nothing else."""
import json
import os
import random
import shutil
import subprocess
import tempfile
import unittest

import torch

import moe
from eplb_loader import AdmissionError, InstallError, Layout, admit, attest, install_model, together
from install_test import GENERIC
from ranks import run_ranks

PROGRAM = os.path.join(os.environ["EPLB_PROGRAMS"], "eplb-load", "eplb-load")
INPUTS = os.path.join(os.environ["EPLB_SOURCE_DIR"], "tests", "apps", "load", "inputs")
# legal.json: 2 ranks x 3 slots, 4 experts, prefill; serve.sh and config.json are of the server that it was made for
FITS = {"engine": "sglang", "server_args": "serve.sh", "model_config": "config.json", "role": "prefill", "dispatch": "omni"}


class Files(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = os.path.join(folder.name, "inputs")
        shutil.copytree(INPUTS, self.folder)
        home = os.getcwd()
        os.chdir(self.folder)
        self.addCleanup(os.chdir, home)

    def admit(self, **changes):
        return admit(Layout.load("legal.json"), **{**FITS, **changes})


class Rules(Files):
    def findings_of_the_program(self, arguments):
        flags = [text for name, value in arguments.items() if value is not None
                 for text in ("--" + name.replace("_", "-"), str(value).lower() if isinstance(value, bool) else str(value))]
        result = subprocess.run([PROGRAM, "check", "legal.json", "--json", *flags], capture_output=True, text=True, timeout=60)
        report = json.loads(result.stdout)
        self.assertEqual(result.returncode, 0 if report["ok"] else 1)
        return report

    def test_the_same_findings_as_the_program(self):
        refused = 0
        for changes in ({}, {"role": "decode"}, {"ranks": 3}, {"layers": 5}, {"a2a": "none"}, {"dispatch": "xllm"},
                        {"dispatch": None}, {"engine": "generic", "server_args": None, "quant": "w3"},
                        {"model_config": None}, {"draft_layers": "perhaps"}):
            with self.subTest(changes=changes):
                arguments = {**FITS, **changes}
                report = self.findings_of_the_program(arguments)
                codes = [(finding["severity"], finding["code"], finding["where"]) for finding in report["findings"]]
                try:
                    admission = self.admit(**changes)
                    self.assertEqual([(f["severity"], f["code"], f["where"]) for f in admission.findings], codes)
                    self.assertEqual(admission.attestation, report["attestation"])
                except AdmissionError as error:
                    refused += 1
                    self.assertEqual([line.split(":")[0] for line in error.reasons],
                                     [code for severity, code, _ in codes if severity == "error"])
                    self.assertEqual(str(error).splitlines(), ["legal.json: refused", *error.reasons])
        self.assertGreaterEqual(refused, 6)

    def test_a_manifest_of_the_other_role_is_refused_by_name(self):
        with self.assertRaisesRegex(AdmissionError, "ROLE_MISMATCH: the layout was made from prefill counts, .* decode"):
            self.admit(role="decode")

    def test_arguments_as_the_server_holds_them(self):
        server_args = {"ep_size": 2, "tp_size": 2, "nnodes": 1, "quantization": "w8a8", "moe_a2a_backend": "deepep",
                       "ep_num_redundant_experts": 2, "ep_dispatch_algorithm": "static", "enable_eplb": False,
                       "disaggregation_mode": "prefill",
                       "init_expert_location": "legal.json", "log_level": None, "mem_fraction_static": 0.8}
        admission = self.admit(server_args=server_args, role=None, shared_fusion=False)
        self.assertEqual(admission.attestation["facts"]["ranks"], "2")
        server_args["ep_size"] = 3
        with self.assertRaisesRegex(AdmissionError, "RANKS_DIFFER: .* 3 "):
            self.admit(server_args=server_args, role=None, shared_fusion=False)

    def test_a_misspelt_fact_is_an_error(self):
        with self.assertRaisesRegex(RuntimeError, "'rank' is no fact of a server"):
            self.admit(rank=2)

    def test_the_table_of_the_rule_is_handed_over(self):
        layout = Layout.load("legal.json")
        self.assertTrue(torch.equal(self.admit().table, layout.dispatch_table("omni", 1)))
        chosen_per_token = admit(layout, ranks=2, layers=2, experts=4, redundant_total=2, role="prefill", quant="w8a8",
                                 dispatch="even")
        self.assertIsNone(chosen_per_token.table)

    def test_a_table_made_for_another_layout(self):
        with open("other.json", "w") as file:
            json.dump({"physical_to_logical_map": Layout.load("legal.json").map.flip(1).tolist()}, file)
        made = subprocess.run([PROGRAM, "table", "other.json", "--ranks", "2", "--experts", "4", "--nodes", "1",
                               "--dispatch", "omni", "--out", "other.table.npy"], capture_output=True, text=True, timeout=60)
        self.assertEqual((made.returncode, made.stderr), (0, ""))
        with self.assertRaisesRegex(AdmissionError, "TABLE_DIFFERS: "):
            self.admit(table="other.table.npy")

    def test_a_file_that_changed_after_it_was_loaded(self):
        layout = Layout.load("legal.json")
        with open("legal.json", "a") as file:
            file.write(" ")
        with self.assertRaisesRegex(AdmissionError, "MANIFEST_UNUSABLE"):
            admit(layout, **FITS)
        rows = layout.map.tolist()
        rows[0] = rows[0][3:] + rows[0][:3]
        with open("legal.json", "w") as file:
            json.dump({"physical_to_logical_map": rows}, file)
        os.remove("legal.manifest.json")
        with self.assertRaisesRegex(AdmissionError, "LAYOUT_CHANGED"):
            admit(layout, **FITS, allow_no_manifest=True)

    def test_a_layout_without_a_manifest_is_read_only_on_request(self):
        os.remove("legal.manifest.json")
        with self.assertRaisesRegex(RuntimeError, "no manifest beside"):
            Layout.load("legal.json")
        layout = Layout.load("legal.json", 2, allow_no_manifest=True)
        self.assertEqual((layout.ranks, layout.slots, len(layout.sha256)), (2, 3, 64))
        with self.assertRaisesRegex(AdmissionError, "NO_MANIFEST"):
            admit(layout, **FITS)
        self.assertIsNone(layout.admission)
        admit(layout, **FITS, allow_no_manifest=True)


EXPERTS, SLOTS = 16, 16


def refusal(layout, **arguments):
    """The reason, after checking that nothing was written."""
    tensors = moe.checkpoint(EXPERTS)
    model = moe.Model(tensors, EXPERTS, 1, SLOTS)
    model.fill(tensors, Layout.linear(moe.LAYERS, EXPERTS, 1, SLOTS), 0)
    before = [tensor.clone() for tensor in model.parameters()]
    try:
        install_model(model, layout, 0, 1, **{"adapter": GENERIC, **arguments})
    except InstallError as error:
        assert not attest(model).ok
        assert all(torch.equal(a, b) for a, b in zip(before, model.parameters()))
        return str(error)
    return None


def layout_of(seed, **facts):
    rows = moe.random_rows(moe.LAYERS, EXPERTS, 1, SLOTS, random.Random(seed))
    return moe.admitted(Layout(rows, EXPERTS, 1), **facts)


class Gate(unittest.TestCase):
    def test_only_what_was_admitted_is_installed(self):
        layout = layout_of(1)
        self.assertIsNone(refusal(layout))
        self.assertIn("was not admitted", refusal(Layout(layout.map, EXPERTS, 1)))
        layout.map[2, :2] = layout.map[2, :2].flip(0)
        self.assertIn("the map was changed after it was admitted", refusal(layout))

    def test_only_the_admitted_table_is_installed(self):
        layout = layout_of(1, dispatch="omni", nodes=1)
        self.assertIsNone(refusal(layout))
        self.assertIsNone(refusal(layout, table=layout.dispatch_table("omni", 1)))
        self.assertIn("not the one that was admitted", refusal(layout, table=layout_of(2).dispatch_table("omni", 1)))

    def test_only_an_adapter_of_the_admitted_engine(self):
        layout = layout_of(1)
        self.assertIn("admitted to generic, adapter test is for sglang", refusal(layout, adapter={**GENERIC, "engine": "sglang"}))

    def test_a_layer_that_the_adapter_does_not_find(self):
        layout = layout_of(1, expert_layers=moe.LAYERS)
        self.assertIsNone(refusal(layout))
        narrow = {**GENERIC, "block": r"model\.layers\.(?P<layer>[01])\.mlp"}
        self.assertIn("finds 2 layers with experts, the model has 3: [0, 1]", refusal(layout, adapter=narrow))
        staged = layout_of(1, expert_layers=moe.LAYERS, pipeline_parallel=2)  # another stage has the third
        self.assertIsNone(refusal(staged, adapter=narrow))


def told_something_else(rank, ranks):
    layout = Layout.linear(moe.LAYERS, EXPERTS, ranks, EXPERTS // ranks)
    layout = moe.admitted(layout, role="decode" if rank == 1 else "prefill")
    model = moe.Model(moe.checkpoint(EXPERTS), EXPERTS, ranks, EXPERTS // ranks)
    try:
        install_model(model, layout, rank, ranks, adapter=GENERIC)
    except InstallError as error:
        return str(error)
    return None


def refused_on_one(rank, ranks):
    layout = Layout.linear(moe.LAYERS, EXPERTS, ranks, EXPERTS // ranks)
    try:
        with together(rank, ranks):
            moe.admitted(layout, quant="w3" if rank == 1 else "w8a8", **({"role": "none"} if rank == 1 else {}))
    except InstallError as error:
        return str(error)
    return None


class Ranks(unittest.TestCase):
    def test_ranks_that_were_told_something_else(self):
        for reason in run_ranks(2, told_something_else):
            self.assertRegex(reason, "ranks disagree on the admission: rank 0 has .*role prefill.*rank 1 has .*role decode")

    def test_a_refusal_on_one_rank_reaches_all_with_every_reason(self):
        for reason in run_ranks(2, refused_on_one):
            self.assertRegex(reason, r"rank 1: .*layout\.json: ROLE_MISMATCH: .*; QUANT_UNKNOWN: ")


if __name__ == "__main__":
    unittest.main()
