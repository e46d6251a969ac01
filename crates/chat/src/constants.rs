//! Bounds what minijinja's compiler calculates.
//!
//! It evaluates operators on constants, at each level of an expression anew, and there is no limit to
//! that: `'a' * 100000000` takes as many bytes, and a long sum takes the square of its length. Here the
//! same walk is made with sizes instead of values, before the compiler makes it.

use minijinja::machinery::Span;
use minijinja::machinery::ast::{BinOpKind, Call, CallArg, Expr, Macro, Spanned, Stmt};

use crate::Error;
use crate::budget::ITEM;

/// Longest name. Names are read whenever they are used.
pub(crate) const MAX_NAME: usize = 255;

/// Most bytes of the constants that an expression may be evaluated to, or take on the way.
const MAX_CONSTANT: usize = 1 << 20;

/// Most bytes that may be calculated with for all of a template.
const MAX_TOTAL: usize = 1 << 28;

/// Most parameters of a macro. Each use of a macro takes as many steps, unseen.
const MAX_PARAMETERS: usize = 255;

/// Fails when the compiler would evaluate too much.
pub(crate) fn check(template: &Stmt) -> Result<(), Error> {
    let mut walk = Walk { total: 0 };
    walk.statement(template)
}

fn refused(span: Span, why: &str) -> Error {
    Error::Syntax { line: span.start_line.into(), message: why.to_owned() }
}

/// Whether an expression is constant and what it costs to find out.
struct Found {
    /// Most bytes of its value; `None` when it is not constant.
    constant: Option<usize>,
    /// Bytes that are calculated with.
    cost: usize,
}

struct Walk {
    total: usize,
}

impl Walk {
    fn statements(&mut self, statements: &[Stmt]) -> Result<(), Error> {
        statements.iter().try_for_each(|statement| self.statement(statement))
    }

    fn statement(&mut self, statement: &Stmt) -> Result<(), Error> {
        match statement {
            Stmt::Template(node) => self.statements(&node.children),
            Stmt::EmitExpr(node) => self.visit([&node.expr]),
            Stmt::ForLoop(node) => {
                self.visit([&node.target, &node.iter].into_iter().chain(&node.filter_expr))?;
                self.statements(&node.body)?;
                self.statements(&node.else_body)
            }
            Stmt::IfCond(node) => {
                self.visit([&node.expr])?;
                self.statements(&node.true_body)?;
                self.statements(&node.false_body)
            }
            Stmt::WithBlock(node) => {
                self.visit(node.assignments.iter().flat_map(|(target, value)| [target, value]))?;
                self.statements(&node.body)
            }
            Stmt::Set(node) => self.visit([&node.target, &node.expr]),
            Stmt::SetBlock(node) => {
                self.visit([&node.target].into_iter().chain(&node.filter))?;
                self.statements(&node.body)
            }
            Stmt::AutoEscape(node) => {
                self.visit([&node.enabled])?;
                self.statements(&node.body)
            }
            Stmt::FilterBlock(node) => {
                self.visit([&node.filter])?;
                self.statements(&node.body)
            }
            Stmt::Block(node) => self.statements(&node.body),
            Stmt::Import(node) => self.visit([&node.expr, &node.name]),
            Stmt::FromImport(node) => self.visit([&node.expr]),
            Stmt::Extends(node) => self.visit([&node.name]),
            Stmt::Include(node) => self.visit([&node.name]),
            Stmt::Macro(node) => self.function(node),
            Stmt::CallBlock(node) => {
                self.call(&node.call)?;
                self.function(&node.macro_decl)
            }
            Stmt::Do(node) => self.call(&node.call),
            Stmt::EmitRaw(_) | Stmt::Continue(_) | Stmt::Break(_) => Ok(()),
        }
    }

    fn function(&mut self, node: &Spanned<Macro>) -> Result<(), Error> {
        if node.args.len() > MAX_PARAMETERS {
            return Err(refused(node.span(), "a macro with more than 255 parameters"));
        }
        self.visit(node.args.iter().chain(&node.defaults))?;
        self.statements(&node.body)
    }

    fn call(&mut self, node: &Spanned<Call>) -> Result<(), Error> {
        self.visit([&node.expr])?;
        self.arguments(&node.args)
    }

    fn arguments(&mut self, arguments: &[CallArg]) -> Result<(), Error> {
        for argument in arguments {
            if let CallArg::Kwarg(name, value) = argument
                && name.len() > MAX_NAME
            {
                return Err(refused(value.span(), "a name of more than 255 bytes"));
            }
        }
        self.visit(arguments.iter().map(|argument| match argument {
            CallArg::Pos(expr)
            | CallArg::Kwarg(_, expr)
            | CallArg::PosSplat(expr)
            | CallArg::KwargSplat(expr) => expr,
        }))
    }

    fn visit<'a, 's: 'a>(&mut self, exprs: impl IntoIterator<Item = &'a Expr<'s>>) -> Result<(), Error> {
        exprs.into_iter().try_for_each(|expr| self.expression(expr).map(drop))
    }

    fn expression(&mut self, expr: &Expr) -> Result<Found, Error> {
        let found = self.parts(expr)?;
        self.total = self.total.saturating_add(found.cost);
        if found.constant.is_some_and(|size| size > MAX_CONSTANT) || self.total > MAX_TOTAL {
            return Err(refused(
                expr.span(),
                "its constants come to too much: it is damaged or hostile, use a prompt without it",
            ));
        }
        Ok(found)
    }

    fn parts(&mut self, expr: &Expr) -> Result<Found, Error> {
        match expr {
            Expr::Const(node) => {
                let size = node.value.as_str().map_or(0, str::len) + ITEM;
                return Ok(Found { constant: Some(size), cost: size });
            }
            Expr::List(node) => return self.literal(node.items.iter()),
            Expr::Tuple(node) => return self.literal(node.items.iter()),
            Expr::Map(node) => return self.literal(node.keys.iter().chain(&node.values)),
            Expr::UnaryOp(node) => return self.expression(&node.expr),
            Expr::BinOp(node) => {
                let (left, right) = (self.expression(&node.left)?, self.expression(&node.right)?);
                let constant = match (left.constant, right.constant, node.op) {
                    (Some(a), Some(b), BinOpKind::Mul) => {
                        let value = |expr: &Expr| expr.as_const().and_then(|value| value.as_usize());
                        // Both values were found to be small.
                        let times = value(&node.left).or_else(|| value(&node.right)).unwrap_or(1);
                        let numbers = value(&node.left).is_some() && value(&node.right).is_some();
                        Some(if numbers { ITEM } else { a.max(b).saturating_mul(times) })
                    }
                    (Some(a), Some(b), _) => Some(a.saturating_add(b)),
                    _ => None,
                };
                let cost = left.cost.saturating_add(right.cost).saturating_add(constant.unwrap_or(0));
                return Ok(Found { constant, cost });
            }
            Expr::Compare(node) => {
                let mut found = self.expression(&node.expr)?;
                for operand in &node.ops {
                    let next = self.expression(&operand.expr)?;
                    found.constant = found.constant.zip(next.constant).map(|_| ITEM);
                    found.cost = found.cost.saturating_add(next.cost);
                }
                return Ok(found);
            }
            Expr::Slice(node) => {
                let bounds = [&node.start, &node.stop, &node.step].into_iter().flatten();
                self.visit([&node.expr].into_iter().chain(bounds))?;
            }
            Expr::IfExpr(node) => {
                self.visit([&node.test_expr, &node.true_expr].into_iter().chain(&node.false_expr))?;
            }
            Expr::Filter(node) => {
                self.visit(&node.expr)?;
                self.arguments(&node.args)?;
            }
            Expr::Test(node) => {
                self.visit([&node.expr])?;
                self.arguments(&node.args)?;
            }
            Expr::GetAttr(node) => self.visit([&node.expr])?,
            Expr::GetItem(node) => self.visit([&node.expr, &node.subscript_expr])?,
            Expr::Call(node) => self.call(node)?,
            Expr::Var(_) => {}
        }
        Ok(Found { constant: None, cost: 1 })
    }

    /// A list or the like, which is constant when all in it are literals.
    fn literal<'a, 's: 'a>(&mut self, items: impl Iterator<Item = &'a Expr<'s>>) -> Result<Found, Error> {
        let (mut size, mut literals) = (ITEM, true);
        for item in items {
            literals &= matches!(item, Expr::Const(_));
            // Text is escaped when the list becomes text.
            size = self.expression(item)?.constant.unwrap_or(0).saturating_mul(6).saturating_add(size);
        }
        Ok(Found { constant: literals.then_some(size), cost: size })
    }
}
