"""How a chat becomes text: the model's special pieces and its template."""

# Pieces of their own in the tokenizer, at ids 3, 4 and 5.
SYSTEM, USER, ASSISTANT = CONTROLS = ["<|system|>", "<|user|>", "<|assistant|>"]

# What `encode` in train.py writes.
CHAT_TEMPLATE = (
    "{% for message in messages %}{{ '<|' + message['role'] + '|>\\n' + message['content'] + eos_token + '\\n' }}"
    "{% endfor %}{% if add_generation_prompt %}{{ '<|assistant|>\\n' }}{% endif %}"
)
