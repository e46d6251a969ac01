//! Instruments a template with [limit](crate::limits) checks before minijinja compiles it.
//!
//! minijinja limits the number of steps, but a single step can double a string, multiply it, or compare
//! self-referential lists many times over. The template is therefore rewritten: every value that is read passes a
//! filter that charges for its size, and the operators that build strings (`~`, `*`, `%`) and loop headers become
//! function calls that charge first. Thus no expression can be larger than what was charged for it. Line numbers are
//! preserved.
//!
//! Nesting is limited here as well, because minijinja's compiler recurses over it.

use crate::Error;
use crate::lexer::{Kind, Piece, Token, lex, normalize};

/// Maximum nesting of an expression: brackets and chained operators.
const MAX_NESTING: usize = 200;

/// Maximum nesting of blocks; every `elif` adds a level.
const MAX_BLOCKS: usize = 100;

/// Maximum number of macro parameters.
const MAX_PARAMETERS: usize = 64;

/// Literals up to this length are free.
const SHORT: usize = 32;

/// Rewrites the template `source`.
pub(crate) fn fence(source: &str) -> Result<String, Error> {
    let source = normalize(source);
    let mut out = Output { text: String::with_capacity(2 * source.len()), line: 1 };
    let mut blocks = Vec::new();
    for piece in lex(&source)? {
        match piece {
            Piece::Text { text, line } => {
                out.text.push_str("{{ ");
                out.line_up(line);
                out.literal(text);
                out.text.push_str(" }}");
            }
            Piece::Print(tokens) => {
                out.text.push_str("{{ ");
                Tag::new(&tokens, &mut out).values()?;
                out.text.push_str(" }}");
            }
            Piece::Block(tokens) => {
                nest(&mut blocks, &tokens)?;
                out.text.push_str("{% ");
                Tag::new(&tokens, &mut out).block()?;
                out.text.push_str(" %}");
            }
        }
    }
    Ok(out.text)
}

fn refused(token: Option<&Token>, message: &str) -> Error {
    Error::Syntax { line: token.map_or(0, |token| token.line), message: message.to_owned() }
}

/// Tracks nesting: `blocks` has an entry per open block, counting its branches.
fn nest(blocks: &mut Vec<usize>, tokens: &[Token]) -> Result<(), Error> {
    let Some(head) = tokens.first() else { return Ok(()) };
    match head.text {
        "elif" => match blocks.last_mut() {
            Some(branches) => *branches += 1,
            None => blocks.push(1),
        },
        end if end.starts_with("end") => drop(blocks.pop()),
        "set"
            if tokens
                .iter()
                .find(|token| token.is("=") || token.is("|"))
                .is_some_and(|token| token.is("=")) => {}
        "set" | "for" | "if" | "macro" | "call" | "filter" | "with" | "block" | "autoescape"
        | "generation" => {
            blocks.push(1);
        }
        _ => {}
    }
    if blocks.iter().sum::<usize>() > MAX_BLOCKS {
        return Err(refused(Some(head), "blocks are nested too deeply"));
    }
    Ok(())
}

/// The rewritten source.
struct Output {
    text: String,
    /// Line at its end.
    line: usize,
}

impl Output {
    /// Adds line breaks inside a tag, up to `line` of the template.
    fn line_up(&mut self, line: usize) {
        while self.line < line {
            self.text.push('\n');
            self.line += 1;
        }
    }

    fn token(&mut self, token: &Token) {
        self.line_up(token.line);
        self.text.push_str(token.text);
        self.text.push(' ');
    }

    /// Adds a string literal with the value `text`.
    fn literal(&mut self, text: &str) {
        self.text.push('\'');
        for c in text.chars() {
            match c {
                '\'' | '\\' => self.text.extend(['\\', c]),
                // An escaped `\n` in the template is not a line break of it.
                '\n' => self.text.push_str("\\n"),
                '\0' => self.text.push_str("\\u0000"),
                c => self.text.push(c),
            }
        }
        self.text.push('\'');
    }
}

/// Rewrites the tokens of one tag.
struct Tag<'a> {
    tokens: &'a [Token<'a>],
    at: usize,
    out: &'a mut Output,
    depth: usize,
}

impl<'a> Tag<'a> {
    fn new(tokens: &'a [Token<'a>], out: &'a mut Output) -> Tag<'a> {
        Tag { tokens, at: 0, out, depth: 0 }
    }

    /// An expression, or a tuple without brackets, which minijinja does not support.
    fn values(&mut self) -> Result<(), Error> {
        let start = self.out.text.len();
        if self.expression(&[], false)? {
            self.out.text.insert(start, '(');
            self.out.text.push(')');
        }
        Ok(())
    }

    /// A tag that starts with a statement keyword.
    fn block(&mut self) -> Result<(), Error> {
        let Some(head) = self.peek() else { return Ok(()) };
        match head.text {
            "generation" => self.replace("if true"),
            "endgeneration" => self.replace("endif"),
            "if" | "elif" | "autoescape" => {
                self.copy();
                self.expression(&[], false)?;
            }
            "with" => {
                self.copy();
                self.expression(&[], true)?;
            }
            "set" => {
                while self.peek().is_some_and(|token| !token.is("=") && !token.is("|")) {
                    self.copy();
                }
                if self.peek().is_some_and(|token| token.is("=")) {
                    self.copy();
                    self.values()?;
                }
                self.filters(false)?;
            }
            "for" => self.loop_head()?,
            "macro" => {
                self.copy();
                self.copy();
                self.parameters()?;
            }
            "call" => {
                self.copy();
                self.parameters()?;
                // The compiler accepts only a call here.
                self.chain()?;
            }
            "filter" => {
                self.copy();
                self.filter_call(false)?;
                self.filters(false)?;
            }
            "include" | "import" | "from" | "extends" => {
                return Err(refused(Some(head), "a chat template cannot use other templates"));
            }
            "else" | "break" | "continue" | "block" => {
                self.copy();
                self.copy();
            }
            end if end.starts_with("end") => {
                self.copy();
                self.copy();
            }
            other => return Err(refused(Some(head), &format!("unknown tag `{other}`"))),
        }
        match self.peek() {
            Some(token) => Err(refused(Some(token), &format!("unexpected `{}`", token.text))),
            None => Ok(()),
        }
    }

    fn loop_head(&mut self) -> Result<(), Error> {
        while self.peek().is_some_and(|token| !token.is_name("in")) {
            self.copy();
        }
        self.copy();
        self.out.text.push_str("_each((");
        self.expression(&["if", "recursive"], false)?;
        self.out.text.push_str(")) ");
        if self.peek().is_some_and(|token| token.is_name("if")) {
            self.copy();
            self.expression(&["recursive"], false)?;
        }
        self.copy();
        Ok(())
    }

    /// Parameters of a macro or a call block.
    fn parameters(&mut self) -> Result<(), Error> {
        if !self.peek().is_some_and(|token| token.is("(")) {
            return Ok(());
        }
        let mut count = 0;
        self.copy();
        while let Some(token) = self.peek() {
            count += usize::from(token.kind == Kind::Name);
            if count > MAX_PARAMETERS {
                return Err(refused(Some(token), "a macro with more than 64 parameters"));
            }
            let (ends, default) = (token.is(")"), token.is("="));
            self.copy();
            if ends {
                break;
            }
            if default {
                self.conditional(&[])?;
            }
        }
        Ok(())
    }

    /// Expressions up to a closing bracket, a keyword in `until`, or the end of the tag. With `named`, each may be
    /// preceded by `name =`, as in a call. Returns whether there was a comma.
    fn expression(&mut self, until: &[&str], named: bool) -> Result<bool, Error> {
        let depth = self.depth;
        let mut commas = false;
        while let Some(token) = self.peek() {
            if token.is(")") || token.is("]") || token.is("}") || until.iter().any(|name| token.is_name(name))
            {
                break;
            }
            if token.is(",") || token.is(":") {
                self.depth = depth;
                commas |= token.is(",");
                self.copy();
            } else if named && self.tokens.get(self.at + 1).is_some_and(|next| next.is("=")) {
                self.copy();
                self.copy();
            } else if named && (token.is("*") || token.is("**")) {
                self.copy();
            } else {
                let before = self.at;
                self.conditional(until)?;
                if self.at == before {
                    self.copy();
                }
            }
        }
        self.depth = depth;
        Ok(commas)
    }

    /// Operands with operators that need no function: `a + b if c and not d else e`.
    fn conditional(&mut self, until: &[&str]) -> Result<(), Error> {
        loop {
            while self.peek().is_some_and(|token| token.is_name("not")) {
                self.deeper()?;
                self.copy();
            }
            self.concatenation()?;
            let Some(token) = self.peek() else { return Ok(()) };
            let infix = match token.kind {
                Kind::Name => {
                    matches!(token.text, "and" | "or" | "if" | "else" | "in" | "not")
                        && !until.contains(&token.text)
                }
                Kind::Operator => {
                    matches!(token.text, "+" | "-" | "==" | "!=" | "<" | "<=" | ">" | ">=")
                }
                _ => false,
            };
            if !infix {
                return Ok(());
            }
            self.deeper()?;
            self.copy();
            if token.is_name("not") {
                // `not in`
                self.copy();
            }
        }
    }

    /// `a ~ b ~ c`
    fn concatenation(&mut self) -> Result<(), Error> {
        let start = self.out.text.len();
        self.product()?;
        if self.peek().is_some_and(|token| token.is("~")) {
            self.out.text.insert_str(start, "_concat(");
            while self.peek().is_some_and(|token| token.is("~")) {
                self.at += 1;
                self.out.text.push_str(", ");
                self.product()?;
            }
            self.out.text.push(')');
        }
        Ok(())
    }

    /// `a * b / c // d % e`
    fn product(&mut self) -> Result<(), Error> {
        let (start, depth) = (self.out.text.len(), self.depth);
        self.operand()?;
        while let Some(token) = self.peek().filter(|token| token.kind == Kind::Operator) {
            let function = match token.text {
                "*" => Some("_multiply("),
                "%" => Some("_modulo("),
                "/" | "//" => None,
                _ => break,
            };
            self.deeper()?;
            match function {
                Some(function) => {
                    self.at += 1;
                    self.out.text.insert_str(start, function);
                    self.out.text.push_str(", ");
                    self.operand()?;
                    self.out.text.push_str(") ");
                }
                None => {
                    self.copy();
                    self.operand()?;
                }
            }
        }
        self.depth = depth;
        Ok(())
    }

    /// A value with its signs, filters, tests and powers.
    fn operand(&mut self) -> Result<(), Error> {
        let depth = self.depth;
        while let Some(sign) = self.peek().filter(|token| token.is("-") || token.is("+")) {
            self.deeper()?;
            // The compiler has no unary plus.
            if sign.is("+") { self.at += 1 } else { self.copy() }
        }
        self.value()?;
        self.filters(true)?;
        if self.peek().is_some_and(|token| token.is("**")) {
            self.deeper()?;
            self.copy();
            self.operand()?;
        }
        self.depth = depth;
        Ok(())
    }

    /// A name, a literal or a bracketed expression, with lookups and calls.
    fn value(&mut self) -> Result<(), Error> {
        if self.chain()? {
            self.out.text.push_str("|_read ");
        }
        Ok(())
    }

    /// A value that is not charged yet. Returns whether it must be.
    fn chain(&mut self) -> Result<bool, Error> {
        let start = self.out.text.len();
        let Some(token) = self.peek() else { return Ok(false) };
        let mut charged = match &token.kind {
            Kind::Number => false,
            Kind::String(text) => text.len() > SHORT,
            Kind::Name => !matches!(token.text, "true" | "false" | "none" | "True" | "False" | "None"),
            Kind::Operator if matches!(token.text, "(" | "[" | "{") => false,
            Kind::Operator => return Ok(false),
        };
        if token.kind == Kind::Operator {
            self.brackets(false)?;
        } else {
            self.copy();
        }
        while let Some(token) = self.peek() {
            match token.text {
                _ if token.kind != Kind::Operator => break,
                "." => {
                    self.copy();
                    self.copy();
                }
                "[" if self.is_slice() => self.slice(start)?,
                "[" => self.brackets(false)?,
                "(" => self.brackets(true)?,
                _ => break,
            }
            self.deeper()?;
            charged = true;
        }
        Ok(charged)
    }

    /// Whether the next brackets contain a `:` at their own level.
    fn is_slice(&self) -> bool {
        let mut open = 0;
        for token in self.tokens[self.at..].iter().filter(|token| token.kind == Kind::Operator) {
            match token.text {
                "(" | "[" | "{" => open += 1,
                ")" | "]" | "}" => open -= 1,
                ":" if open == 1 => return true,
                _ => {}
            }
            if open == 0 {
                break;
            }
        }
        false
    }

    /// `[a:b:c]` after the value that starts at byte `start`.
    fn slice(&mut self, start: usize) -> Result<(), Error> {
        self.deeper()?;
        self.out.text.insert_str(start, "_slice(");
        self.at += 1;
        while let Some(token) = self.peek().filter(|token| !token.is("]")) {
            self.out.text.push_str(", ");
            if token.is(":") {
                self.out.text.push_str("none");
            } else {
                let before = self.at;
                self.conditional(&[])?;
                if self.at == before {
                    return Err(refused(Some(token), &format!("unexpected `{}`", token.text)));
                }
            }
            if self.peek().is_some_and(|token| token.is(":")) {
                self.at += 1;
            }
        }
        self.at += 1;
        self.out.text.push(')');
        Ok(())
    }

    /// `| filter(a) is test(b)`
    fn filters(&mut self, tests: bool) -> Result<(), Error> {
        while let Some(token) = self.peek() {
            self.deeper()?;
            if token.is("|") {
                self.copy();
                self.filter_call(tests)?;
            } else if tests && token.is_name("is") {
                self.copy();
                if self.peek().is_some_and(|token| token.is_name("not")) {
                    self.copy();
                }
                self.test()?;
            } else {
                self.depth -= 1;
                return Ok(());
            }
        }
        Ok(())
    }

    /// Name and arguments of a filter.
    fn filter_call(&mut self, charged: bool) -> Result<(), Error> {
        self.copy();
        if self.peek().is_some_and(|token| token.is("(")) {
            self.brackets(true)?;
        }
        if charged {
            self.out.text.push_str("|_made ");
        }
        Ok(())
    }

    /// Name of a test and its argument, which needs no brackets.
    fn test(&mut self) -> Result<(), Error> {
        self.copy();
        match self.peek() {
            Some(token) if token.is("(") => self.brackets(true),
            Some(token) if token.kind != Kind::Operator || token.is("[") || token.is("{") => {
                if !matches!(token.text, "and" | "or" | "else" | "is" | "if" | "in" | "not" | "recursive") {
                    self.out.text.push('(');
                    self.value()?;
                    self.out.text.push_str(") ");
                }
                Ok(())
            }
            _ => Ok(()),
        }
    }

    fn brackets(&mut self, call: bool) -> Result<(), Error> {
        self.deeper()?;
        self.copy();
        self.expression(&[], call)?;
        self.copy();
        self.depth -= 1;
        Ok(())
    }

    fn deeper(&mut self) -> Result<(), Error> {
        self.depth += 1;
        if self.depth > MAX_NESTING {
            return Err(refused(self.peek(), "an expression is nested too deeply"));
        }
        Ok(())
    }

    fn peek(&self) -> Option<&'a Token<'a>> {
        self.tokens.get(self.at)
    }

    fn copy(&mut self) {
        if let Some(token) = self.peek() {
            match &token.kind {
                Kind::String(text) => {
                    self.out.line_up(token.line);
                    self.out.literal(text);
                }
                _ => self.out.token(token),
            }
            self.at += 1;
        }
    }

    fn replace(&mut self, by: &str) {
        self.out.text.push_str(by);
        self.at += 1;
    }
}
