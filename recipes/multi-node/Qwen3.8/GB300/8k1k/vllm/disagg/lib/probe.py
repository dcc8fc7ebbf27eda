"""Find out when the endpoint works, and write it down. Python's standard library only; runs in the container.

probe.py PLAN: count registered instances per role; then stream completions until enough in a row returned tokens, every front end
has answered and, where the workers' metrics tell, every instance has served; then write endpoint.json. Exit 0: READY; 5: not by the
deadline.
"""

import http.client
import json
import os
import sys
import time
import urllib.error
import urllib.request

COMPONENTS = {"prefill": "prefill", "backend": "decode", "decode": "decode"}  # Dynamo's component -> role
POLL_S = 0.5
REQUEST_TIMEOUT_S = 120  # the first completion may compile kernels
MAX_TOKENS = 8
DIRECT = urllib.request.build_opener(urllib.request.ProxyHandler({}))  # nodes are reached directly, whatever the shell's proxies say
ANSWERED_BY = "X-Recipegen-Front-End"  # nginx names the front end that it asked: ADDRESS:PORT
PROMPT = "Probe {}: name a few words that come to your mind."  # each differs, so that no prefix cache answers for a worker


def main():
    with open(sys.argv[1], encoding="utf-8") as file:
        plan = json.load(file)
    left = float(os.environ["READY_BY"]) - time.time()
    probe = Probe(plan, Markers(), deadline=time.monotonic() + left)
    return 0 if probe.run() else 5


class Markers:
    """Events and the endpoint marker, in the run folder."""

    def __init__(self):
        self.dir = os.environ["RUN_DIR"]
        self.base = {"job": os.environ["SLURM_JOB_ID"], "restart": int(os.environ["RESTART"])}
        self.last = {}

    def event(self, name, once=False, **members):
        """Append an event; with `once`, only when it says something else than the last of its name."""
        if once and self.last.get(name) == members:
            return
        self.last[name] = members
        line = json.dumps(dict(time=round(time.time(), 3), **self.base, event=name, **members)) + "\n"
        with open(os.path.join(self.dir, "events.probe.jsonl"), "a", encoding="utf-8") as file:
            file.write(line)
        print(line, end="", flush=True)

    def endpoint(self, url, model, instances):
        path = os.path.join(self.dir, "endpoint.json")
        with open(path + ".new", "w", encoding="utf-8") as file:
            json.dump(dict(self.base, time=time.time(), url=url, model=model, instances=instances), file)
            file.flush()
            os.fsync(file.fileno())
        os.replace(path + ".new", path)


class Probe:
    """The readiness rule: registered is not enough, a refused transfer leaves every engine healthy and fails every request."""

    def __init__(self, plan, markers, deadline):
        self.markers, self.deadline = markers, deadline
        self.model = plan["model"]["served_name"]
        self.expected = plan["expected_instances"]
        addresses = node_addresses()
        offset = int(os.environ["PORT_OFFSET"])
        self.url = "http://{}:{}".format(addresses[0], plan["services"]["FRONTEND_PORT"]["base"] + offset)
        self.front_ends = front_end_urls(plan, addresses, offset)
        self.seen = set()
        self.needed = max(3, len(self.front_ends), *self.expected.values())
        self.metrics = [
            "http://{}:{}/metrics".format(addresses[p["node_index"]], p["ports"]["SYSTEM_PORT"]["base"] + offset)
            for p in plan["processes"]
            if not p["headless"]
        ]

    def run(self):
        before = None
        in_row = tries = 0
        while time.monotonic() < self.deadline:
            instances = self.instances()
            if any(instances[role] < count for role, count in self.expected.items()):
                before, in_row = None, 0
                time.sleep(POLL_S)
                continue
            before = before if before is not None else self.served()
            tries += 1
            in_row = in_row + 1 if self.complete(tries, in_row) else 0
            if in_row >= self.needed and not self.all_answered(tries):
                in_row = 0
            if in_row >= self.needed and self.all_served(before):
                self.markers.endpoint(self.url, self.model, instances)
                self.markers.event("ready", url=self.url)
                return True
            if not in_row or in_row > self.needed * max(1, len(self.front_ends)):  # each has its own turn of the instances
                time.sleep(POLL_S)
        return False

    def instances(self):
        """Registered `generate` endpoints per role; of several front ends, as the one knows that knows fewest."""
        lowest = {}
        for url in self.front_ends or [self.url]:
            found = self.instances_at(url)
            if found is None:
                return dict.fromkeys(self.expected, 0)
            lowest = {role: min(count, lowest.get(role, count)) for role, count in found.items()}
        self.markers.event("instances", once=True, expected=self.expected, **lowest)
        return lowest

    def instances_at(self, url):
        """What one front end knows; None when it does not answer. Helper endpoints of the same workers do not count."""
        found = dict.fromkeys(self.expected, 0)
        try:
            with DIRECT.open(url + "/health", timeout=5) as answer:
                listed = json.load(answer).get("instances", [])
        except (OSError, ValueError, http.client.HTTPException) as error:
            self.markers.event("unreachable", once=True, url=url, message="{}: {}".format(type(error).__name__, error))
            return None
        for instance in listed:
            role = COMPONENTS.get(instance.get("component"))
            role = "agg" if "agg" in self.expected and role == "decode" else role
            if instance.get("endpoint") == "generate" and role in found:
                found[role] += 1
        return found

    def complete(self, number, in_row):
        """Stream one chat completion at the endpoint; True when it returned tokens."""
        tokens, answered_by = self.ask(self.url, number)
        if tokens:
            self.seen.add("http://{}".format(answered_by))
            self.markers.event("completion", ok=in_row + 1, needed=self.needed, tokens=tokens)
        else:
            self.seen.clear()
        return tokens > 0

    def all_answered(self, number):
        """Whether every front end has, those that nginx did not choose when they are asked themselves."""
        for url in self.front_ends:
            if url not in self.seen and not self.ask(url, "{}, {}".format(number, url))[0]:
                self.seen.clear()
                return False
            self.seen.add(url)
        if self.front_ends:
            self.markers.event("front_ends", once=True, answered=len(self.front_ends))
        return True

    def ask(self, url, number):
        """(Chunks with text of one streamed chat completion, which front end nginx asked for it)."""
        body = {
            "model": self.model,
            "messages": [{"role": "user", "content": PROMPT.format(number)}],
            "max_tokens": MAX_TOKENS,
            "stream": True,
        }
        timeout = max(1.0, min(REQUEST_TIMEOUT_S, self.deadline - time.monotonic()))
        status, tokens, message, answered_by = stream_chat(url, body, timeout)
        if not tokens:
            self.markers.event("completion_failed", once=True, status=status, message=message[:300])
        return tokens, answered_by

    def served(self):
        """Requests that each instance has served so far; None where its metrics do not tell."""
        return [requests_served(url) for url in self.metrics]

    def all_served(self, before):
        """Whether every instance whose metrics tell has served since `before`: a refused handshake concerns one pair."""
        now = self.served()
        telling = [(old or 0, new) for old, new in zip(before, now) if new is not None]
        served = sum(new > old for old, new in telling)
        self.markers.event("serving", once=True, served=served, instances=len(telling))
        return served == len(telling)


def stream_chat(url, body, timeout):
    """(HTTP status or 0, chunks with text, what went wrong, the front end that nginx asked) of one streamed chat completion."""
    request = urllib.request.Request(url + "/v1/chat/completions", json.dumps(body).encode(), {"Content-Type": "application/json"})
    tokens, finished, answered_by = 0, False, ""
    try:
        with DIRECT.open(request, timeout=timeout) as answer:
            answered_by = answer.headers.get(ANSWERED_BY, "").rpartition(" ")[2]  # after a retry, of all that were tried
            for line in answer:
                line = line.decode("utf-8", "replace").strip()
                if line.startswith("event: error"):
                    return answer.status, 0, "the stream reports an error", answered_by
                if not line.startswith("data:") or line == "data: [DONE]":
                    continue
                chunk = json.loads(line[5:])
                if "error" in chunk:
                    return answer.status, 0, str(chunk["error"]), answered_by
                choices = chunk.get("choices", [])
                tokens += sum(has_text(choice.get("delta") or {}) for choice in choices)
                finished = finished or any(choice.get("finish_reason") for choice in choices)
    except urllib.error.HTTPError as error:
        return error.code, 0, error.read(1000).decode("utf-8", "replace") or error.reason, answered_by
    except (OSError, ValueError, http.client.HTTPException) as error:
        return 0, 0, "{}: {}".format(type(error).__name__, error), answered_by
    if not finished:
        return 200, 0, "the stream ended before its completion was finished, after {} tokens".format(tokens), answered_by
    return 200, tokens, "" if tokens else "the completion has no token", answered_by


def has_text(delta):
    return any(delta.get(key) for key in ("content", "reasoning_content", "reasoning"))


def requests_served(url):
    """How many `generate` requests one worker has ended; None when it cannot be read. (requests_total counts when they begin.)"""
    try:
        with DIRECT.open(url, timeout=5) as answer:
            text = answer.read().decode("utf-8", "replace")
    except (OSError, http.client.HTTPException):
        return None
    total = 0.0
    for line in text.splitlines():
        if line.startswith("dynamo_component_request_duration_seconds_count{") and 'dynamo_endpoint="generate"' in line:
            total += float(line.rsplit(" ", 1)[1])
    return total


def front_end_urls(plan, addresses, offset):
    """Where the front ends behind nginx answer themselves; nothing where a single one is the endpoint."""
    nodes = plan.get("front_ends", [])
    if not nodes or os.environ.get("FRONT_ENDS") == "1":
        return []
    port = plan["services"]["FRONTEND_REPLICA_PORT"]["base"] + offset
    return ["http://{}:{}".format(addresses[node], port) for node in nodes]


def node_addresses():
    with open(os.path.join(os.environ["RUN_DIR"], "nodes.txt"), encoding="utf-8") as file:
        return [line.split()[2] for line in file]


if __name__ == "__main__":
    sys.exit(main())
