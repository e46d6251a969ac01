//! The help texts. After a change: `INSTA_UPDATE=always cargo test --test cli help`, and read the diff.

use crate::common::Home;

#[test]
fn help_texts() {
    let home = Home::new();
    let overview = home.run("-h").ok();
    let (_, commands) = overview.split_once("Commands:\n").expect("a list of commands");
    let commands = commands
        .lines()
        .take_while(|line| !line.is_empty())
        .filter_map(|line| line.split_whitespace().next());
    let mut all = format!("$ rustorch -h\n{overview}");
    for command in commands.filter(|command| *command != "help") {
        all += &format!("\n$ rustorch {command} -h\n{}", home.run(&format!("{command} -h")).ok());
    }
    insta::assert_snapshot!(all);
}
