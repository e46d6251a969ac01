//! The manual pages.

use std::fs;
use std::process::Command;

use crate::common::Home;

#[test]
fn every_command_has_a_page_without_a_warning() {
    let home = Home::new();
    let ran = home.run("man share/man1");
    let said = ran.stderr.clone();
    ran.ok();
    let entries = fs::read_dir(home.path("share/man1")).expect("the folder is made");
    let mut pages: Vec<_> = entries.map(|entry| entry.expect("an entry").path()).collect();
    pages.sort();
    assert!(said.contains(&format!("wrote {} pages", pages.len())), "{said}");
    let name =
        |at: usize| pages[at].file_name().and_then(|name| name.to_str()).unwrap_or_default().to_owned();
    assert!((0..pages.len()).any(|at| name(at) == "rustorch-run.1"), "{pages:?}");
    assert!((0..pages.len()).all(|at| !name(at).contains("complete.1")), "it is hidden");
    if Command::new("groff").arg("--version").output().is_err() {
        eprintln!("skipped: no groff");
        return;
    }
    for page in pages {
        let mut groff = Command::new("groff");
        let output = groff.args(["-man", "-Tutf8", "-ww", "-z"]).arg(&page).output().expect("groff starts");
        let warnings = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success() && warnings.is_empty(), "{}: {warnings}", page.display());
    }
}

/// What the short help leaves out is there, and examples keep their lines.
#[test]
fn a_page_says_what_the_long_help_says() {
    let home = Home::new();
    home.run("man .").ok();
    let page = |name: &str| fs::read_to_string(home.path(name)).expect("a page").replace("\\-", "-");
    let run = page("rustorch-run.1");
    for part in
        [".TH rustorch-run 1 \"\" \"rustorch", "--chat-template-kwargs", "Variables for the chat template"]
    {
        assert!(run.contains(part), "{part} in {run}");
    }
    let overview = page("rustorch.1");
    assert!(overview.contains(".nf\n  rustorch\n"), "{overview}");
    assert!(overview.contains("rustorch-run(1)"), "{overview}");
}
