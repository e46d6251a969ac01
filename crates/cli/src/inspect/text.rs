//! The report for people.

use std::io::{self, Write};

use super::value::{short, value_type};
use super::{Decision, KvGroup, Report, Token, TokenizerFacts, Total};
use crate::output::{self, BOLD, abbreviated, counted, pairs, printable, size};

/// Characters of a token's text that are shown.
const TOKEN: usize = 40;

pub(super) fn print(report: &Report<'_>) -> io::Result<()> {
    let mut out = output::stdout();
    for file in &report.files {
        writeln!(out, "{BOLD}{}{BOLD:#}  {}", printable(file.path, ""), size(file.bytes))?;
    }
    writeln!(out, "GGUF version {}, aligned to {}", report.version, counted(report.alignment, "byte"))?;

    heading(&mut out, "Metadata")?;
    let entries = report.metadata.0.iter();
    let entries: Vec<_> =
        entries.map(|(key, value)| (printable(key, ""), value_type(value), short(value))).collect();
    let key_width = width(entries.iter().map(|(key, ..)| key));
    let type_width = width(entries.iter().map(|(_, value_type, _)| value_type));
    for (key, value_type, value) in &entries {
        writeln!(out, "  {key:key_width$}  {value_type:type_width$}  {value}")?;
    }
    if let Some(parameters) = &report.hyper_parameters {
        heading(&mut out, "Hyper-parameters")?;
        write!(out, "{}", pairs(parameters.iter().map(|(name, value)| (*name, short(&value.0)))))?;
    }
    heading(&mut out, "Tokenizer")?;
    match &report.tokenizer {
        Ok(facts) => write!(out, "{}", tokenizer(facts))?,
        Err(why) => writeln!(out, "  cannot be used: {}", printable(why, ""))?,
    }
    tensors(&mut out, report)?;
    match &report.memory {
        Ok(memory) => {
            heading(&mut out, &format!("Memory on the CPU with a context of {} tokens", memory.n_ctx))?;
            let mut parts = vec![
                ("weights, used in the file", size(memory.weights_mapped)),
                ("weights, packed", size(memory.weights_copied)),
                ("KV cache", size(memory.kv_cache)),
            ];
            // Of most models there is one group, which is all of it.
            if let [_, _, ..] = &memory.kv_groups[..] {
                parts.extend(memory.kv_groups.iter().map(|group| ("", of_group(group))));
            }
            parts.extend([("activations", size(memory.activations)), ("together", size(memory.total))]);
            parts.extend(memory.available.map(|available| {
                let fits = if memory.allocated <= available { "fits" } else { "does not fit" };
                (
                    fits,
                    format!("{} besides the file, of {} available", size(memory.allocated), size(available)),
                )
            }));
            write!(out, "{}", pairs(parts))?;
            if !memory.devices.is_empty() {
                heading(&mut out, "On graphics processors")?;
                let fits = memory.devices.iter().map(|fit| (fit.label(), fit.in_words()));
                let fits: Vec<_> = fits.collect();
                write!(out, "{}", pairs(fits.iter().map(|(label, words)| (&**label, words.clone()))))?;
            }
        }
        Err(why) => {
            heading(&mut out, "Cannot be run")?;
            writeln!(out, "  {}", printable(why, ""))?;
        }
    }
    out.flush()
}

/// A part of the KV cache.
fn of_group(group: &KvGroup) -> String {
    let (stores, bytes) = (counted(group.stores, "store"), size(group.bytes));
    match group.window {
        Some(window) => format!("{bytes} in {stores} with a window of {}", counted(window, "position")),
        None => format!("{bytes} in {stores} without a window"),
    }
}

/// The width of a column that holds `texts`.
fn width<'a>(texts: impl IntoIterator<Item = &'a String>) -> usize {
    texts.into_iter().map(|text| text.chars().count()).max().unwrap_or(0)
}

fn heading(out: &mut impl Write, text: &str) -> io::Result<()> {
    writeln!(out, "\n{BOLD}{text}{BOLD:#}")
}

fn tensors(out: &mut impl Write, report: &Report<'_>) -> io::Result<()> {
    if report.total.tensors == 0 {
        return heading(out, "No tensors: only a vocabulary");
    }
    let total = |&Total { tensors, values, bytes }: &Total| {
        format!("{}, {}, {}", counted(tensors, "tensor"), counted(values, "value"), size_if_known(bytes))
    };
    heading(out, &total(&report.total))?;
    let shapes: Vec<String> = report.tensors.iter().map(|tensor| format!("{:?}", tensor.shape)).collect();
    let names: Vec<String> = report.tensors.iter().map(|tensor| printable(tensor.name, "")).collect();
    let (name_width, shape_width) = (width(&names), width(&shapes));
    let format_width = width(report.formats.keys());
    for ((tensor, name), shape) in report.tensors.iter().zip(&names).zip(&shapes) {
        let (format, bytes) = (&tensor.format, size_if_known(tensor.bytes));
        writeln!(out, "  {name:name_width$}  {format:format_width$}  {shape:shape_width$}  {bytes:>12}")?;
    }
    heading(out, "By format")?;
    write!(out, "{}", pairs(report.formats.iter().map(|(format, sum)| (format.as_str(), total(sum)))))
}

fn size_if_known(bytes: Option<usize>) -> String {
    bytes.map_or("size unknown".to_owned(), |bytes| size(bytes as u64))
}

fn tokenizer(facts: &TokenizerFacts) -> String {
    let token = |token: &Token| format!("{} \"{}\"", token.id, abbreviated(&token.text, TOKEN));
    let decision = |Decision { value, stated }: Decision| {
        let answer = if value { "yes" } else { "no" };
        format!("{answer}, {}", if stated { "the file says" } else { "by default" })
    };
    let pre = facts.pre_tokenizer.as_deref();
    let first = [
        ("model", facts.model.to_owned()),
        ("pre-tokenizer", pre.map_or("not named".to_owned(), |name| abbreviated(name, TOKEN))),
        ("tokens", facts.vocab_size.to_string()),
        ("BOS before a prompt", decision(facts.add_bos)),
        ("EOS after text", decision(facts.add_eos)),
        ("space before text", decision(facts.add_space_prefix)),
        ("chat template", if facts.chat_template { "yes" } else { "none" }.to_owned()),
    ];
    let special = facts.special.iter().map(|(name, special)| (*name, token(special)));
    let stop = facts.stop.iter().map(token).collect::<Vec<_>>().join(", ");
    pairs(first.into_iter().chain(special).chain([("ends an answer", stop)]))
}
