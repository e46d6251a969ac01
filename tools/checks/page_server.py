"""A server for `tools/checks/page`: serves the page with the policy of `rustorch serve` and plays the endpoints that it uses.

What it answers depends on the words of the last question, so that the check decides what happens:

    "table", "code", "hostile", …      a text of TEXTS
    "think", "tool", "long N"          reasoning first, a tool call, N words
    "slow"                             60 ms between tokens
    "cut", "broken", "busy", "context" a cut connection, an error in the stream, 503, a prompt that is too long
    "unknown", "proxy", "odd"          401, a proxy's 502, a value that is refused
    "base"                             the model turns out to have no chat template

    python tools/checks/page_server.py [PORT]      # to look at the page; needs nothing but Python
"""

import json
import math
import mimetypes
import random
import re
import sys
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

from page_texts import TEXTS

PAGE = Path(__file__).parents[2] / "crates/server/page"
POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; font-src 'self'; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
WORDS = "calm river stone light morning quiet garden window paper letter story winter forest music table bread".split()


def tokens_of(text):
    """Cuts a text as a tokenizer might: words with their space, marks, and some characters into their bytes."""
    found = []
    for piece in re.findall(r" ?\w+|\s+|[^\w\s]", text):
        data = piece.encode()
        if len(piece) == 1 and len(data) == 4:  # an emoji comes as two tokens, each half a character
            found += [data[:2], data[2:]]
        else:
            found.append(data)
    return found


def entry(data, dice):
    """A token's logprob and its alternatives, as the API has them."""
    sure = dice.choices([0.998, 0.97, 0.9, 0.8, 0.55, 0.3, 0.1], weights=[30, 20, 12, 8, 6, 3, 1])[0]
    others, rest = [(data, sure)], 1 - sure
    for word in dice.sample(WORDS, 7):
        rest *= 0.5
        others.append(((" " if data[:1] == b" " else "").encode() + word.encode(), rest))
    others.sort(key=lambda pair: -pair[1])
    shape = [{"token": other.decode(errors="replace"), "bytes": list(other), "logprob": math.log(p)} for other, p in others]
    return {**next(o for o in shape if o["bytes"] == list(data)), "top_logprobs": shape}


def document():
    """As much of the server's OpenAPI document as the page reads."""
    properties = {
        "max_tokens": {"type": ["integer", "null"], "minimum": -1, "default": -1},
        "temperature": {"type": ["number", "null"], "minimum": 0, "maximum": 100, "default": 0.8},
        "top_p": {"type": ["number", "null"], "minimum": 0, "maximum": 1, "default": 0.95},
        "seed": {"type": ["integer", "null"], "default": -1},
    }
    for name, schema in properties.items():
        schema |= {"x-heading": "Sampling", "description": f"What {name} does."}
    properties["n_predict"] = {"type": ["integer", "null"], "description": "The same as `max_tokens`."}
    body = {"content": {"application/json": {"schema": {"$ref": "#/components/schemas/Chat"}}}}
    return {
        "paths": {"/v1/chat/completions": {"post": {"requestBody": body}}},
        "components": {"schemas": {"Chat": {"type": "object", "properties": properties}}},
    }


class State:
    """State that the check reads and sets."""

    def __init__(self):
        self.key = None
        self.requests = []
        self.running = 0
        self.waiting = 0
        self.ended = False
        self.n_ctx = 8192
        self.first = {}  # what differs in the description of the first model


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    @property
    def state(self):
        return self.server.state

    def parse_request(self):
        if self.state.ended:  # a connection that was kept open ends with the server
            self.close_connection = True
            return False
        return super().parse_request()

    def log_message(self, *_):
        pass

    def reply(self, status, body, kind="application/json", **headers):
        data = body if isinstance(body, bytes) else (body if isinstance(body, str) else json.dumps(body)).encode()
        self.send_response(status)
        for name, value in {"Content-Type": kind, "Content-Length": len(data), **headers}.items():
            self.send_header(name.replace("_", "-"), str(value))
        self.end_headers()
        self.wfile.write(data)

    def refuse(self, status, message, kind="invalid_request_error", code=None, **headers):
        self.reply(status, {"error": {"message": message, "type": kind, "code": code}}, **headers)

    def allowed(self):
        if self.state.key is None or self.headers.get("Authorization") == f"Bearer {self.state.key}":
            return True
        self.refuse(401, "Invalid API key", "authentication_error")
        return False

    def do_GET(self):
        path = self.path.split("?")[0]
        if path == "/":
            return self.file("index.html")
        if path.startswith("/page/"):
            return self.file(path.removeprefix("/page/"))
        if not self.allowed():
            return None
        if path == "/v1/models":
            names = ["Qwen3-4B-Instruct-Q4_K_M", "SmolLM2-1.7B-Q8_0"]
            meta = {"n_ctx": self.state.n_ctx, "n_ctx_train": 32768, "n_params": 4_000_000_000}
            data = [{"id": name, "object": "model", "status": {"value": "loaded"}, "meta": meta} for name in names]
            data[0] |= self.state.first
            return self.reply(200, {"object": "list", "data": data})
        if path == "/props":
            params = {"temperature": 0.7, "top_k": 20, "top_p": 0.8, "min_p": 0.0, "repeat_penalty": 1.0, "n_predict": -1}
            return self.reply(
                200, {"default_generation_settings": {"n_ctx": self.state.n_ctx, "params": params}, "model_path": "m.gguf"}
            )
        if path == "/openapi.json":
            return self.reply(200, document())
        if path == "/metrics":
            figures = {
                "num_requests_running": self.state.running,
                "num_requests_waiting": self.state.waiting,
                "kv_cache_usage_perc": 0.34,
                "prefix_cache_hits_total": 810,
                "prefix_cache_queries_total": 1000,
            }
            lines = [f'# TYPE vllm:{name} gauge\nvllm:{name}{{model_name="m"}} {value}' for name, value in figures.items()]
            return self.reply(200, "\n".join(lines) + "\n", "text/plain; version=0.0.4")
        return self.refuse(404, "no such path")

    def file(self, name):
        path = (PAGE / name).resolve()
        if PAGE not in path.parents or not path.is_file():
            return self.refuse(404, "no such file")
        kind = mimetypes.guess_type(path.name)[0] or "application/octet-stream"
        headers = {"Content_Security_Policy": POLICY, "X_Content_Type_Options": "nosniff", "Cache_Control": "no-store"}
        return self.reply(200, path.read_bytes(), kind, **headers)

    def do_POST(self):
        request = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        if not self.allowed():
            return
        self.state.requests.append(request)
        if self.path == "/v1/completions":
            return self.complete(request)
        messages = request["messages"]
        prefix = messages[-1]["content"] if messages[-1]["role"] == "assistant" else None
        question = next(m["content"] for m in reversed(messages) if m["role"] == "user")
        if "busy" in question:
            return self.refuse(503, "Loading model", "unavailable_error", Retry_After=7)
        if "context" in question:
            error = {"message": "the prompt has 9000 tokens, expected at most 8192", "code": "context_length_exceeded"}
            return self.reply(400, {"error": {**error, "n_prompt_tokens": 9000, "n_ctx": 8192}})
        if "unknown" in question:
            return self.refuse(401, "there is no such key", "authentication_error", code="invalid_api_key")
        if "base" in question:
            self.state.first = {"capabilities": ["completion"]}
            return self.refuse(400, "this model cannot chat", code="unsupported_parameter")
        if "proxy" in question:
            return self.reply(502, "upstream is gone", "text/plain")
        if "odd" in question:
            return self.refuse(400, "`top_p` has the value 7, expected from 0 to 1")
        self.state.running += 1
        try:
            self.stream(request, question, prefix)
        except (BrokenPipeError, ConnectionResetError):
            pass
        finally:
            self.state.running -= 1

    def complete(self, request):
        """Goes on with a text, one word per chunk; "The end." is all that ends one."""
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        self.send_header("Connection", "close")
        self.end_headers()
        self.close_connection = True
        ends = "end" in request["prompt"]

        def send(**more):
            self.wfile.write(f"data: {json.dumps({'id': 'c', 'object': 'text_completion', **more})}\n\n".encode())

        words = [" The", " end", "."] if ends else [" there", " was", " a", " river", ","]
        for word in words:
            top = [{word: -0.1, " other": -3.0}]
            logprobs = {"tokens": [word], "token_logprobs": [-0.1], "top_logprobs": top} if "logprobs" in request else None
            send(choices=[{"index": 0, "text": word, "logprobs": logprobs, "finish_reason": None}])
        send(choices=[{"index": 0, "text": "", "logprobs": None, "finish_reason": "stop" if ends else "length"}])
        send(choices=[], usage={"prompt_tokens": len(request["prompt"].split()), "completion_tokens": len(words)})
        self.wfile.write(b"data: [DONE]\n\n")

    def stream(self, request, question, prefix):
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        self.send_header("Connection", "close")
        self.end_headers()
        self.close_connection = True
        self.wfile.write(b": the server is here\n\n")
        dice = random.Random(len(self.state.requests))
        written = [0]
        started = time.time()
        delay = 0.06 if "slow" in question else 0.002

        def send(delta, **more):
            timings = {
                "prompt_n": 64,
                "cache_n": 448,
                "prompt_ms": 80.0,
                "predicted_n": written[0],
                "prompt_per_second": 800.0,
                "predicted_ms": 1000 * (time.time() - started),
                "predicted_per_second": written[0] / max(0.001, time.time() - started),
            }
            choice = {"index": 0, "delta": delta, "finish_reason": None, **more}
            chunk = {"id": "c", "object": "chat.completion.chunk", "model": request.get("model"), "choices": [choice]}
            if request.get("timings_per_token"):
                chunk["timings"] = timings
            self.wfile.write(f"data: {json.dumps(chunk)}\n\n".encode())
            self.wfile.flush()

        if "wait" in question:
            self.state.waiting = 2
            time.sleep(2.5)
            self.state.waiting = 0
        send({"role": "assistant", "content": None})
        if "think" in question and prefix is None:
            for word in TEXTS["reasoning"].split(" "):
                written[0] += 1
                send({"reasoning_content": word + " "})
                time.sleep(0.03)
        if "tool" in question and "tools" not in question:
            call = {"index": 0, "id": "call_1", "type": "function", "function": {"name": "get_weather", "arguments": ""}}
            send({"tool_calls": [call]})
            for part in ['{"city": "Ber', 'lin", "days"', ": 3}"]:
                send({"tool_calls": [{"index": 0, "function": {"arguments": part}}]})
            return self.end(send, "tool_calls")
        pieces = tokens_of(self.answer(question, prefix))
        burst = max(1, len(pieces) // 400)
        held = b""
        late = ""  # text that is held back, as before a stop string
        for i, data in enumerate(pieces):
            written[0] += 1
            held += data
            try:
                text, held = held.decode(), b""
            except UnicodeDecodeError:
                text = ""
            logprobs = {"content": [entry(data, dice)]} if request.get("logprobs") else None
            text, late = late + text, ""
            if i % 9 == 5 and i + 1 < len(pieces):
                text, late = "", text
            send({"content": text}, logprobs=logprobs)
            if i % 30 == 7:
                self.wfile.write(b": still here\n\n")
            if "cut" in question and prefix is None and i == 20:
                return None
            if "broken" in question and i == 10:
                self.wfile.write(b'data: {"error": {"message": "the device was lost", "type": "server_error", "code": 500}}\n\n')
                return None
            if i % burst == 0:
                time.sleep(delay)
        return self.end(send, "length" if "limit" in question and prefix is None else "stop")

    def end(self, send, reason):
        send({}, finish_reason=reason)
        self.wfile.write(b"data: [DONE]\n\n")

    def answer(self, question, prefix):
        if prefix is not None:
            return " and so the text goes on from there, as if nothing had happened."
        long = re.search(r"long (\d+)", question)
        if long:
            dice = random.Random(1)
            words = [dice.choice(WORDS) for _ in range(int(long.group(1)))]
            return "\n\n".join(" ".join(words[i : i + 60]) + "." for i in range(0, len(words), 60))
        return next((text for name, text in TEXTS.items() if name in question), TEXTS["plain"])


class Server(ThreadingHTTPServer):
    def handle_error(self, request, client_address):
        if not isinstance(sys.exc_info()[1], ConnectionError):  # a reader who left is no error
            super().handle_error(request, client_address)


def serve(port=0):
    server = Server(("127.0.0.1", port), Handler)
    server.daemon_threads = True
    server.state = State()
    threading.Thread(target=server.serve_forever, daemon=True).start()
    return server


def end(server):
    server.state.ended = True
    server.shutdown()
    server.server_close()


if __name__ == "__main__":
    running = serve(int(sys.argv[1]) if len(sys.argv) > 1 else 8080)
    print(f"http://127.0.0.1:{running.server_port}/", flush=True)
    threading.Event().wait()
