//! From a template's source to instructions that a [`Budget`](crate::budget::Budget) bounds.
//!
//! minijinja's virtual machine works on texts and lists of any size. Here its compiler's instructions
//! that can cost much are replaced by calls of this crate's [operators](crate::operators), and literal
//! text by an expression, which passes through the environment's formatter.

use std::collections::BTreeMap;

use minijinja::Value;
use minijinja::machinery::{CodeGenerator, Instruction, Instructions, parse};
use minijinja::syntax::SyntaxConfig;

use crate::Error;
use crate::constants::{self, MAX_NAME};

/// The name of the one template.
const NAME: &str = "chat_template";

/// Instructions and those of the blocks.
pub(crate) type Compiled<'a> = (Instructions<'a>, BTreeMap<&'a str, Instructions<'a>>);

/// Compiles `source`.
pub(crate) fn compile<'a>(source: &'a str, syntax: &SyntaxConfig) -> Result<Compiled<'a>, Error> {
    let tree = parse(source, NAME, syntax.clone())?;
    constants::check(&tree)?;
    let mut generator = CodeGenerator::new(NAME, source);
    generator.compile_stmt(&tree);
    let (instructions, blocks) = generator.finish();
    let blocks = blocks.iter().map(|(&name, block)| Ok::<_, Error>((name, bounded(block)?)));
    Ok((bounded(&instructions)?, blocks.collect::<Result<_, _>>()?))
}

/// `instructions` with those replaced that can cost much.
fn bounded<'a>(instructions: &Instructions<'a>) -> Result<Instructions<'a>, Error> {
    let mut out = Instructions::new(instructions.name(), instructions.source());
    // Where each instruction begins in `out`, and the end.
    let mut starts = vec![0];
    let mut written = 0;
    for (pc, instruction) in (0..).map_while(|pc| Some((pc, instructions.get(pc)?))) {
        let line = instructions.get_line(pc).unwrap_or(0);
        for instruction in replacement(instruction, line)? {
            written = out.add_with_line(instruction, u16::try_from(line).unwrap_or(u16::MAX)) + 1;
        }
        starts.push(written);
    }
    for pc in 0..written {
        use Instruction::{BuildMacro, Iterate, Jump, JumpIfFalse, JumpIfFalseOrPop, JumpIfTrueOrPop};
        if let Some(
            Jump(target)
            | JumpIfFalse(target)
            | JumpIfFalseOrPop(target)
            | JumpIfTrueOrPop(target)
            | Iterate(target)
            | BuildMacro(_, target, _),
        ) = out.get_mut(pc)
        {
            *target = starts.get(*target as usize).copied().unwrap_or(written);
        }
    }
    Ok(out)
}

/// What stands for `instruction`, which is of `line`.
fn replacement<'a>(instruction: &Instruction<'a>, line: usize) -> Result<Vec<Instruction<'a>>, Error> {
    use Instruction::*;
    let operator = |name, operands| vec![ApplyFilter(name, Some(operands), !0)];
    let refuse = |what: &str| Err(Error::Syntax { line, message: what.to_owned() });
    Ok(match instruction {
        EmitRaw(text) => vec![LoadConst(Value::from_safe_string((*text).to_owned())), Emit],
        Add => operator("+", 2),
        Mul => operator("*", 2),
        StringConcat => operator("~", 2),
        Eq => operator("==", 2),
        Ne => operator("!=", 2),
        Lt => operator("<", 2),
        Lte => operator("<=", 2),
        Gt => operator(">", 2),
        Gte => operator(">=", 2),
        In => operator("in", 2),
        GetItem => operator("[]", 2),
        Slice => operator("[:]", 4),
        BuildMap(0) => vec![BuildMap(0)],
        BuildMap(pairs) => match u16::try_from(pairs.saturating_mul(2)) {
            Ok(values) => operator("{}", values),
            Err(_) => return refuse("a map with more than 32767 entries"),
        },
        // Compares its operands and keeps the right one.
        CompareAndPreserve(compare) => {
            let read = || ApplyFilter("<>", Some(1), !0);
            vec![read(), Swap, read(), Swap, CompareAndPreserve(*compare)]
        }
        CallMethod("changed", arguments @ Some(_)) => vec![ApplyFilter(".changed", *arguments, !0)],
        UnpackLists(_) | MergeKwargs(_) => return refuse("calls with `*` or `**` are not supported"),
        // Begin loops; any function can be a recursive loop.
        PushLoop(_) | FastRecurse | CallFunction(_, Some(1)) => {
            vec![ApplyFilter("for", Some(1), !0), instruction.clone()]
        }
        Lookup(name) | StoreLocal(name) | GetAttr(name) | SetAttr(name) if name.len() > MAX_NAME => {
            return refuse("a name of more than 255 bytes");
        }
        other => vec![other.clone()],
    })
}
