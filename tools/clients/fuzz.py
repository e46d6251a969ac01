"""Bad requests: wrong types, huge numbers, literals that are no JSON, deep nesting, cut bodies, keys twice, long lists, odd Unicode.

Each is answered within 30 s, with 200 if it does no harm, and else with a status of 4xx and an error in the protocol's shape.
"""

import http.client
import json
import resource
import time
from urllib.parse import urlsplit

from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from checks import ANSWER, QUESTION, WEATHER, check, main

REQUESTS = 2000
LIMIT = 30
# More than the server reads, and less than what it takes in before it ends the connection.
LARGEST = 32 << 20
ASK = [{"role": "user", "content": "Hi"}]
TOOL = {"type": "function", "function": {"name": "weather", "parameters": WEATHER}}


def openai(body):
    return {"message", "type", "param", "code"} <= set(body["error"]) and body["error"]["message"]


def anthropic(body):
    return body["type"] == "error" and body["error"]["type"] and body["error"]["message"]


def ollama(body):
    return isinstance(body["error"], str) and body["error"]


# Endpoints: a good body and the shape of errors.
ENDPOINTS = {
    "/v1/chat/completions": ({"messages": ASK, "max_tokens": 4}, openai),
    "/v1/completions": ({"prompt": "Hi", "max_tokens": 4}, openai),
    "/v1/responses": ({"input": "Hi", "max_output_tokens": 16}, openai),
    "/v1/responses/input_tokens": ({"input": "Hi"}, openai),
    "/v1/chat/completions/input_tokens": ({"messages": ASK}, openai),
    "/v1/messages": ({"messages": ASK, "max_tokens": 4}, anthropic),
    "/v1/messages/count_tokens": ({"messages": ASK}, anthropic),
    "/api/chat": ({"messages": ASK, "options": {"num_predict": 4}}, ollama),
    "/api/generate": ({"prompt": "Hi", "options": {"num_predict": 4}}, ollama),
    "/api/show": ({"verbose": False}, ollama),
    "/api/embed": ({"input": "Hi"}, ollama),
    "/completion": ({"prompt": "Hi", "n_predict": 4}, openai),
    "/embedding": ({"content": "Hi"}, openai),
    "/v1/embeddings": ({"input": "Hi"}, openai),
    "/v1/rerank": ({"query": "Hi", "documents": ["Hi"]}, openai),
    "/tokenize": ({"content": "Hi"}, openai),
    "/detokenize": ({"tokens": [1, 2]}, openai),
    "/apply-template": ({"messages": ASK}, openai),
}

# Fields that some protocol knows.
FIELDS = """
model messages prompt input system instructions tools tool_choice parallel_tool_calls response_format format text thinking reasoning
max_tokens max_completion_tokens max_output_tokens temperature top_p top_k min_p typical_p seed stop stop_sequences n best_of echo
suffix stream stream_options logprobs top_logprobs logit_bias frequency_penalty presence_penalty repeat_penalty repetition_penalty
dynatemp_range dynatemp_exponent xtc_probability xtc_threshold stop_token_ids ignore_eos grammar json_schema guided_regex priority
cache_salt chat_template_kwargs reasoning_effort timings_per_token user metadata options raw template keep_alive images context
content tokens add_special parse_special with_pieces functions audio modalities samplers dry_multiplier dry_sequence_breakers
mirostat mirostat_tau top_n_sigma repeat_last_n n_probs n_predict n_cmpl encoding_format dimensions query documents top_n verbose
structured_outputs guided_json guided_choice guided_grammar regex ebnf function_call extra_body truncate truncate_prompt_tokens
""".split()

# Values that nearly fit.
NEARLY = [
    -1, 0, 1, 2**31, 2**32, 2**53, 2**63, 2**64, 10**400, -(2**63), 1e308, 1e-320, -0.0, float("nan"), float("inf"), float("-inf"),
    "", "\0", "\ud800", "\U0010ffff", "é" * 300, "s" * 70_000, "<s></s><|user|>", "a" * 70_000, "{{ 7 * 7 }}", "auto", "required", "none", "json",
    {"type": "json_object"}, {"type": "json_schema", "json_schema": {"schema": WEATHER}}, {"type": "function", "function": {"name": "x"}},
    [TOOL], [TOOL, TOOL], [{"type": "function"}], [{}], {}, [], [[]], [None], {"": None}, {"1": 5, "99999": 1, "-1": 0},
    ASK, [{"role": "tool", "content": "x"}], [{"role": "assistant", "content": None}], [{"role": "user", "content": [{"type": "text"}]}],
    [{"role": "user", "content": [{"type": "image_url", "image_url": {"url": "http://127.0.0.1:1/"}}]}], [{"role": "", "content": ""}],
    [{"role": "assistant", "content": "", "tool_calls": [{"id": "1", "type": "function", "function": {"name": "f", "arguments": "{"}}]}],
    'root ::= "a" | root "b"', 'root ::= root', "root ::= [", "(a+)+$", "[", "(?=x)", ".{1,100000}", "(((a{1,99}){1,99}){1,99})",
    {"$ref": "#"}, {"$ref": "http://127.0.0.1:1/x.json"}, {"type": "nonsense"}, {"anyOf": []}, {"enum": []}, {"minLength": 10**9},
    {"type": "array", "minItems": 10**6}, {"pattern": "("}, {"properties": {"a": False}, "required": ["a"]}, {"allOf": [{"$ref": "#"}]},
    {"type": "object", "required": [str(i) for i in range(2000)]}, {"multipleOf": 0}, {"minimum": 5, "maximum": 4, "type": "integer"},
]  # fmt: skip
LEAVES = st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=20) | st.sampled_from(NEARLY)
NAMES = st.sampled_from([*FIELDS, "type", "role", "content", "name", "function", "schema", "properties", "items"]) | st.text(max_size=5)
JUNK = st.recursive(LEAVES, lambda inner: st.lists(inner, max_size=4) | st.dictionaries(NAMES, inner, max_size=4), max_leaves=8)
SMALL = st.none() | st.booleans() | st.integers() | st.text(max_size=5) | st.just(ASK[0])
LONG = st.builds(lambda item, n: [item] * n, SMALL, st.sampled_from([17, 257, 5000, 50_000]))
VALUES = JUNK | st.sampled_from(NEARLY) | LONG


def places(value):
    """The containers and keys of a value."""
    pairs = list(value.items()) if isinstance(value, dict) else list(enumerate(value))[:20] if isinstance(value, list) else []
    return [(value, key) for key, _ in pairs] + [place for _, inner in pairs for place in places(inner)]


@st.composite
def bodies(draw, good):
    """The bytes of a body: the good one with some values changed and fields added, and then perhaps damaged."""
    body = json.loads(json.dumps(good))
    for _ in range(draw(st.integers(0, 2))):
        found = places(body)  # not for `sampled_from`, which keeps it in memory
        container, key = found[draw(st.integers(0, len(found) - 1))]
        # A copy without shared parts: a change within a long list must not be in each of its items.
        container[key] = json.loads(json.dumps(draw(VALUES)))
    body |= draw(st.dictionaries(st.sampled_from(FIELDS), VALUES, max_size=3))
    text = json.dumps(body, ensure_ascii=draw(st.booleans()))
    match draw(st.sampled_from(["as it is"] * 12 + ["cut", "twice", "deep", "bytes", "other", "literal"])):
        case "cut":
            text = text[: draw(st.integers(0, len(text)))]
        case "twice":
            key = draw(st.sampled_from(list(good)))
            text = text[:-1] + f", {json.dumps(key)}: {json.dumps(draw(JUNK))}}}"
        case "deep":
            depth = draw(st.sampled_from([100, 127, 129, 5000, 100_000]))
            inside = draw(st.sampled_from(["[", '{"a":']))
            text = f'{text[:-1]}, "{draw(st.sampled_from(FIELDS))}": {inside * depth}1{(("]" if inside == "[" else "}") * depth)}}}'
        case "bytes":
            return draw(st.binary(max_size=200))
        case "other":
            text = json.dumps(draw(JUNK))
        case "literal":
            text = draw(st.sampled_from(["", "nan", "{,}", "{'a': 1}", "// x\n{}", "\ufeff{}", "{}{}", "[1,]", "0x10", "\0", '{"model": "demo"']))
    return text.encode("utf-8", "surrogatepass")[:LARGEST]


# Schemas, grammars and expressions: they get as far as their compilers.
TYPES = st.sampled_from(["object", "array", "string", "number", "integer", "boolean", "null"])
KEYWORDS = """properties items required enum const anyOf oneOf allOf not minLength maxLength minItems maxItems minimum maximum pattern
format multipleOf additionalProperties prefixItems patternProperties $ref $defs uniqueItems contains if then else type""".split()
SCHEMAS = st.recursive(
    st.fixed_dictionaries({"type": TYPES}) | st.booleans() | st.sampled_from([v for v in NEARLY if isinstance(v, dict)]),
    lambda inner: st.dictionaries(
        st.sampled_from(KEYWORDS), inner | st.lists(inner, max_size=3) | st.dictionaries(NAMES, inner, max_size=3) | LEAVES, max_size=4
    ),
    max_leaves=10,
)
TEXTS = st.text("()[]{}|*+?.^$\\ab01,-:=\"' \n\u00e9\U0001f600", max_size=40)
EXPRESSIONS = TEXTS | st.builds(lambda text, n: text * n, TEXTS, st.sampled_from([10, 1000]))
CONSTRAINTS = (
    SCHEMAS.map(lambda schema: {"json_schema": schema})
    | SCHEMAS.map(lambda schema: {"tools": [{**TOOL, "function": {"name": "f", "parameters": schema}}], "tool_choice": "required"})
    | EXPRESSIONS.map(lambda text: {"guided_regex": text})
    | EXPRESSIONS.map(lambda text: {"grammar": "root ::= " + text})
)

KINDS = st.sampled_from(["application/json"] * 20 + ["text/plain", "", "application/json; charset=utf-16", "multipart/form-data", "x\xff"])


class Wire:
    """A connection that is opened again where the server has closed it."""

    def __init__(self, url):
        self.place = urlsplit(url)
        self.open()

    def open(self):
        self.connection = http.client.HTTPConnection(self.place.hostname, self.place.port, timeout=LIMIT)

    def post(self, path, body, kind):
        for attempt in range(2):
            try:
                self.connection.request("POST", path, body, {"Content-Type": kind})
                answer = self.connection.getresponse()
                return answer.status, answer.read()
            except (http.client.RemoteDisconnected, ConnectionError):
                self.open()
                if attempt == 1:
                    raise
        raise AssertionError("unreachable")


def is_there(wire, path):
    status, body = wire.post(path, b"{", "application/json")
    return status != 404 or b"there is no POST" not in body


def fuzz(server, path, bodies, kinds, bad):
    """Sends generated bodies to an endpoint, which must refuse at least the share `bad`."""
    shape = ENDPOINTS[path][1]
    wire = Wire(server.url)
    found = {}

    @settings(
        max_examples=REQUESTS, deadline=None, derandomize=True, database=None, suppress_health_check=list(HealthCheck),
        phases=[Phase.generate, Phase.shrink],
    )  # fmt: skip
    @given(bodies, kinds)
    def run(body, kind):
        start = time.monotonic()
        status, answer = wire.post(path, body, kind)
        taken = time.monotonic() - start
        found[status] = found.get(status, 0) + 1
        assert status == 200 or 400 <= status < 500, (status, answer[:500])
        assert taken < LIMIT, taken
        if status != 200:
            assert shape(json.loads(answer)), answer[:500]

    run()
    assert sum(found.values()) >= REQUESTS, found
    assert found.get(400, 0) > REQUESTS * bad, found
    print(f"   {path}: {', '.join(f'{n} with {status}' for status, n in sorted(found.items()))}")
    server.forgets()
    ask = json.dumps({"messages": [{"role": "user", "content": QUESTION}], "temperature": 0, "max_tokens": 20}).encode()
    status, answer = wire.post("/v1/chat/completions", ask, "application/json")
    assert status == 200 and ANSWER.encode() in answer, answer


def endpoint(server, path):
    if is_there(Wire(server.url), path):
        fuzz(server, path, bodies(ENDPOINTS[path][0]), KINDS, 0.25)
    else:
        print(f"   the server has no {path}")


for path in ENDPOINTS:

    def function(server, path=path):
        endpoint(server, path)

    function.__name__ = path
    check(function)


@check
def constraints(server):
    path = "/v1/chat/completions"
    asked = CONSTRAINTS.map(lambda fields: json.dumps({**ENDPOINTS[path][0], **fields}).encode())
    fuzz(server, path, asked, st.just("application/json"), 0.1)


if __name__ == "__main__":
    # A generator of large values must not take the machine's memory.
    resource.setrlimit(resource.RLIMIT_AS, (4 << 30, 4 << 30))
    main()
