//! Output to stdout and stderr, and exit codes.

use std::fmt::Display;
use std::io::{self, BufWriter, IsTerminal, StdoutLock, Write};
use std::process::ExitCode;
use std::time::Duration;

use anstream::AutoStream;
pub(crate) use backend::readable_size as size;
use clap::builder::styling::{AnsiColor, Style};
use indicatif::{ProgressBar, ProgressStyle};
use tracing_subscriber::EnvFilter;
use unicode_width::{UnicodeWidthChar as _, UnicodeWidthStr as _};

use crate::advice::advice;

pub(crate) const BOLD: Style = Style::new().bold();
const DIM: Style = Style::new().dimmed();
pub(crate) const RED: Style = AnsiColor::Red.on_default().bold();
pub(crate) const GREEN: Style = AnsiColor::Green.on_default().bold();

pub(crate) const INTERRUPTED: u8 = 130;

/// An error of the command line that clap cannot detect: exit code 2.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub(crate) struct Usage(pub(crate) String);

/// Prints the error and returns the exit code. A closed pipe is not an error.
pub(crate) fn fail(error: &anyhow::Error) -> ExitCode {
    if is_pipe(error) {
        return ExitCode::SUCCESS;
    }
    note(format_args!("{RED}error:{RED:#} {}", message(error)));
    if let Some(advice) = advice(error) {
        note(format_args!("{BOLD}hint:{BOLD:#} {advice}"));
    }
    if error.is::<Usage>() { ExitCode::from(2) } else { ExitCode::FAILURE }
}

/// Whether stdout is a closed pipe.
pub(crate) fn is_pipe(error: &anyhow::Error) -> bool {
    let is_pipe = |io: &io::Error| io.kind() == io::ErrorKind::BrokenPipe;
    error.chain().any(|cause| cause.downcast_ref().is_some_and(is_pipe))
}

/// An error with its causes, except those that it already contains, safe to print.
pub(crate) fn message(error: &anyhow::Error) -> String {
    let mut said: Vec<String> = Vec::new();
    for cause in error.chain().map(ToString::to_string) {
        if !said.last().is_some_and(|last| last.contains(&cause)) {
            said.push(cause);
        }
    }
    printable(&said.join(": "), "\n")
}

/// Writes a line to stderr; errors are ignored.
pub(crate) fn note(line: std::fmt::Arguments<'_>) {
    let _ = writeln!(anstream::stderr().lock(), "{line}");
}

/// Prints traced warnings to stderr, or if `verbose` everything except the megabytes of the GPU crates.
pub(crate) fn start_tracing(verbose: bool) {
    let level = if verbose { "debug,naga=warn,wgpu=warn,wgpu_core=warn,wgpu_hal=warn" } else { "warn" };
    tracing_subscriber::fmt()
        .with_env_filter(EnvFilter::new(level))
        .with_writer(io::stderr)
        .with_ansi(
            anstream::stderr().current_choice() != anstream::ColorChoice::Never && io::stderr().is_terminal(),
        )
        .with_target(verbose)
        .without_time()
        // It would panic if stderr cannot be written.
        .log_internal_errors(false)
        .init();
}

/// Buffered stdout, with colours if enabled. Must be flushed.
pub(crate) fn stdout() -> BufWriter<AutoStream<StdoutLock<'static>>> {
    BufWriter::with_capacity(1 << 16, AutoStream::auto(io::stdout().lock()))
}

pub(crate) fn write_all(bytes: &[u8]) -> io::Result<()> {
    let mut stdout = io::stdout().lock();
    stdout.write_all(bytes)?;
    stdout.flush()
}

pub(crate) fn json(value: &impl serde::Serialize) -> anyhow::Result<()> {
    let mut stdout = BufWriter::with_capacity(1 << 16, io::stdout().lock());
    serde_json::to_writer_pretty(&mut stdout, value).map_err(io::Error::from)?;
    writeln!(stdout)?;
    Ok(stdout.flush()?)
}

/// Escapes characters that could steer a terminal: control characters, except those in `kept`, and bidirectional overrides.
pub(crate) fn printable(text: &str, kept: &str) -> String {
    let mut safe = String::with_capacity(text.len());
    for c in text.chars() {
        let steers = c.is_control() || matches!(c, '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}');
        if steers && !kept.contains(c) { safe.extend(c.escape_default()) } else { safe.push(c) }
    }
    safe
}

/// Up to `most` characters of `text`, printable on one line.
pub(crate) fn abbreviated(text: &str, most: usize) -> String {
    match text.char_indices().nth(most) {
        Some((cut, _)) => printable(&text[..cut], "") + "…",
        None => printable(text, ""),
    }
}

/// A number with a noun: `1 token`, `2 tokens`, `57 matrices`.
pub(crate) fn counted(number: impl Display + PartialEq + From<u8>, one: &str) -> String {
    match one.strip_suffix('x') {
        _ if number == 1.into() => format!("1 {one}"),
        Some(stem) => format!("{number} {stem}ces"),
        None => format!("{number} {one}s"),
    }
}

/// A rounded number, such as `6.8 M`.
pub(crate) fn count(number: usize) -> String {
    let units = ["", " K", " M", " G", " T"];
    match number.checked_ilog(1000).unwrap_or(0).min(4) {
        0 => number.to_string(),
        power => format!("{:.1}{}", number as f64 / 1000_u64.pow(power) as f64, units[power as usize]),
    }
}

/// Breaks lines between words at a terminal's width. What of a word is on a line already when it turns out to be too long moves to
/// the next one; wide characters are words of their own.
struct Wrap {
    /// Columns of a line: the last one of the terminal stays free, because cursors behind it differ.
    columns: usize,
    column: usize,
    word: String,
}

impl Wrap {
    /// For stdout; `None` if it is no terminal that moves its cursor, or too narrow.
    fn stdout() -> Option<Wrap> {
        let (terminal_size::Width(width), _) = terminal_size::terminal_size_of(io::stdout())?;
        let is_dumb = std::env::var_os("TERM").is_some_and(|name| name == "dumb");
        (width >= 20 && !is_dumb).then(|| Wrap::new(usize::from(width) - 1))
    }

    fn new(columns: usize) -> Wrap {
        Wrap { columns, column: 0, word: String::new() }
    }

    fn push(&mut self, text: &str) -> String {
        let mut out = String::with_capacity(text.len());
        for c in text.chars() {
            let columns = if c == '\t' { 8 - self.column % 8 } else { c.width().unwrap_or(0) };
            let is_space = [' ', '\t'].contains(&c);
            if c == '\n' || is_space && self.column + columns > self.columns {
                out.push('\n');
                (self.column, self.word) = (0, String::new());
                continue;
            }
            if self.column + columns > self.columns {
                let begun = self.word.width();
                // A word that fills the line, or a wide character, is cut where it is.
                if columns > 1 || begun == 0 || begun == self.column {
                    out.push('\n');
                    (self.column, self.word) = (0, String::new());
                } else {
                    out += &format!("\u{1b}[{begun}D\u{1b}[K\n{}", self.word);
                    self.column = begun;
                }
            }
            out.push(c);
            self.column += columns;
            if is_space || columns > 1 { self.word.clear() } else { self.word.push(c) }
        }
        out
    }
}

/// Writes a model's text to stdout, on a terminal with control characters escaped and lines broken between words.
pub(crate) struct TextOut {
    stdout: StdoutLock<'static>,
    terminal: bool,
    colours: bool,
    at_line_start: bool,
    wrap: Option<Wrap>,
}

impl TextOut {
    pub(crate) fn new() -> TextOut {
        let terminal = io::stdout().is_terminal();
        let colours = terminal && AutoStream::choice(&io::stdout()) != anstream::ColorChoice::Never;
        TextOut { stdout: io::stdout().lock(), terminal, colours, at_line_start: true, wrap: Wrap::stdout() }
    }

    /// Writes `text`, on a terminal dimmed.
    pub(crate) fn push_dimmed(&mut self, text: &str) -> io::Result<()> {
        if !self.colours || text.is_empty() {
            return self.push(text);
        }
        write!(self.stdout, "{DIM}")?;
        self.push(text)?;
        write!(self.stdout, "{DIM:#}")?;
        self.stdout.flush()
    }

    pub(crate) fn push(&mut self, text: &str) -> io::Result<()> {
        let Some(last) = text.chars().last() else { return Ok(()) };
        self.at_line_start = last == '\n';
        if self.terminal {
            let text = printable(text, "\n\t");
            let text = self.wrap.as_mut().map_or_else(|| text.clone(), |wrap| wrap.push(&text));
            self.stdout.write_all(text.as_bytes())?;
        } else {
            self.stdout.write_all(text.as_bytes())?;
        }
        self.stdout.flush()
    }

    pub(crate) fn end_line(&mut self) -> io::Result<()> {
        if self.at_line_start { Ok(()) } else { self.push("\n") }
    }
}

/// Pads cells to the widths of their columns; columns in `right` are right-aligned.
pub(crate) fn aligned(rows: &[impl AsRef<[String]>], right: &[usize]) -> Vec<Vec<String>> {
    let width = |at: usize| rows.iter().map(|row| row.as_ref()[at].chars().count()).max().unwrap_or(0);
    let widths: Vec<usize> = (0..rows.first().map_or(0, |row| row.as_ref().len())).map(width).collect();
    let pad = |(at, (cell, &width)): (usize, (&String, &usize))| {
        if right.contains(&at) { format!("{cell:>width$}") } else { format!("{cell:width$}") }
    };
    rows.iter().map(|row| row.as_ref().iter().zip(&widths).enumerate().map(pad).collect()).collect()
}

pub(crate) fn columns(rows: &[impl AsRef<[String]>], right: &[usize]) -> String {
    aligned(rows, right).iter().map(|row| format!("  {}\n", row.join("  ").trim_end())).collect()
}

pub(crate) fn pairs<'a>(rows: impl IntoIterator<Item = (&'a str, String)>) -> String {
    let rows: Vec<_> = rows.into_iter().map(|(name, value)| [name.to_owned(), value]).collect();
    columns(&rows, &[])
}

/// Shows `bar` on stderr if that is a terminal, with indicatif's `template`, and updates it regularly.
pub(crate) fn show(bar: ProgressBar, template: &str) -> ProgressBar {
    restyle(&bar, template);
    bar.enable_steady_tick(Duration::from_millis(200));
    bar
}

pub(crate) fn restyle(bar: &ProgressBar, template: &str) {
    if let Ok(style) = ProgressStyle::with_template(template) {
        bar.set_style(style);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_steers_the_terminal() {
        assert_eq!(printable("a\u{1b}[2J\tb\n", "\n\t"), "a\\u{1b}[2J\tb\n");
        assert_eq!(printable("\u{9b}\r\u{202e}ж🙂\u{7f}", ""), "\\u{9b}\\r\\u{202e}ж🙂\\u{7f}");
    }

    #[test]
    fn counts_are_read_at_a_glance() {
        assert_eq!(count(0), "0");
        assert_eq!(count(999), "999");
        assert_eq!(count(1000), "1.0 K");
        assert_eq!(count(6_835_968), "6.8 M");
        assert_eq!(count(1_100_048_384), "1.1 G");
        assert_eq!(count(usize::MAX), "18446744.1 T");
    }

    /// What a terminal of `columns` columns shows of pieces that arrive one after the other.
    fn shown(columns: usize, pieces: &[&str]) -> Vec<String> {
        let (mut wrap, mut lines) = (Wrap::new(columns), vec![String::new()]);
        let written: String = pieces.iter().map(|piece| wrap.push(piece)).collect();
        let mut rest = &*written;
        while let Some(c) = rest.chars().next() {
            let line = lines.last_mut().expect("a line");
            if let Some(erased) = rest.strip_prefix("\u{1b}[") {
                let (back, after) =
                    erased.split_once("D\u{1b}[K").expect("the cursor moves back, the rest is erased");
                let kept = line.chars().count() - back.parse::<usize>().expect("a number");
                *line = line.chars().take(kept).collect();
                rest = after;
                continue;
            }
            if c == '\n' {
                lines.push(String::new())
            } else {
                line.push(c)
            }
            rest = &rest[c.len_utf8()..];
        }
        lines
    }

    #[test]
    fn lines_break_between_words() {
        assert_eq!(shown(9, &["one two three"]), ["one two ", "three"]);
        assert_eq!(shown(9, &["one tw", "o th", "re", "e"]), ["one two ", "three"], "in pieces");
        assert_eq!(shown(9, &["one", " two", " six seven"]), ["one two ", "six seven"]);
        assert_eq!(shown(7, &["one two six"]), ["one two", "six"], "the space is the break");
        assert_eq!(shown(5, &["abcdefghijkl m"]), ["abcde", "fghij", "kl m"], "a word longer than a line");
        assert_eq!(shown(9, &["a\nb c\n\nd"]), ["a", "b c", "", "d"]);
        assert_eq!(shown(7, &["天地玄黄宇宙"]), ["天地玄", "黄宇宙"], "wide characters");
        assert_eq!(shown(9, &["cafe\u{301} noir"]), ["cafe\u{301} noir"], "an accent takes no column");
        assert_eq!(shown(10, &["a\tb cd"]), ["a\tb ", "cd"]);
    }

    #[test]
    fn one_is_no_plural() {
        assert_eq!([0, 1, 2].map(|n: usize| counted(n, "token")), ["0 tokens", "1 token", "2 tokens"]);
        assert_eq!([1, 57].map(|n: u64| counted(n, "matrix")), ["1 matrix", "57 matrices"]);
    }

    #[test]
    fn a_cause_is_said_once() {
        let inner = anyhow::anyhow!("no such file");
        assert_eq!(
            message(&inner.context("x: no such file").context("cannot open")),
            "cannot open: x: no such file"
        );
    }
}
