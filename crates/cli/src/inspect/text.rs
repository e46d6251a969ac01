//! The report as text.

use std::io::{self, Write};

use graph::Mask;

use super::value::short;
use super::{Decision, KvGroup, Report, TensorFacts, Token, TokenizerFacts, Total};
use crate::output::{self, BOLD, abbreviated, columns, counted, pairs, printable, size};

/// Maximum characters of a token's text.
const TOKEN: usize = 40;

pub(super) fn print(report: &Report<'_>) -> io::Result<()> {
    let mut out = output::stdout();
    for file in &report.files {
        writeln!(out, "{BOLD}{}{BOLD:#}  {}", printable(file.path, ""), size(file.bytes))?;
    }
    writeln!(out, "GGUF version {}, aligned to {}", report.version, counted(report.alignment, "byte"))?;

    heading(&mut out, "Metadata")?;
    let entries = report.metadata.iter();
    let entries = entries.map(|(key, entry)| [printable(key, ""), entry.r#type.clone(), short(&entry.value)]);
    write!(out, "{}", columns(&entries.collect::<Vec<_>>(), &[]))?;
    if let Some(parameters) = &report.hyper_parameters {
        heading(&mut out, "Hyper-parameters")?;
        write!(out, "{}", pairs(parameters.iter().map(|(name, value)| (*name, short(value)))))?;
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
            // A single group is the whole cache.
            if let [_, _, ..] = &memory.kv_groups[..] {
                parts.extend(memory.kv_groups.iter().map(|group| ("", of_group(group))));
            }
            parts.extend([("activations", size(memory.activations)), ("total", size(memory.total))]);
            parts.extend(memory.available.map(|available| {
                let fits = if memory.allocated <= available { "fits" } else { "does not fit" };
                (
                    fits,
                    format!("{} besides the file, of {} available", size(memory.allocated), size(available)),
                )
            }));
            write!(out, "{}", pairs(parts))?;
            if !memory.devices.is_empty() {
                heading(&mut out, "On GPUs")?;
                let fits = memory.devices.iter().map(|fit| (fit.label(), fit.in_words()));
                let fits: Vec<_> = fits.collect();
                write!(out, "{}", pairs(fits.iter().map(|(label, words)| (&**label, words.clone()))))?;
                writeln!(out, "  the model runs on: {}", memory.fits.in_words())?;
            }
            let table = memory.fits.table();
            if !table.is_empty() {
                heading(&mut out, "After `rustorch quantize IN OUT TYPE`")?;
                write!(out, "{table}")?;
            }
        }
        Err(why) => {
            heading(&mut out, "Cannot be run")?;
            writeln!(out, "  {}", printable(why, ""))?;
        }
    }
    out.flush()
}

fn of_group(group: &KvGroup) -> String {
    let (stores, bytes) = (counted(group.stores, "store"), size(group.bytes));
    match group.mask {
        Mask::Causal => format!("{bytes} in {stores} without a window"),
        Mask::Window(n) => format!("{bytes} in {stores} with a window of {}", counted(n, "position")),
        Mask::Chunk(n) => format!("{bytes} in {stores} with chunks of {}", counted(n, "position")),
        Mask::Full | Mask::Around(_) => format!("{bytes} in {stores} whose rows see {}", group.mask),
    }
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
    let rows = report.tensors.iter().map(|TensorFacts { name, format, shape, bytes }| {
        [printable(name, ""), format.clone(), format!("{shape:?}"), size_if_known(*bytes)]
    });
    write!(out, "{}", columns(&rows.collect::<Vec<_>>(), &[3]))?;
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
    let sep = facts.special.contains_key("sep").then(|| ("SEP after text", decision(facts.add_sep)));
    let special = facts.special.iter().map(|(name, special)| (*name, token(special)));
    let stop = facts.stop.iter().map(token).collect::<Vec<_>>().join(", ");
    pairs(first.into_iter().chain(sep).chain(special).chain([("ends an answer", stop)]))
}
