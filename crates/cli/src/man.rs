//! `rustorch man`: a manual page per command, made from the help.

use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use anyhow::Context;
use clap::Command;
use clap_mangen::Man;
use clap_mangen::roff::{Roff, roman};

use crate::output::{counted, note};

#[derive(Debug, clap::Args)]
#[command(after_help = "\
A folder that man searches is ~/.local/share/man/man1; `man rustorch` then shows the overview, and
`man rustorch-run` a command.")]
pub(crate) struct Args {
    /// The folder, which is made if it does not exist
    folder: PathBuf,
}

pub(crate) fn run(args: Args, program: Command) -> anyhow::Result<()> {
    let folder = &args.folder;
    fs::create_dir_all(folder).with_context(|| format!("cannot make the folder {}", folder.display()))?;
    let mut program = program.disable_help_subcommand(true);
    program.build();
    let commands = program.get_subcommands().filter(|command| !command.is_hide_set());
    let pages: Vec<&Command> = [&program].into_iter().chain(commands).collect();
    for page in &pages {
        write(folder, page)?;
    }
    note(format_args!("wrote {} to {}", counted(pages.len() as u64, "page"), folder.display()));
    Ok(())
}

fn write(folder: &Path, command: &Command) -> anyhow::Result<()> {
    let mut command = command.clone();
    let usage = command.render_usage().to_string();
    // The usage is short. Options that the short help leaves out belong to the page.
    let usage = usage.trim_start_matches("Usage: ").to_owned();
    let command = command.override_usage(usage).mut_args(|arg| arg.hide_short_help(false));
    let path = folder.join(Man::new(command.clone()).get_filename());
    let written = render(command).and_then(|page| fs::write(&path, page));
    written.with_context(|| format!("cannot write {}", path.display()))
}

fn render(command: Command) -> io::Result<Vec<u8>> {
    let (is_whole, notes) = (command.has_subcommands(), command.get_after_help().map(ToString::to_string));
    let (man, mut page) = (Man::new(command), Vec::new());
    // clap's title loses the date, which is empty so that a version's pages are the same everywhere.
    let (name, version) = (man.get_filename().replace('.', " "), env!("CARGO_PKG_VERSION"));
    writeln!(page, r#".TH {name} "" "rustorch {version}" RusTorch"#)?;
    man.render_name_section(&mut page)?;
    man.render_synopsis_section(&mut page)?;
    man.render_description_section(&mut page)?;
    man.render_options_section(&mut page)?;
    if is_whole {
        man.render_subcommands_section(&mut page)?;
    }
    notes.map_or(Ok(()), |notes| write_notes(&mut page, &notes))?;
    if !is_whole {
        Roff::new().control("SH", ["SEE ALSO"]).text([roman("rustorch(1)")]).to_writer(&mut page)?;
    }
    Ok(page)
}

/// Paragraphs are filled; indented lines, which are examples and tables, stay lines.
fn write_notes(page: &mut impl Write, notes: &str) -> io::Result<()> {
    let mut roff = Roff::new();
    roff.control("SH", ["NOTES"]);
    let mut is_example = false;
    for line in notes.lines() {
        let is_indented = line.starts_with("  ");
        if is_indented != is_example {
            roff.control(if is_indented { "nf" } else { "fi" }, []);
            is_example = is_indented;
        }
        if line.is_empty() {
            roff.control("PP", [])
        } else {
            roff.text([roman(line)])
        };
    }
    if is_example {
        roff.control("fi", []);
    }
    roff.to_writer(page)
}
