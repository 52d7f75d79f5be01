"""Two hosts on one machine: network, mount and host name namespaces of their own, joined by a pair of virtual interfaces.

Each host sees its own folder under one name, `work`, and a folder that both see, `shared`.
"""
import os
import pathlib
import shutil
import subprocess
import tempfile

NAMES = ("tandem0", "tandem1")
ADDRESSES = ("10.77.31.1", "10.77.31.2")
NETWORK = "10.77.31.0/24"


def done(*command):
    subprocess.run(command, check=True, capture_output=True, timeout=30)


def refusal():
    """Why this machine cannot have two hosts; empty where it can."""
    missing = [program for program in ("ip", "unshare", "nsenter", "mount") if shutil.which(program) is None]
    if missing:
        return "there is no " + ", ".join(missing)
    if os.geteuid() != 0:
        return "namespaces need root"
    tried = subprocess.run(["unshare", "--net", "--mount", "--uts", "ip", "link", "add", "probe0", "type", "veth", "peer", "name", "probe1"],
                           capture_output=True, check=False, timeout=30)
    return "" if tried.returncode == 0 else "namespaces are not permitted: " + tried.stderr.decode().strip()


class TwoHosts:
    """Lives until `close`."""

    def __init__(self):
        self._folder = tempfile.TemporaryDirectory(prefix="tandem_hosts_")
        root = pathlib.Path(self._folder.name)
        self.own = [root / name for name in NAMES]
        self.work, self.shared = root / "work", root / "shared"
        for folder in (*self.own, self.work, self.shared):
            folder.mkdir()
        (root / "hosts").write_text("127.0.0.1 localhost\n" + "".join(f"{a} {n}\n" for a, n in zip(ADDRESSES, NAMES)))
        self._holders = []
        try:
            for host in range(2):
                self._holders.append(self._begin(host, root))
            self._join()
        except BaseException:
            self.close()
            raise

    @staticmethod
    def _begin(host, root):
        """A process that holds the namespaces of a host, and says when its folders are there."""
        script = (f"mount --make-rprivate / && hostname {NAMES[host]} && mount --bind {root / NAMES[host]} {root / 'work'} && "
                  f"mount --bind {root / 'hosts'} /etc/hosts && ip link set lo up && echo ready && exec sleep 3600")
        holder = subprocess.Popen(["unshare", "--net", "--mount", "--uts", "sh", "-c", script], stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        if holder.stdout.readline() != b"ready\n":
            raise RuntimeError(f"{NAMES[host]} does not begin: {holder.communicate()[1].decode()}")
        return holder

    def _join(self):
        ends = [f"tan{os.getpid() % 100000}{side}" for side in "ab"]
        done("ip", "link", "add", ends[0], "type", "veth", "peer", "name", ends[1])
        for host, end in enumerate(ends):
            done("ip", "link", "set", end, "netns", str(self._holders[host].pid))
            done(*self.command(host), "ip", "address", "add", ADDRESSES[host] + "/24", "dev", end)
            done(*self.command(host), "ip", "link", "set", end, "up")

    def command(self, host):
        """What stands before a command that a host is to run."""
        return ["nsenter", "--target", str(self._holders[host].pid), "--net", "--mount", "--uts"]

    def remote_shell(self):
        """A program that runs a command on a host by name, as ssh does."""
        path = self.shared / "remote_shell"
        cases = "".join(f"{name}) before='{' '.join(self.command(host))}' ;;\n" for host, name in enumerate(NAMES))
        path.write_text(f"#!/bin/sh\nhost=$1; shift\ncase $host in\n{cases}*) echo no host $host >&2; exit 255 ;;\nesac\n"
                        "exec $before sh -c \"$*\"\n")
        path.chmod(0o755)
        return path

    def close(self):
        for holder in self._holders:
            holder.kill()
            holder.communicate()
        self._folder.cleanup()
