#!/usr/bin/env python3
"""Holds 20,000 idle WebSockets on sleeping actors and says what each costs.

    cargo build --release && cargo xtask guests
    python3 benches/sockets.py [SOCKETS] [PATH OF THE SERVER]

Ten sockets an actor, over loopback; needs a descriptor a socket in this process and one in the server
(`ulimit -n`). The cost is the growth of the server's resident set, without the kernel's share.
"""

import os
import re
import resource
import select
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
import urllib.request
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
COUNT = int(sys.argv[1]) if len(sys.argv) > 1 else 20_000
SERVER = Path(sys.argv[2]) if len(sys.argv) > 2 else ROOT / "target/release/wasmkeep"
PER_ACTOR = 10
COMPONENTS = Path(os.environ.get("WASMKEEP_COMPONENTS", ROOT / "target/components"))
HEAD = (
    "GET /actor/probe/{} HTTP/1.1\r\nhost: bench\r\nconnection: upgrade\r\nupgrade: websocket\r\n"
    "sec-websocket-version: 13\r\nsec-websocket-key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n"
)


def frame(first, payload):
    """A client's frame, masked with zeros."""
    return bytes([first, 0x80 | len(payload), 0, 0, 0, 0]) + payload


class Clients(threading.Thread):
    """Answers pings, as any client does, and notes what else comes."""

    def __init__(self):
        super().__init__(daemon=True)
        self.poll = select.epoll()
        self.sockets = {}
        self.echoed = threading.Event()

    def add(self, client):
        self.sockets[client.fileno()] = client
        self.poll.register(client.fileno(), select.EPOLLIN)

    def run(self):
        while True:
            for number, _ in self.poll.poll():
                came = self.sockets[number].recv(4096)
                if came[:1] == b"\x89":
                    self.sockets[number].sendall(frame(0x8A, b""))
                elif came[:1] == b"\x81":
                    self.echoed.set()
                else:
                    self.poll.unregister(number)


def connect(port, name, at):
    client = socket.socket()
    # More than one address has ports for: loopback is a whole network.
    client.bind((f"127.0.0.{1 + at // 20_000}", 0))
    client.connect(("127.0.0.1", port))
    client.sendall(HEAD.format(name).encode())
    head = b""
    while b"\r\n\r\n" not in head:
        piece = client.recv(1024)
        if not piece:
            sys.exit(f"the server closed: {head!r}")
        head += piece
    if not head.startswith(b"HTTP/1.1 101"):
        sys.exit(f"not opened: {head!r}")
    return client


def resident_kib(pid):
    return int(re.search(r"VmRSS:\s+(\d+)", Path(f"/proc/{pid}/status").read_text())[1])


def cpu_seconds(pid):
    fields = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def metric(port, name):
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/_wasmkeep/metrics") as page:
        lines = page.read().decode().splitlines()
    return sum(float(line.rsplit(" ", 1)[1]) for line in lines if line.startswith(name + " "))


def sleeps(port):
    while metric(port, "wasmkeep_resident_actors") > 0:
        time.sleep(0.2)


def main():
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    data = tempfile.TemporaryDirectory()
    server = subprocess.Popen(
        [SERVER, "serve", "--listen", "127.0.0.1:0", "--data-dir", data.name]
        + ["--actor", f"probe={COMPONENTS / 'guest-probe.wasm'}", "--idle-timeout-secs", "1"],
        stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True,
    )
    try:
        port = int(server.stdout.readline().strip().rsplit(":", 1)[1])
        # The server's own high-water mark first: what many actors leave behind is no socket's.
        for n in range(500):
            connect(port, f"warm{n}", n).close()
        while metric(port, "wasmkeep_sockets") > 0:
            time.sleep(0.2)
        sleeps(port)
        before = resident_kib(server.pid)
        began = time.perf_counter()
        clients = Clients()
        clients.start()
        for n in range(COUNT):
            last = connect(port, f"a{n // PER_ACTOR}", n)
            clients.add(last)
        opened = time.perf_counter() - began
        sleeps(port)
        grown = resident_kib(server.pid) - before
        if metric(port, "wasmkeep_sockets") != COUNT:
            sys.exit("sockets were lost meanwhile")
        busy = cpu_seconds(server.pid)
        time.sleep(20)
        busy = cpu_seconds(server.pid) - busy
        began = time.perf_counter()
        last.sendall(frame(0x81, b"awake?"))
        clients.echoed.wait(30)
        woke = time.perf_counter() - began
        began = time.perf_counter()
        server.send_signal(signal.SIGTERM)
        server.wait(60)
        print("| idle sockets, ten on each of their sleeping actors | |\n| --- | --- |")
        print(f"| sockets | {COUNT:,} |")
        print(f"| memory of the server for each | {grown * 1024 / COUNT:,.0f} bytes |")
        print(f"| CPU of the server while they are idle | {busy / 20:.2%} of a core |")
        print(f"| opened, one after the other, every tenth with a new actor | {COUNT / opened:,.0f}/s |")
        print(f"| a message to one: actor woken, echo back | {woke * 1000:.1f} ms |")
        print(f"| stop with all of them open | {time.perf_counter() - began:.1f} s |")
    finally:
        server.kill()


main()
