//! Adds [limits](crate::limits) to compiled templates.
//!
//! minijinja limits the number of instructions, but a single one can double a string, or compare self-referential
//! lists many times over. Every instruction whose cost depends on the size of its operands is therefore preceded by
//! one that charges for them, and those that build text or repeat lists become filters that charge first.

use minijinja::Value;
use minijinja::machinery::{Instruction, Instructions};

use crate::Error;
use crate::source::NOT_CONSTANT;

/// Maximum number of macro parameters.
const MAX_PARAMETERS: usize = 64;

/// No cached filter.
const UNCACHED: u8 = !0;

/// The instructions of `code`, with limits.
pub(crate) fn limited<'a>(code: &Instructions<'a>) -> Result<Instructions<'a>, Error> {
    let mut out = Output { code: Instructions::new(code.name(), code.source()), length: 0, line: 0 };
    // The new index of each instruction.
    let mut starts = Vec::new();
    let mut before: Option<&Instruction> = None;
    for index in 0.. {
        starts.push(out.length);
        let Some(instruction) = code.get(index) else { break };
        let line = code.get_line(index).unwrap_or(0);
        out.line = u16::try_from(line).unwrap_or(u16::MAX);
        match (before, instruction) {
            (Some(Instruction::Lookup(NOT_CONSTANT)), _) | (_, Instruction::Lookup(NOT_CONSTANT)) => {}
            (Some(Instruction::LoadConst(parameters)), Instruction::BuildMacro(..))
                if parameters.len().unwrap_or(0) > MAX_PARAMETERS =>
            {
                let message = format!("a macro with more than {MAX_PARAMETERS} parameters");
                return Err(Error::Syntax { line, message });
            }
            (_, Instruction::ApplyFilter(name, None, _) | Instruction::CallMethod(name, None))
                if *name != "format" =>
            {
                let message = format!("`*` before an argument of `{name}` is not supported");
                return Err(Error::Syntax { line, message });
            }
            _ => out.limited(instruction),
        }
        before = Some(instruction);
    }
    for index in 0..out.length {
        use Instruction as I;
        if let Some(
            I::Jump(target)
            | I::JumpIfFalse(target)
            | I::JumpIfFalseOrPop(target)
            | I::JumpIfTrueOrPop(target)
            | I::Iterate(target)
            | I::BuildMacro(_, target, _),
        ) = out.code.get_mut(index)
        {
            *target = starts[*target as usize];
        }
    }
    Ok(out.code)
}

struct Output<'a> {
    code: Instructions<'a>,
    length: u32,
    line: u16,
}

impl<'a> Output<'a> {
    fn add(&mut self, instruction: Instruction<'a>) {
        self.length = self.code.add_with_line(instruction, self.line) + 1;
    }

    /// Adds a filter over the top `count` values.
    fn filter(&mut self, name: &'static str, count: Option<u16>) {
        self.add(Instruction::ApplyFilter(name, count, UNCACHED));
    }

    /// Charges for the top `count` values with `filter`, which returns them; with the `name` of what takes them.
    fn charge(&mut self, filter: &'static str, name: Option<&str>, count: usize) {
        if count == 0 {
            return;
        }
        if let Some(name) = name {
            self.add(Instruction::LoadConst(Value::from(name)));
        }
        let operands = count + usize::from(name.is_some());
        let operands =
            u16::try_from(operands).map_err(|_| self.add(Instruction::LoadConst(Value::from(operands))));
        self.filter(filter, operands.ok());
        if count > 1 {
            self.add(Instruction::UnpackList(count));
        }
    }

    fn limited(&mut self, instruction: &Instruction<'a>) {
        use Instruction as I;
        let count = |count: &Option<u16>| usize::from(count.unwrap_or(0));
        match instruction {
            // The formatter charges for it.
            I::EmitRaw(text) => {
                self.add(I::LoadConst(Value::from_safe_string((*text).to_owned())));
                return self.add(I::Emit);
            }
            I::StringConcat => return self.filter("_concat", Some(2)),
            I::Rem => return self.filter("_modulo", Some(2)),
            I::Slice => return self.filter("_slice", Some(4)),
            I::Mul => self.charge("_times", None, 2),
            I::GetItem => self.charge("_key", None, 2),
            I::PushLoop(_) | I::FastRecurse | I::CallFunction("loop", Some(1)) => {
                self.charge("_each", None, 1)
            }
            I::UnpackList(_) => self.charge("_read", None, 1),
            I::Add | I::Eq | I::Ne | I::Lt | I::Lte | I::Gt | I::Gte | I::In | I::CompareAndPreserve(_) => {
                self.charge("_read", None, 2);
            }
            I::BuildList(Some(values)) | I::BuildTuple(Some(values)) => self.charge("_read", None, *values),
            I::BuildMap(pairs) | I::BuildKwargs(pairs) => self.charge("_read", None, 2 * pairs),
            I::MergeKwargs(values) | I::UnpackLists(values) => self.charge("_made", None, *values),
            I::PerformTest(_, values, _) | I::CallFunction(_, values) | I::CallObject(values) => {
                self.charge("_read", None, count(values))
            }
            I::CallMethod(name, values) => self.charge("_method", Some(name), count(values)),
            I::ApplyFilter(name, values, _) => self.charge("_filter", Some(name), count(values)),
            _ => {}
        }
        self.add(instruction.clone());
        if let I::ApplyFilter(..) | I::CallFunction(..) | I::CallMethod(..) | I::CallObject(..) = instruction
        {
            self.charge("_made", None, 1);
        }
    }
}
