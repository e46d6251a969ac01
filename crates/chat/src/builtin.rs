//! Templates by name, as for llama.cpp's `--chat-template NAME`.

fn templates() -> impl Iterator<Item = (&'static str, &'static str)> {
    let templates = include_str!("builtin.jinja").split("\n## ").skip(1);
    templates.filter_map(|template| template.split_once('\n'))
}

/// Names of the built-in templates.
pub fn builtin_names() -> impl Iterator<Item = &'static str> {
    templates().flat_map(|(names, _)| names.split(' '))
}

/// The Jinja source of the built-in template `name`.
pub fn builtin(name: &str) -> Option<String> {
    let (_, source) = templates().find(|(names, _)| names.split(' ').any(|other| other == name))?;
    let source: String = source.lines().map(str::trim_start).collect();
    Some(format!("{{%- set name = '{name}' -%}}{source}"))
}
