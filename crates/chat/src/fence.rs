//! Instruments a template with [limit](crate::limits) checks before minijinja compiles it.
//!
//! minijinja limits the number of steps, but a single step can double a string, multiply it, or compare
//! self-referential lists many times over. The template is therefore rewritten: every value that is read passes a
//! filter that charges for its size, and `~`, `*`, `%` and loop headers become calls that charge first. Literal text is
//! printed, so that captures charge for it. Lines stay the same.
//!
//! Nesting is limited as well, because minijinja's compiler recurses over it.

use crate::Error;
use crate::lexer::{Kind, Piece, Token, fail, lex, normalize};

/// Maximum height of an expression: nested brackets and chained operators.
const MAX_HEIGHT: usize = 200;

/// Maximum nesting of blocks; every `elif` adds a level.
const MAX_BLOCKS: usize = 100;

/// Maximum number of macro parameters.
const MAX_PARAMETERS: usize = 64;

/// Literals up to this length are free.
const SHORT: usize = 32;

const CONSTANTS: [&str; 6] = ["true", "false", "none", "True", "False", "None"];

/// Words that end an operand.
const KEYWORDS: [&str; 8] = ["and", "or", "if", "else", "in", "not", "is", "recursive"];

/// Rewrites the template `source`.
pub(crate) fn fence(source: &str) -> Result<String, Error> {
    let source = &normalize(source);
    let text = String::with_capacity(2 * source.len());
    let escapes = ["safe", "escape", "|e", "| e"].iter().any(|filter| source.contains(filter));
    let mut rewriter =
        Rewriter { source, text, lines_to: 0, tokens: Vec::new(), at: 0, escapes, error: None };
    let mut blocks = Vec::new();
    for piece in lex(source)? {
        match piece {
            Piece::Text("") => {}
            Piece::Text(text) => rewriter.literal(text),
            Piece::Print(tokens) => {
                rewriter.open("{{ ", tokens)?;
                rewriter.tuple();
                rewriter.text.push_str(" }}");
            }
            Piece::Block(tokens) => {
                if let Some(head) = tokens.first()
                    && nesting(&mut blocks, &tokens) > MAX_BLOCKS
                {
                    return Err(fail(source, head.at, "blocks are nested too deeply"));
                }
                rewriter.open("{% ", tokens)?;
                rewriter.block();
                rewriter.text.push_str(" %}");
            }
        }
    }
    rewriter.error.map_or(Ok(rewriter.text), Err)
}

/// Limits the height of the expressions in a tag, over which this module and the compiler recurse.
fn check_height(source: &str, tokens: &[Token]) -> Result<(), Error> {
    // For each open bracket, the height of what precedes it, and of the highest item in it.
    let mut brackets: Vec<(usize, usize)> = Vec::new();
    let mut height = 0;
    for token in tokens {
        match (token.kind, token.text) {
            (Kind::Operator, "(" | "[" | "{") => {
                brackets.push((height, 0));
                height = 0;
            }
            (Kind::Operator, ")" | "]" | "}") => {
                let (before, inside) = brackets.pop().unwrap_or_default();
                height = height.max(before).max(inside) + 1;
            }
            (Kind::Operator, "," | ":") => {
                if let Some((_, inside)) = brackets.last_mut() {
                    *inside = height.max(*inside);
                }
                height = 0;
            }
            (Kind::Operator, _) => height += 1,
            (Kind::Name, name) => height += usize::from(KEYWORDS.contains(&name)),
            (Kind::Literal, _) => {}
        }
        if height > MAX_HEIGHT {
            return Err(fail(source, token.at, "an expression is nested too deeply"));
        }
    }
    Ok(())
}

/// The nesting after a block tag. `blocks` counts the branches of each open block.
fn nesting(blocks: &mut Vec<usize>, tokens: &[Token]) -> usize {
    let assigns =
        || tokens.iter().find(|token| token.is("=") || token.is("|")).is_some_and(|token| token.is("="));
    match tokens[0].text {
        "else" | "break" | "continue" => {}
        "elif" => blocks.last_mut().into_iter().for_each(|branches| *branches += 1),
        end if end.starts_with("end") => drop(blocks.pop()),
        "set" if assigns() => {}
        _ => blocks.push(1),
    }
    blocks.iter().sum()
}

/// What a list of expressions is.
#[derive(Clone, Copy, PartialEq, Eq)]
enum List {
    Values,
    /// Each may be preceded by `name =`, `*` or `**`.
    Arguments,
    /// Names, each with an optional default.
    Parameters,
}

/// Rewrites one tag after the other.
struct Rewriter<'a> {
    source: &'a str,
    text: String,
    /// The source up to here has as many lines as `text`.
    lines_to: usize,
    /// The current tag, and the position in it.
    tokens: Vec<Token<'a>>,
    at: usize,
    /// The template may make safe strings, which escape what is added to them.
    escapes: bool,
    error: Option<Error>,
}

impl<'a> Rewriter<'a> {
    fn open(&mut self, tag: &str, tokens: Vec<Token<'a>>) -> Result<(), Error> {
        check_height(self.source, &tokens)?;
        self.text.push_str(tag);
        (self.tokens, self.at) = (tokens, 0);
        Ok(())
    }

    fn token(&mut self, token: Token) {
        let end = token.at + token.text.len();
        let lines = self.source[self.lines_to..token.at].matches('\n').count();
        self.text.extend(std::iter::repeat_n('\n', lines));
        self.text.push_str(token.text);
        self.text.push(' ');
        self.lines_to = end;
    }

    /// Prints `text`.
    fn literal(&mut self, text: &str) {
        self.text.push_str("{{ '");
        for c in text.chars() {
            match c {
                '\'' | '\\' => self.text.extend(['\\', c]),
                '\n' => self.text.push_str("\\n"),
                '\0' => self.text.push_str("\\u0000"),
                c => self.text.push(c),
            }
        }
        self.text.push_str("' }}");
    }

    /// A tag that starts with a statement keyword.
    fn block(&mut self) {
        let Some(head) = self.next() else { return };
        match head.text {
            "generation" => self.text.push_str("if true"),
            "endgeneration" => self.text.push_str("endif"),
            _ => self.token(head),
        }
        match head.text {
            "if" | "elif" => drop(self.list(List::Values, &[])),
            "with" => drop(self.list(List::Arguments, &[])),
            "set" => {
                self.copy_until(|token| token.is("=") || token.is("|"));
                if self.copy_if("=") {
                    self.tuple();
                } else {
                    self.filters(false);
                }
            }
            "for" => {
                self.copy_until(|token| token.is_name("in"));
                self.copy();
                self.text.push_str("_each((");
                self.list(List::Values, &["if", "recursive"]);
                self.text.push_str(")) ");
                if self.is_name("if") {
                    self.copy();
                    self.list(List::Values, &["recursive"]);
                }
                self.copy();
            }
            "macro" => {
                self.copy();
                self.brackets(List::Parameters);
            }
            "call" => {
                if self.is("(") {
                    self.brackets(List::Parameters);
                }
                // The compiler accepts only a call here.
                self.chain();
            }
            "filter" => {
                self.filter(false);
                self.filters(false);
            }
            "block" => self.copy(),
            "generation" | "else" | "break" | "continue" => {}
            end if end.starts_with("end") => {}
            other => self.refuse(format!("unknown tag `{other}`")),
        }
        if self.peek().is_some() {
            self.unexpected()
        }
    }

    /// An expression, or a tuple without brackets, which minijinja does not support.
    fn tuple(&mut self) {
        let start = self.text.len();
        if self.list(List::Values, &[]) {
            self.text.insert(start, '(');
            self.text.push(')');
        }
    }

    fn brackets(&mut self, list: List) {
        self.copy();
        self.list(list, &[]);
        self.copy();
    }

    /// Expressions up to a closing bracket, a keyword in `until` or the end of the tag. Returns whether there was a
    /// comma.
    fn list(&mut self, list: List, until: &[&str]) -> bool {
        let mut commas = 0;
        while let Some(token) = self.peek() {
            let is_next = |operator| self.tokens.get(self.at + 1).is_some_and(|next| next.is(operator));
            match token.text {
                ")" | "]" | "}" if token.kind == Kind::Operator => break,
                name if token.kind == Kind::Name && until.contains(&name) => break,
                "," | ":" if token.kind == Kind::Operator => {
                    commas += usize::from(token.text == ",");
                    self.copy();
                }
                _ if list != List::Values && is_next("=") => {
                    self.copy();
                    self.copy();
                }
                "*" | "**" if list == List::Arguments && token.kind == Kind::Operator => self.copy(),
                _ if list == List::Parameters && (is_next(",") || is_next(")")) => self.copy(),
                _ => self.expression(until),
            }
        }
        if list == List::Parameters && commas >= MAX_PARAMETERS {
            self.refuse("a macro with more than 64 parameters");
        }
        commas > 0
    }

    /// Operands with operators that need no call: `a < b if c and not d else e`.
    fn expression(&mut self, until: &[&str]) {
        loop {
            while self.is_name("not") {
                self.copy();
            }
            self.sum();
            let Some(token) = self.peek() else { return };
            match (token.kind, token.text) {
                (Kind::Name, name) if until.contains(&name) => return,
                (Kind::Name, "and" | "or" | "if" | "else" | "in") => self.copy(),
                (Kind::Name, "not") => {
                    // `not in`
                    self.copy();
                    self.copy();
                }
                (Kind::Operator, "==" | "!=" | "<" | "<=" | ">" | ">=") => self.copy(),
                _ => return,
            }
        }
    }

    /// `a + b - c`
    fn sum(&mut self) {
        let start = self.text.len();
        self.concatenation();
        while let Some(token) = self.peek().filter(|token| token.is("+") || token.is("-")) {
            if token.is("+") && self.escapes {
                self.at += 1;
                self.text.insert_str(start, "_add(");
                self.text.push_str(", ");
                self.concatenation();
                self.text.push_str(") ");
            } else {
                self.copy();
                self.concatenation();
            }
        }
    }

    /// `a ~ b ~ c`
    fn concatenation(&mut self) {
        let start = self.text.len();
        self.product();
        if self.is("~") {
            self.text.insert_str(start, "_concat(");
            while self.is("~") {
                self.at += 1;
                self.text.push_str(", ");
                self.product();
            }
            self.text.push(')');
        }
    }

    /// `a * b / c // d % e`
    fn product(&mut self) {
        let start = self.text.len();
        self.operand();
        while let Some(token) = self.peek() {
            let call = match token.text {
                _ if token.kind != Kind::Operator => break,
                "*" => "_multiply(",
                "%" => "_modulo(",
                "/" | "//" => "",
                _ => break,
            };
            if call.is_empty() {
                self.copy();
                self.operand();
            } else {
                self.at += 1;
                self.text.insert_str(start, call);
                self.text.push_str(", ");
                self.operand();
                self.text.push_str(") ");
            }
        }
    }

    /// A value with its signs, filters, tests and powers.
    fn operand(&mut self) {
        while let Some(sign) = self.peek().filter(|token| token.is("-") || token.is("+")) {
            // The compiler has no unary plus.
            if sign.is("+") { self.at += 1 } else { self.copy() }
        }
        self.value();
        self.filters(true);
        if self.copy_if("**") {
            self.operand();
        }
    }

    /// A name, a literal or a bracketed expression, with lookups and calls.
    fn value(&mut self) {
        if self.chain() {
            self.text.push_str("|_read ");
        }
    }

    /// A value that is not charged yet. Returns whether it must be.
    fn chain(&mut self) -> bool {
        let start = self.text.len();
        let starts = |token: &Token| token.kind != Kind::Operator || matches!(token.text, "(" | "[" | "{");
        let Some(token) = self.peek().filter(starts) else {
            self.unexpected();
            return false;
        };
        let mut charged = match token.kind {
            Kind::Literal => token.text.len() > SHORT,
            Kind::Name => !CONSTANTS.contains(&token.text),
            Kind::Operator => false,
        };
        if token.kind == Kind::Operator {
            self.brackets(List::Values)
        } else {
            self.copy()
        }
        while let Some(token) = self.peek().filter(|token| token.kind == Kind::Operator) {
            match token.text {
                "." => {
                    self.copy();
                    self.copy();
                }
                "[" if self.is_slice() => self.slice(start),
                "[" => self.brackets(List::Values),
                "(" => self.brackets(List::Arguments),
                _ => break,
            }
            charged = true;
        }
        charged
    }

    /// Whether the next brackets contain a `:` at their own level.
    fn is_slice(&self) -> bool {
        let mut open = 0;
        for token in self.tokens[self.at..].iter().filter(|token| token.kind == Kind::Operator) {
            match token.text {
                "(" | "[" | "{" => open += 1,
                ")" | "]" | "}" if open == 1 => return false,
                ")" | "]" | "}" => open -= 1,
                ":" if open == 1 => return true,
                _ => {}
            }
        }
        false
    }

    /// `[a:b:c]` after the value whose text starts at `start`: minijinja reverses no empty list.
    fn slice(&mut self, start: usize) {
        self.text.insert_str(start, "_slice(");
        self.at += 1;
        while self.peek().is_some_and(|token| !token.is("]")) {
            self.text.push_str(", ");
            if self.is(":") {
                self.text.push_str("none");
            } else {
                self.expression(&[]);
            }
            if self.is(":") {
                self.at += 1;
            } else if !self.is("]") {
                self.unexpected();
            }
        }
        self.at += 1;
        self.text.push(')');
    }

    /// `| filter(a) is test(b)`
    fn filters(&mut self, in_expression: bool) {
        while let Some(token) = self.peek() {
            if token.is("|") {
                self.copy();
                self.filter(in_expression);
            } else if in_expression && token.is_name("is") {
                self.copy();
                self.test();
            } else {
                break;
            }
        }
    }

    /// Name and arguments of a filter.
    fn filter(&mut self, charged: bool) {
        self.copy();
        if self.is("(") {
            self.brackets(List::Arguments);
        }
        self.text.push_str(if charged { "|_made " } else { "" });
    }

    /// Name of a test and its argument, which needs no brackets.
    fn test(&mut self) {
        if self.is_name("not") {
            self.copy();
        }
        self.copy();
        match self.peek() {
            Some(token) if token.is("(") => self.brackets(List::Arguments),
            Some(token) if token.kind == Kind::Operator && !token.is("[") && !token.is("{") => {}
            Some(token) if !KEYWORDS.contains(&token.text) => {
                self.text.push('(');
                self.value();
                self.text.push_str(") ");
            }
            _ => {}
        }
    }

    fn peek(&self) -> Option<Token<'a>> {
        self.tokens.get(self.at).copied()
    }

    fn is(&self, operator: &str) -> bool {
        self.peek().is_some_and(|token| token.is(operator))
    }

    fn is_name(&self, name: &str) -> bool {
        self.peek().is_some_and(|token| token.is_name(name))
    }

    fn next(&mut self) -> Option<Token<'a>> {
        self.at += 1;
        self.tokens.get(self.at - 1).copied()
    }

    fn copy(&mut self) {
        if let Some(token) = self.next() {
            self.token(token);
        }
    }

    fn copy_if(&mut self, operator: &str) -> bool {
        let found = self.is(operator);
        if found {
            self.copy();
        }
        found
    }

    fn copy_until(&mut self, end: impl Fn(&Token) -> bool) {
        while self.peek().is_some_and(|token| !end(&token)) {
            self.copy();
        }
    }

    /// A syntax error at the current token, which is skipped.
    fn unexpected(&mut self) {
        let found = self.peek().map_or("end of a tag".to_owned(), |token| format!("`{}`", token.text));
        self.refuse(format!("unexpected {found}"));
        self.at += 1;
    }

    /// A syntax error at the current token; the first one counts.
    fn refuse(&mut self, message: impl Into<String>) {
        let token = self.peek().or(self.tokens.last().copied());
        let at = token.map_or(0, |token| token.at);
        self.error.get_or_insert_with(|| fail(self.source, at, message));
    }
}
