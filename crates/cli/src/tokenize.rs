//! `rustorch tokenize`, `rustorch detokenize` and `rustorch export-tokenizer`.

use std::io::{self, BufRead, BufWriter, Write};
use std::path::{Path, PathBuf};

use anyhow::{Context, bail};
use clap::Arg;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::json;
use tokenizer::{Detokenizer, Encode, Kind, Tokenizer};

use crate::args::{ModelArgs, NetworkArgs};
use crate::files::TextFile;
use crate::output::{self, counted, note};
use crate::values::TokenIds;
use crate::{interrupt, load};

#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[command(flatten)]
    model: ModelArgs,
    /// Text [default: stdin]
    #[arg(allow_hyphen_values = true)]
    text: Option<String>,
    /// Encode special tokens
    #[arg(long)]
    parse_special: bool,
    /// Do not add the tokens before and after the text, such as BOS and [SEP]
    #[arg(long, visible_alias = "no-special")]
    no_bos: bool,
    /// Read a JSON string per line from stdin and print an array of ids per line
    #[arg(long, conflicts_with_all = ["text", "json", "ids"])]
    jsonl: bool,
    /// Print one JSON object with ids and pieces
    #[arg(long, conflicts_with = "ids")]
    json: bool,
    /// Print only the ids, as one array
    #[arg(long)]
    ids: bool,
}

/// The help of `detokenize`, which has the options of `tokenize`.
pub(crate) fn from_ids(arg: Arg) -> Arg {
    match arg.get_id().as_str() {
        "text" => arg.value_name("IDS").help("Token ids, such as 1,15043 [default: stdin]"),
        "parse_special" => arg.hide(true),
        "no_bos" => arg.help("Print the tokens that `tokenize` adds before and after a text, too"),
        "jsonl" => arg.help("Read an array of ids per line from stdin and print a JSON string per line"),
        _ => arg,
    }
}

pub(crate) fn tokenize(args: Args) -> anyhow::Result<()> {
    let tokenizer = load::tokenizer(&load::introduced(&args.model)?)?;
    let options = Encode { add_special: false, parse_special: args.parse_special };
    let encode = |text: &str| {
        let ids = tokenizer.encode(text, options);
        if args.no_bos { ids } else { tokenizer.with_ends(ids) }
    };
    if args.jsonl {
        return lines("a JSON string", |text: String| Ok(encode(&text)));
    }
    print(&tokenizer, &encode(&text(&args)?), &args)
}

pub(crate) fn detokenize(args: Args) -> anyhow::Result<()> {
    let tokenizer = load::tokenizer(&load::introduced(&args.model)?)?;
    let decode = |ids: &[u32]| decode(&tokenizer, ids, &args);
    if args.jsonl {
        return lines("a JSON array of token ids", |ids: Vec<u32>| {
            check(&tokenizer, &ids).map(|()| decode(&ids))
        });
    }
    let TokenIds(ids) = text(&args)?.parse().map_err(anyhow::Error::msg)?;
    check(&tokenizer, &ids)?;
    if args.json || args.ids {
        return print(&tokenizer, &ids, &args);
    }
    let mut out = output::TextOut::new();
    out.push(&decode(&ids))?;
    Ok(out.push("\n")?)
}

fn text(args: &Args) -> anyhow::Result<String> {
    if let Some(text) = &args.text {
        return Ok(text.clone());
    }
    TextFile::open(Path::new("-"))?.whole()
}

fn check(tokenizer: &Tokenizer, ids: &[u32]) -> anyhow::Result<()> {
    let size = tokenizer.vocab_size();
    match ids.iter().find(|&&id| usize::try_from(id).map_or(true, |id| id >= size)) {
        Some(id) => bail!("token id {id} is not in the vocabulary, which has {}", counted(size, "token")),
        None => Ok(()),
    }
}

/// The inverse of [`tokenize`]: special tokens have their text.
fn decode(tokenizer: &Tokenizer, mut ids: &[u32], args: &Args) -> String {
    if !args.no_bos {
        let added = |id: Option<&u32>, token: Option<u32>| token.is_some() && id.copied() == token;
        ids = if added(ids.first(), tokenizer.bos_to_add()) { &ids[1..] } else { ids };
        ids = if added(ids.last(), tokenizer.eos_to_add()) { &ids[..ids.len() - 1] } else { ids };
    }
    let mut detokenizer = Detokenizer::new(tokenizer);
    let mut text = String::new();
    for &id in ids {
        let special = matches!(tokenizer.kind(id), Some(Kind::Control | Kind::Unknown));
        if special {
            text.push_str(&detokenizer.finish());
            text.push_str(tokenizer.token_text(id).unwrap_or_default());
        }
        text.push_str(&detokenizer.push(id));
    }
    text + &detokenizer.finish()
}

/// Converts each line of stdin, a JSON value, and prints the result on a line.
fn lines<T: DeserializeOwned, U: Serialize>(
    expected: &str,
    make: impl Fn(T) -> anyhow::Result<U>,
) -> anyhow::Result<()> {
    let mut input = io::stdin().lock();
    let mut out = BufWriter::with_capacity(1 << 16, io::stdout().lock());
    let mut line = Vec::new();
    for number in 1.. {
        line.clear();
        if input.read_until(b'\n', &mut line).context("cannot read stdin")? == 0 {
            break;
        }
        let read = serde_json::from_slice(&line);
        let read = read.with_context(|| format!("line {number} of stdin is not {expected}"));
        let made = read.and_then(|value| make(value).with_context(|| format!("line {number} of stdin")));
        if made.is_err() {
            out.flush()?;
        }
        serde_json::to_writer(&mut out, &made?).map_err(io::Error::from)?;
        out.write_all(b"\n")?;
    }
    Ok(out.flush()?)
}

fn print(tokenizer: &Tokenizer, ids: &[u32], args: &Args) -> anyhow::Result<()> {
    let piece = |&id: &u32| {
        let bytes = tokenizer.token_bytes(id);
        bytes.map_or("\u{fffd}".to_owned(), |bytes| String::from_utf8_lossy(bytes).into_owned())
    };
    if args.json {
        let pieces: Vec<String> = ids.iter().map(piece).collect();
        return output::json(&json!({ "ids": ids, "pieces": pieces }));
    }
    let mut out = output::stdout();
    if args.ids {
        writeln!(out, "{}", serde_json::to_string(ids)?)?;
    } else {
        for id in ids {
            writeln!(out, "{id:>8}  {:?}", piece(id))?;
        }
    }
    Ok(out.flush()?)
}

#[derive(Debug, clap::Args)]
#[command(after_help = "\
Writes tokenizer.json, tokenizer_config.json and config.json, for the Python packages tokenizers and
transformers, and for SentencePiece also tokenizer.model. A tokenizer of which they would make other
tokens is refused.")]
pub(crate) struct ExportArgs {
    /// GGUF file or name, as -m MODEL
    #[arg(value_name = "MODEL")]
    model: PathBuf,
    /// Folder to write, which is created
    #[arg(value_name = "DIR")]
    folder: PathBuf,
    #[command(flatten)]
    network: NetworkArgs,
}

pub(crate) fn export(args: ExportArgs) -> anyhow::Result<()> {
    let file = load::file(&ModelArgs::at(args.model, args.network))?;
    interrupt::install()?;
    let exported = convert::export_tokenizer(&file, &args.folder).with_context(|| file.file().to_owned())?;
    for difference in &exported.differences {
        note(format_args!("note: {difference}"));
    }
    for path in &exported.files {
        note(format_args!("{}: written", path.display()));
    }
    Ok(())
}
