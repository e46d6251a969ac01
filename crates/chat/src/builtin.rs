//! Templates by name, as for llama.cpp's `--chat-template NAME`.
//!
//! Source of the texts: `llm_chat_apply_template` in llama.cpp's `src/llama-chat.cpp`.

/// Names of the built-in templates.
pub fn builtin_names() -> impl Iterator<Item = &'static str> {
    TURNS
        .iter()
        .map(|(names, ..)| *names)
        .chain(JINJA.iter().map(|(names, _)| *names))
        .flat_map(|names| names.split(' '))
}

/// The Jinja source of the built-in template `name`.
pub fn builtin(name: &str) -> Option<String> {
    let has_name = |names: &str| names.split(' ').any(|other| other == name);
    if let Some((_, start, turns, answer)) = TURNS.iter().find(|row| has_name(row.0)) {
        return Some(of_turns(start, turns, answer));
    }
    let (_, source) = JINJA.iter().find(|row| has_name(row.0))?;
    let source: String = source.lines().map(str::trim_start).collect();
    Some(format!("{{%- set name = '{name}' -%}}{source}"))
}

/// The source of a template that writes each message on its own.
fn of_turns(start: &str, turns: &[(&str, &str)], answer: &str) -> String {
    let mut source = format!("{{{{ {} }}}}{{% for m in messages %}}", quoted(start));
    for (index, (role, form)) in turns.iter().enumerate() {
        let tag = if index == 0 { "if" } else { "elif" };
        let condition = if *role == ANY { "true".to_owned() } else { format!("m.role == {}", quoted(role)) };
        source += &format!("{{% {tag} {condition} %}}{{{{ {} }}}}", expression(form));
    }
    source
        + &format!(
            "{{% endif %}}{{% endfor %}}{{% if add_generation_prompt %}}{{{{ {} }}}}{{% endif %}}",
            quoted(answer)
        )
}

/// A Jinja expression for `form`.
fn expression(form: &str) -> String {
    let pieces = form.split('⟦').flat_map(|piece| match piece.split_once('⟧') {
        Some((value, text)) => vec![value.to_owned(), quoted(text)],
        None => vec![quoted(piece)],
    });
    pieces.filter(|piece| piece != "''").collect::<Vec<_>>().join(" ~ ")
}

fn quoted(text: &str) -> String {
    format!("'{}'", text.replace('\n', "\\n"))
}

/// Matches every role.
const ANY: &str = "";
const SYSTEM: &str = "system";
const USER: &str = "user";
const ASSISTANT: &str = "assistant";
const TOOL: &str = "tool";

type Turns = (&'static str, &'static str, &'static [(&'static str, &'static str)], &'static str);

/// Names, prefix, messages by role, and the prefix of an answer. In messages, `⟦x⟧` is the Jinja expression
/// `{{ x }}`. The first role that matches counts; other messages are left out.
const TURNS: &[Turns] = &[
    ("chatml", "", &[(ANY, "<|im_start|>⟦m.role⟧\n⟦m.content⟧<|im_end|>\n")], "<|im_start|>assistant\n"),
    (
        "mistral-v7",
        "",
        &[
            (SYSTEM, "[SYSTEM_PROMPT] ⟦m.content⟧[/SYSTEM_PROMPT]"),
            (USER, "[INST] ⟦m.content⟧[/INST]"),
            (ANY, " ⟦m.content⟧</s>"),
        ],
        "",
    ),
    (
        "mistral-v7-tekken",
        "",
        &[
            (SYSTEM, "[SYSTEM_PROMPT]⟦m.content⟧[/SYSTEM_PROMPT]"),
            (USER, "[INST]⟦m.content⟧[/INST]"),
            (ANY, "⟦m.content⟧</s>"),
        ],
        "",
    ),
    ("phi3", "", &[(ANY, "<|⟦m.role⟧|>\n⟦m.content⟧<|end|>\n")], "<|assistant|>\n"),
    (
        "phi4",
        "",
        &[(ANY, "<|im_start|>⟦m.role⟧<|im_sep|>⟦m.content⟧<|im_end|>")],
        "<|im_start|>assistant<|im_sep|>",
    ),
    ("falcon3", "", &[(ANY, "<|⟦m.role⟧|>\n⟦m.content⟧\n")], "<|assistant|>\n"),
    ("zephyr", "", &[(ANY, "<|⟦m.role⟧|>\n⟦m.content⟧<|endoftext|>\n")], "<|assistant|>\n"),
    (
        "openchat",
        "",
        &[
            (SYSTEM, "⟦m.content⟧<|end_of_turn|>"),
            (ANY, "GPT4 Correct ⟦(m.role[:1] | upper)⟧⟦m.role[1:]⟧: ⟦m.content⟧<|end_of_turn|>"),
        ],
        "GPT4 Correct Assistant:",
    ),
    (
        "vicuna",
        "",
        &[
            (SYSTEM, "⟦m.content⟧\n\n"),
            (USER, "USER: ⟦m.content⟧\n"),
            (ASSISTANT, "ASSISTANT: ⟦m.content⟧</s>\n"),
        ],
        "ASSISTANT:",
    ),
    (
        "vicuna-orca",
        "",
        &[
            (SYSTEM, "SYSTEM: ⟦m.content⟧\n"),
            (USER, "USER: ⟦m.content⟧\n"),
            (ASSISTANT, "ASSISTANT: ⟦m.content⟧</s>\n"),
        ],
        "ASSISTANT:",
    ),
    (
        "deepseek",
        "",
        &[
            (SYSTEM, "⟦m.content⟧"),
            (USER, "### Instruction:\n⟦m.content⟧\n"),
            (ASSISTANT, "### Response:\n⟦m.content⟧\n<|EOT|>\n"),
        ],
        "### Response:\n",
    ),
    (
        "deepseek2",
        "",
        &[
            (SYSTEM, "⟦m.content⟧\n\n"),
            (USER, "User: ⟦m.content⟧\n\n"),
            (ASSISTANT, "Assistant: ⟦m.content⟧<｜end▁of▁sentence｜>"),
        ],
        "Assistant:",
    ),
    (
        "deepseek3",
        "",
        &[
            (SYSTEM, "⟦m.content⟧\n\n"),
            (USER, "<｜User｜>⟦m.content⟧"),
            (ASSISTANT, "<｜Assistant｜>⟦m.content⟧<｜end▁of▁sentence｜>"),
        ],
        "<｜Assistant｜>",
    ),
    ("deepseek-ocr", "", &[(ANY, "⟦m.content⟧")], ""),
    (
        "command-r",
        "",
        &[
            (SYSTEM, "<|START_OF_TURN_TOKEN|><|SYSTEM_TOKEN|>⟦(m.content | trim)⟧<|END_OF_TURN_TOKEN|>"),
            (USER, "<|START_OF_TURN_TOKEN|><|USER_TOKEN|>⟦(m.content | trim)⟧<|END_OF_TURN_TOKEN|>"),
            (ASSISTANT, "<|START_OF_TURN_TOKEN|><|CHATBOT_TOKEN|>⟦(m.content | trim)⟧<|END_OF_TURN_TOKEN|>"),
        ],
        "<|START_OF_TURN_TOKEN|><|CHATBOT_TOKEN|>",
    ),
    (
        "llama3",
        "",
        &[(ANY, "<|start_header_id|>⟦m.role⟧<|end_header_id|>\n\n⟦(m.content | trim)⟧<|eot_id|>")],
        "<|start_header_id|>assistant<|end_header_id|>\n\n",
    ),
    (
        "llama4",
        "",
        &[(ANY, "<|header_start|>⟦m.role⟧<|header_end|>\n\n⟦(m.content | trim)⟧<|eot|>")],
        "<|header_start|>assistant<|header_end|>\n\n",
    ),
    ("chatglm3", "[gMASK]sop", &[(ANY, "<|⟦m.role⟧|>\n ⟦m.content⟧")], "<|assistant|>"),
    ("chatglm4", "[gMASK]<sop>", &[(ANY, "<|⟦m.role⟧|>\n⟦m.content⟧")], "<|assistant|>\n"),
    ("glmedge", "", &[(ANY, "<|⟦m.role⟧|>\n⟦m.content⟧")], "<|assistant|>"),
    ("minicpm", "", &[(USER, "<用户>⟦(m.content | trim)⟧<AI>"), (ANY, "⟦(m.content | trim)⟧")], ""),
    (
        "exaone3",
        "",
        &[
            (SYSTEM, "[|system|]⟦(m.content | trim)⟧[|endofturn|]\n"),
            (USER, "[|user|]⟦(m.content | trim)⟧\n"),
            (ASSISTANT, "[|assistant|]⟦(m.content | trim)⟧[|endofturn|]\n"),
        ],
        "[|assistant|]",
    ),
    (
        "exaone4",
        "",
        &[
            (SYSTEM, "[|system|]⟦(m.content | trim)⟧[|endofturn|]\n"),
            (USER, "[|user|]⟦(m.content | trim)⟧\n"),
            (ASSISTANT, "[|assistant|]⟦(m.content | trim)⟧[|endofturn|]\n"),
            (TOOL, "[|tool|]⟦(m.content | trim)⟧[|endofturn|]\n"),
        ],
        "[|assistant|]",
    ),
    (
        "exaone-moe",
        "",
        &[
            (SYSTEM, "<|system|>\n⟦(m.content | trim)⟧<|endofturn|>\n"),
            (USER, "<|user|>\n⟦(m.content | trim)⟧<|endofturn|>\n"),
            (ASSISTANT, "<|assistant|>\n⟦(m.content | trim)⟧<|endofturn|>\n"),
            (TOOL, "<|tool|>\n⟦(m.content | trim)⟧<|endofturn|>\n"),
        ],
        "<|assistant|>\n",
    ),
    (
        "granite",
        "",
        &[
            (
                CALLS,
                "<|start_of_role|>assistant_tool_call<|end_of_role|><|tool_call|>⟦m.content⟧<|end_of_text|>\n",
            ),
            (ANY, "<|start_of_role|>⟦m.role⟧<|end_of_role|>⟦m.content⟧<|end_of_text|>\n"),
        ],
        "<|start_of_role|>assistant<|end_of_role|>",
    ),
    (
        "granite-4.0 granite-4.1",
        "",
        &[
            (CALLS, "<|start_of_role|>assistant<|end_of_role|><|tool_call|>⟦m.content⟧<|end_of_text|>\n"),
            (ANY, "<|start_of_role|>⟦m.role⟧<|end_of_role|>⟦m.content⟧<|end_of_text|>\n"),
        ],
        "<|start_of_role|>assistant<|end_of_role|>",
    ),
    (
        "megrez",
        "",
        &[(ANY, "<|role_start|>⟦m.role⟧<|role_end|>⟦m.content⟧<|turn_end|>")],
        "<|role_start|>assistant<|role_end|>",
    ),
    (
        "yandex",
        "",
        &[(USER, " Пользователь: ⟦m.content⟧\n\n"), (ASSISTANT, " Ассистент: ⟦m.content⟧\n\n")],
        " Ассистент:[SEP]",
    ),
    (
        "bailing",
        "",
        &[(USER, "<role>HUMAN</role>⟦m.content⟧"), (ANY, "<role>⟦(m.role | upper)⟧</role>⟦m.content⟧")],
        "<role>ASSISTANT</role>",
    ),
    (
        "bailing-think",
        "",
        &[(USER, "<role>HUMAN</role>⟦m.content⟧"), (ANY, "<role>⟦(m.role | upper)⟧</role>⟦m.content⟧")],
        "<role>ASSISTANT</role><think>",
    ),
    (
        "smolvlm",
        "<|im_start|>",
        &[
            (SYSTEM, "⟦m.content⟧\n\n"),
            (USER, "User: ⟦m.content⟧<end_of_utterance>\n"),
            (ANY, "Assistant: ⟦m.content⟧<end_of_utterance>\n"),
        ],
        "Assistant:",
    ),
    (
        "hunyuan-moe",
        "",
        &[
            (SYSTEM, "<|startoftext|>⟦m.content⟧<|extra_4|>"),
            (ASSISTANT, "⟦m.content⟧<|eos|>"),
            (ANY, "<|startoftext|>⟦m.content⟧<|extra_0|>"),
        ],
        "",
    ),
    (
        "gpt-oss",
        "",
        &[
            (ASSISTANT, "<|start|>assistant<|message|>⟦m.content⟧<|return|>"),
            (ANY, "<|start|>⟦m.role⟧<|message|>⟦m.content⟧<|end|>"),
        ],
        "<|start|>assistant",
    ),
    (
        "kimi-k2",
        "",
        &[
            (SYSTEM, "<|im_system|>system<|im_middle|>⟦m.content⟧<|im_end|>"),
            (USER, "<|im_user|>user<|im_middle|>⟦m.content⟧<|im_end|>"),
            (ASSISTANT, "<|im_assistant|>assistant<|im_middle|>⟦m.content⟧<|im_end|>"),
            (TOOL, "<|im_system|>tool<|im_middle|>⟦m.content⟧<|im_end|>"),
            (ANY, "⟦m.content⟧<|im_end|>"),
        ],
        "<|im_assistant|>assistant<|im_middle|>",
    ),
    (
        "seed_oss",
        "",
        &[
            (ASSISTANT, "<seed:bos>assistant\n⟦(m.content | trim)⟧<seed:eos>"),
            (ANY, "<seed:bos>⟦m.role⟧\n⟦m.content⟧<seed:eos>"),
        ],
        "<seed:bos>assistant\n",
    ),
    (
        "grok-2",
        "",
        &[
            (SYSTEM, "System: ⟦(m.content | trim)⟧<|separator|>\n\n"),
            (USER, "Human: ⟦(m.content | trim)⟧<|separator|>\n\n"),
            (ASSISTANT, "Assistant: ⟦m.content⟧<|separator|>\n\n"),
        ],
        "Assistant:",
    ),
    ("solar-open", "", &[(ANY, "<|begin|>⟦m.role⟧<|content|>⟦m.content⟧<|end|>")], "<|begin|>assistant"),
];

/// Granite's role of tool calls.
const CALLS: &str = "assistant_tool_call";

/// Names and Jinja sources, in which `name` is the one of them that was asked for. Line breaks are for the reader.
const JINJA: &[(&str, &str)] = &[
    (
        "mistral-v1 mistral-v3 mistral-v3-tekken",
        r"{%- set before = ' ' if name == 'mistral-v1' else '' -%}
        {%- set after = '' if name == 'mistral-v3-tekken' else ' ' -%}
        {%- set ns = namespace(open=false) -%}
        {%- for m in messages -%}
            {%- if not ns.open %}{{ before ~ '[INST]' ~ after }}{% endif -%}
            {%- set ns.open = m.role in ['system', 'user'] -%}
            {%- if m.role == 'system' %}{{ m.content ~ '\n\n' }}
            {%- elif m.role == 'user' %}{{ m.content ~ before ~ '[/INST]' }}
            {%- else %}{{ after ~ (m.content | trim if name == 'mistral-v3' else m.content) ~ '</s>' }}{% endif -%}
        {%- endfor -%}",
    ),
    (
        "llama2 llama2-sys llama2-sys-bos llama2-sys-strip",
        r"{{ '[INST] ' }}
        {%- set ns = namespace(open=true) -%}
        {%- for m in messages -%}
            {%- set text = m.content | trim if name == 'llama2-sys-strip' else m.content -%}
            {%- if not ns.open %}{{ '<s>' if name == 'llama2-sys-bos' else '' }}{{ '[INST] ' }}{% endif -%}
            {%- set ns.open = m.role in ['system', 'user'] -%}
            {%- if m.role == 'system' and name == 'llama2' %}{{ text ~ '\n' }}
            {%- elif m.role == 'system' %}{{ '<<SYS>>\n' ~ text ~ '\n<</SYS>>\n\n' }}
            {%- elif m.role == 'user' %}{{ text ~ ' [/INST]' }}
            {%- else %}{{ text ~ '</s>' }}{% endif -%}
        {%- endfor -%}",
    ),
    (
        "monarch",
        r"{%- for m in messages -%}
            {{ ('' if loop.first else '<s>') ~ m.role ~ '\n' ~ m.content ~ '</s>\n' }}
        {%- endfor -%}
        {%- if add_generation_prompt %}{{ '<s>assistant\n' }}{% endif -%}",
    ),
    (
        "gemma",
        r"{%- set ns = namespace(system='') -%}
        {%- for m in messages -%}
            {%- if m.role == 'system' -%}
                {%- set ns.system = ns.system ~ (m.content | trim) -%}
            {%- else -%}
                {{ '<start_of_turn>' ~ ('model' if m.role == 'assistant' else m.role) ~ '\n' }}
                {%- if ns.system and m.role != 'assistant' -%}
                    {{ ns.system ~ '\n\n' }}
                    {%- set ns.system = '' -%}
                {%- endif -%}
                {{ (m.content | trim) ~ '<end_of_turn>\n' }}
            {%- endif -%}
        {%- endfor -%}
        {%- if add_generation_prompt %}{{ '<start_of_turn>model\n' }}{% endif -%}",
    ),
    (
        "orion",
        r"{%- set ns = namespace(system='') -%}
        {%- for m in messages -%}
            {%- if m.role == 'system' -%}
                {%- set ns.system = ns.system ~ m.content -%}
            {%- elif m.role == 'user' -%}
                {{ 'Human: ' ~ (ns.system ~ '\n\n' if ns.system else '') ~ m.content ~ '\n\nAssistant: </s>' }}
                {%- set ns.system = '' -%}
            {%- else %}{{ m.content ~ '</s>' }}{% endif -%}
        {%- endfor -%}",
    ),
    (
        "rwkv-world",
        r"{%- for m in messages -%}
            {%- if m.role == 'system' %}{{ 'System: ' ~ (m.content | trim) ~ '\n\n' }}
            {%- elif m.role == 'user' %}{{ 'User: ' ~ (m.content | trim) ~ '\n\n' ~ ('Assistant:' if loop.last else '') }}
            {%- elif m.role == 'assistant' %}{{ 'Assistant: ' ~ (m.content | trim) ~ '\n\n' }}{% endif -%}
        {%- endfor -%}",
    ),
    (
        "gigachat",
        r"{{ '<s>' }}
        {%- for m in messages -%}
            {%- if loop.first and m.role == 'system' %}{{ m.content ~ '<|message_sep|>' }}
            {%- elif m.role == 'user' -%}
                {{ 'user<|role_sep|>' ~ m.content ~ '<|message_sep|>available functions<|role_sep|>[]<|message_sep|>' }}
            {%- elif m.role == 'assistant' %}{{ 'assistant<|role_sep|>' ~ m.content ~ '<|message_sep|>' }}{% endif -%}
        {%- endfor -%}
        {%- if add_generation_prompt %}{{ 'assistant<|role_sep|>' }}{% endif -%}",
    ),
    (
        "bailing2",
        r"{%- if not messages or messages[0].role != 'system' -%}
            {{ '<role>SYSTEM</role>detailed thinking off<|role_end|>' }}
        {%- endif -%}
        {%- for m in messages -%}
            {{ '<role>' ~ ('HUMAN' if m.role == 'user' else m.role | upper) ~ '</role>' ~ m.content ~ '<|role_end|>' }}
        {%- endfor -%}
        {%- if add_generation_prompt %}{{ '<role>ASSISTANT</role>' }}{% endif -%}",
    ),
    (
        "hunyuan-dense",
        r"{%- for m in messages -%}
            {%- if loop.first and m.role == 'system' %}{{ m.content ~ '<｜hy_place▁holder▁no▁3｜>' }}
            {%- elif m.role == 'assistant' %}{{ '<｜hy_Assistant｜>' ~ m.content ~ '<｜hy_place▁holder▁no▁2｜>' }}
            {%- elif m.role == 'user' %}{{ '<｜hy_User｜>' ~ m.content ~ '<｜hy_Assistant｜>' }}{% endif -%}
        {%- endfor -%}",
    ),
    (
        "hunyuan-vl",
        r"{{ '<｜hy_begin▁of▁sentence｜>' }}
        {%- for m in messages -%}
            {%- if loop.first and m.role == 'system' %}{{ m.content ~ '<｜hy_place▁holder▁no▁3｜>' }}
            {%- elif m.role == 'user' %}{{ m.content ~ '<｜hy_User｜>' }}
            {%- elif m.role == 'assistant' %}{{ m.content ~ '<｜hy_Assistant｜>' }}{% endif -%}
        {%- endfor -%}",
    ),
    (
        "pangu-embedded",
        r"{%- set roles = {'system': '系统', 'user': '用户', 'assistant': '助手', 'tool': '工具', 'function': '方法'} -%}
        {%- for m in messages -%}
            {%- if loop.first and m.role != 'system' %}{{ '[unused9]系统：[unused10]' }}{% endif -%}
            {%- if m.role in roles %}{{ '[unused9]' ~ roles[m.role] ~ '：' ~ m.content ~ '[unused10]' }}{% endif -%}
        {%- endfor -%}
        {%- if add_generation_prompt %}{{ '[unused9]助手：' }}{% endif -%}",
    ),
];
