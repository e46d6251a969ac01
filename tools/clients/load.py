#!/usr/bin/env python3
"""Load on `rustorch serve` with the demo model: clients that leave, too many of them, thousands of requests, the signal to stop.

    cargo build --release
    target/clients/python/bin/python tools/clients/load.py [PART…]     # tools/clients/run makes this Python

Parts, all of them unless named:
- leave: sockets closed while a request waits, in prefill and in decode, with a stream and without.
- overload: ten times the clients that the server takes, for --seconds.
- memory: 5,000 requests that have nothing in common.
- stop: SIGTERM under load loses no request that was taken.
- beside: streams beside bad requests are what they are alone.

Prints what was measured; fails if a part misses its limit.
"""

import argparse
import http.client
import json
import os
import random
import re
import signal
import socket
import statistics
import subprocess
import sys
import threading
import time
from contextlib import contextmanager
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
CHAT = "/v1/chat/completions"
WORDS = "river stone lamp north seven garden wheel copper quiet bread ocean ladder winter paper engine cloud".split()


class Server:
    def __init__(self, args, *options):
        command = [args.rustorch, "serve", "--port", "0", "-t", "2", *options]
        self.process = subprocess.Popen(list(map(str, command)), stderr=subprocess.PIPE, text=True)
        for line in self.process.stderr:
            if found := re.search(r"http://127\.0\.0\.1:(\d+)", line):
                self.port = int(found[1])
                break
        else:
            sys.exit("the server has ended")
        threading.Thread(target=self.process.stderr.read, daemon=True).start()

    def connect(self, timeout=120):
        return http.client.HTTPConnection("127.0.0.1", self.port, timeout=timeout)

    def get(self, path):
        connection = self.connect(30)
        connection.request("GET", path)
        answer = connection.getresponse()
        return answer.status, answer.read().decode()

    def post(self, path, body, timeout=120):
        """Status and bytes of an answer."""
        connection = self.connect(timeout)
        connection.request("POST", path, body if isinstance(body, bytes) else json.dumps(body), {"Content-Type": "application/json"})
        answer = connection.getresponse()
        return answer.status, answer.read()

    def figure(self, name):
        _, text = self.get("/metrics")
        return sum(float(line.rsplit(" ", 1)[1]) for line in text.splitlines() if line.startswith(f"vllm:{name}{{"))

    def resident(self):
        """Resident memory, in bytes."""
        pages = int(Path(f"/proc/{self.process.pid}/statm").read_text().split()[1])
        return pages * os.sysconf("SC_PAGE_SIZE")

    def stop(self):
        self.process.send_signal(signal.SIGTERM)
        return self.process.wait(60)


@contextmanager
def serving(args, *options):
    server = Server(args, *options)
    try:
        yield server
    finally:
        if server.process.poll() is None and (code := server.stop()) != 0:
            sys.exit(f"the server ended with {code}")


def ask(text, tokens, seed=1, **more):
    return {"messages": [{"role": "user", "content": text}], "max_tokens": tokens, "temperature": 0.8, "seed": seed, "ignore_eos": True} | more


def words(count, source=random):
    return " ".join(source.choice(WORDS) for _ in range(count))


def at_once(count, work):
    """Runs `work(i)` on threads of their own."""
    threads = [threading.Thread(target=work, args=(i,), daemon=True) for i in range(count)]
    for thread in threads:
        thread.start()
    return threads


def leave(args):
    """A request of a client that has left is gone, and its pages are free, within a step and 100 ms."""
    with serving(args, "-np", "2", "-b", "32") as server:
        # The longest step: that of many prefill rows.
        start = time.monotonic()
        server.post(CHAT, ask(words(60), 1))
        limit = 0.1 + time.monotonic() - start

        def send(tokens, text, stream):
            body = json.dumps(ask(text, tokens, stream=stream)).encode()
            head = f"POST {CHAT} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
            client = socket.create_connection(("127.0.0.1", server.port))
            client.sendall(head.encode() + body)
            return client

        def until(name, value):
            start = time.monotonic()
            while server.figure(name) != value:
                if time.monotonic() - start > 10:
                    return sys.exit(f"{name} is {server.figure(name)}, not {value}")
            return time.monotonic() - start

        slowest = {}
        for number in range(args.times):
            for stream in (False, True):
                others = [send(900, words(5), False) for _ in range(2)]
                until("num_requests_running", 2)
                waiting = send(900, words(5), stream)
                until("num_requests_waiting", 1)
                waiting.close()
                slowest["waiting", stream] = max(slowest.get(("waiting", stream), 0), until("num_requests_waiting", 0))
                for other in others:
                    other.close()
                until("num_requests_running", 0)
                for name, text in (("prefill", words(250)), ("decode", "Hi")):
                    client = send(700, text, stream)
                    until("num_requests_running", 1)
                    if name == "decode" and stream:
                        client.recv(200)
                    client.close()
                    taken = until("num_requests_running", 0)
                    slowest[name, stream] = max(slowest.get((name, stream), 0), taken)
                    assert server.figure("kv_cache_usage_perc") == 0, "pages are in use"
        for (name, stream), taken in slowest.items():
            print(f"   {name}{', stream' if stream else ''}: gone within {taken * 1000:.0f} ms (limit {limit * 1000:.0f})")
        assert max(slowest.values()) <= limit


def overload(args):
    """Ten times the clients that the server takes: 200 or 503, /health quick, memory flat."""
    most = 32
    with serving(args, "--max-requests", most, "-np", "8") as server:
        end, counts, lock = time.monotonic() + args.seconds, {}, threading.Lock()

        def client(i):
            source = random.Random(i)
            while time.monotonic() < end:
                status, body = server.post(CHAT, ask(words(source.randrange(1, 200), source), source.randrange(1, 60), i))
                if status == 503:
                    assert json.loads(body)["error"]["code"] == "server_overloaded"
                    time.sleep(source.random())
                with lock:
                    counts[status] = counts.get(status, 0) + 1

        clients = at_once(10 * most, client)
        health, resident = [], []
        while time.monotonic() < end:
            start = time.monotonic()
            assert server.get("/health")[0] == 200
            health.append(time.monotonic() - start)
            resident.append(server.resident())
            time.sleep(1)
        for thread in clients:
            thread.join(120)
        assert not any(thread.is_alive() for thread in clients), "requests without an answer"
        early = max(resident[: max(1, len(resident) // 10)])
        late = max(resident[-max(1, len(resident) // 10) :])
        answered = ", ".join(f"{n} with {status}" for status, n in sorted(counts.items()))
        slow = sorted(health)
        print(f"   {args.seconds} s, {10 * most} clients, {most} places: {answered}")
        print(f"   /health: median {statistics.median(slow) * 1e3:.1f} ms, p99 {slow[int(len(slow) * 0.99)] * 1e3:.1f} ms, worst {slow[-1] * 1e3:.1f} ms")
        print(f"   resident memory: {early / 1e6:.1f} MB in the first tenth, {late / 1e6:.1f} MB in the last ({late / early - 1:+.1%})")
        assert set(counts) == {200, 503} and late <= early * 1.05 and slow[int(len(slow) * 0.99)] < 0.1


def memory(args):
    """Requests that have nothing in common leave nothing behind."""
    with serving(args) as server:
        source = random.Random(7)

        def some(count):
            def client(i):
                for _ in range(count // 8):
                    status, body = server.post(CHAT, ask(words(40, source) + str(source.random()), 8, cache_salt=str(source.random())))
                    assert status == 200, body

            for thread in at_once(8, client):
                thread.join()
            return server.resident()

        # Until the cache is full, memory grows to what was asked for at the start.
        before = some(args.requests // 5)
        after = some(args.requests)
        print(f"   {args.requests} requests: {before / 1e6:.1f} MB before, {after / 1e6:.1f} MB after ({after / before - 1:+.2%})")
        assert after <= before * 1.02


def stop(args):
    """SIGTERM under load: whoever was taken gets a whole answer, and the exit code is 0."""
    for stream in (False, True):
        with serving(args, "-np", "8") as server:
            results, lock = [], threading.Lock()

            def client(i, stream=stream, server=server, results=results, lock=lock):
                while True:
                    try:
                        connection = server.connect()
                        connection.request("POST", CHAT, json.dumps(ask(words(20), 200, i, stream=stream)), {"Content-Type": "application/json"})
                    except OSError:
                        return
                    try:
                        answer = connection.getresponse()
                        body = answer.read()
                        is_whole = body.rstrip().endswith(b"data: [DONE]") if stream else bool(json.loads(body))
                        result = (answer.status, is_whole)
                    except (OSError, http.client.HTTPException, ValueError) as error:
                        # Refused before it was taken: the connection ends without a byte of an answer.
                        result = (type(error).__name__, False)
                    with lock:
                        results.append(result)

            clients = at_once(32, client)
            while server.figure("num_requests_running") < 8:
                time.sleep(0.01)
            taken = server.figure("num_requests_running") + server.figure("num_requests_waiting")
            code = server.stop()
            for thread in clients:
                thread.join(60)
            counts = {result: results.count(result) for result in sorted(set(results), key=str)}
            print(f"   {'streams' if stream else 'whole'}: exit code {code}, {taken:.0f} requests at the signal, then {counts}")
            assert code == 0 and counts.get((200, True), 0) >= taken and (200, False) not in counts


def beside(args):
    """Streams beside bad requests are, byte for byte, what they are alone."""
    import fuzz

    with serving(args, "-np", "16", "--max-requests", "64") as server:
        texts = [f"Tell me of {words(12, random.Random(i))}." for i in range(8)]

        def text(i):
            status, body = server.post(CHAT, ask(texts[i], 600, i, stream=True))
            assert status == 200, body
            events = [json.loads(line[6:]) for line in body.split(b"\n") if line.startswith(b"data: {")]
            return "".join(event["choices"][0]["delta"].get("content") or "" for event in events if event["choices"])

        alone = [text(i) for i in range(8)]
        sent, is_over = [], threading.Event()

        def bad(i):
            source = random.Random(i)
            while not is_over.is_set():
                path, (good, _) = source.choice(list(fuzz.ENDPOINTS.items()))
                body = good | {source.choice(fuzz.FIELDS): source.choice(fuzz.NEARLY) for _ in range(source.randrange(1, 4))}
                status, _ = server.post(path, json.dumps(body).encode("utf-8", "surrogatepass"))
                sent.append(status)

        others = at_once(4, bad)
        for _ in range(args.times):
            found = {}
            for thread in at_once(8, lambda i: found.update({i: text(i)})):
                thread.join()
            assert [found.get(i) for i in range(8)] == alone, "other texts than alone"
        is_over.set()
        for thread in others:
            thread.join()
        print(f"   {args.times} times 8 streams beside {len(sent)} requests, {sum(status >= 400 for status in sent)} of them refused: the same bytes")
        assert not any(status >= 500 and status != 503 for status in sent), sorted(set(sent))


PARTS = (leave, overload, memory, stop, beside)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("parts", nargs="*", metavar="PART", choices=[*(part.__name__ for part in PARTS), []], help="[default: all]")
    parser.add_argument("--rustorch", type=Path, default=ROOT / "target/release/rustorch")
    parser.add_argument("--seconds", type=int, default=1800, help="of overload")
    parser.add_argument("--requests", type=int, default=5000, help="for memory")
    parser.add_argument("--times", type=int, default=10, help="that clients leave, and that streams run")
    args = parser.parse_args()
    failed = False
    for part in PARTS:
        if args.parts and part.__name__ not in args.parts:
            continue
        print(f"{part.__name__}: {part.__doc__}", flush=True)
        try:
            part(args)
            print("   ok", flush=True)
        except AssertionError as error:
            print(f"   FAILED {error}", flush=True)
            failed = True
    sys.exit(failed)


if __name__ == "__main__":
    main()
