//! Prepares a template's source for minijinja.
//!
//! minijinja's compiler recurses over nested expressions and blocks without a limit of its own for all of them, and
//! multiplies constants. This pass over the tokens limits nesting, and rewrites what minijinja parses differently.

use minijinja::machinery::{Token, tokenize};
use minijinja::syntax::SyntaxConfig;

use crate::Error;

/// Maximum height of an expression: nested brackets and chained operators.
const MAX_HEIGHT: usize = 200;

/// Maximum nesting of blocks; every `elif` adds a level.
const MAX_BLOCKS: usize = 100;

/// Maximum length of a name: minijinja compares names on every use.
const MAX_NAME_BYTES: usize = 255;

/// A variable between two `*` or `~`, which keeps minijinja from computing constants. [`code`](crate::code) removes
/// it.
pub(crate) const NOT_CONSTANT: &str = "__not_constant";

/// A replacement of some bytes of the source.
struct Edit {
    at: usize,
    length: usize,
    text: String,
}

/// White space control as in `transformers`.
pub(crate) fn syntax() -> Result<SyntaxConfig, Error> {
    let mut syntax = SyntaxConfig::builder();
    Ok(syntax.trim_blocks(true).lstrip_blocks(true).keep_trailing_newline(true).build()?)
}

/// Rewrites `source`; its lines stay the same.
pub(crate) fn prepare(source: &str) -> Result<String, Error> {
    let mut source = source.replace("\r\n", "\n").replace('\r', "\n");
    if source.ends_with('\n') {
        source.pop();
    }
    let mut edits = Vec::new();
    let mut blocks = Vec::new();
    let mut tag = Tag::default();
    let mut after_tag = false;
    for token in tokenize(&source, false, syntax()?) {
        let (token, span) = token?;
        let place = span.start_offset as usize..span.end_offset as usize;
        let is_text = matches!(token, Token::TemplateData(_));
        let before = &source[..place.start];
        if is_text && !after_tag && before.ends_with("%}") && !before.ends_with("-%}") {
            // Unlike after other tags, a line break after `{% raw %}` is kept.
            edits.push(Edit { at: place.start - 2, length: 0, text: "+".to_owned() });
        }
        after_tag = !is_text;
        tag.token(&token, &source[place.clone()], place.start, &mut edits, &mut blocks)
            .map_err(|message| Error::Syntax { line: span.start_line.into(), message })?;
    }
    edits.sort_by_key(|edit: &Edit| edit.at);
    let mut prepared = String::with_capacity(2 * source.len());
    let mut copied = 0;
    for Edit { at, length, text } in &edits {
        prepared.push_str(&source[copied..*at]);
        prepared.push_str(text);
        copied = at + length;
    }
    Ok(prepared + &source[copied..])
}

/// The tokens of a tag so far.
#[derive(Default)]
struct Tag {
    /// The keyword of a block tag, empty before it.
    keyword: Option<String>,
    /// For each open bracket, the height of the expression before it, and of the highest item in it.
    brackets: Vec<(usize, usize)>,
    /// Height of the expression since the last open bracket or comma: the recursion that it needs.
    height: usize,
    /// Whether the last token ends a value.
    after_value: bool,
    has_assignment: bool,
}

impl Tag {
    fn token(
        &mut self,
        token: &Token,
        text: &str,
        at: usize,
        edits: &mut Vec<Edit>,
        blocks: &mut Vec<usize>,
    ) -> Result<(), String> {
        let mut edit = |at, length, text: &str| edits.push(Edit { at, length, text: text.to_owned() });
        let after_value = std::mem::replace(&mut self.after_value, false);
        match token {
            Token::TemplateData(_) => {}
            Token::VariableStart => *self = Tag::default(),
            Token::BlockStart => *self = Tag { keyword: Some(String::new()), ..Tag::default() },
            Token::VariableEnd if text.starts_with('+') => return Err("unexpected `+`".to_owned()),
            Token::BlockEnd if self.keyword.as_deref() == Some("set") && !self.has_assignment => {
                blocks.push(1)
            }
            Token::VariableEnd | Token::BlockEnd => {}
            Token::Ident(name) if name.len() > MAX_NAME_BYTES || *name == NOT_CONSTANT => {
                return Err(format!("a name of more than {MAX_NAME_BYTES} bytes, or a reserved one"));
            }
            Token::Ident(name) if self.keyword.as_deref() == Some("") => {
                match *name {
                    "generation" => edit(at, text.len(), "if true"),
                    "endgeneration" => edit(at, text.len(), "endif"),
                    _ => {}
                }
                self.keyword = Some((*name).to_owned());
                open_or_close(name, blocks)?;
            }
            Token::Ident("and" | "or" | "not" | "if" | "else" | "in" | "is") => self.height += 1,
            Token::Ident(_) | Token::Int(_) | Token::Int128(_) | Token::Float(_) => self.after_value = true,
            Token::Str(_) | Token::String(_) => {
                self.after_value = true;
                // Python's escapes that minijinja does not know.
                let rest = text.replace(r"\\", "");
                if rest.split('\\').skip(1).any(|rest| rest.starts_with(['a', 'v', 'U', 'N', '/', '\n'])) {
                    return Err(format!("an escape that is not supported in {text}"));
                }
            }
            Token::ParenOpen | Token::BracketOpen | Token::BraceOpen => {
                self.brackets.push((self.height, 0));
                self.height = 0;
            }
            Token::ParenClose | Token::BracketClose | Token::BraceClose => {
                let (before, inside) = self.brackets.pop().unwrap_or_default();
                self.height = self.height.max(before).max(inside) + 1;
                self.after_value = true;
            }
            Token::Comma | Token::Colon => {
                if let Some((_, inside)) = self.brackets.last_mut() {
                    *inside = self.height.max(*inside);
                }
                self.height = 0;
            }
            Token::Mul | Token::Tilde if after_value => {
                self.height += 1;
                edit(at, 0, &format!("{text} {NOT_CONSTANT} "));
            }
            // minijinja has no unary plus.
            Token::Plus if !after_value => edit(at, text.len(), " "),
            Token::Assign => self.has_assignment |= self.brackets.is_empty(),
            _ => self.height += 1,
        }
        if self.height > MAX_HEIGHT {
            return Err("an expression is nested too deeply".to_owned());
        }
        Ok(())
    }
}

/// Keeps count of the open `blocks` and their branches.
fn open_or_close(keyword: &str, blocks: &mut Vec<usize>) -> Result<(), String> {
    match keyword {
        "autoescape" | "do" | "extends" | "from" | "import" | "include" => {
            return Err(format!("the tag `{keyword}` is not supported in chat templates"));
        }
        "else" | "break" | "continue" | "set" => {}
        "elif" => match blocks.last_mut() {
            Some(branches) => *branches += 1,
            None => blocks.push(1),
        },
        end if end.starts_with("end") => drop(blocks.pop()),
        _ => blocks.push(1),
    }
    if blocks.iter().sum::<usize>() > MAX_BLOCKS {
        return Err("blocks are nested too deeply".to_owned());
    }
    Ok(())
}
