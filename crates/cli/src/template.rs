//! `rustorch template`: the prompt that a chat template makes of messages.

use std::io::{self, IsTerminal};
use std::path::{Path, PathBuf};

use anyhow::{Context, bail};
use engine::template::Template;
use engine::{Message, encode_rendered, specials};
use rustorch::{Conversation, Ending};
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value, json};

use crate::args::{ModelArgs, TemplateChoice};
use crate::files::TextFile;
use crate::output::{self, TextOut, Usage};
use crate::{generate, load};

#[derive(Debug, clap::Args)]
#[command(after_help = "\
Messages have OpenAI's form: [{\"role\": \"user\", \"content\": \"Hello\"}]. The file may also hold an object
with the keys messages, tools and chat_template_kwargs.")]
pub(crate) struct Args {
    /// JSON file with the messages; - is stdin [default: stdin]
    #[arg(value_name = "MESSAGES")]
    messages: Option<PathBuf>,
    #[command(flatten)]
    model: ModelArgs,
    /// JSON file with a list of tools that the model may call
    #[arg(long, value_name = "FILE", help_heading = "Prompt")]
    tools: Option<PathBuf>,
    #[command(flatten)]
    template: TemplateChoice,
    /// Leave out the beginning of an answer
    #[arg(long, help_heading = "Prompt")]
    no_generation_prompt: bool,
    /// Print one JSON object with the text and the token ids
    #[arg(long, help_heading = "Output")]
    json: bool,
}

/// A conversation and its settings.
#[derive(Deserialize)]
struct Request {
    messages: Vec<Message>,
    tools: Option<Vec<Value>>,
    chat_template_kwargs: Option<Map<String, Value>>,
}

pub(crate) fn run(args: Args) -> anyhow::Result<()> {
    let name = match &args.messages {
        Some(name) => name.as_path(),
        None if io::stdin().is_terminal() => {
            bail!(Usage("expected a file with messages, or messages on stdin".to_owned()));
        }
        None => Path::new("-"),
    };
    let with_key = |read: Value| if read.is_object() { read } else { json!({ "messages": read }) };
    let request: Request = read(name, "messages", with_key)?;
    let tools = match &args.tools {
        Some(name) => read(name, "tools", |tools| tools)?,
        None => request.tools.unwrap_or_default(),
    };
    let mut variables = request.chat_template_kwargs.unwrap_or_default();
    variables.extend(args.template.variables());

    let file = load::introduced(&args.model)?;
    let tokenizer = load::tokenizer(&file)?;
    let template = match args.template.source(&file)? {
        Some(source) => Some(Template::new(&source, specials(&tokenizer))?),
        None => Template::from_metadata(file.metadata(), specials(&tokenizer))?,
    };
    let Some(template) = template else {
        bail!(
            "{}: the file has no chat template (key `tokenizer.chat_template`); --chat-template NAME uses another",
            file.file()
        );
    };
    let ending = if args.no_generation_prompt { Ending::Nothing } else { Ending::Answer };
    let has_tools = !tools.is_empty();
    let conversation = Conversation::new(request.messages).tools(tools);
    let (prompt, _) = Conversation { variables, ending, ..conversation }.render(&template)?;
    if prompt.merged_system() {
        generate::note_merged_system();
    }
    if let (true, Err(error)) = (has_tools, prompt.tools()) {
        output::note(format_args!("warning: {error}"));
    }
    if has_tools && template.tool_format().is_generic() {
        output::note(format_args!(
            "note: the chat template has no known format of tool calls: the tools are in the system message (format generic)"
        ));
    }
    if args.json {
        let ids = encode_rendered(&tokenizer, &prompt);
        return output::json(&json!({ "text": prompt.to_string(), "ids": ids }));
    }
    let mut out = TextOut::new();
    out.push(&prompt.to_string())?;
    if io::stdout().is_terminal() {
        out.end_line()?;
    }
    Ok(())
}

/// Reads a JSON file, whose value `adapt` may change.
fn read<T: DeserializeOwned>(
    name: &Path,
    what: &str,
    adapt: impl FnOnce(Value) -> Value,
) -> anyhow::Result<T> {
    let text = TextFile::open(name)?.whole()?;
    let value = serde_json::from_str(&text).and_then(|value| serde_json::from_value(adapt(value)));
    value.with_context(|| {
        let name = if name == Path::new("-") { "stdin".to_owned() } else { name.display().to_string() };
        format!("cannot read the {what} in {name}")
    })
}
