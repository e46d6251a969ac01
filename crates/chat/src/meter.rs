//! Checks of the [limits](crate::limits) in a template.
//!
//! minijinja limits the number of steps, but a single step can double a string, multiply it, or compare self-referential
//! lists many times over. So its instructions are extended: each value that is read or printed passes a filter that charges for
//! its size, and `~`, `*`, `%`, slices and loops become filters that charge first. The source is checked before: the compiler
//! recurses over nested expressions and blocks, and computes constants.

use std::collections::BTreeMap;

use minijinja::machinery::{self, CompiledTemplate, Instruction, Instructions, Token};
use minijinja::syntax::SyntaxConfig;
use minijinja::value::ValueKind;
use minijinja::{AutoEscape, Environment, Value};

use crate::Error;

/// Maximum height of an expression: nested brackets and chained operators.
const MAX_HEIGHT: usize = 200;

/// Maximum nesting of blocks; every `elif` adds a level.
const MAX_BLOCKS: usize = 100;

const MAX_PARAMETERS: usize = 64;

/// Maximum length of a name: the template engine compares names on every use.
const MAX_NAME_BYTES: usize = 255;

/// Constants up to this length are free.
const SHORT: usize = 32;

/// The tags of Jinja2 that have an end. None loads other templates.
const BLOCKS: [&str; 9] = ["block", "call", "filter", "for", "generation", "if", "macro", "set", "with"];

/// Words that end an operand.
const KEYWORDS: [&str; 8] = ["and", "or", "if", "else", "in", "not", "is", "recursive"];

/// `source` as minijinja compiles it: without what only Jinja2 knows, and without constants that are computed from others.
/// Fails if it is nested too deeply. Lines stay the same.
pub(crate) fn prepared(source: &str, syntax: &SyntaxConfig) -> Result<String, Error> {
    let mut writer =
        Writer { text: String::with_capacity(source.len()), blocks: Vec::new(), tag: Tag::default() };
    let mut copied = 0;
    for token in machinery::tokenize(source, false, syntax.clone()) {
        let (token, span) = token?;
        let [from, to] = [span.start_offset, span.end_offset].map(|offset| offset as usize);
        writer.text.push_str(&source[copied..from]);
        writer
            .token(&token, &source[from..to])
            .map_err(|message| Error::Syntax { line: 1 + source[..from].matches('\n').count(), message })?;
        copied = to;
    }
    writer.text.push_str(&source[copied..]);
    Ok(writer.text)
}

struct Writer<'a> {
    text: String,
    blocks: Vec<usize>,
    tag: Tag<'a>,
}

#[derive(Default)]
struct Tag<'a> {
    name: Option<&'a str>,
    is_block: bool,
    /// By open bracket: the height of the expression before it, and the maximum height of its items.
    brackets: Vec<(usize, usize)>,
    height: usize,
    commas: usize,
    assigns: bool,
    ends_value: bool,
    /// Where in the text an expression begins that may be a tuple without brackets, and whether it is one.
    begin: Option<usize>,
    is_tuple: bool,
}

impl<'a> Writer<'a> {
    fn token(&mut self, token: &Token<'a>, text: &str) -> Result<(), String> {
        let tag = &mut self.tag;
        let ended_value = std::mem::replace(&mut tag.ends_value, false);
        let mut written = text;
        match token {
            // Unlike minijinja, Jinja2 keeps a line break after `{% raw %}`.
            Token::TemplateData(data) => {
                let breaks = |text: &str| text.len() - text.trim_start_matches('\n').len();
                if breaks(data) < breaks(text) && !self.text.ends_with("-%}") {
                    self.text.insert(self.text.len() - 2, '+');
                }
            }
            Token::VariableStart | Token::BlockStart => {
                let is_block = matches!(token, Token::BlockStart);
                let begin = (!is_block).then_some(self.text.len() + text.len());
                *tag = Tag { is_block, begin, ..Tag::default() };
            }
            Token::VariableEnd if text == "+}}" => return Err("unexpected `+}}`".to_owned()),
            Token::VariableEnd | Token::BlockEnd => {
                self.end_tuple();
                if self.tag.name == Some("set") && !self.tag.assigns {
                    self.blocks.push(1);
                }
            }
            Token::Ident(name) if name.len() > MAX_NAME_BYTES => {
                return Err(format!("a name of more than {MAX_NAME_BYTES} bytes"));
            }
            Token::Ident(name) if tag.is_block && tag.name.is_none() => {
                tag.name = Some(name);
                written = match *name {
                    "generation" => "if true",
                    "endgeneration" => "endif",
                    _ => text,
                };
                self.open_or_close(name)?;
            }
            Token::Ident(name) => {
                let is_keyword = KEYWORDS.contains(name);
                tag.ends_value = !is_keyword;
                tag.height += usize::from(is_keyword);
                if tag.name == Some("for") && tag.brackets.is_empty() {
                    match *name {
                        "in" if tag.begin.is_none() => tag.begin = Some(self.text.len() + text.len()),
                        "if" | "recursive" => self.end_tuple(),
                        _ => {}
                    }
                }
            }
            Token::Str(_) | Token::String(_) if has_foreign_escape(text) => {
                return Err(format!("an escape that is not supported in {text}"));
            }
            Token::Str(_) | Token::String(_) | Token::Int(_) | Token::Int128(_) | Token::Float(_) => {
                tag.ends_value = true;
            }
            Token::ParenOpen | Token::BracketOpen | Token::BraceOpen => {
                tag.brackets.push((std::mem::take(&mut tag.height), 0));
            }
            Token::ParenClose | Token::BracketClose | Token::BraceClose => {
                let (before, inside) = tag.brackets.pop().unwrap_or_default();
                tag.height = tag.height.max(before).max(inside) + 1;
                tag.ends_value = true;
            }
            Token::Comma | Token::Colon => {
                tag.commas += 1;
                match tag.brackets.last_mut() {
                    Some((_, inside)) => *inside = tag.height.max(*inside),
                    None => tag.is_tuple |= tag.begin.is_some(),
                }
                tag.height = 0;
                if tag.name == Some("macro") && tag.commas >= MAX_PARAMETERS {
                    return Err(format!("a macro with more than {MAX_PARAMETERS} parameters"));
                }
            }
            // No operator of constants is a constant.
            Token::Mul | Token::Tilde if ended_value => {
                self.text.push_str(" |_read ");
                tag.height += 1;
            }
            // minijinja has no unary plus.
            Token::Plus if !ended_value => written = "",
            Token::Assign if tag.brackets.is_empty() => tag.assigns = true,
            _ => tag.height += 1,
        }
        if self.tag.height.max(self.tag.brackets.len()) > MAX_HEIGHT {
            return Err("an expression is nested too deeply".to_owned());
        }
        self.text.push_str(written);
        Ok(())
    }

    /// Writes the brackets of a tuple without any, which minijinja does not support.
    fn end_tuple(&mut self) {
        if let Some(begin) = self.tag.begin.take().filter(|_| self.tag.is_tuple) {
            self.text.insert(begin, '(');
            self.text.push(')');
        }
    }

    fn open_or_close(&mut self, name: &str) -> Result<(), String> {
        match name {
            "set" | "else" | "break" | "continue" => {}
            "elif" => self.blocks.last_mut().into_iter().for_each(|branches| *branches += 1),
            name if BLOCKS.contains(&name) => self.blocks.push(1),
            name if name.strip_prefix("end").is_some_and(|name| BLOCKS.contains(&name)) => {
                self.blocks.pop();
            }
            name => return Err(format!("unknown tag `{name}`")),
        }
        if self.blocks.iter().sum::<usize>() > MAX_BLOCKS {
            return Err("blocks are nested too deeply".to_owned());
        }
        Ok(())
    }
}

/// Whether a literal has an escape of Python that minijinja reads differently.
fn has_foreign_escape(literal: &str) -> bool {
    literal
        .replace(r"\\", "")
        .split('\\')
        .skip(1)
        .any(|rest| rest.starts_with(['a', 'v', 'U', 'N', '/', '\n']))
}

/// Renders `template` with checks.
pub(crate) fn render(
    environment: &Environment,
    template: &CompiledTemplate,
    context: Value,
) -> Result<String, minijinja::Error> {
    let blocks: BTreeMap<_, _> = template.blocks.iter().map(|(name, code)| (*name, metered(code))).collect();
    let code = metered(&template.instructions);
    let mut text = String::new();
    let mut output = machinery::make_string_output(&mut text);
    machinery::eval(environment, &code, context, &blocks, &mut output, AutoEscape::None)?;
    Ok(text)
}

/// `code` with checks.
fn metered<'a>(code: &Instructions<'a>) -> Instructions<'a> {
    // A template that makes safe strings escapes what is added to them.
    let escapes = ["safe", "escape", "|e", "| e"].iter().any(|filter| code.source().contains(filter));
    let steps = (0..).map_while(|at| Some((at, checked(code.get(at)?, escapes))));
    let steps: Vec<(u32, [Option<Instruction<'a>>; 2])> = steps.collect();
    // Where each instruction is in the result.
    let mut places = vec![0];
    for (_, step) in &steps {
        places.push(places[places.len() - 1] + step.iter().flatten().count() as u32);
    }
    let mut metered = Instructions::new(code.name(), code.source());
    for (at, step) in steps {
        for mut instruction in step.into_iter().flatten() {
            if let Instruction::Iterate(to)
            | Instruction::Jump(to)
            | Instruction::JumpIfFalse(to)
            | Instruction::JumpIfFalseOrPop(to)
            | Instruction::JumpIfTrueOrPop(to)
            | Instruction::BuildMacro(_, to, _) = &mut instruction
            {
                *to = places[*to as usize];
            }
            metered.add_with_line(instruction, code.get_line(at).unwrap_or_default() as u16);
        }
    }
    metered
}

fn checked<'a>(instruction: &Instruction<'a>, escapes: bool) -> [Option<Instruction<'a>>; 2] {
    let filter = |name, arguments| Instruction::ApplyFilter(name, Some(arguments), !0);
    let is_long = |value: &Value| match value.kind() {
        ValueKind::String => value.as_str().is_some_and(|text| text.len() > SHORT),
        kind => matches!(kind, ValueKind::Seq | ValueKind::Iterable | ValueKind::Map) && !value.is_kwargs(),
    };
    let (first, second) = match instruction {
        Instruction::EmitRaw(text) => (Instruction::LoadConst(Value::from(*text)), Some(Instruction::Emit)),
        Instruction::PushLoop(_) => (filter("_each", 1), Some(instruction.clone())),
        Instruction::Lookup(_)
        | Instruction::GetAttr(_)
        | Instruction::GetItem
        | Instruction::CallFunction(..)
        | Instruction::CallMethod(..)
        | Instruction::CallObject(_) => (instruction.clone(), Some(filter("_read", 1))),
        Instruction::LoadConst(value) if is_long(value) => (instruction.clone(), Some(filter("_read", 1))),
        Instruction::ApplyFilter(name, ..) if !name.starts_with('_') => {
            (instruction.clone(), Some(filter("_made", 1)))
        }
        Instruction::Add if escapes => (filter("_add", 2), None),
        Instruction::StringConcat => (filter("_concat", 2), None),
        Instruction::Mul => (filter("_multiply", 2), None),
        Instruction::Rem => (filter("_modulo", 2), None),
        Instruction::Slice => (filter("_slice", 4), None),
        other => (other.clone(), None),
    };
    [Some(first), second]
}
