"""Run a recipe's own preparation on one node, before what it may have installed is looked at. Python's standard library only."""

import os
import re
import signal
import subprocess
import time

# What a process sets from its own place, beside its ports; as a value it means nothing before there is a process.
OF_A_PROCESS = {"DEVICES", "LEADER_ADDRESS", "MODEL", "NODE_ADDRESS", "NODE_INTERFACE", "NODE_RANK", "READY_TIMEOUT_S", "START_RANK", "TINY_MODEL"}
CONFIGS = "/configs/"


def run_setup(plan, index, host):
    """Run the script of `plan`, if it has one, with its output in logs/setup.HOST.log; return what went wrong, or an empty text.

    Beside /configs, /configs/patches is looked into, as srtctl does. A simulation runs it in a container only: what it installs must not
    land on whichever machine somebody simulates on.
    """
    script, simulated = plan.get("setup_script"), plan["engine"] == "mocker"
    if not script:
        return ""
    if simulated and os.environ.get("CONTAINER_RUNTIME") != "pyxis":
        print("left out: {}; a simulation runs a setup script in a container only".format(script))
        return ""
    found = next((path for path in places(script) if os.path.isfile(path)), None)
    if found is None and simulated:
        print("{} is not in this container; the simulation goes on without it".format(script))
        return ""
    if found is None:
        return "the recipe's setup script {} is not there (is it mounted?)".format(script)
    print("running {}".format(found), flush=True)
    code = run(found, dict(os.environ, **environment(plan, index)), os.path.join(os.environ["RUN_DIR"], "logs", "setup.{}.log".format(host)))
    if code is None:
        return "the recipe's setup script {} did not end before READY had to be; see logs/setup.*.log".format(found)
    return "the recipe's setup script {} ended with code {}; see logs/setup.*.log".format(found, code) if code else ""


def places(script):
    return [script, CONFIGS + "patches/" + script[len(CONFIGS) :]] if script.startswith(CONFIGS) else [script]


def run(script, env, log):
    """The exit code; None where it did not end in time, and was ended with all that it had started."""
    left = max(1.0, float(os.environ["READY_BY"]) - time.time())
    with open(log, "wb") as file:
        process = subprocess.Popen(["bash", script], env=env, stdin=subprocess.DEVNULL, stdout=file, stderr=subprocess.STDOUT, start_new_session=True)
        try:
            return process.wait(timeout=left)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
            return None


def environment(plan, index):
    """Variables of the node's first worker, of the front end where it has none; without what differs by process, such as its GPUs."""
    workers = [process for process in plan["processes"] if process["node_index"] == index]
    if not workers:
        return plan.get("frontend", {}).get("env", {})
    own = OF_A_PROCESS | set(workers[0]["ports"])
    return {name: value for name, value in workers[0]["env"].items() if name != "CUDA_VISIBLE_DEVICES" and placeholder(value) not in own}


def placeholder(value):
    found = re.match(r"\$\{(\w+)\}$", value)
    return found.group(1) if found else None
