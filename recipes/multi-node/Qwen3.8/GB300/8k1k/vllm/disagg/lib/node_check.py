"""Check one node before any engine starts, then collect what all nodes said. Python's standard library only; runs in the container.

node_check.py check PLAN     on every node: address, ports, setup script, GPUs, Dynamo, vLLM, model; writes nodes.d/<index>.json
node_check.py collect PLAN   on one: writes nodes.txt and ran.json from them
"""

import errno
import fcntl
import json
import os
import re
import resource
import shutil
import socket
import struct
import subprocess
import sys
import time
from importlib import metadata

sys.dont_write_bytecode = True  # lib/ holds what was reviewed, and nothing else

from setup_script import run_setup  # noqa: E402

SIOCGIFADDR = 0x8915  # linux/sockios.h: the IPv4 address of an interface
MOST_FILES = 131072  # process.sh and nginx.sh raise the limit of open files no further


def main():
    verb, plan_path = sys.argv[1:]
    with open(plan_path, encoding="utf-8") as file:
        plan = json.load(file)
    return check(plan) if verb == "check" else collect(plan)


def check(plan):
    node = Node(plan)
    for step in (node.find_address, node.check_ports, node.run_setup, node.check_gpus, node.check_dynamo, node.check_engine, node.check_model):
        step()
    for text in node.problems:
        print("problem: {}: {}".format(node.facts["host"], text))
    write_json(os.path.join(run_dir(), "nodes.d", "{:04d}.json".format(node.facts["index"])), node.facts)
    return 1 if node.problems else 0


class Node:
    """What is found out about this node: `facts` are kept in the run folder, `problems` end the job."""

    def __init__(self, plan):
        self.plan = plan
        self.simulated = plan["engine"] == "mocker"
        self.problems = []
        self.facts = {
            "index": int(os.environ["SLURM_PROCID"]),
            "host": os.environ.get("SLURMD_NODENAME") or socket.gethostname(),
            "python": sys.version.split()[0],
            "nofile": open_files(),
        }

    def find_address(self):
        """The address that other nodes reach: of the named interface, else of this host's name; never loopback, but for local runs."""
        address, interface = os.environ.get("RECIPEGEN_NODE_ADDRESS"), os.environ.get("RECIPEGEN_NODE_INTERFACE")
        wanted = os.environ.get("NETWORK_INTERFACE")
        if not address and wanted:
            address, interface = interface_address(wanted), wanted
            if not address:
                names = ", ".join(name for _, name in socket.if_nameindex())
                self.problems.append("interface {} has no IPv4 address here (interfaces: {})".format(wanted, names))
        elif not address:
            address, interface = address_of_name(self.facts["host"])
            if not address:
                self.problems.append("the name of this node gives no address that other nodes reach; name NETWORK_INTERFACE in site.env")
        self.facts["address"], self.facts["interface"] = address or "-", interface or "-"

    def check_ports(self):
        """Nobody listens on a port of ours yet, and the system does not hand them out to clients."""
        offset, address = int(os.environ["PORT_OFFSET"]), self.facts["address"]
        blocks = [p["ports"] for p in self.plan["processes"] if p["node_index"] == self.facts["index"]]
        services = dict(self.plan["services"])
        replica = {name: services.pop(name) for name in ("FRONTEND_REPLICA_PORT",) if name in services}
        if self.facts["index"] in self.plan.get("front_ends", []):
            blocks.append(replica)
        if self.facts["index"] == 0:
            blocks.append(services)
        ports = {block["base"] + offset + i: name for ports in blocks for name, block in ports.items() for i in range(block["count"])}
        if address != "-":
            taken = ["{} ({})".format(port, name) for port, name in sorted(ports.items()) if in_use(address, port)]
            if taken:
                self.problems.append("ports in use on {}: {}; set PORT_OFFSET, or end what listens there".format(address, ", ".join(taken[:5])))
        floor = ephemeral_floor()
        if ports and max(ports) >= floor:
            print("warning: port {} lies in this node's ephemeral range, which begins at {}; set PORT_OFFSET".format(max(ports), floor))

    def run_setup(self):
        self.problems += filter(None, [run_setup(self.plan, self.facts["index"], self.facts["host"])])

    def check_gpus(self):
        """As many GPUs as the processes here use. Without nvidia-smi nothing is said: the engine will."""
        needed = {d for p in self.plan["processes"] if p["node_index"] == self.facts["index"] for d in p["device_ids"]}
        if self.simulated or not shutil.which("nvidia-smi"):
            return
        listed = subprocess.run(["nvidia-smi", "-L"], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, universal_newlines=True, timeout=60)
        self.facts["gpus"] = sum(line.startswith("GPU ") for line in listed.stdout.splitlines())
        if self.facts["gpus"] < len(needed):
            self.problems.append("{} GPUs visible, {} needed".format(self.facts["gpus"], len(needed)))

    def check_dynamo(self):
        """Dynamo, at the pinned version where the recipe names one; installed first where the recipe says so."""
        wanted, requirement = self.plan["runtime"]["dynamo"], self.plan["runtime"]["dynamo_requirement"]
        found = version_of("ai-dynamo")
        if found != wanted and requirement:
            print("installing {}".format(requirement), flush=True)
            subprocess.call([sys.executable, "-m", "pip", "install", "--no-input", requirement])
            found = version_of("ai-dynamo")
        self.facts["dynamo"] = found
        if found is not None and wanted in (None, found):
            return
        if found is None:
            mend = "use an image that has it, or say `dynamo: {install: pip}` in the matrix"
            if self.simulated:
                mend = "install the extra recipegen[sim], and let PATH_PREFIX of site.env name its bin directory"
            self.problems.append("Dynamo is not installed for {}; {}".format(sys.executable, mend))
        else:
            self.problems.append("Dynamo {} is installed, the recipe is for {}".format(found, wanted))

    def check_engine(self):
        """The vLLM build that the flags were chosen for, where the recipe names one; a local build suffix may differ."""
        if self.simulated:
            return
        wanted, found = self.plan["runtime"]["vllm"], version_of("vllm")
        self.facts["vllm"] = found
        if found is None:
            self.problems.append("vLLM is not installed for {}".format(sys.executable))
        elif wanted and found.split("+")[0] != wanted.split("+")[0]:
            self.problems.append("vLLM {} is installed, the recipe is for {}".format(found, wanted))

    def check_model(self):
        """A local snapshot is there and, where it tells and the recipe pins one, at that revision. A hub id is pinned by --revision."""
        path = os.environ.get("MODEL") or self.plan["model"]["repo"]
        self.facts["model"] = path
        if self.simulated or not path.startswith("/"):
            self.facts["revision"] = None if self.simulated else self.plan["model"]["revision"]
            return
        if not os.path.isfile(os.path.join(path, "config.json")):
            self.problems.append("no config.json in the model's folder {} (is it mounted?)".format(path))
            return
        wanted = self.plan["model"]["revision"]
        self.facts["revision"] = found = snapshot_revision(path)
        if not wanted:
            return
        if found is None:
            print("warning: {} does not tell its revision; the recipe is for {}".format(path, wanted))
        elif found != wanted:
            self.problems.append("the model in {} is revision {}, the recipe is for {}".format(path, found, wanted))


def collect(plan):
    nodes = []
    folder = os.path.join(run_dir(), "nodes.d")
    for name in sorted(name for name in os.listdir(folder) if name.endswith(".json")):
        with open(os.path.join(folder, name), encoding="utf-8") as file:
            nodes.append(json.load(file))
    missing = plan["directives"]["nodes"] - len(nodes)
    if missing:
        print("problem: {} nodes said nothing".format(missing))
        return 1
    lines = ["{index} {host} {address} {interface}\n".format(**node) for node in nodes]
    write_text(os.path.join(run_dir(), "nodes.txt"), "".join(lines))
    write_json(os.path.join(run_dir(), "ran.json"), what_ran(plan, nodes))
    return 0


def what_ran(plan, nodes):
    def common(key):
        values = sorted({json.dumps(node.get(key)) for node in nodes})
        return json.loads(values[0]) if len(values) == 1 else [json.loads(value) for value in values]

    return {
        "job": os.environ["SLURM_JOB_ID"],
        "restart": int(os.environ["RESTART"]),
        "time": time.time(),
        "digest": os.environ["DIGEST"],
        "engine": plan["engine"],
        "image": os.environ.get("CONTAINER_IMAGE") if os.environ.get("CONTAINER_RUNTIME") == "pyxis" else None,
        "recipe_image": plan["runtime"]["image"],
        "model": common("model"),
        "revision": common("revision"),
        "dynamo": common("dynamo"),
        "vllm": common("vllm"),
        "python": common("python"),
        "nofile": common("nofile"),
        "port_offset": int(os.environ["PORT_OFFSET"]),
        "nodes": [{"host": node["host"], "address": node["address"]} for node in nodes],
    }


def interface_address(name):
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            answer = fcntl.ioctl(probe.fileno(), SIOCGIFADDR, struct.pack("256s", name.encode()[:15]))
        except OSError:
            return None
    return socket.inet_ntoa(answer[20:24])


def address_of_name(host):
    """(address, interface) of the host's name, as long as an interface of this machine has it."""
    own = {interface_address(name): name for _, name in socket.if_nameindex() if name != "lo"}
    for name in (host, socket.gethostname(), socket.getfqdn()):
        try:
            addresses = {entry[4][0] for entry in socket.getaddrinfo(name, None, socket.AF_INET)}
        except OSError:
            continue
        for address in sorted(addresses):
            if address in own:
                return address, own[address]
    return None, None


def in_use(address, port):
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)  # waiting remains of closed connections do not count
        try:
            probe.bind((address, port))
            probe.listen(1)
        except OSError as error:
            return error.errno == errno.EADDRINUSE
    return False


def open_files():
    """How many files a process of this job may have open, once its limit is raised."""
    most = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    return MOST_FILES if most == resource.RLIM_INFINITY else min(most, MOST_FILES)


def ephemeral_floor():
    try:
        with open("/proc/sys/net/ipv4/ip_local_port_range", encoding="ascii") as file:
            return int(file.read().split()[0])
    except (OSError, ValueError):
        return 32768


def version_of(package):
    """Asked of a fresh path listing, so that what pip has just installed is seen."""
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return None


def snapshot_revision(path):
    """The commit of a snapshot: the folder of the hub's cache is named by it, and a plain download notes it beside the files."""
    in_cache = re.search(r"/snapshots/([0-9a-f]{40})(?:/|$)", os.path.realpath(path) + "/")
    if in_cache:
        return in_cache.group(1)
    try:
        with open(os.path.join(path, ".cache/huggingface/download/config.json.metadata"), encoding="ascii") as file:
            return file.readline().strip() or None
    except (OSError, UnicodeDecodeError):
        return None


def run_dir():
    return os.environ["RUN_DIR"]


def write_json(path, value):
    write_text(path, json.dumps(value) + "\n")


def write_text(path, text):
    with open(path + ".new", "w", encoding="utf-8") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())
    os.replace(path + ".new", path)


if __name__ == "__main__":
    sys.exit(main())
