#!/usr/bin/env python3
"""Measures one node: throughput, wake latency, memory. Prints a Markdown table.

    cargo build --release && cargo xtask guests
    python3 benches/measure.py            (needs wrk: apt-get install wrk)

Everything runs on this machine over loopback, so client and server share its cores. Bounded:
about two minutes.
"""

import http.client
import os
import re
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
SERVER = ROOT / "target/release/wasmkeep"
COMPONENTS = ROOT / "target/components"
SECONDS = 5
ROUNDS = 3


class Node:
    """A server of its own with a data directory of its own."""

    def __init__(self, *flags):
        self.data = tempfile.TemporaryDirectory(dir=os.environ.get("MEASURE_DIR"))
        actors = {
            "hello": "guest-hello.wasm",
            "counter": "wasmkeep-example-counter.wasm",
            "probe": "guest-probe.wasm",
        }
        command = [str(SERVER), "serve", "--listen", "127.0.0.1:0", "--data-dir", self.data.name]
        for name, file in actors.items():
            command += ["--actor", f"{name}={COMPONENTS / file}"]
        started = time.perf_counter()
        self.process = subprocess.Popen(
            command + list(flags), stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
        )
        line = self.process.stdout.readline()
        self.start_seconds = time.perf_counter() - started
        if not line.startswith("listening on "):
            sys.exit(f"the server did not start: {line!r}")
        self.url = line.split()[-1]
        self.port = int(self.url.rsplit(":", 1)[1])

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.send_signal(signal.SIGTERM)
        self.process.wait(timeout=60)
        self.data.cleanup()

    def status(self, field):
        for line in Path(f"/proc/{self.process.pid}/status").read_text().splitlines():
            if line.startswith(field + ":"):
                return int(line.split()[1])

    def rss_kib(self):
        return self.status("VmRSS")

    def cpu_seconds(self):
        fields = Path(f"/proc/{self.process.pid}/stat").read_text().rsplit(")", 1)[1].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def descriptors(self):
        return len(os.listdir(f"/proc/{self.process.pid}/fd"))

    def metric(self, name):
        client = http.client.HTTPConnection("127.0.0.1", self.port)
        client.request("GET", "/_wasmkeep/metrics")
        text = client.getresponse().read().decode()
        return float(re.search(rf"^{name} (\S+)$", text, re.M).group(1))

    def wait_until_asleep(self):
        while self.metric("wasmkeep_resident_actors") > 0:
            time.sleep(0.2)


def wrk(node, path, script=None, connections=64):
    """Requests a second, p50 and p99 in ms, CPU of the server in microseconds a request."""
    command = ["wrk", "-t1", f"-c{connections}", f"-d{SECONDS}", "--latency"]
    if script:
        command += ["-s", script]
    before = node.cpu_seconds()
    out = subprocess.run(command + [node.url + path], capture_output=True, text=True, check=True)
    cpu = node.cpu_seconds() - before
    if "Non-2xx" in out.stdout or "Socket errors" in out.stdout:
        sys.exit(f"requests failed: {out.stdout}")
    rate = float(re.search(r"Requests/sec:\s+(\S+)", out.stdout).group(1))
    total = int(re.search(r"(\d+) requests in", out.stdout).group(1))
    scale = {"us": 0.001, "ms": 1.0, "s": 1000.0}
    at = {}
    for percent in ("50", "99"):
        value, unit = re.search(rf"{percent}%\s+([\d.]+)(us|ms|s)", out.stdout).groups()
        at[percent] = float(value) * scale[unit]
    return rate, at["50"], at["99"], cpu / total * 1e6


def throughput(node, title, path, script=None, connections=64):
    rounds = [wrk(node, path, script, connections) for _ in range(ROUNDS)]
    middle = sorted(rounds)[ROUNDS // 2]
    spread = (max(r[0] for r in rounds) - min(r[0] for r in rounds)) / middle[0] * 100
    rate, p50, p99, cpu = middle
    print(f"| {title} | {rate:,.0f}/s (±{spread / 2:.0f} %) | {p50:.2f} ms | {p99:.2f} ms "
          f"| {cpu:.0f} µs |", flush=True)


def spread_script(folder, class_, count, path):
    script = Path(folder) / f"{class_}-{count}.lua"
    script.write_text(
        "local n = 0\n"
        "request = function()\n"
        f"  n = (n + 1) % {count}\n"
        f"  return wrk.format('GET', '/actor/{class_}/a' .. n .. '{path}')\n"
        "end\n"
    )
    return str(script)


def one_by_one(node, paths):
    client = http.client.HTTPConnection("127.0.0.1", node.port)
    took = []
    for path in paths:
        began = time.perf_counter()
        client.request("GET", path)
        answer = client.getresponse()
        answer.read()
        took.append((time.perf_counter() - began) * 1000)
        if answer.status != 200:
            sys.exit(f"{path}: {answer.status}")
    return took


def percentiles(values):
    ordered = sorted(values)
    return statistics.median(ordered), ordered[int(len(ordered) * 0.99)]


def latency(title, values):
    p50, p99 = percentiles(values)
    rate = 1000 * len(values) / sum(values)
    print(f"| {title} | {rate:,.0f}/s | {p50:.2f} ms | {p99:.2f} ms | – |", flush=True)


def main():
    print("| work | rate | p50 | p99 | server CPU a request |\n|---|---|---|---|---|")
    with Node() as node, tempfile.TemporaryDirectory() as scripts:
        throughput(node, "hello, one actor, 64 connections", "/actor/hello/a/")
        throughput(node, "small write + read, one actor, 64 connections", "/actor/counter/a/")
        throughput(node, "hello, one actor, one connection", "/actor/hello/a/", connections=1)
        for class_, title in (("hello", "hello"), ("counter", "small write + read")):
            one_by_one(node, [f"/actor/{class_}/a{n}/" for n in range(500)])
            script = spread_script(scripts, class_, 500, "/")
            throughput(node, f"{title}, spread over 500 actors, 64 connections", "/", script)
    with Node("--max-instances", "1000") as node, tempfile.TemporaryDirectory() as scripts:
        for class_, title in (("hello", "hello"), ("counter", "small write + read")):
            one_by_one(node, [f"/actor/{class_}/a{n}/" for n in range(1000)])
            script = spread_script(scripts, class_, 1000, "/")
            throughput(node, f"{title}, spread over 1,000 actors, 64 connections", "/", script)
    with Node("--idle-timeout-secs", "2", "--max-instances", "2000") as node:
        names = range(1000)
        latency("create, no storage, one by one",
                one_by_one(node, [f"/actor/hello/c{n}/" for n in names]))
        latency("create with a table and a write, one by one",
                one_by_one(node, [f"/actor/counter/c{n}/" for n in names]))
        node.wait_until_asleep()
        latency("wake with its database, one by one",
                one_by_one(node, [f"/actor/counter/c{n}/" for n in names]))
        latency("the same actors, warm",
                one_by_one(node, [f"/actor/counter/c{n}/" for n in names]))
    print("\n| memory | |\n|---|---|")
    for class_ in ("hello", "counter"):
        with Node("--max-instances", "4000", "--idle-timeout-secs", "600") as node:
            one_by_one(node, [f"/actor/{class_}/first/"])
            empty, descriptors = node.rss_kib(), node.descriptors()
            one_by_one(node, [f"/actor/{class_}/m{n}/" for n in range(2000)])
            each = (node.rss_kib() - empty) / 2000
            held = (node.descriptors() - descriptors) / 2000
            print(f"| resident actor, {class_} | {each:.0f} KiB, {held:.1f} descriptors |")
    with Node("--max-instances", "500", "--idle-timeout-secs", "1") as node:
        print(f"| idle server, three classes | {node.rss_kib() / 1024:.0f} MiB |")
        print(f"| start to listening, components cached on disk no | "
              f"{node.start_seconds * 1000:.0f} ms |")
        for n in range(0, 5000, 1000):
            one_by_one(node, [f"/actor/hello/w{k}/" for k in range(n, n + 1000)])
        node.wait_until_asleep()
        before = node.rss_kib()
        one_by_one(node, [f"/actor/hello/s{k}/" for k in range(10000)])
        node.wait_until_asleep()
        each = (node.rss_kib() - before) * 1024 / 10000
        print(f"| hibernated actor | {each:.0f} bytes, {node.descriptors()} descriptors in all |")


if __name__ == "__main__":
    main()
