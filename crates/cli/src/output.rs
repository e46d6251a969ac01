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

/// Writes a model's text to stdout, on a terminal with control characters escaped.
pub(crate) struct TextOut {
    stdout: StdoutLock<'static>,
    terminal: bool,
    colours: bool,
    at_line_start: bool,
}

impl TextOut {
    pub(crate) fn new() -> TextOut {
        let terminal = io::stdout().is_terminal();
        let colours = terminal && AutoStream::choice(&io::stdout()) != anstream::ColorChoice::Never;
        TextOut { stdout: io::stdout().lock(), terminal, colours, at_line_start: true }
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
            self.stdout.write_all(printable(text, "\n\t").as_bytes())?;
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
