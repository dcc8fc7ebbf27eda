"""Send one chat completion to a run that is READY, print it, and count who served it: ask.py STATUS_JSON (Python's standard library only)."""

from __future__ import annotations

import json
import sys
import urllib.request
from pathlib import Path


def main() -> int:
    status = json.loads(sys.argv[1])
    plan = json.loads(Path(status["run_dir"], "bundle", status["point"], "plan.json").read_text())
    before = served(status, plan)
    answer = post(
        f"{status['url']}/v1/chat/completions",
        {"model": status["model"], "messages": [{"role": "user", "content": "What is disaggregated serving?"}], "max_tokens": 16},
    )
    print(f"endpoint:   {status['url']}/v1/chat/completions")
    print(f"model:      {answer['model']}")
    print(f"completion: {answer['choices'][0]['message']['content']}")
    print(f"usage:      {answer['usage']['prompt_tokens']} prompt tokens, {answer['usage']['completion_tokens']} generated")
    through = {role: count - before[role] for role, count in served(status, plan).items()}
    print("served by:  " + ", ".join(f"{count} {role} worker{'' if count == 1 else 's'}" for role, count in through.items()))
    return 0 if all(through.values()) else 1


DIRECT = urllib.request.build_opener(urllib.request.ProxyHandler({}))


def post(url: str, body: dict[str, object]) -> dict[str, object]:
    request = urllib.request.Request(url, json.dumps(body).encode(), {"Content-Type": "application/json"})
    with DIRECT.open(request, timeout=60) as answer:
        return json.load(answer)


def served(status: dict[str, object], plan: dict[str, object]) -> dict[str, int]:
    """Requests that the `generate` endpoints of each role have served, from the metrics of every registering process."""
    ran = json.loads(Path(status["run_dir"], "ran.json").read_text())
    counts = dict.fromkeys(plan["expected_instances"], 0)
    for process in plan["processes"]:
        if process["headless"]:
            continue
        address = ran["nodes"][process["node_index"]]["address"]
        port = process["ports"]["SYSTEM_PORT"]["base"] + ran["port_offset"]
        with DIRECT.open(f"http://{address}:{port}/metrics", timeout=10) as answer:
            lines = answer.read().decode().splitlines()
        wanted = [x for x in lines if x.startswith("dynamo_component_requests_total{") and 'dynamo_endpoint="generate"' in x]
        counts[process["role"]] += sum(int(float(x.rsplit(" ", 1)[1])) for x in wanted)
    return counts


if __name__ == "__main__":
    sys.exit(main())
