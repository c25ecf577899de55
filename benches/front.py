#!/usr/bin/env python3
"""Measures the front beside another server of `wasi:http` components, in one run.

    cargo build --release && cargo xtask guests
    python3 benches/front.py [PEER]        (needs wrk: apt-get install wrk)

PEER is the path of a `wasmtime` executable, which serves the same component with `wasmtime serve`.
Both make a new instance for each request. Client and servers share the machine's cores. Bounded:
about a minute.
"""

import os
import re
import subprocess
import sys
import tempfile
import time
import urllib.request
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
SERVER = ROOT / "target/release/wasmkeep"
COMPONENT = ROOT / "target/components/guest-front-hello.wasm"
SECONDS = 5
ROUNDS = 3
PORT = 18080


def servers(data):
    listen = f"127.0.0.1:{PORT}"
    yield "wasmkeep", [SERVER, "serve", COMPONENT, "--listen", listen, "--data-dir", data]
    for peer in sys.argv[1:]:
        yield "wasmtime serve", [peer, "serve", "-S", "cli=y", "--addr", listen, COMPONENT]


def cpu_seconds(process):
    fields = Path(f"/proc/{process.pid}/stat").read_text().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def load(connections, seconds):
    command = ["wrk", "-t1", f"-c{connections}", f"-d{seconds}", f"http://127.0.0.1:{PORT}/"]
    out = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    if "Non-2xx" in out or "Socket errors" in out:
        sys.exit(f"requests failed: {out}")
    total = int(re.search(r"(\d+) requests in", out).group(1))
    return float(re.search(r"Requests/sec:\s+(\S+)", out).group(1)), total


def measure(command, connections):
    quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    process = subprocess.Popen([str(word) for word in command], **quiet)
    try:
        for _ in range(400):
            try:
                urllib.request.urlopen(f"http://127.0.0.1:{PORT}/").read()
                break
            except OSError:
                time.sleep(0.05)
        else:
            sys.exit(f"{command[0]} did not start")
        load(connections, 1)
        before = cpu_seconds(process)
        rate, total = load(connections, SECONDS)
        return rate, (cpu_seconds(process) - before) / total * 1e6
    finally:
        process.terminate()
        process.wait()


def main():
    results = {}
    with tempfile.TemporaryDirectory() as data:
        for _ in range(ROUNDS):
            for connections in (1, 64):
                for name, command in servers(data):
                    measured = measure(command, connections)
                    results.setdefault((connections, name), []).append(measured)
    print("| connections | server | rate | server CPU a request |\n|---|---|---|---|")
    for (connections, name), rounds in sorted(results.items()):
        rate, cpu = sorted(rounds)[len(rounds) // 2]
        spread = (max(rounds)[0] - min(rounds)[0]) / rate * 50
        print(f"| {connections} | {name} | {rate:,.0f}/s (±{spread:.0f} %) | {cpu:.0f} µs |")


main()
