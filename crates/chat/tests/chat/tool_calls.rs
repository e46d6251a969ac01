//! Tool calls as templates write them, from `tools/goldens/tool_calls.py`: read, they are the calls again.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use chat::{
    Answer, AnswerParser, Calls, Delta, Message, Options, Prompt, Specials, Template, ToolFormat, Tools,
};
use serde_json::{Value as Json, json};

/// The formats of the templates in llama.cpp's folder. `none`: the template has no tools, or a format that is not known.
const FORMATS: &[(&str, &str)] = &[
    ("apertus", "Apertus-8B-Instruct"),
    ("apriel", "Apriel-1.6-15b-Thinker-fixed unsloth-Apriel-1.5"),
    ("cohere", "Cohere2MoE CohereForAI-c4ai-command-r7b-12-2024-tool_use"),
    (
        "deepseek-r1",
        "deepseek-ai-DeepSeek-R1-Distill-Llama-8B deepseek-ai-DeepSeek-R1-Distill-Qwen-32B llama-cpp-deepseek-r1",
    ),
    ("deepseek-v3.1", "deepseek-ai-DeepSeek-V3.1"),
    ("deepseek-v3.2", "deepseek-ai-DeepSeek-V3.2"),
    ("deepseek-v4", "deepseek-ai-DeepSeek-V4 deepseek-ai-DeepSeek-V4-Flash-0731"),
    ("functionary-v3.1", "meetkai-functionary-medium-v3.1"),
    ("functionary-v3.2", "meetkai-functionary-medium-v3.2"),
    ("gemma-4", "google-gemma-4-31B-it google-gemma-4-31B-it-interleaved"),
    ("gigachat-3", "GigaChat3-10B-A1.8B"),
    ("gigachat-3.1", "GigaChat3.1-10B-A1.8B"),
    ("glm-4.5", "GLM-4.6 poolside-Laguna-XS-2.1 poolside-Laguna-XS.2"),
    ("glm-4.7", "GLM-4.7-Flash Spark2.5 poolside-Laguna-S-2.1"),
    ("granite-3", "ibm-granite-granite-3.3-2B-Instruct"),
    ("harmony", "openai-gpt-oss-120b"),
    (
        "hermes",
        "Bielik-11B-v3.0-Instruct MiMo-VL NousResearch-Hermes-2-Pro-Llama-3-8B-tool_use \
         NousResearch-Hermes-3-Llama-3.1-8B-tool_use Qwen-QwQ-32B Qwen-Qwen2.5-7B-Instruct Qwen-Qwen3-0.6B Reka-Edge \
         ibm-granite-granite-4.0 ibm-granite-granite-4.1",
    ),
    ("hunyuan", "tencent-Hy3"),
    ("kimi-k2", "Kimi-K2-Instruct Kimi-K2-Thinking moonshotai-Kimi-K2"),
    ("kimi-k3", "Kimi-K3"),
    ("lfm2", "LFM2-8B-A1B LFM2.5-8B-A1B LFM2.5-Instruct"),
    ("ling-3", "inclusionai-ling-3.0-flash"),
    (
        "llama-json",
        "meta-llama-Llama-3.1-8B-Instruct meta-llama-Llama-3.2-3B-Instruct meta-llama-Llama-3.3-70B-Instruct",
    ),
    ("minicpm-5", "openbmb-MiniCPM5-1B"),
    ("minimax-m1", "MiniMax-M1"),
    ("minimax-m2", "MiniMax-M2"),
    (
        "mistral-args",
        "Mistral-Small-3.2-24B-Instruct-2506 mistralai-Ministral-3-14B-Reasoning-2512 unsloth-mistral-Devstral-Small-2507",
    ),
    ("mistral-list", "mistralai-Mistral-Nemo-Instruct-2407"),
    ("nemotron-nano-2", "NVIDIA-Nemotron-Nano-v2"),
    ("qwen-coder", "NVIDIA-Nemotron-3-Nano-30B-A3B-BF16 Qwen3-Coder Qwen3.5-4B StepFun3.5-Flash"),
    ("seed-oss", "ByteDance-Seed-OSS"),
    ("solar-open", "upstage-Solar-Open-100B"),
    (
        "none",
        "CohereForAI-c4ai-command-r-plus-tool_use HuggingFaceTB-SmolLM3-3B MiniMax-M3 fireworks-ai-llama-3-firefunction-v2 google-gemma-2-2b-it \
         llama-cpp-rwkv-world microsoft-Phi-3.5-mini-instruct muse-glimmer",
    ),
];

pub(crate) fn format_of(file: &str) -> &'static str {
    let name = file.trim_end_matches(".jinja");
    let found = FORMATS.iter().find(|(_, files)| files.split_whitespace().any(|file| file == name));
    found.unwrap_or_else(|| panic!("{file} is not in the table")).0
}

pub(crate) fn goldens() -> Json {
    let path: PathBuf = [env!("CARGO_MANIFEST_DIR"), "goldens", "tool_calls.json"].iter().collect();
    serde_json::from_str(&std::fs::read_to_string(path).expect("goldens")).expect("JSON")
}

fn tools(goldens: &Json) -> Arc<Tools> {
    Arc::new(Tools::read(goldens["tools"].as_array().expect("tools")).expect("tools"))
}

pub(crate) fn read<'a>(mut parser: AnswerParser, pieces: impl IntoIterator<Item = &'a str>) -> Answer {
    let mut answer = Answer::default();
    for piece in pieces {
        parser.push_text(piece).into_iter().for_each(|delta| answer.push(delta));
    }
    parser.finish().into_iter().for_each(|delta: Delta| answer.push(delta));
    answer
}

/// Names and arguments.
pub(crate) fn calls(answer: &Answer) -> Json {
    let call = |call: &chat::ToolCall| {
        let text = call.function.arguments.as_str().expect("a text");
        json!([call.function.name, serde_json::from_str::<Json>(text).expect("JSON")])
    };
    answer.tool_calls.iter().map(call).collect()
}

/// Reads `answer` at once and by characters, streamed and not, and returns the result.
pub(crate) fn read_all(parser: impl Fn(Calls) -> AnswerParser, answer: &str) -> Answer {
    let ends: Vec<usize> = answer.char_indices().map(|(at, _)| at).chain([answer.len()]).collect();
    let characters: Vec<&str> = ends.windows(2).map(|ends| &answer[ends[0]..ends[1]]).collect();
    for mode in [Calls::Whole, Calls::Streamed] {
        let whole = read(parser(mode), [answer]);
        assert_eq!(
            read(parser(mode), characters.iter().copied()),
            whole,
            "{answer:?} by characters, {mode:?}"
        );
    }
    let (streamed, whole) = (read(parser(Calls::Streamed), [answer]), read(parser(Calls::Whole), [answer]));
    assert_eq!((calls(&streamed), &streamed.content), (calls(&whole), &whole.content), "{answer:?} streamed");
    whole
}

/// A prompt with this text.
pub(crate) fn prompt_of(text: &str) -> Prompt {
    let source = format!("{{{{ {} }}}}", Json::from(text));
    let template = Template::new(&source, Specials::default()).expect("a template");
    template.render(&[], &Options::default()).expect("a prompt")
}

#[test]
fn what_templates_write_reads_as_the_calls() {
    let goldens = goldens();
    let tools = tools(&goldens);
    let mut wrong = Vec::new();
    for (file, golden) in goldens["templates"].as_object().expect("templates") {
        let Some(format) = ToolFormat::named(format_of(file), &[]) else { continue };
        for case in golden["answers"].as_array().expect("answers") {
            let prompt = case[1].as_str().expect("a text");
            let text = case[2].as_str().expect("a text");
            let prompt = prompt_of(prompt);
            let answer = read_all(|mode| format.parser(&prompt, tools.clone(), mode), text);
            let expected = &goldens["calls"][case[0].as_u64().expect("a number") as usize];
            if calls(&answer) != *expected && format.name() != "gigachat-3" {
                wrong.push(format!("{file}: {text}\n  {answer:?}"));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// The templates of `RUSTORCH_TEMPLATES`, or else the shared ones: which format they show, and that what they write for
/// calls and results reads as the calls.
#[test]
fn templates_show_their_format() {
    let folder =
        std::env::var_os("RUSTORCH_TEMPLATES").map(PathBuf::from).or_else(|| testkit::shared("templates"));
    let Some(folder) = folder else { return };
    let goldens = goldens();
    let mut wrong = Vec::new();
    for entry in std::fs::read_dir(folder).expect("a folder") {
        let path = entry.expect("a file").path();
        if path.extension().is_some_and(|extension| extension == "jinja") {
            check_template(&path, &goldens, &mut wrong);
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

fn check_template(path: &Path, goldens: &Json, wrong: &mut Vec<String>) {
    let file = path.file_name().and_then(|name| name.to_str()).expect("a name");
    let source = std::fs::read_to_string(path).expect("a template");
    let specials = Specials { bos: Some("<s>".into()), eos: Some("</s>".into()), tokens: Vec::new() };
    let template = Template::new(&source, specials).expect("a template");
    let format = template.tool_format();
    if format.is_generic() {
        // These write calls, but no tools.
        let known = ["DeepSeek-R1-Distill", "DeepSeek-V3.1"];
        if format_of(file) != "none" && !known.iter().any(|known| file.contains(known)) {
            wrong.push(format!("{file}: no format, not {}", format_of(file)));
        }
        return;
    }
    if format.name() != format_of(file) {
        return wrong.push(format!("{file}: {}, not {}", format.name(), format_of(file)));
    }
    let tools = goldens["tools"].as_array().expect("tools").clone();
    for (number, expected) in goldens["calls"].as_array().expect("calls").iter().enumerate() {
        let made = expected.as_array().expect("calls").iter().enumerate().map(|(index, call)| {
            json!({"id": format!("call0000{index}"), "function": {"name": call[0], "arguments": call[1]}})
        });
        let called = json!({"role": "assistant", "content": "", "tool_calls": made.collect::<Vec<_>>()});
        let mut messages =
            vec![Message::new("user", "q"), serde_json::from_value(called).expect("a message")];
        for index in 0..=number {
            let result =
                Message { tool_call_id: Some(format!("call0000{index}")), ..Message::new("tool", "RESULT") };
            messages.push(Message { name: expected[index][0].as_str().map(str::to_owned), ..result });
        }
        let options = Options { add_generation_prompt: false, tools: tools.clone(), ..Options::default() };
        let answers = goldens["templates"][file]["answers"].as_array();
        let golden = answers.into_iter().flatten().find(|case| case[0] == number);
        let rendered = template.render(&messages, &options);
        let Some(golden) = golden else { continue };
        // Kimi K2's templates change a list, which Hugging Face's environment forbids.
        let Ok(rendered) = rendered.map(|prompt| prompt.to_string()) else {
            if !file.starts_with("Kimi-K2") {
                wrong.push(format!("{file}: cannot be rendered"));
            }
            continue;
        };
        if !rendered.contains("RESULT") {
            wrong.push(format!("{file}: no result in {rendered}"));
        }
        let answer = golden[2].as_str().expect("a text");
        if !rendered.contains(answer) {
            wrong.push(format!("{file}: {rendered}\n  lacks {answer}"));
            continue;
        }
        // Without the beginning of reasoning, which the answers in a conversation do not have.
        let prompt = prompt_of(golden[1].as_str().expect("a text"));
        let tools = Arc::new(Tools::read(&tools).expect("tools"));
        let answer = read_all(|mode| format.parser(&prompt, tools.clone(), mode), answer);
        if calls(&answer) != *expected && format.name() != "gigachat-3" {
            wrong.push(format!("{file}: {answer:?}"));
        }
        let tail = golden[2].as_str().expect("a text").trim_end();
        if !tail.ends_with(answer.content.trim_end().trim_start_matches("</think>"))
            || answer.content.contains("get_time")
        {
            wrong.push(format!("{file}: content {:?}", answer.content));
        }
    }
}
