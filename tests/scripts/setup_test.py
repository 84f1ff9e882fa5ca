#!/usr/bin/env python3
"""scripts/setup installs what is missing and nothing else. dpkg-query, apt-get, sudo and id are stand-ins."""

import os
import pathlib
import subprocess
import tempfile
import unittest

SETUP = pathlib.Path(__file__).resolve().parents[2] / "scripts/setup"

# dpkg-query -W -f FORMAT PACKAGE...: says that everything is installed except what $MISSING names.
DPKG_QUERY = """#!/bin/bash
shift 3
for package; do
    case " $MISSING " in *" $package "*) ;; *) echo "$package installed" ;; esac
done
"""
APT_GET = '#!/bin/bash\necho "$DEBIAN_FRONTEND apt-get $*" >>"$LOG"\n'
SUDO = '#!/bin/bash\necho "sudo $1" >>"$LOG"\nexec "$@"\n'


class Setup(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.bin = pathlib.Path(folder.name)
        self.log = self.bin / "log"
        for name, text in (("dpkg-query", DPKG_QUERY), ("apt-get", APT_GET), ("sudo", SUDO), ("id", "#!/bin/bash\necho $UID_GIVEN\n")):
            self.program(name, text)
        for name in ("bash", "env", "grep"):  # nothing else is on PATH
            (self.bin / name).symlink_to(f"/bin/{name}" if pathlib.Path(f"/bin/{name}").exists() else f"/usr/bin/{name}")

    def program(self, name, text):
        (self.bin / name).write_text(text)
        (self.bin / name).chmod(0o755)

    def setup(self, *arguments, missing="", uid=0):
        environment = {"PATH": str(self.bin), "MISSING": missing, "LOG": str(self.log), "UID_GIVEN": str(uid)}
        return subprocess.run(["/bin/bash", SETUP, *arguments], env=environment, capture_output=True, text=True)

    def calls(self):
        return self.log.read_text().splitlines() if self.log.exists() else []

    def test_nothing_happens_when_everything_is_there(self):
        for tier in ("core", "all"):
            done = self.setup(tier)
            self.assertEqual((done.returncode, done.stdout, done.stderr), (0, "", ""))
        self.assertEqual(self.calls(), [])

    def test_only_what_is_missing_is_installed_without_a_question(self):
        done = self.setup("core", missing="ninja-build libfmt-dev libtorch-dev")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual([call.strip() for call in self.calls()], [
            "apt-get update -qq",
            "noninteractive apt-get install -y -qq --no-install-recommends ninja-build libfmt-dev"])

    def test_the_tier_all_holds_the_tier_core(self):
        self.setup("all", missing="ninja-build libtorch-dev")
        self.assertTrue(self.calls()[-1].endswith("ninja-build libtorch-dev"), self.calls())

    def test_sudo_is_used_by_others_than_root(self):
        self.setup("core", missing="ninja-build", uid=1000)
        self.assertEqual([call for call in self.calls() if call.startswith("sudo")], ["sudo apt-get", "sudo env"])

    def test_without_sudo_or_apt_get_the_packages_are_named(self):
        (self.bin / "sudo").unlink()
        done = self.setup("core", missing="ninja-build", uid=1000)
        self.assertEqual(done.returncode, 1)
        self.assertIn("ninja-build", done.stderr)
        (self.bin / "apt-get").unlink()
        done = self.setup("core", missing="ninja-build")
        self.assertEqual(done.returncode, 1)
        self.assertIn("ninja-build", done.stderr)

    def test_a_failed_installation_fails(self):
        self.program("apt-get", "#!/bin/bash\nexit 100\n")
        self.assertNotEqual(self.setup("core", missing="ninja-build").returncode, 0)

    def test_an_unknown_tier_is_refused(self):
        self.assertEqual(self.setup("everything").returncode, 2)
        self.assertEqual(self.setup().returncode, 2)


if __name__ == "__main__":
    unittest.main()
