//! Files that commands write: what they replace, and what never.

use std::fs;

use trace::Trace;

use crate::common::{Home, write};

const TRACE: &str = "trace -m MODEL --tokens 1,300,7 -o";
#[cfg(unix)]
const BASE: &str = "perplexity -m MODEL -f text.txt -c 8 --save-logits";
const PAGE: &str = "compare a.safetensors -m MODEL --html";

/// A home with what the commands read.
fn home() -> Home {
    let home = Home::new();
    write(&home.path("text.txt"), "It was a dark and stormy night. ".repeat(3));
    home.run(&format!("{TRACE} a.safetensors")).quiet();
    home
}

#[test]
fn a_page_replaces_only_pages() {
    let home = home();
    write(&home.path("notes.txt"), "not to be lost");
    fs::copy(home.path("a.safetensors"), home.path("b.part")).expect("a copy");
    for (args, said) in [
        ("compare a.safetensors -m MODEL --html a.safetensors", "--html would write to a.safetensors"),
        ("compare a.safetensors -m MODEL --html MODEL", "model.gguf is read; name another file"),
        ("compare a.safetensors b.part --html ./b.part", "but b.part is read"),
        ("compare a.safetensors b.part --html b", "--html would write to b.part"),
        ("compare a.safetensors -m MODEL --html -", "--html takes the name of a file"),
        ("compare a.safetensors -m MODEL --html notes.txt", "notes.txt: is there and is no page"),
        ("compare a.safetensors -m MODEL --html .", "is there and is no page"),
    ] {
        let model = fs::read(&home.model).expect("it is there");
        let error = home.run(args).failed(2);
        assert!(error.contains(said), "{args}: {error}");
        assert!(Trace::open(home.path("a.safetensors")).is_ok() && Trace::open(home.path("b.part")).is_ok());
        assert_eq!(fs::read(&home.model).expect("it is there"), model);
        assert_eq!(fs::read(home.path("notes.txt")).expect("it is there"), b"not to be lost");
    }
    write(&home.path("empty.html"), "");
    for page in ["page.html", "page.html", "empty.html"] {
        home.run(&format!("{PAGE} {page}")).quiet();
        let page = fs::read_to_string(home.path(page)).expect("a page");
        assert!(page.starts_with("<!DOCTYPE html>") && page.ends_with("</html>\n"), "{page}");
    }
}

/// What a link leads to is written, whether or not it is there; the link stays.
#[cfg(unix)]
#[test]
fn links_stay_links() {
    let home = home();
    for (i, command) in [TRACE, BASE, PAGE].into_iter().enumerate() {
        let (folder, link, file) = (format!("runs{i}"), format!("latest{i}"), format!("runs{i}/1"));
        fs::create_dir(home.path(&folder)).expect("a folder");
        std::os::unix::fs::symlink(&file, home.path(&link)).expect("a link");
        let mut written = Vec::new();
        for _ in 0..2 {
            home.run(&format!("{command} {link}")).ok();
            assert!(home.path(&link).is_symlink(), "{command}");
            written.push(fs::read(home.path(&file)).expect("it is written"));
            fs::write(home.path(&file), "").expect("emptied");
        }
        assert!(!written[0].is_empty() && written[0] == written[1], "{command}");
        assert_eq!(fs::read_dir(home.path(&folder)).expect("a folder").count(), 1, "{command}");
    }
    // A link without an end is no file.
    std::os::unix::fs::symlink("loop", home.path("loop")).expect("a link");
    home.run(&format!("{TRACE} loop")).failed(1);
}

/// What stdout goes to looks like an empty file where that is what it goes to.
#[cfg(target_os = "linux")]
#[test]
fn descriptors_are_not_replaced() {
    let home = home();
    std::os::unix::fs::symlink("/proc/self/fd/1", home.path("link")).expect("a link");
    for (command, code) in [(TRACE, 1), (BASE, 1), (PAGE, 2)] {
        let stdout = fs::File::create(home.path("stdout")).expect("a file");
        let mut child = home.command(&format!("{command} link"));
        let status = child.stdout(stdout).stderr(std::process::Stdio::null()).status().expect("it runs");
        assert_eq!(status.code(), Some(code), "{command}");
        assert!(home.path("link").is_symlink(), "{command}");
        assert!(fs::read(home.path("stdout")).expect("a file").is_empty(), "{command}");
    }
}

/// Nobody reads from the pipe, so whoever opened it to write would wait.
#[cfg(unix)]
#[test]
fn pipes_are_refused() {
    use std::time::{Duration, Instant};
    let home = home();
    for name in ["pipe", "b.part"] {
        nix::unistd::mkfifo(&home.path(name), nix::sys::stat::Mode::S_IRWXU).expect("a pipe");
    }
    for (command, code) in [(TRACE, 1), (BASE, 1), (PAGE, 2), ("compare -m MODEL", 2)] {
        for name in ["pipe", "b"] {
            let mut child = home.command(&format!("{command} {name}"));
            let mut child = child.stdout(std::process::Stdio::null()).spawn().expect("it runs");
            let begin = Instant::now();
            let status = loop {
                match child.try_wait().expect("the system knows") {
                    Some(status) => break status,
                    None if begin.elapsed() > Duration::from_secs(60) => {
                        child.kill().expect("it is there");
                        panic!("{command} {name} waits");
                    }
                    None => std::thread::sleep(Duration::from_millis(5)),
                }
            };
            assert_eq!(status.code(), Some(code), "{command} {name}");
        }
    }
}
