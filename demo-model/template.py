"""The chat template and the model's special tokens."""

# Control tokens, ids 3, 4 and 5.
SYSTEM, USER, ASSISTANT = CONTROLS = ["<|system|>", "<|user|>", "<|assistant|>"]

# The format of `encode` in train.py.
CHAT_TEMPLATE = (
    "{% for message in messages %}{{ '<|' + message['role'] + '|>\\n' + message['content'] + eos_token + '\\n' }}"
    "{% endfor %}{% if add_generation_prompt %}{{ '<|assistant|>\\n' }}{% endif %}"
)
